import itertools
import socket
import types

import pytest

from tests.helpers.thread_ranks import on_all_ranks
from train.allreduce import links

KEY = b"k" * 64


@pytest.fixture(autouse=True)
def small_copy(monkeypatch):
    monkeypatch.setattr(links, "_COPY_BYTES", 1 << 20)


def test_one_rank_sends_then_all_do_and_all_copy():
    result, problems = zip(*on_all_ranks(3, lambda rank: links.measure_bandwidth(rank, 0.02, lambda: KEY)), strict=True)
    assert not any(problems)
    links_by_rank = [[transfer.what for transfer in transfers] for transfers in result]
    assert links_by_rank[1] == ["tcp_stream", "tcp_ring", "memory_copy"]  # rank 0 sends to rank 1
    assert links_by_rank[0] == links_by_rank[2] == ["tcp_ring", "memory_copy"]
    for transfer in itertools.chain(*result):
        assert transfer.transferred_bytes > 0
        assert transfer.time_s > 0
        assert bool(transfer.source) == (transfer.what != "memory_copy")


@pytest.mark.usefixtures("no_connections")
def test_a_link_that_cannot_be_measured_is_a_note_on_every_rank():
    result = on_all_ranks(2, lambda rank: links.measure_bandwidth(rank, 0.01, lambda: KEY))
    for transfers, problems in result:
        assert [transfer.what for transfer in transfers] == ["memory_copy"]
        assert "tcp_stream: rank 0: no TCP connection" in problems[0]
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
