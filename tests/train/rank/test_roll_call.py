from dataclasses import replace

import pytest

from train.config.compose import load
from train.rank.roll_call import Present, nodes_apart, unequal, wrong
from train.record.record import Host


@pytest.fixture(scope="module")
def config():
    return load(["experiment=weak_scaling", "model=tiny", "nodes=2", "ranks_per_node=2", "launcher=slurm"])


def host(name: str, cores: int = 4) -> Host:
    return Host(name, "Xeon", cores, 2**34, "6.1", [])


def present(rank: int, name: str, cores: tuple[int, ...], gpu: str | None = None, mpi: str | None = None) -> Present:
    return Present(rank, host(name), cores, gpu, mpi)


GOOD = [present(0, "a", (0, 1)), present(1, "a", (2, 3)), present(2, "b", (0, 1)), present(3, "b", (2, 3))]


def test_ranks_in_their_places_are_not_complained_of(config):
    assert wrong(GOOD, config, apart=2) == []


def test_all_ranks_on_one_host(config):
    together = [replace(one, host=host("a"), cores=(one.rank,)) for one in GOOD]
    [problem] = wrong(together, config, apart=2)
    assert "4 ranks run on 1 host (a)" in problem
    assert "srun --nodes=2 --ntasks-per-node=2" in problem
    assert wrong(together, config, apart=1) == []  # where nodes share a machine that is as it should be


def test_ranks_spread_unevenly(config):
    moved = [*GOOD[:2], replace(GOOD[2], host=host("a"), cores=(4,)), GOOD[3]]
    [problem] = wrong(moved, config, apart=2)
    assert "a 3, b 1" in problem


def test_two_ranks_on_one_core(config):
    [problem] = wrong([GOOD[0], replace(GOOD[1], cores=(1, 2)), *GOOD[2:]], config, apart=2)
    assert problem.startswith("a: its 2 ranks need 4 cores and may use 3.")
    assert "--cpus-per-task=2" in problem


def test_two_ranks_on_one_gpu(config):
    gpus = [replace(one, gpu=gpu) for one, gpu in zip(GOOD, "0001", strict=True)]
    [problem] = wrong(gpus, config, apart=2)
    assert problem.startswith("a: 2 ranks share 1 GPU.")


def test_different_mpi_libraries(config):
    [problem] = wrong([*GOOD[:3], replace(GOOD[3], mpi="Open MPI v4.1.4")], config, apart=2)
    assert "None, Open MPI v4.1.4" in problem


def test_how_far_apart_ranks_must_be(config):
    assert nodes_apart(config, {}) == 2
    by_hand = replace(config, launcher=replace(config.launcher, name="local"))
    assert nodes_apart(by_hand, {}) == 1
    assert nodes_apart(by_hand, {"SLURM_STEP_NUM_NODES": "4"}) == 2


def test_hosts_of_unequal_make_are_noted():
    assert unequal([host("a"), host("b")]) is None
    assert "b: 8 cores" in (unequal([host("a"), host("b", cores=8)]) or "")
