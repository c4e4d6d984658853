import socket
import types

import pytest

from tests.helpers.thread_ranks import on_all_ranks
from train.distribution import link


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_one_rank_sends_then_all_do_and_all_copy(size):
    found = on_all_ranks(size, lambda rank: link.measure(rank, 0.2))
    assert all(problems == [] for _, problems in found)
    measured = [[transfer.what for transfer in transfers] for transfers, _ in found]
    assert measured[1] == ["tcp_stream", "tcp_ring", "memory_copy"]  # rank 0 sends to rank 1
    assert measured[0] == ["tcp_ring", "memory_copy"]
    for transfer in (transfer for transfers, _ in found for transfer in transfers):
        assert transfer.transferred_bytes >= 1 << 20
        assert transfer.time_s > 0
        assert bool(transfer.source) == (transfer.what != "memory_copy")


@pytest.mark.slow
def test_a_link_that_cannot_be_measured_is_a_note_on_every_rank(monkeypatch):
    monkeypatch.setattr(link, "addresses", lambda: [])
    monkeypatch.setattr(link, "_SILENCE_S", 0.2)
    found = on_all_ranks(2, lambda rank: link.measure(rank, 0.05))
    for transfers, problems in found:
        assert [transfer.what for transfer in transfers] == ["memory_copy"]
        assert "tcp_stream: rank 0: no TCP connection to port" in problems[0]
    assert found[0][1] == found[1][1]


def test_a_stranger_is_turned_away():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        stranger = link.connect(["127.0.0.1"], port, b"x" * 16)
        known = link.connect(["127.0.0.1"], port, b"k" * 16)
        with link.accept(listener, b"k" * 16) as accepted:
            known.sendall(b"hello")
            assert accepted.recv(5) == b"hello"
        assert stranger.recv(1) == b""
        stranger.close()
        known.close()


def test_a_stranger_that_says_nothing_is_passed_over(monkeypatch):
    monkeypatch.setattr(link, "_TOKEN_WITHIN_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        silent = link.connect(["127.0.0.1"], port, b"")
        known = link.connect(["127.0.0.1"], port, b"k" * 16)  # its token is there before anyone waits for it
        with link.accept(listener, b"k" * 16) as accepted:
            known.sendall(b"hello")
            assert accepted.recv(5) == b"hello"
        assert silent.recv(1) == b""
        silent.close()
        known.close()


def test_one_that_never_comes_is_waited_for_only_so_long_also_where_strangers_come(monkeypatch):
    monkeypatch.setattr(link, "_TOKEN_WITHIN_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = link.connect(["127.0.0.1"], listener.getsockname()[1], b"")
        with pytest.raises(TimeoutError):
            link.accept(listener, b"k" * 16, 0.1)
        silent.close()


def test_bytes_and_their_time_count_from_the_end_of_the_first_block_on(monkeypatch):
    left, right = socket.socketpair(type=socket.SOCK_SEQPACKET)  # what is sent at once is received at once
    clock = iter([5.0, 7.5])
    monkeypatch.setattr(link, "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    with left:
        for block in (b"a" * 10, b"b" * 70):
            left.send(block)
    assert link.receive(right) == (70, 2.5)


@pytest.mark.parametrize(
    ("hosts", "first"), [(["a", "a"], 0), (["a", "b"], 0), (["a", "a", "b", "b"], 1), (["a", "a", "a", "b"], 2)]
)
def test_the_stream_crosses_hosts_where_there_are_several(hosts, first):
    assert link.first_between_hosts(hosts) == first


def test_loopback_comes_last_and_horovods_interface_first(monkeypatch):
    monkeypatch.delenv("HOROVOD_GLOO_IFACE", raising=False)
    found = link.addresses()
    assert found[-1].startswith("127.")
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", "lo")
    assert link.addresses()[0] == "127.0.0.1"
