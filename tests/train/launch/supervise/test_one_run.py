"""A launcher whose jobs are real processes that run a few lines of Python, not ranks."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from record.schema import Failure, NodeQuota
from tests.helpers import launch_plans
from tests.helpers.run_records import make_record
from train.launch.job import Job
from train.launch.launchers.base import Launcher
from train.launch.supervise import one_run
from train.launch.supervise.one_run import JobRun

pytestmark = pytest.mark.slow  # starts processes

QUOTAS = (NodeQuota(0, 0.5, 0.02, 10, 5, 0.1, "a test"),)

# Starts a process in another session, writes its PID, and waits for ever.
ENDLESS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
writing = pathlib.Path(sys.argv[1], "writing")
writing.write_text(str(child.pid))
writing.rename(writing.with_name("child"))
time.sleep(600)
"""


class Lines(Launcher):
    """Runs lines of Python in place of ranks, and records the calls of its methods."""

    name = "lines"

    def __init__(self, lines: str) -> None:
        self.lines, self.calls, self.sees_job = lines, [], []

    def command(self, job: Job) -> list[str]:
        return [sys.executable, "-c", self.lines, str(job.folder)]

    @contextmanager
    def watching(self, job: Job) -> Iterator[SimpleNamespace]:
        def update(processes) -> None:
            self.sees_job.append(bool(processes()))
            (job.folder / "watched").touch()

        self.calls.append("set up")
        yield SimpleNamespace(update=update, quotas=QUOTAS)
        self.calls.append("removed")

    def end_remote(self, job: Job, job_id: str) -> list[str]:
        self.calls.append("ended elsewhere")
        return ["n2"]


def job(folder: Path) -> Job:
    return replace(launch_plans.job(folder=folder), env={"KIT_EXAMPLE": "set"})


# Prints its environment and ends when the watcher has been called.
WATCHED = """
import os, pathlib, sys, time
print(os.environ["KIT_EXAMPLE"], os.environ["KIT_JOB_STARTED_AT"], os.getsid(0))
while not pathlib.Path(sys.argv[1], "watched").exists():
    time.sleep(0.01)
sys.exit({status})
"""


@pytest.mark.parametrize("status", [3, 0])
def test_a_job_is_watched_and_ends_with_its_status_its_output_and_its_quotas(tmp_path, status):
    launcher = Lines(WATCHED.format(status=status))
    outcome, interruption = JobRun(job(tmp_path), launcher, 240).run()
    assert interruption is None
    assert (outcome.exit_code, outcome.ended_by, outcome.node_quotas) == (status, None, QUOTAS)
    variables, *notes = outcome.output.splitlines()
    *variables, session = variables.split()
    assert variables == ["set", f"{outcome.started_at!r}"]
    assert int(session) != os.getsid(0)  # Ctrl-C reaches the launcher alone
    assert launcher.sees_job[0] is True
    # Only a failure can leave processes on other hosts.
    assert notes == ["n2: did not answer; processes of the job may be left there"] * (status > 0)
    assert launcher.calls == ["set up", *(["ended elsewhere"] * (status > 0)), "removed"]


def until_it_has_begun(folder: Path) -> None:
    while not (folder / "child").exists():
        time.sleep(0.01)


def test_a_job_that_takes_too_long_is_ended_with_all_its_processes(tmp_path):
    outcome, _ = JobRun(job(tmp_path), Lines(ENDLESS), 0.1, partial(until_it_has_begun, tmp_path)).run()
    assert outcome.ended_by == "timeout"
    assert not psutil.pid_exists(int((tmp_path / "child").read_text()))


def test_a_command_that_is_not_there_raises_after_all_is_removed(tmp_path):
    launcher = Lines("")
    launcher.command = lambda job: ["no-such-command-of-the-kit"]
    with pytest.raises(FileNotFoundError, match="no-such-command-of-the-kit"):
        JobRun(job(tmp_path), launcher, 60).run()
    assert launcher.calls[-1] == "removed"


def test_the_end_of_a_job_is_noted_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(one_run, "_POLL_S", 600.0)
    outcome, _ = JobRun(job(tmp_path), Lines("print('done')"), 60).run()
    assert (outcome.exit_code, outcome.ended_by) == (0, None)
    assert outcome.job_s < 60


DASHES = "-" * 74
OF_MPIRUN = (
    f"{DASHES}\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code.\n{DASHES}\n"
    f"{DASHES}\nmpirun detected that one or more processes exited with non-zero status, thus causing\n"
    f"the job to be terminated.\n\n  Process name: [[31970,1],0]\n  Exit code:    1\n{DASHES}\n"
)


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (f"step 1\n[1,0]<stderr>:KeyError: 'lr'\n{OF_MPIRUN}", ["step 1", "[1,0]<stderr>:KeyError: 'lr'"]),
        (OF_MPIRUN, OF_MPIRUN.splitlines()),
        ("".join(f"{n}\n" for n in range(20)), [str(n) for n in range(8, 20)]),
    ],
)
def test_a_failure_shows_the_end_of_what_the_process_itself_printed(tmp_path, log, shown):
    path = tmp_path / "rank-0.log"
    path.write_text(log)
    record = make_record(failure=Failure("ended with exit status 1", log=str(path)))
    _, *lines = one_run.describe_failure(record).splitlines()[1:]
    assert lines == [f"  | {line}" for line in shown]
