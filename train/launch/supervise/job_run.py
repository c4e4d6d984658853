"""One job from its start to its end: no process of it is left behind."""

import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import IO

from train.launch.emulate.quota_enforcer import QuotaEnforcer
from train.launch.job import Job, Outcome
from train.launch.launchers.base import Launcher
from train.launch.supervise.signals import Interrupted, interrupts_deferred
from train.rank import process, variables
from train.rank.host import folded
from train.record import protocol

_POLL_S = 0.2
GRACE_S = 8.0  # Horovod's launcher gives its ranks 5 s


class JobRun:
    """One launch of a job under a launcher."""

    def __init__(self, job: Job, launcher: Launcher, timeout_s: float, look: Callable[[], None] = lambda: None) -> None:
        """Nothing is started before `run`.

        look: is called several times a second while the job runs.
        """
        self._look = look
        self._job, self._launcher, self._timeout_s = job, launcher, timeout_s
        self._id = uuid.uuid4().hex
        self._child: subprocess.Popen | None = None
        self._started_at, self._begin = time.time(), time.perf_counter()

    def run(self) -> tuple[Outcome, Interrupted | None]:
        """Run the job to its end: how it ended, and the interruption where SIGINT or SIGTERM ended it.

        The caller raises the interruption again when all is written. Raises OSError where the command cannot be
        started, or the launcher cannot set up what the job needs.
        """
        log = protocol.launcher_log(self._job.folder)
        enforcer: QuotaEnforcer | None = None
        ended_by, interruption = None, None
        with log.open("wb") as output, ExitStack() as setup:
            try:
                enforcer = setup.enter_context(self._launcher.watching(self._job))
                self._start(output)
                ended_by = self._wait(enforcer)
            except Interrupted as caught:
                interruption, ended_by = caught, caught.signal.name
            finally:
                job_s = time.perf_counter() - self._begin
                with interrupts_deferred() as came:
                    self._end()
                    setup.close()
        if came and not interruption:  # after the job's own end: its measurement counts, but no other run follows
            interruption = Interrupted(came[0])
        exit_code = self._child.returncode if self._child else 1
        quotas = tuple(enforcer.quotas) if enforcer else ()
        output_text = log.read_text(errors="replace")
        return Outcome(self._started_at, job_s, exit_code, ended_by, output_text, quotas), interruption

    def _start(self, output: IO[bytes]) -> None:
        self._started_at, self._begin = time.time(), time.perf_counter()  # what was set up before does not count
        of_this_job = {protocol.JOB_ID: self._id, protocol.JOB_STARTED_AT: repr(self._started_at)}
        self._child = subprocess.Popen(
            self._launcher.launch_command(self._job),
            env={**variables.for_ranks(self._launcher.secrets), **self._job.env, **of_this_job},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this program alone, which then shuts the job down
            preexec_fn=partial(process.end_with_parent, signal.SIGTERM),
        )

    def _wait(self, enforcer: QuotaEnforcer | None) -> str | None:
        """Wait for the job to end; returns "timeout" where it takes too long."""
        assert self._child is not None
        while self._child.poll() is None:
            if enforcer:
                enforcer.look(lambda: process.of_job(self._id), self._child.pid)
            self._look()
            if time.perf_counter() - self._begin > self._timeout_s:
                return "timeout"
            time.sleep(_POLL_S)
        return None

    def _end(self) -> None:
        """End the job: ask, wait, kill; here, and on the hosts where its launcher started it."""
        child = self._child
        if child and child.poll() is None:
            child.terminate()
            try:
                child.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        process.kill_job(self._id)
        if child and child.returncode == 0:
            return
        if silent := self._launcher.end_remote(self._job, self._id):
            with protocol.launcher_log(self._job.folder).open("a") as log:
                print(f"{folded(silent)}: did not answer; processes of the job may be left there", file=log)
