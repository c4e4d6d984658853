import re
import sys
from pathlib import Path

import pytest

from tests.helpers import GOLDEN
from tests.helpers.launches import make_plan
from train.config import quoted
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.schema import System
from train.launch.batch import jobs
from train.launch.job import make_job
from train.launch.launchers import LAUNCHERS
from train.launch.plan.make import Options
from train.launch.plan.runs import Durations, runs_of
from train.record.kit import ROOT

SLURM = LAUNCHERS["slurm"]
KIT = ("system=slurm", "system.cores_per_node=48")
SITES = {
    "bare": (*KIT, "system.partition=compute"),
    "singularity": (*KIT, "container=singularity"),
    "gpu": (*KIT, "system.gpus_per_node=4", "device=gpu", "ranks_per_node=4"),
    "mvapich2": (
        *("system=osc_owens", "container=singularity", "container.mpi_home=/opt/mvapich2"),
        "distribution.controller=mpi",
    ),
}


def normalised(text: str) -> str:
    """Replace paths of this checkout, and the hash, which changes with every new key of the configuration."""
    text = re.sub(r"/[0-9a-f]{8}/r0", "/HASH/r0", text)
    return text.replace(sys.executable, "/kit/.venv/bin/python").replace(str(ROOT), "/kit")


@pytest.mark.slow
@pytest.mark.parametrize("site", SITES)
def test_the_batch_script_and_the_steps_are_the_golden_ones(site):
    overrides = ("experiment=weak_scaling", "nodes=2", "model=resnet50", "launcher=slurm", "results=/shared/results")
    overrides += SITES[site]
    plan = make_plan(*overrides, "measure.repeats=2")
    runs = runs_of(plan.points, plan.launcher)
    [planned_job] = jobs(runs, Durations(), Options(overrides))
    jobs_of_points = [
        make_job(point.config, runs[i].home / "r0", ("n1", "n2", "n3"), image_digest="sha256:0")
        for i, point in enumerate(plan.points)
    ]
    text = SLURM.script(planned_job.job) + "\n# The steps that the launcher makes of it:\n"
    text += "".join("# " + " ".join(SLURM.command(job)) + "\n" for job in jobs_of_points)
    assert normalised(text) == (GOLDEN / f"slurm-{site}.sbatch").read_text()


def test_256_nodes_of_4_ranks():
    config = load(["model=tiny", "nodes=256", "ranks_per_node=4", "system.cores_per_node=48", "threads_per_rank=12"])
    names = tuple(f"node{number:04d}.cluster.example.org" for number in range(256))
    job = make_job(config, Path("/results/r0"), names)  # the batch script lists no host
    command = SLURM.command(job)
    assert f"--nodelist={','.join(names)}" in command
    assert {"--nodes=256", "--ntasks=1024", "--ntasks-per-node=4", "--cpus-per-task=12"} <= {*command}
    assert max(map(len, [*command, *job.env.values()])) < 131_072 / 10  # MAX_ARG_STRLEN of Linux


@pytest.mark.slow
def test_answers_of_slurm_are_read_and_its_refusals_quoted(program, monkeypatch, tmp_path):
    program("sinfo", "48 2 12\n*56+ 2+ 14+\n64 2 32")
    assert SLURM.cores_of_a_node(System("site", None)) == 24  # the fewest
    assert SLURM.cores_of_a_node(System("site", None, smt=True)) == 48
    program("sinfo")
    with pytest.raises(ConfigError, match=r"system\.partition=gpu: sinfo shows no node"):
        SLURM.cores_of_a_node(System("site", None, partition="gpu"))
    program("squeue", "7 RUNNING\n8 PENDING")
    assert SLURM.queue() == {"7": "RUNNING", "8": "PENDING"}
    program("scontrol", "n1\nn2")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    assert SLURM.allocated_hosts() == ["n1", "n2"]
    program("sbatch", "Invalid account", status=1)
    with pytest.raises(ConfigError, match=r"launcher=slurm: sbatch --parsable .*job\.sh: Invalid account"):
        SLURM.submit(tmp_path / "job.sh")
    program("squeue").unlink()
    with pytest.raises(ConfigError, match="launcher=slurm: there is no command squeue on this machine"):
        SLURM.queue()


def test_only_the_batch_script_marks_an_allocation():
    assert SLURM.submits({"SLURM_JOB_ID": "7"})  # a shell of salloc
    assert not SLURM.submits({"SLURM_JOB_ID": "7", "KIT_IN_ALLOCATION": "1"})


def test_a_line_within_a_name_is_not_run_by_the_batch_script():
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "launcher=slurm", "system.cores_per_node=4")
    plan = make_plan(*overrides, f"results={quoted(f'/shared/a{chr(10)}touch b')}")
    [planned_job] = jobs(runs_of(plan.points, plan.launcher), Durations(), Options(overrides))
    with pytest.raises(ConfigError, match=r"launcher=slurm: .*a\\ntouch b.*: an end of a line in a name; rename the"):
        SLURM.script(planned_job.job)
