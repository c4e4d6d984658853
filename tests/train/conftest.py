import pytest

from tests.helpers.composition_cache import cache_compositions  # noqa: F401
from train.transport import connections


@pytest.fixture
def no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse each connection between ranks, and let nobody wait for one."""

    def refused(address: connections.Address) -> None:
        raise ConnectionError("no TCP connection")

    monkeypatch.setattr(connections, "open_connection", refused)
    monkeypatch.setattr(connections.accept, "__defaults__", (1, 0.1))
