"""What Slurm is asked and answers. The golden batch scripts: test_batch.py."""

from pathlib import Path

import pytest

from tests.helpers.launch_plans import make_plan
from train.config import quoted
from train.config.checks import ConfigError
from train.config.compose import load
from train.launch.batch import jobs
from train.launch.job import make_job
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import AvailableNodes, QueuedJob
from train.launch.launchers.slurm import Slurm
from train.launch.plan import point_checks
from train.launch.plan.make_plan import Options
from train.launch.plan.planned_runs import Durations, runs_of

SLURM = LAUNCHERS["slurm"]
SINFO = "compute*|48|2|12|16|1-infinite|(null)\ncompute*|56+|2+|14+|4|1-infinite|(null)\ndebug|4|1|2|1|1-1|gpu:1"


def test_256_nodes_of_4_ranks():
    config = load(["nodes=256", "ranks_per_node=4", "system.cores_per_node=48", "threads_per_rank=12"])
    names = tuple(f"node{number:04d}.cluster.example.org" for number in range(256))
    job = make_job(config, Path("/results/r0"), names)  # the batch script lists no host
    command = SLURM.command(job)
    assert f"--nodelist={','.join(names)}" in command
    assert {"--nodes=256", "--ntasks=1024", "--ntasks-per-node=4", "--cpus-per-task=12"} <= {*command}
    assert max(map(len, [*command, *job.env.values()])) < 131_072 / 10  # MAX_ARG_STRLEN of Linux


@pytest.mark.slow
def test_answers_of_slurm_are_read_and_its_refusals_quoted(program, monkeypatch, tmp_path):
    program("sinfo", SINFO)
    assert SLURM.find_nodes(None, smt=False) == AvailableNodes(24, 0, 20, "partition compute (sinfo)")  # the fewest
    assert SLURM.find_nodes(None, smt=True).cores == 48
    program("sinfo", "gpu|64|2|16|3|1-2|gpu:a100:2(S:0-1),gpu:v100:2(S:0)\ngpu|64|2|16|1|1-2|gpu:8")
    assert SLURM.find_nodes("gpu", smt=False) == AvailableNodes(32, 4, 2, "partition gpu (sinfo)")
    program("squeue", "7|RUNNING|None\n8|PENDING|PartitionNodeLimit")
    assert SLURM.queue() == {"7": QueuedJob("RUNNING"), "8": QueuedJob("PENDING", "PartitionNodeLimit")}
    program("scontrol", "n1\nn2")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    assert SLURM.allocated_hosts() == ["n1", "n2"]
    program("sbatch", "Invalid account", status=1)
    with pytest.raises(ConfigError, match=r"launcher=slurm: sbatch --parsable .*job\.sh: Invalid account"):
        SLURM.submit(tmp_path / "job.sh")
    program("squeue", "7 RUNNING")
    with pytest.raises(ConfigError, match=r"squeue .* answered 7 RUNNING: not as expected"):
        SLURM.queue()
    program("squeue").unlink()
    with pytest.raises(ConfigError, match="launcher=slurm: there is no command squeue on this machine"):
        SLURM.queue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "partition", "problem"),
    [
        ("", "gpu", r"system\.partition=gpu: sinfo shows no node"),
        (SINFO.replace("*", ""), None, r"no default partition; set system\.partition"),
        ("slurm_load: Zero Bytes", None, "launcher=slurm: sinfo .* answered slurm_load: Zero Bytes: not as expected"),
    ],
)
def test_nodes_that_slurm_does_not_show_are_an_error(program, answer, partition, problem):
    program("sinfo", answer)
    with pytest.raises(ConfigError, match=problem):
        SLURM.find_nodes(partition, smt=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "ranks_per_node"), [([], 4), (["ranks_per_node=2"], 2), (["system.gpus_per_node=2"], 2)]
)
def test_on_gpus_a_node_has_a_rank_for_each_of_them_unless_the_user_says_otherwise(
    program, monkeypatch, given, ranks_per_node
):
    program("sinfo", "gpu*|64|2|16|3|1-infinite|gpu:a100:4(S:0-1)")
    monkeypatch.setitem(LAUNCHERS, "slurm", Slurm())
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "launcher=slurm", "device=gpu", *given)
    plan = make_plan(*overrides)
    assert {point.config.ranks_per_node for point in plan.points} == {ranks_per_node}
    [planned] = jobs(runs_of(plan.points, plan.launcher), Durations(), Options(overrides))
    assert f"#SBATCH --gpus-per-node={ranks_per_node}" in plan.launcher.script(planned.job)
    with pytest.raises(ConfigError, match=r"needs 5 GPUs; a node has \d\. Use fewer ranks_per_node, or device=cpu"):
        point_checks.check_points(make_plan(*overrides, "ranks_per_node=5").points, plan.launcher)


def test_only_the_batch_script_marks_an_allocation():
    assert SLURM.submits({"SLURM_JOB_ID": "7"})  # a shell of salloc
    assert not SLURM.submits({"SLURM_JOB_ID": "7", "KIT_IN_ALLOCATION": "1"})


def test_a_line_within_a_name_is_not_run_by_the_batch_script():
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "launcher=slurm", "system.cores_per_node=4")
    plan = make_plan(*overrides, f"results={quoted(f'/shared/a{chr(10)}touch b')}")
    [planned_job] = jobs(runs_of(plan.points, plan.launcher), Durations(), Options(overrides))
    with pytest.raises(ConfigError, match=r"launcher=slurm: .*a\\ntouch b.*: an end of a line in a name; rename the"):
        SLURM.script(planned_job.job)
