import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.helpers.configs import with_values
from tests.helpers.launches import make_plan
from train.config.checks import ConfigError
from train.config.schema import Launcher, System
from train.launch import batch
from train.launch.batch import Submission
from train.launch.launchers.base import clock
from train.launch.launchers.slurm import Slurm
from train.launch.plan import curves
from train.launch.plan.make import Options
from train.launch.plan.runs import Durations, Run, runs_of

WEAK = (
    *("experiment=weak_scaling", "nodes=2", "model=tiny", "launcher=slurm", "system=slurm"),
    *("system.cores_per_node=48", "measure.repeats=2"),
)


def runs_with(*overrides: str) -> list[Run]:
    plan = make_plan(*WEAK, *overrides)
    return runs_of(plan.points, plan.launcher)


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
    plan = make_plan(*WEAK, "nodes=4")
    nested = curves.design(plan.points, 48, hosts_apart=True)
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
    config = replace(config, system=System("site", 48, longest_s=1800))
    assert batch.time_limit_s(config, 1000) == 1800
    config = replace(config, launcher=Launcher("slurm", 86400, time_limit_s=900))
    assert batch.time_limit_s(config, 1000) == 900
    times = {60: "00:01:00", 61: "00:01:01", 5400: "01:30:00", 360000: "100:00:00"}
    assert {seconds: clock(seconds) for seconds in times} == times


class FakeSlurm(Slurm):
    """Slurm without its commands: it keeps the submitted scripts."""

    def __init__(self) -> None:
        self.scripts: list[Path] = []

    def queue(self) -> dict[str, str]:
        return {str(number): "PENDING" for number in range(len(self.scripts))}

    def submit(self, script: Path) -> str:
        self.scripts.append(script)
        return str(len(self.scripts) - 1)


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return runs_with("measure.repeats=1", f"results={tmp_path}")


def test_a_dry_run_prints_the_script_and_the_cost_and_warns_of_a_job_too_long_for_the_site(runs, tmp_path, capsys):
    def dry_run(runs):
        batch.submit(runs, FakeSlurm(), Options(WEAK, dry_run=True), Console(soft_wrap=True))
        return capsys.readouterr().out

    too_long = "it will not end within its time limit"
    output = dry_run(runs)
    assert "weak_scaling-nodes2: 2 runs on at most 2 nodes, about 10 min" in output
    assert "#SBATCH --nodes=2" in output
    assert too_long not in output
    short = {"system.longest_s": 600}
    runs = [replace(run, point=replace(run.point, config=with_values(run.point.config, short))) for run in runs]
    assert too_long in dry_run(runs)
    assert list(tmp_path.iterdir()) == []


def test_the_job_is_recorded_beside_its_script_and_not_submitted_twice(runs, tmp_path, capsys):
    launcher = FakeSlurm()
    batch.submit(runs, launcher, Options(WEAK), Console(soft_wrap=True))
    [script] = launcher.scripts
    assert "#SBATCH --nodes=2" in script.read_text()
    assert "submitted job 0 (weak_scaling-nodes2)" in capsys.readouterr().out
    job = Submission("0", 2, 1, [str(run.home) for run in runs])
    script.with_name("9.json").write_text("{")
    assert (batch.read(tmp_path, "slurm"), batch.read(tmp_path, "pbs")) == ([job], [])
    assert "9.json: no job of a launch" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="tiny-nodes1, tiny-nodes2: a job that will run this is in the queue"):
        batch.submit(runs, launcher, Options(WEAK), Console(soft_wrap=True))


def test_a_running_job_counts_before_a_pending_one():
    jobs = [Submission(id, 2, 3, homes) for id, homes in (("7", ["/r/a", "/r/b"]), ("8", ["/r/b"]), ("6", ["/r/c"]))]
    queue = {"7": "RUNNING", "8": "PENDING"}
    assert batch.states_of_points(jobs, queue) == {Path("/r/a"): "RUNNING", Path("/r/b"): "RUNNING"}
