import socket
import threading
import time
import types

import pytest

from tests.helpers.thread_ranks import on_all_ranks
from train.transport import clock_offset, connections


@pytest.fixture
def hosts(monkeypatch):
    """Gives each rank, a thread, a host and a clock that is behind by so many seconds."""
    of_thread = threading.local()
    monkeypatch.setattr(clock_offset, "time", types.SimpleNamespace(time=lambda: time.time() - of_thread.behind_s))
    monkeypatch.setattr(socket, "gethostname", lambda: of_thread.host)

    def measure(names: list[str], behind_s: list[float]):
        def work(rank):
            of_thread.host, of_thread.behind_s = names[rank.rank], behind_s[rank.rank]
            return clock_offset.measure(rank, lambda: b"k" * 64)

        return on_all_ranks(len(names), work)

    return measure


@pytest.mark.slow
def test_the_error_holds_what_the_clock_is_off(hosts):
    behind_s = [0.0, 0.0, 3600.0, -0.25]
    result = hosts(["a", "a", "b", "c"], behind_s)
    assert all(failed == [] for _, failed in result)
    first, second, *others = [offset for offset, _ in result]
    assert first == second == clock_offset.Offset(0.0, 0.0)  # on one host there is one clock
    for offset, truth_s in zip(others, behind_s[2:], strict=True):
        assert 0 < offset.error_s < 0.25
        assert (
            abs(offset.ahead_s - truth_s) <= offset.error_s + 1e-6
        )  # a time since the epoch resolves 0.24 microseconds


@pytest.mark.slow
def test_a_clock_that_cannot_be_asked_for_is_reported_on_every_rank(hosts, monkeypatch):
    def refused(address):
        raise ConnectionError("no TCP connection")

    monkeypatch.setattr(connections, "open_connection", refused)
    monkeypatch.setattr(connections.accept, "__defaults__", (1, 0.2))
    (first, failed), (second, also_failed) = hosts(["a", "b"], [0.0, 1.0])
    assert (first, second) == (clock_offset.Offset(0.0, 0.0), None)
    assert failed == also_failed
    assert any("rank 1 on b: no TCP connection" in problem for problem in failed)
