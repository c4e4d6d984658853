import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.helpers.configs import changed
from tests.helpers.launches import planned
from train.config.checks import ConfigError
from train.config.schema import Launcher, System
from train.launch import batch
from train.launch.batch import Submitted
from train.launch.launchers.base import clock
from train.launch.launchers.slurm import Slurm
from train.launch.plan import curves
from train.launch.plan.make import Options
from train.launch.plan.runs import Durations, Run, runs_of

WEAK = (
    *("experiment=weak_scaling", "nodes=2", "model=resnet50", "launcher=slurm", "results=/shared/results"),
    *("system=slurm", "system.cores_per_node=48", "measure.repeats=2"),
)


def large_runs(*overrides: str) -> list[Run]:
    plan = planned(*WEAK, *overrides)
    return runs_of(plan.points, plan.launcher)


def test_one_allocation_runs_all_points_or_each_point_has_its_job():
    [whole] = batch.jobs(large_runs(), Durations(), Options(WEAK))
    assert (whole.job.nodes, len(whole.runs)) == (2, 4)
    split = batch.jobs(large_runs("launcher.split=true"), Durations(), Options(WEAK, force=True))
    assert [(planned.job.nodes, len(planned.runs)) for planned in split] == [(1, 2), (2, 2)]
    assert split[1].job.command[-2:] == ("--only", "resnet50-nodes2")
    assert "--force" in split[1].job.command


def test_a_job_for_one_point_runs_that_one_alone():
    [planned] = batch.jobs(large_runs()[:1], Durations(), Options(WEAK, only="resnet50-nodes1"))
    assert planned.job.command[-2:] == ("--only", "resnet50-nodes1")


def test_nothing_to_do_needs_no_job():
    assert batch.jobs([], Durations(), Options(WEAK)) == []


def test_the_cost_is_taken_from_records_or_named_as_assumed():
    [assumed] = batch.jobs(large_runs(), Durations(), Options(WEAK))
    assert assumed.estimate_s == 4 * 300
    assert "about 20 min, 0.7 node-hours, each run taken as 300 s" in batch.cost(assumed, Durations())
    known = Durations(
        {"resnet50-nodes1": [100.0, 140.0]}, [100.0, 140.0]
    )  # nodes2 has no record: it takes the mean of all
    [measured] = batch.jobs(large_runs(), known, Options(WEAK))
    assert measured.estimate_s == 4 * 120
    assert "from 2 earlier runs" in batch.cost(measured, known)


def test_the_cost_says_how_long_nodes_wait():
    """Four nodes: in rounds of 1, 2, 4 and 4 nodes 5/4 wait on average, alone 3 and 2 of them."""
    plan = planned(*WEAK, "nodes=4")
    nested = curves.design(plan.points, 48, hosts_apart=True)
    [job] = batch.jobs(runs_of([*nested.points, *nested.curves], plan.launcher), Durations(), Options(WEAK))
    known = Durations({"resnet50-rounds": [240.0], "resnet50-nodes1": [36.0], "resnet50-nodes2": [72.0]})
    assert batch.idle_node_s(job, known) == 2 * 1.25 * 240
    assert batch.separate_idle_node_s(job, known) == 3 * 36 + 2 * 72
    output = (
        "nodes wait for 0.2 node-hours of it in rounds, while fewer measure, and for 0.1 in launches of single points"
    )
    assert output in batch.cost(job, known)
    [alone] = batch.jobs(large_runs(), Durations(), Options(WEAK))
    assert "nodes wait" not in batch.cost(alone, Durations())


def test_the_time_limit_leaves_room_and_keeps_to_the_site():
    config = large_runs()[0].point.config
    assert batch.time_limit_s(config, 1000) == 2 * 1000 + 600
    assert batch.time_limit_s(config, 100.25) == math.ceil(2 * 100.25 + 600)
    config = replace(config, system=System("site", 48, longest_s=1800))
    assert batch.time_limit_s(config, 1000) == 1800
    config = replace(config, launcher=Launcher("slurm", 86400, time_limit_s=900))
    assert batch.time_limit_s(config, 1000) == 900


@pytest.mark.parametrize(
    ("seconds", "text"), [(60, "00:01:00"), (61, "00:01:01"), (5400, "01:30:00"), (360000, "100:00:00")]
)
def test_a_time_limit_is_written_as_a_clock_shows_it(seconds, text):
    assert clock(seconds) == text


ASKED = ("experiment=weak_scaling", "nodes=2", "model=tiny", "launcher=slurm", "system=slurm")


class Recorded(Slurm):
    """Slurm without its commands: keeps the scripts that it is given."""

    def __init__(self) -> None:
        self.scripts: list[Path] = []

    def queue(self) -> dict[str, str]:
        return {str(number): "PENDING" for number in range(len(self.scripts))}

    def submit(self, script: Path) -> str:
        self.scripts.append(script)
        return str(len(self.scripts) - 1)


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    plan = planned(*ASKED, "system.cores_per_node=4", "measure.repeats=1", f"results={tmp_path}")
    return runs_of(plan.points, plan.launcher)


def test_a_dry_run_prints_the_script_and_the_cost(runs, tmp_path, capsys):
    batch.submit(runs, Recorded(), Options(ASKED, dry_run=True), Console(soft_wrap=True))
    printed = capsys.readouterr().out
    assert "weak_scaling-nodes2: 2 runs on at most 2 nodes, about 10 min" in printed
    assert "#SBATCH --nodes=2" in printed
    assert list(tmp_path.iterdir()) == []


def test_the_job_is_kept_beside_its_script_and_not_submitted_twice(runs, tmp_path, capsys):
    launcher = Recorded()
    batch.submit(runs, launcher, Options(ASKED), Console(soft_wrap=True))
    assert [path.read_text() for path in launcher.scripts] == [(tmp_path / launcher.scripts[0]).read_text()]
    assert "submitted job 0 (weak_scaling-nodes2)" in capsys.readouterr().out
    [job] = batch.read(tmp_path, "slurm")
    assert (job.job_id, job.nodes, job.repeats) == ("0", 2, 1)
    assert job.homes == [str(run.home) for run in runs]
    with pytest.raises(ConfigError, match="tiny-nodes1, tiny-nodes2: a job that will run this is in the queue"):
        batch.submit(runs, launcher, Options(ASKED), Console(soft_wrap=True))


def test_a_job_too_long_for_the_site_is_warned_of(runs, capsys):
    short = {"system.longest_s": 600}
    runs = [replace(run, point=replace(run.point, config=changed(run.point.config, short))) for run in runs]
    batch.submit(runs, Recorded(), Options(ASKED, dry_run=True), Console(soft_wrap=True))
    assert "it will not end within its time limit" in capsys.readouterr().out


def test_a_running_job_counts_before_a_pending_one():
    jobs = [Submitted("7", 2, 3, ["/r/a", "/r/b"]), Submitted("8", 2, 3, ["/r/b"]), Submitted("6", 2, 3, ["/r/c"])]
    queue = {"7": "RUNNING", "8": "PENDING"}
    assert batch.states_of_points(jobs, queue) == {Path("/r/a"): "RUNNING", Path("/r/b"): "RUNNING"}


def test_jobs_are_read_back_for_the_launcher_that_submitted_them(tmp_path):
    home = tmp_path / "weak_scaling/tiny-nodes1/0a1b2c3d"
    for launcher, job_id in (("slurm", "7"), ("pbs", "8.head")):
        folder = batch.jobs_folder(home, launcher)
        folder.mkdir(parents=True)
        batch.keep(folder, Submitted(job_id, 2, 3, [str(home)]))
    assert batch.read(tmp_path, "pbs") == [Submitted("8.head", 2, 3, [str(home)])]
    assert batch.read(tmp_path, "local") == []


def test_a_file_that_is_no_job_is_named_and_left_out(tmp_path, capsys):
    folder = batch.jobs_folder(tmp_path / "weak_scaling/tiny-nodes1/0a1b2c3d", "slurm")
    folder.mkdir(parents=True)
    batch.keep(folder, Submitted("7", 2, 3, []))
    (folder / "8.json").write_text((folder / "7.json").read_text()[:20])
    assert batch.read(tmp_path, "slurm") == [Submitted("7", 2, 3, [])]
    assert "8.json: no job of a launch" in capsys.readouterr().err
