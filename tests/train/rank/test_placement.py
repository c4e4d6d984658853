import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import affinity
from train.rank import placement


def rank_cores(available, nodes, ranks_per_node, ranks=None):
    """The cores of each rank, or of the first so many, of nodes that share these cores."""
    per_node = placement.share(len(available), nodes)
    threads = placement.share(per_node, ranks_per_node)
    count = nodes * ranks_per_node if ranks is None else ranks
    return [placement.cores_of_rank(available, rank, ranks_per_node, per_node, threads) for rank in range(count)]


def test_ranks_share_the_cores_of_their_node_and_go_round_where_these_are_too_few():
    # 8 cores // 2 nodes = 4 a node; 4 // 2 ranks = 2 threads a rank.
    assert rank_cores(range(8), 2, 2) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert rank_cores([4, 9], 2, 1, ranks=1) == [[4]]  # a single node gets no more than one of many
    assert rank_cores([0, 1], 8, 1) == [[0], [1]] * 4
    # Those to which its launcher has bound it.
    assert placement.cores_of_rank([6, 7], local_rank=3, ranks_per_node=4, cores_per_node=8, threads=2) == [6, 7]


@pytest.mark.parametrize(
    ("ranks", "shared"),
    [
        ([("a", [0], 1), ("a", [1], 1), ("b", [0], 1)], False),
        ([("a", [0], 1), ("a", [0], 1)], True),
        ([("a", [0, 1], 2)], False),
        ([("a", [0, 1], 4)], True),  # four workers in one process
    ],
)
def test_ranks_and_the_workers_of_one_process_share_the_cores_of_a_host(ranks, shared):
    assert placement.shared_on_a_host(ranks) is shared


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 8))
def test_no_core_is_shared_where_there_are_enough(cores, nodes, ranks_per_node):
    assert placement.shared(rank_cores(range(cores), nodes, ranks_per_node)) == (cores < nodes * ranks_per_node)


@pytest.mark.parametrize("variable", ["HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"])
def test_the_local_rank_is_read_from_any_launcher(monkeypatch, variable):
    for name in placement.LOCAL_RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert placement.local_rank() == 0
    monkeypatch.setenv(variable, "3")
    assert placement.local_rank() == 3


def test_all_threads_of_a_process_move():
    before, at_rest, done = affinity.usable_cores(), threading.Event(), threading.Event()
    result = []

    def wait_and_read_cores():
        at_rest.set()
        done.wait(240)
        result.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=wait_and_read_cores)
    thread.start()
    at_rest.wait(240)
    try:
        placement.move(before[-1:])
        assert affinity.usable_cores() == before[-1:]
        assert placement.moved_to() == []
        os.sched_setaffinity(os.getpid(), before)  # as taskset does
        assert placement.moved_to() == (before if len(before) > 1 else [])
    finally:
        done.set()
        thread.join()
        placement.move(before)
    assert result == [set(before[-1:])]


def test_a_rank_is_counted_from_the_first_of_its_group(monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "1")
    assert (placement.rank_group(), placement.global_rank()) == (0, 1)
    monkeypatch.setenv("KIT_RANK_GROUP", "2")
    monkeypatch.setenv("KIT_FIRST_RANK", "3")
    assert (placement.rank_group(), placement.global_rank()) == (2, 4)
