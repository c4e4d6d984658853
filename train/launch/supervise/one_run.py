"""One run: its job from start to end, without leaving a process behind, and its record, complete or failed."""

import errno
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO

from msgspec import structs

from common import affinity
from record import ledger, parts, protocol
from record import run_files as files
from record.schema import RECORD_NAME, RunRecord, dumps
from train.config.checks import ConfigError, listed
from train.config.identity import config_hash, learning_rate, resolved, values
from train.config.run_config import RunConfig
from train.launch.job import Job, JobOutcome, make_job
from train.launch.launchers.base import Launcher, Limiter
from train.launch.plan import point_checks
from train.launch.plan.planned_runs import PlannedPoint, Run
from train.launch.plan.queue import RoundsBudget
from train.launch.start import containers, init, mpi_output
from train.launch.supervise import failure, presence
from train.launch.supervise.signals import Interrupted, interrupts_deferred
from train.rank import placement, process
from train.rank.host import folded
from train.transport.rendezvous import Secret

_POLL_S = 0.2  # between looks at a running job; its end is noted at once
END_WITHIN_S = init.GRACE_S + 4.0  # the processes of a job, after SIGTERM or the end of their launcher

_LOG_LINES = 12
Watch = Callable[[Path, protocol.Assignment], Callable[[], None]]  # (run folder, assignment) -> function to call often


class JobRun:
    """One launch of a job under a launcher."""

    def __init__(self, job: Job, launcher: Launcher, timeout_s: float, poll: Callable[[], None] = lambda: None) -> None:
        """Start nothing before `run`.

        poll: is called several times a second while the job runs.
        """
        self._poll = poll
        self._job, self._launcher, self._timeout_s = job, launcher, timeout_s
        self._id = uuid.uuid4().hex
        self._child: subprocess.Popen | None = None
        self._exited = threading.Event()
        self._started_at, self._begin = time.time(), time.perf_counter()
        self._exited_at: float | None = None  # as _begin

    def run(self) -> tuple[JobOutcome, Interrupted | None]:
        """Run the job to its end; returns its outcome, and the interruption if SIGINT or SIGTERM ended it.

        The caller raises the interruption again after it has written the record. Raises OSError if the command cannot
        be started, or the launcher cannot set up the resources of the job.
        """
        log = protocol.launcher_log(self._job.folder)
        limiter: Limiter | None = None
        ended_by, interruption = None, None
        with log.open("wb") as output, ExitStack() as setup:
            try:
                limiter = setup.enter_context(self._launcher.watching(self._job))
                self._start(output)
                ended_by = self._wait(limiter)
            except Interrupted as caught:
                interruption, ended_by = caught, caught.signal.name
            finally:
                job_s = (self._exited_at or time.perf_counter()) - self._begin
                with interrupts_deferred() as signals:
                    self._end()
                    setup.close()
        if signals and not interruption:  # after the job's own end: its measurement counts, but no other run follows
            interruption = Interrupted(signals[0])
        exit_code = self._child.returncode if self._child else 1
        quotas = tuple(limiter.quotas) if limiter else ()
        output_text = log.read_text(errors="replace")
        return JobOutcome(self._started_at, job_s, exit_code, ended_by, output_text, quotas), interruption

    def _start(self, output: IO[bytes]) -> None:
        self._started_at, self._begin = time.time(), time.perf_counter()  # the set-up before does not count
        job_variables = {protocol.JOB_ID: self._id, protocol.JOB_STARTED_AT: repr(self._started_at)}
        variables = process.variables_for_ranks(self._launcher.secrets)
        if self._job.container.name != "none":
            variables = process.in_container(variables)
        command = self._launcher.launch_command(self._job)
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
        is_client = self._job.container.name in ("docker", "podman")
        self._child = subprocess.Popen(
            init.command(sys.executable, command, is_client),
            env={**variables, **self._job.env, **job_variables},
            stdin=subprocess.PIPE,  # held until the job has ended: it ends with this process, however that dies
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this program alone, which then shuts the job down
        )
        threading.Thread(target=self._note_exit, args=(self._child,), daemon=True).start()

    def _note_exit(self, child: subprocess.Popen) -> None:
        """Note when the job has ended: the kernel wakes this thread at once."""
        child.wait()
        self._exited_at = time.perf_counter()
        self._exited.set()

    def _wait(self, limiter: Limiter | None) -> str | None:
        """Wait for the job to end; returns "timeout" if it takes too long."""
        assert self._child is not None
        while not self._exited.wait(_POLL_S):
            if limiter:
                limiter.update(lambda: process.job_processes(self._id))
            self._poll()
            if time.perf_counter() - self._begin > self._timeout_s:
                return "timeout"
        return None

    def _end(self) -> None:
        """End the job: ask, wait, kill; here, and on the hosts where its launcher started it."""
        child = self._child
        if child and child.poll() is None:
            child.terminate()
            try:
                child.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if child and child.stdin:
            child.stdin.close()
        process.kill_job(self._id)
        if child and child.returncode == 0:
            return
        if silent := self._launcher.end_remote(self._job, self._id):
            with protocol.launcher_log(self._job.folder).open("a") as log:
                print(f"{folded(silent)}: did not answer; processes of the job may be left there", file=log)


def commands(point: PlannedPoint) -> dict[str, list[str]]:
    """Return the command of a point for its record, and that of the user."""
    typed = shlex.split(os.environ.get(protocol.TYPED_COMMAND, ""))
    return {"command": ["python", "-m", "train", *point.overrides], "typed_command": typed}


def make_assignment(
    run: Run, launcher: Launcher, generation: int, plan: Sequence[str] = (), budget: RoundsBudget | None = None
) -> protocol.Assignment:
    """Return the assignment of the ranks of a run. plan: the launches of the command. budget: of a launch in rounds."""
    point, config = run.point, run.point.config
    identity = {
        "experiment": config.experiment,
        "point": point.name,
        "generation": generation,
        **commands(point),
        "learning_rate": learning_rate(config),
        "swept": point.swept,
        "arm": point.arm,
        "role": point.role,
        "arm_keys": list(point.arm_keys),
        "order": run.order,
    }
    if budget:
        config = replace(config, launch=structs.replace(config.launch, rounds_end_s=budget.end_s))
    return protocol.Assignment(
        config=values(config),
        config_hash=config_hash(config),
        repeat=run.repeat,
        source=dict(files.source_files()),
        conf=files.conf_files(),
        hosts_apart=launcher.hosts_apart,
        quotas=launcher.quotas,
        rounds=budget.task if budget else protocol.RoundsTask(),
        identity=identity,
        plan=list(plan),
        ledgers=ledger.states(run.home.parents[1], (name.rpartition("/")[0] for name in (run.name, *plan))),
    )


def cores_shared(config: RunConfig, hosts_apart: bool, ranks: Sequence[parts.RankPart]) -> bool:
    """Return whether ranks competed for cores, of this machine or of the hosts of their parts."""
    if hosts_apart:
        return placement.shared_on_a_host((part.host, part.cores, part.workers) for part in ranks)
    return point_checks.shares_cores(config, affinity.usable_cores())


def save(
    folder: Path,
    assignment: protocol.Assignment,
    config: RunConfig,
    by_file: Mapping[Path, parts.RankPart],
    end: parts.JobEnd,
) -> RunRecord:
    """Write the record of the run in this folder, and note its end; return it. Raises OSError.

    by_file: the parts of its ranks. end: without what is in files.
    """
    Secret(protocol.secret_folder(folder)).remove()
    end = replace(
        end,
        attachments={path.name: files.digest(path) for path in protocol.timeline_paths(folder)},
        sources={path.name: files.digest(path) for path in (protocol.assignment_path(folder), *by_file)},
        ended_at=ledger.now(),
    )
    record = parts.assemble([*by_file.values()], parts.identity(assignment, resolved(config)), end)
    files.write_file(folder / RECORD_NAME, dumps(record))
    ledger.end(folder, record)
    presence.note_end(folder)
    return record


def check_source() -> None:
    """Raise ConfigError if code of the ranks has changed since this command began: they would run other code."""
    begun = files.source_files()
    if changed := files.differing(begun, files.digests(begun)):
        raise ConfigError(
            f"{listed(changed)}: changed since this command began. What was measured is kept; undo the change, or "
            "measure with the new code: the same command goes on with it, RESULTS=folder keeps the two apart"
        )


def measure(
    run: Run,
    launcher: Launcher,
    watches: Sequence[Watch] = (),
    budget: RoundsBudget | None = None,
    plan: Sequence[str] = (),
) -> RunRecord:
    """Make one run and write its record, complete or failed.

    watches: each gets the run, and returns a function that is called often while the job runs.
    budget, plan: as for `make_assignment`.
    Raises ConfigError if the image or an mpirun is missing, the code has changed since the command began, or the batch
    system does not name its hosts; OSError if the folder or the record cannot be written; Interrupted after the record
    of the interruption is written.
    """
    check_source()
    config = run.point.config
    hosts, mpirun = ordered_hosts(launcher.hosts(config), run), launcher.mpirun(config)
    image_digest = containers.image_digest(config.container)
    folder, generation = files.new_run(run.home, run.repeat)
    assignment = make_assignment(run, launcher, generation, plan, budget)
    protocol.write_assignment(folder, assignment)
    line = ledger.begin(folder, run.repeat, generation, plan)
    Secret(protocol.secret_folder(folder)).create()
    job = make_job(config, folder.resolve(), hosts, mpirun, image_digest)
    callbacks = [watch(folder, assignment) for watch in watches]

    def poll() -> None:
        for callback in callbacks:
            callback()

    with presence.in_progress(folder):
        outcome, interruption = JobRun(job, launcher, config.launcher.timeout_s, poll).run()
        with interrupts_deferred() as signals:
            by_file = parts.read_parts(folder)
            ranks = [*by_file.values()]
            end = parts.JobEnd(
                started_at=outcome.started_at,
                job_s=outcome.job_s,
                cores_shared=cores_shared(config, launcher.hosts_apart, ranks),
                failure=failure.run_failure(job, launcher, outcome, ranks, config.launcher.timeout_s),
                node_quotas=outcome.node_quotas,
                ledger_line=line,
            )
            record = save(folder, assignment, config, by_file, end)
    if signals and not interruption:
        interruption = Interrupted(signals[0])
    if interruption:
        raise interruption
    if record.status == "complete":
        shutil.rmtree(files.checkpoints(folder), ignore_errors=True)
    return record


def ordered_hosts(hosts: tuple[str, ...], run: Run) -> tuple[str, ...]:
    """Return the hosts of a run, in the order of its nodes.

    In rounds the base of all ratios is the first node: each launch begins with another host.
    """
    config = run.point.config
    used = hosts[: config.all_nodes]
    first = run.repeat % len(used) if used and config.launch.rounds else 0
    return (*used[first:], *used[:first])


def describe_failure(record: RunRecord) -> str:
    """Return the failure of a record as text, with the end of the log of the rank that failed first."""
    failed = record.failure
    assert failed is not None
    where = f" on rank {failed.rank} ({failed.host})" if failed.rank is not None else ""
    when = f" in phase {failed.phase}" if failed.phase else ""
    text = f"{record.point} r{record.repeat} failed{where}{when}: {failed.reason}"
    if failed.log and Path(failed.log).exists():
        lines = mpi_output.rank_output(Path(failed.log).read_text(errors="replace")).splitlines()[-_LOG_LINES:]
        text += f"\n  log: {failed.log}\n" + "\n".join(f"  | {line}" for line in lines)
    return text


def attempt(
    run: Run, launcher: Launcher, watches: Sequence[Watch], budget: RoundsBudget | None, plan: Sequence[str]
) -> tuple[RunRecord | None, str | None]:
    """Make one run, once more if a foreign connection kept its ranks from joining.

    Return its record, if it has one, and the failure as text. Raises Interrupted.
    """
    try:
        record = measure(run, launcher, watches, budget, plan)
        if record.failure and record.failure.reason.startswith(failure.STRAY):
            record = measure(run, launcher, watches, budget, plan)
    except OSError as error:
        return None, f"{run.label}: {error.filename or run.home}: {error.strerror}"
    return record, describe_failure(record) if record.status == "failed" else None
