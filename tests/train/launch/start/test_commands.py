from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers import GOLDEN
from train.config.schema import Container
from train.launch.plan.job import MPICH, Job
from train.launch.start.commands import command
from train.launch.start.containers import Shared


def job(controller: str, ranks: int = 2) -> Job:
    return Job(
        ranks=ranks,
        ranks_per_node=1,
        controller=controller,
        argv=("python", "-m", "train", "--run-dir", "/r/weak_scaling/resnet50-nodes2/0a1b2c3d/r0", "nodes=2"),
        env={"KIT_EXAMPLE": "1"},
        folder=Path("/r"),
        hosts=("localhost",) * ranks,
    )


@pytest.mark.parametrize(("controller", "ranks"), [("gloo", 2), ("mpi", 2), ("none", 1)])
def test_the_command_is_the_golden_one(controller, ranks):
    expected = (GOLDEN / f"local-{controller}.txt").read_text().splitlines()
    assert command(job(controller, ranks)) == expected


def test_the_mpirun_of_mpich_is_told_the_same_in_its_own_words():
    ranks = replace(job("mpi"), mpirun=MPICH, ranks_per_node=2, hosts=("localhost",), env={})
    assert command(ranks) == (GOLDEN / "local-mpich.txt").read_text().splitlines()


def test_launcher_and_ranks_share_one_container():
    contained = replace(
        job("mpi"),
        container=Container("podman", "kit:cpu"),
        shared=Shared(Path("/kit"), writes=(Path("/r"),), variables=("KIT_EXAMPLE", "KIT_JOB_ID"), cores=(0, 1)),
    )
    assert command(contained) == (GOLDEN / "local-mpi-podman.txt").read_text().splitlines()


def test_emulated_nodes_have_their_own_networks():
    networked = replace(job("gloo", ranks=4), networks="kit7", ranks_per_node=2, hosts=("localhost",) * 2)
    assert command(networked) == (GOLDEN / "emulated-networks.txt").read_text().splitlines()


def test_without_root_the_whole_job_runs_in_a_scope_of_the_user():
    scoped = replace(job("gloo"), prefix=("systemd-run", "--user", "--scope", "--"))
    assert command(scoped)[:5] == ["systemd-run", "--user", "--scope", "--", "python"]


def test_elastic_ranks_are_started_by_their_own_launcher_on_each_host():
    elastic = replace(job("elastic"), launcher="ssh", hosts=("a", "b"))
    launcher = command(elastic)[1:]
    assert launcher[: launcher.index("--")] == [
        "-m",
        "train.launch.start.elastic",
        "--ranks",
        "2",
        "--hosts",
        "a:1,b:1",
    ]
