from tests.helpers.compositions import compositions_are_kept  # noqa: F401
