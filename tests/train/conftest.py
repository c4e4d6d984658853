from tests.helpers.composition_cache import cache_compositions  # noqa: F401
