"""Start a job, wait for its end, leave nothing behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from train.launch.emulate.enforcement import Hold
from train.launch.plan import hosts
from train.launch.plan.job import JOB_ID, JOB_STARTED_AT, Job, Outcome
from train.launch.start.commands import command
from train.launch.supervise import strays

_POLL_S = 0.2
_GRACE_S = 8.0  # Horovod's launcher gives its ranks 5 s
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # loaded here: between fork and exec a child of a threaded program should do next to nothing


class Interrupted(BaseException):
    """The user, or the system, asked this program to end."""

    def __init__(self, signal_number: int) -> None:
        """Keep which signal it was."""
        self.signal = signal.Signals(signal_number)
        super().__init__(self.signal.name)


@contextmanager
def interrupts_raise() -> Iterator[None]:
    """Within this block SIGINT and SIGTERM raise Interrupted."""

    def interrupt(number: int, _frame: object) -> None:
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with_parent() -> None:
    """In the child: get a SIGTERM when the launcher dies, even by SIGKILL."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """Within this block SIGINT and SIGTERM end nothing: gives the list that they are noted in.

    What ends processes and writes records goes through to its end, whoever is impatient.
    """
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _frame: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(child: subprocess.Popen | None, job: Job, job_id: str) -> None:
    """End the job: ask, wait, force; here, and on the hosts that ssh started it on."""
    if child and child.poll() is None:
        child.terminate()
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    strays.kill(job_id)
    if (
        job.launcher == "ssh"
        and not (child and child.returncode == 0)
        and (silent := hosts.end_strays(job.hosts, job_id))
    ):
        with (job.folder / "launcher.log").open("a") as log:
            print(f"{', '.join(silent)}: could not be asked whether anything of the job is left there", file=log)


def run(job: Job, timeout_s: float, hold: Hold | None = None) -> tuple[Outcome, Interrupted | None]:
    """Run the job to its end. No process of it is left, whatever happens, and no group of `hold`.

    hold: the quotas that its nodes are held to while they measure.
    Gives the outcome, and the interruption where SIGINT or SIGTERM ended it: the caller raises it again when all is
    written. Raises OSError where the command cannot be started, or a node not be held to its quota.
    """
    job_id = uuid.uuid4().hex
    started_at, begin = time.time(), time.perf_counter()
    environment = {**os.environ, **job.env, JOB_ID: job_id, JOB_STARTED_AT: repr(started_at)}
    log = job.folder / "launcher.log"
    ended_by = None
    interruption: Interrupted | None = None
    child: subprocess.Popen | None = None
    with log.open("wb") as output:
        try:
            child = subprocess.Popen(
                command(job),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches this program alone, which then ends the job in order
                preexec_fn=_end_with_parent,
            )
            while child.poll() is None:
                if hold:
                    hold.look(lambda: strays.of_job(job_id), child.pid)
                if time.perf_counter() - begin > timeout_s:
                    ended_by = "timeout"
                    break
                time.sleep(_POLL_S)
        except Interrupted as caught:
            interruption, ended_by = caught, caught.signal.name
        finally:
            job_s = time.perf_counter() - begin
            with interrupts_noted() as came:
                _end(child, job, job_id)
                if hold:
                    hold.remove()
    if came and not interruption:  # after the job's own end: what it measured counts, but no other one follows
        interruption = Interrupted(came[0])
    exit_code = child.returncode if child else 1
    quotas = tuple(hold.quotas) if hold else ()
    return Outcome(started_at, job_s, exit_code, ended_by, log.read_text(errors="replace"), quotas), interruption
