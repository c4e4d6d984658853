import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.rank import placement


def test_two_nodes_of_two_ranks_on_eight_cores():
    # 8 cores // 2 nodes = 4 a node; 4 // 2 ranks = 2 threads a rank.
    per_node = placement.share(8, 2)
    threads = placement.share(per_node, 2)
    cores = [placement.cores_of_rank(range(8), rank, 2, per_node, threads) for rank in range(4)]
    assert cores == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert not placement.shared(cores)


def test_a_node_alone_gets_no_more_than_among_many():
    per_node = placement.share(2, 2)
    assert placement.cores_of_rank([4, 9], 0, 1, per_node, 1) == [4]


def test_more_ranks_than_cores_go_round():
    cores = [placement.cores_of_rank([0, 1], rank, 1, placement.share(2, 8), 1) for rank in range(8)]
    assert cores == [[0], [1]] * 4
    assert placement.shared(cores)


def test_a_rank_that_its_launcher_has_bound_keeps_its_cores():
    assert placement.cores_of_rank([6, 7], local_rank=3, ranks_per_node=4, cores_per_node=8, threads=2) == [6, 7]


def test_workers_of_one_process_share_cores_where_it_has_fewer():
    apart, together = [("a", [0], 1), ("a", [1], 1), ("b", [0], 1)], [("a", [0], 1), ("a", [0], 1)]
    assert not placement.shared_on_a_host(apart)
    assert placement.shared_on_a_host(together)
    assert not placement.shared_on_a_host([("a", [0, 1], 2)])
    assert placement.shared_on_a_host([("a", [0, 1], 4)])


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 8))
def test_no_core_is_shared_where_there_are_enough(cores, nodes, ranks_per_node):
    per_node = placement.share(cores, nodes)
    threads = placement.share(per_node, ranks_per_node)
    ranks = nodes * ranks_per_node
    plan = [placement.cores_of_rank(range(cores), r, ranks_per_node, per_node, threads) for r in range(ranks)]
    assert placement.shared(plan) == (cores < nodes or per_node < ranks_per_node)


@pytest.mark.parametrize("variable", ["HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"])
def test_the_local_rank_is_read_from_any_launcher(monkeypatch, variable):
    for name in placement.LOCAL_RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert placement.local_rank() == 0
    monkeypatch.setenv(variable, "3")
    assert placement.local_rank() == 3


def test_all_threads_of_a_process_move():
    before, at_rest, done = placement.usable_cores(), threading.Event(), threading.Event()
    result = []

    def other():
        at_rest.set()
        done.wait(240)
        result.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=other)
    thread.start()
    at_rest.wait(240)
    try:
        placement.move(before[-1:])
        assert placement.usable_cores() == before[-1:]
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
