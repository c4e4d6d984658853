"""Jobs of batch systems. Their submission: launchers/test_pbs.py, tests/end_to_end/test_clusters.py."""

import functools
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from record.this_kit import ROOT
from tests.helpers import GOLDEN
from tests.helpers.launch_plans import make_plan
from train.config.machine_config import LauncherConfig, SystemConfig
from train.launch import batch
from train.launch.batch import Submission
from train.launch.job import make_job
from train.launch.launchers.base import QueuedJob, clock
from train.launch.launchers.slurm import Slurm
from train.launch.plan import curve_design
from train.launch.plan.make_plan import Options
from train.launch.plan.planned_runs import Durations, Run, runs_of

WEAK = (
    *("experiment=weak_scaling", "nodes=2", "model=tiny", "launcher=slurm"),
    *("system.cores_per_node=48", "measure.repeats=2"),
)


@functools.cache
def runs_with(*overrides: str) -> list[Run]:
    plan = make_plan(*WEAK, *overrides)
    return runs_of(plan.points, plan.launcher)


KIT = ("system=slurm", "system.cores_per_node=48")
SCRIPTS = {
    "slurm-bare.sbatch": (*KIT, "system.partition=compute"),
    "slurm-singularity.sbatch": (*KIT, "container=singularity"),
    "slurm-gpu.sbatch": (*KIT, "system.gpus_per_node=4", "device=gpu", "ranks_per_node=4"),
    "slurm-mvapich2.sbatch": (
        *("system=osc_owens", "container=singularity", "container.mpi_home=/opt/mvapich2"),
        "distribution.controller=mpi",
    ),
    "pbs.sh": ("system.cores_per_node=48", "system.partition=workq"),
}


def normalised(text: str) -> str:
    """Replace paths of this checkout, and the hash, which changes with every new key of the configuration."""
    text = re.sub(r"/[0-9a-f]{8}/r0", "/HASH/r0", text)
    return text.replace(sys.executable, "/kit/.venv/bin/python").replace(str(ROOT), "/kit")


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_batch_script_and_the_steps_are_the_golden_ones(name):
    launcher = f"launcher={re.split('[-.]', name)[0]}"
    overrides = ("experiment=weak_scaling", "nodes=2", "model=resnet50", launcher, "results=/shared/results")
    overrides += SCRIPTS[name]
    plan = make_plan(*overrides, "measure.repeats=2")
    runs = runs_of(plan.points, plan.launcher)
    [planned_job] = batch.jobs(runs, Durations(), Options(overrides))
    jobs_of_points = [
        make_job(point.config, runs[i].home / "r0", ("n1", "n2", "n3"), image_digest="sha256:0")
        for i, point in enumerate(plan.points)
    ]
    text = plan.launcher.script(planned_job.job) + "\n# The steps that the launcher makes of it:\n"
    text += "".join("# " + " ".join(plan.launcher.command(job)) + "\n" for job in jobs_of_points)
    assert normalised(text) == (GOLDEN / name).read_text()


def test_one_allocation_runs_all_points_or_each_point_has_its_job():
    [whole] = batch.jobs(runs_with(), Durations(), Options(WEAK))
    assert (whole.job.nodes, len(whole.runs)) == (2, 4)
    split = batch.jobs(runs_with("launcher.split=true"), Durations(), Options(WEAK, force=True))
    assert [(part.job.nodes, len(part.runs)) for part in split] == [(1, 2), (2, 2)]
    assert split[1].job.command[-2:] == ("--only", "tiny-nodes2")
    assert "--force" in split[1].job.command
    [alone] = batch.jobs(runs_with()[:1], Durations(), Options(WEAK, only="tiny-nodes1"))
    assert alone.job.command[-2:] == ("--only", "tiny-nodes1")


def test_the_cost_is_taken_from_records_or_named_as_assumed():
    [assumed] = batch.jobs(runs_with(), Durations(), Options(WEAK))
    assert assumed.estimate_s == 4 * 300
    cost = batch.cost(assumed, Durations())
    assert "about 20 min, 0.7 node-hours, each run taken as 300 s" in cost
    assert "nodes wait" not in cost
    durations = Durations({"tiny-nodes1": [100.0, 140.0]}, [100.0, 140.0])  # the other point takes the mean of all
    [measured] = batch.jobs(runs_with(), durations, Options(WEAK))
    assert measured.estimate_s == 4 * 120
    assert "from 2 earlier runs" in batch.cost(measured, durations)


def test_the_cost_says_how_long_nodes_wait():
    """Four nodes: in rounds of 1, 2, 4 and 4 nodes 5/4 wait on average; in single launches 3 and 2 wait."""
    plan = make_plan(*WEAK, "nodes=4", "measure.separate_launches=true")
    nested = curve_design.design(plan.points, 48, hosts_apart=True)
    [job] = batch.jobs(runs_of([*nested.points, *nested.curves], plan.launcher), Durations(), Options(WEAK))
    durations = Durations({"tiny-rounds": [240.0], "tiny-nodes1": [36.0], "tiny-nodes2": [72.0]})
    assert batch.idle_node_s(job, durations) == (2 * 1.25 * 240, 3 * 36 + 2 * 72)
    cost = batch.cost(job, durations)
    assert "nodes wait for 0.2 node-hours of it in rounds" in cost
    assert "for 0.1 in launches of single points" in cost


def test_the_time_limit_leaves_room_and_keeps_to_the_site():
    config = runs_with()[0].point.config
    assert batch.time_limit_s(config, 1000) == 2 * 1000 + 600
    assert batch.time_limit_s(config, 100.25) == math.ceil(2 * 100.25 + 600)
    config = replace(config, system=SystemConfig("site", 48, longest_s=1800))
    assert batch.time_limit_s(config, 1000) == 1800
    config = replace(config, launcher=LauncherConfig("slurm", 86400, time_limit_s=900))
    assert batch.time_limit_s(config, 1000) == 900
    assert [clock(seconds) for seconds in (61, 5400, 360000)] == ["00:01:01", "01:30:00", "100:00:00"]


def test_a_dry_run_prints_the_script_and_the_cost_and_warns_of_a_job_too_long_for_the_site(tmp_path, capsys):
    def dry_run(*overrides):
        runs = runs_with("measure.repeats=1", f"results={tmp_path}", *overrides)
        batch.submit(runs, Slurm(), Options(WEAK, dry_run=True))
        return capsys.readouterr().out

    too_long = "it will not end within its time limit"
    output = dry_run()
    assert "weak_scaling-nodes2: 2 runs on at most 2 nodes, about 10 min" in output
    assert "#SBATCH --nodes=2" in output
    assert too_long not in output
    assert too_long in dry_run("system.longest_s=600")
    assert list(tmp_path.iterdir()) == []


def test_a_running_job_counts_before_a_pending_one():
    homes = {"7": ["/r/a", "/r/b"], "8": ["/r/b"], "6": ["/r/c"]}
    jobs = [Submission(id, 2, {path: [0] for path in paths}) for id, paths in homes.items()]
    queue = {"7": QueuedJob("RUNNING"), "8": QueuedJob("PENDING")}
    assert batch.states_of_points(jobs, queue) == {Path("/r/a"): "RUNNING", Path("/r/b"): "RUNNING"}
