"""True processes, but no ranks: a launcher that runs a few lines of Python."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.helpers import launches
from train.launch.job import Job
from train.launch.launchers.base import Launcher
from train.launch.supervise.one_run import JobRun
from train.launch.supervise.signals import Interrupted, interrupts_raised
from train.record.record import NodeQuota

pytestmark = pytest.mark.slow  # starts processes

# Starts a process of its own, says so, and waits for ever.
ENDLESS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
writing = pathlib.Path(sys.argv[1], "writing")
writing.write_text(str(child.pid))
writing.rename(writing.with_name("child"))
time.sleep(600)
"""
# Ends once it has been seen.
SEEN = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[1], "seen").exists():
    time.sleep(0.01)
"""


class Lines(Launcher):
    """Runs lines of Python in place of ranks, and notes what it is asked for."""

    name = "lines"

    def __init__(self, lines: str) -> None:
        self.lines, self.said = lines, []

    def command(self, job: Job) -> list[str]:
        return [sys.executable, "-c", self.lines, str(job.folder)]

    @contextmanager
    def watching(self, job: Job) -> Iterator["Watching"]:
        self.said.append("set up")
        yield Watching(self, job.folder)
        self.said.append("removed")

    def end_remote(self, job: Job, job_id: str) -> list[str]:
        self.said.append("ended elsewhere")
        return ["n2"]


class Watching:
    """Notes whether it is given the processes of the job."""

    quotas = (NodeQuota(0, 0.5, 0.02, 10, 5, 0.1, "a test"),)

    def __init__(self, launcher: Lines, folder: Path) -> None:
        self._launcher, self._folder = launcher, folder

    def look(self, processes, job_pid: int) -> None:
        self._launcher.said.append(job_pid in [process.pid for process in processes()])
        (self._folder / "seen").touch()


def job(folder: Path) -> Job:
    return replace(launches.job(folder=folder), env={"KIT_EXAMPLE": "told"})


def test_a_job_ends_by_itself_with_its_status_its_output_and_its_quotas(tmp_path):
    launcher = Lines("import os; print(os.environ['KIT_EXAMPLE'], os.environ['KIT_JOB_STARTED_AT']); os._exit(3)")
    outcome, interruption = JobRun(job(tmp_path), launcher, 60).run()
    assert interruption is None
    assert (outcome.exit_code, outcome.ended_by) == (3, None)
    assert (
        outcome.output == f"told {outcome.started_at!r}\nn2: did not answer; processes of the job may be left there\n"
    )
    assert outcome.node_quotas == Watching.quotas
    assert [output for output in launcher.said if isinstance(output, str)] == ["set up", "ended elsewhere", "removed"]


def test_the_watcher_is_given_the_processes_of_the_job(tmp_path):
    launcher = Lines(SEEN)
    JobRun(job(tmp_path), launcher, 240).run()
    assert launcher.said[1] is True


def test_a_job_that_succeeds_left_nothing_elsewhere(tmp_path):
    launcher = Lines("pass")
    outcome, _ = JobRun(job(tmp_path), launcher, 60).run()
    assert outcome.exit_code == 0
    assert "ended elsewhere" not in launcher.said


def test_a_job_that_takes_too_long_is_ended_with_all_its_processes(tmp_path):
    def until_it_has_begun() -> None:  # before it is found to take too long
        while not (tmp_path / "child").exists():
            time.sleep(0.01)

    outcome, _ = JobRun(job(tmp_path), Lines(ENDLESS), 0.1, until_it_has_begun).run()
    assert outcome.ended_by == "timeout"
    assert not psutil.pid_exists(int((tmp_path / "child").read_text()))


def test_an_interrupted_job_is_ended_and_the_interruption_returned(tmp_path):
    def interrupt() -> None:
        while not (tmp_path / "child").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with interrupts_raised():
        threading.Thread(target=interrupt, daemon=True).start()
        outcome, interruption = JobRun(job(tmp_path), Lines(ENDLESS), 240).run()
    assert isinstance(interruption, Interrupted)
    assert outcome.ended_by == "SIGINT"
    assert not psutil.pid_exists(int((tmp_path / "child").read_text()))


def test_a_command_that_is_not_there_raises_after_all_is_removed(tmp_path):
    launcher = Lines("")
    launcher.command = lambda job: ["no-such-command-of-the-kit"]
    with pytest.raises(FileNotFoundError, match="no-such-command-of-the-kit"):
        JobRun(job(tmp_path), launcher, 60).run()
    assert launcher.said[-1] == "removed"
