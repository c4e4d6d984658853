import socket
import threading
import time
import types

import pytest

from tests.helpers.thread_ranks import on_all_ranks
from train.transport import connections, links

KEY = b"k" * 64


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_one_rank_sends_then_all_do_and_all_copy(size):
    result = on_all_ranks(size, lambda rank: links.measure_bandwidth(rank, 0.2, lambda: KEY))
    assert all(problems == [] for _, problems in result)
    measured = [[transfer.what for transfer in transfers] for transfers, _ in result]
    assert measured[1] == ["tcp_stream", "tcp_ring", "memory_copy"]  # rank 0 sends to rank 1
    assert measured[0] == ["tcp_ring", "memory_copy"]
    for transfer in (transfer for transfers, _ in result for transfer in transfers):
        assert transfer.transferred_bytes >= 1 << 20
        assert transfer.time_s > 0
        assert bool(transfer.source) == (transfer.what != "memory_copy")


@pytest.mark.slow
def test_a_link_that_cannot_be_measured_is_a_note_on_every_rank(monkeypatch):
    def refused(address):
        raise ConnectionError(f"no TCP connection to {address.host}")

    monkeypatch.setattr(connections, "open_connection", refused)
    monkeypatch.setattr(connections.accept, "__defaults__", (1, 0.2))
    result = on_all_ranks(2, lambda rank: links.measure_bandwidth(rank, 0.05, lambda: KEY))
    for transfers, problems in result:
        assert [transfer.what for transfer in transfers] == ["memory_copy"]
        assert "tcp_stream: rank 0: no TCP connection to 127.0.0.1" in problems[0]
    assert result[0][1] == result[1][1]


def test_bytes_and_their_time_count_from_the_end_of_the_first_block_on(monkeypatch):
    left, right = socket.socketpair(type=socket.SOCK_SEQPACKET)  # what is sent at once is received at once
    clock = iter([5.0, 7.5])
    monkeypatch.setattr(links, "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    with left:
        for block in (b"a" * 10, b"b" * 70):
            left.send(block)
    assert links.receive(right) == (70, 2.5)


@pytest.mark.parametrize(
    ("hosts", "first"), [(["a", "a"], 0), (["a", "b"], 0), (["a", "a", "b", "b"], 1), (["a", "a", "a", "b"], 2)]
)
def test_the_stream_crosses_hosts_where_there_are_several(hosts, first):
    assert links.first_between_hosts(hosts) == first


@pytest.fixture
def hosts(monkeypatch):
    """Gives each rank, a thread, a host and a clock that is behind by so many seconds."""
    of_thread = threading.local()
    monkeypatch.setattr(links, "time", types.SimpleNamespace(time=lambda: time.time() - of_thread.behind_s))
    monkeypatch.setattr(socket, "gethostname", lambda: of_thread.host)

    def measure(names: list[str], behind_s: list[float]):
        def work(rank):
            of_thread.host, of_thread.behind_s = names[rank.rank], behind_s[rank.rank]
            return links.measure_clock_offset(rank, lambda: KEY)

        return on_all_ranks(len(names), work)

    return measure


@pytest.mark.slow
def test_the_error_holds_what_the_clock_is_off(hosts):
    behind_s = [0.0, 0.0, 3600.0, -0.25]
    result = hosts(["a", "a", "b", "c"], behind_s)
    assert all(failed == [] for _, failed in result)
    first, second, *others = [offset for offset, _ in result]
    assert first == second == links.ClockOffset(0.0, 0.0)  # on one host there is one clock
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
    assert (first, second) == (links.ClockOffset(0.0, 0.0), None)
    assert failed == also_failed
    assert any("rank 1 on b: no TCP connection" in problem for problem in failed)
