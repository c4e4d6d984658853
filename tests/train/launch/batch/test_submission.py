from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.helpers.configs import changed
from tests.helpers.launches import planned
from train.config.checks import ConfigError
from train.launch.batch import jobs, submission
from train.launch.batch.submission import Submitted
from train.launch.launchers.slurm import Slurm
from train.launch.plan.make import Options
from train.launch.plan.runs import Run, runs_of

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
    submission.submit(runs, Recorded(), Options(ASKED, dry_run=True), Console(soft_wrap=True))
    printed = capsys.readouterr().out
    assert "weak_scaling-nodes2: 2 runs on at most 2 nodes, about 10 min" in printed
    assert "#SBATCH --nodes=2" in printed
    assert list(tmp_path.iterdir()) == []


def test_the_job_is_kept_beside_its_script_and_not_submitted_twice(runs, tmp_path, capsys):
    launcher = Recorded()
    submission.submit(runs, launcher, Options(ASKED), Console(soft_wrap=True))
    assert [path.read_text() for path in launcher.scripts] == [(tmp_path / launcher.scripts[0]).read_text()]
    assert "submitted job 0 (weak_scaling-nodes2)" in capsys.readouterr().out
    [job] = submission.read(tmp_path, "slurm")
    assert (job.job_id, job.nodes, job.repeats) == ("0", 2, 1)
    assert job.homes == [str(run.home) for run in runs]
    with pytest.raises(ConfigError, match="tiny-nodes1, tiny-nodes2: a job that will run this is in the queue"):
        submission.submit(runs, launcher, Options(ASKED), Console(soft_wrap=True))


def test_a_job_too_long_for_the_site_is_warned_of(runs, capsys):
    short = {"system.longest_s": 600}
    runs = [replace(run, point=replace(run.point, config=changed(run.point.config, short))) for run in runs]
    submission.submit(runs, Recorded(), Options(ASKED, dry_run=True), Console(soft_wrap=True))
    assert "it will not end within its time limit" in capsys.readouterr().out


def test_a_running_job_counts_before_a_pending_one():
    jobs = [Submitted("7", 2, 3, ["/r/a", "/r/b"]), Submitted("8", 2, 3, ["/r/b"]), Submitted("6", 2, 3, ["/r/c"])]
    queue = {"7": "RUNNING", "8": "PENDING"}
    assert submission.states_of_points(jobs, queue) == {Path("/r/a"): "RUNNING", Path("/r/b"): "RUNNING"}


def test_jobs_are_read_back_for_the_launcher_that_submitted_them(tmp_path):
    home = tmp_path / "weak_scaling/tiny-nodes1/0a1b2c3d"
    for launcher, job_id in (("slurm", "7"), ("pbs", "8.head")):
        folder = jobs.jobs_folder(home, launcher)
        folder.mkdir(parents=True)
        submission.keep(folder, Submitted(job_id, 2, 3, [str(home)]))
    assert submission.read(tmp_path, "pbs") == [Submitted("8.head", 2, 3, [str(home)])]
    assert submission.read(tmp_path, "local") == []


def test_a_file_that_is_no_job_is_named_and_left_out(tmp_path, capsys):
    folder = jobs.jobs_folder(tmp_path / "weak_scaling/tiny-nodes1/0a1b2c3d", "slurm")
    folder.mkdir(parents=True)
    submission.keep(folder, Submitted("7", 2, 3, []))
    (folder / "8.json").write_text((folder / "7.json").read_text()[:20])
    assert submission.read(tmp_path, "slurm") == [Submitted("7", 2, 3, [])]
    assert "8.json: no job of a launch" in capsys.readouterr().err
