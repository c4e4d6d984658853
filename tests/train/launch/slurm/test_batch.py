import re
import sys

import pytest

from tests.helpers import GOLDEN
from train.config.schema import Launcher, System
from train.launch.plan.job import ROOT, make_job
from train.launch.plan.points import expand
from train.launch.slurm import batch, submission
from train.launch.start.commands import command
from train.launch.supervise.runs import Run

WEAK = ("experiment=weak_scaling", "nodes=2", "model=resnet50", "launcher=slurm", "results=/shared/results")
SITES = {
    "bare": ("system=slurm", "system.cores_per_node=48", "system.partition=compute"),
    "singularity": ("system=slurm", "system.cores_per_node=48", "container=singularity"),
    "gpu": ("system=slurm", "system.cores_per_node=48", "system.gpus_per_node=4", "device=gpu", "ranks_per_node=4"),
    "mvapich2": (
        "system=osc_owens",
        "container=singularity",
        "container.mpi_home=/opt/mvapich2",
        "distribution.controller=mpi",
    ),
}


def planned(*overrides: str) -> list[Run]:
    points = expand([*WEAK, *overrides], machine_cores=2)
    return [Run(point, repeat) for repeat in range(2) for point in points]


def of_any_machine(text: str) -> str:
    """Without what differs between checkouts, and the hash, which changes with every new key of the configuration."""
    text = re.sub(r"/[0-9a-f]{8}/r0", "/HASH/r0", text)
    return text.replace(sys.executable, "/kit/.venv/bin/python").replace(str(ROOT), "/kit")


@pytest.mark.parametrize("site", SITES)
def test_the_batch_script_and_the_steps_are_the_golden_ones(site):
    overrides = [*WEAK, *SITES[site]]
    runs = planned(*SITES[site])
    [job] = submission.jobs(runs, {}, overrides, force=False)
    steps = [command(make_job(run.point, run.home / "r0", "sha256:0", hosts=["n1", "n2", "n3"])) for run in runs[:2]]
    text = batch.script(job.batch) + "\n# The steps that the launcher makes of it:\n"
    text += "".join("# " + " ".join(step) + "\n" for step in steps)
    assert of_any_machine(text) == (GOLDEN / f"slurm-{site}.sbatch").read_text()


def test_one_allocation_runs_all_points_or_each_point_has_its_job():
    overrides = [*WEAK, *SITES["bare"]]
    [whole] = submission.jobs(planned(*SITES["bare"]), {}, overrides, force=False)
    assert (whole.batch.nodes, len(whole.runs)) == (2, 4)
    split = submission.jobs(planned(*SITES["bare"], "launcher.split=true"), {}, overrides, force=True)
    assert [(job.batch.nodes, len(job.runs)) for job in split] == [(1, 2), (2, 2)]
    assert split[1].batch.command[-2:] == ("--only", "resnet50-nodes2")
    assert "--force" in split[1].batch.command


def test_a_job_for_one_point_runs_that_one_alone():
    [job] = submission.jobs(planned(*SITES["bare"])[:1], {}, WEAK, force=False, only="resnet50-nodes1")
    assert job.batch.command[-2:] == ("--only", "resnet50-nodes1")


def test_points_run_small_to_large_or_large_to_small():
    runs = planned(*SITES["bare"])
    assert [run.label for run in submission.in_order(runs, "large_first")] == [
        "resnet50-nodes2 r0",
        "resnet50-nodes1 r0",
        "resnet50-nodes2 r1",
        "resnet50-nodes1 r1",
    ]
    assert submission.in_order(runs, "small_first") == runs


def test_the_cost_is_taken_from_records_or_said_to_be_assumed():
    runs = planned(*SITES["bare"])
    [assumed] = submission.jobs(runs, {}, WEAK, force=False)
    assert assumed.estimate_s == 4 * 300
    assert "about 20 min, 0.7 node-hours, each run taken as 300 s" in submission.cost(assumed, measured=0)
    known = {"resnet50-nodes1": [100.0, 140.0]}  # nodes2 has no record: it takes the mean of all
    [measured] = submission.jobs(runs, known, WEAK, force=False)
    assert measured.estimate_s == 4 * 120
    assert "from 2 earlier runs" in submission.cost(measured, measured=2)


def test_the_time_limit_leaves_room_and_keeps_to_the_site():
    config = planned(*SITES["bare"])[0].point.config
    assert batch.time_limit_s(config, 1000) == 2 * 1000 + 600
    config.system = System("site", 48, longest_s=1800)
    assert batch.time_limit_s(config, 1000) == 1800
    config.launcher = Launcher("slurm", 86400, time_limit_s=900)
    assert batch.time_limit_s(config, 1000) == 900


@pytest.mark.parametrize(
    ("seconds", "text"), [(60, "00:01:00"), (61, "00:02:00"), (5400, "01:30:00"), (360000, "100:00:00")]
)
def test_a_time_limit_is_written_in_whole_minutes(seconds, text):
    assert batch.limit_text(seconds) == text
