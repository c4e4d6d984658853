"""What Slurm is asked and answers. The golden batch scripts: test_batch.py."""

from pathlib import Path

import pytest

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

SLURM = LAUNCHERS["slurm"]


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
