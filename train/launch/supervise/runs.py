"""The runs of an experiment: make each, write its record, continue after one that failed."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from train.config.identity import config_hash, learning_rate, resolved, values
from train.config.schema import RunConfig
from train.launch.job import Job, Outcome, Setting, make_job
from train.launch.launchers.base import Launcher
from train.launch.plan import checks, contest
from train.launch.plan.budget import Budget
from train.launch.plan.curve_launches import CurveLaunches
from train.launch.plan.runs import Known, Run, expected_s, remaining
from train.launch.start import installed
from train.launch.supervise import failure, live, presence
from train.launch.supervise.job_run import JobRun
from train.launch.supervise.signals import Interrupted, ends_with_make, interrupts_deferred
from train.rank import placement
from train.record import parts, paths, protocol, source
from train.record.assembly import Ending, Identity, assemble
from train.record.progress import duration
from train.record.record import RECORD_NAME, RunRecord, dumps, write_atomically
from train.transport.rendezvous import Secret

_LOG_LINES = 12
_TELL_EVERY_S = {True: 1.0, False: 60.0}  # on a terminal one line that changes; else, as in a log, a line a minute

Watch = Callable[[Path, protocol.Assignment], Callable[[], None]]  # the run folder, what is asked for


def assignment(run: Run, launcher: Launcher, rounds_end_s: float | None = None) -> protocol.Assignment:
    """What the ranks of a run are asked for.

    rounds_end_s: of a launch in rounds, when these end, in s after its start.
    """
    config = run.point.config
    if config.launch.rounds:
        measure = replace(config.measure, budget_s=rounds_end_s or config.measure.curve_budget_s)
        config = replace(config, measure=measure)
    return protocol.Assignment(
        config=values(config),
        config_hash=config_hash(config),
        repeat=run.repeat,
        source=dict(source.files()),
        hosts_apart=launcher.hosts_apart,
        quotas=launcher.quotas,
    )


def identity(run: Run, generation: int) -> Identity:
    """What a run's record says of what was asked for."""
    point, config = run.point, run.point.config
    return Identity(
        experiment=config.experiment,
        point=point.name,
        repeat=run.repeat,
        generation=generation,
        config=resolved(config),
        config_hash=config_hash(config),
        source_digest=source.digest(source.files()),
        command=["python", "-m", "train", *point.overrides],
        learning_rate=learning_rate(config),
        swept=point.swept,
        arm=point.arm,
        role=point.role,
        arm_keys=point.arm_keys,
        order=run.order,
    )


def ending(config: RunConfig, launcher: Launcher, job: Job, outcome: Outcome, left: Sequence[parts.Part]) -> Ending:
    """How the job of a run ended. left: the parts of its ranks."""
    if launcher.hosts_apart:
        cores_shared = placement.shared_on_a_host((part.host, part.cores, part.workers) for part in left)
    else:
        cores_shared = checks.shares_cores(config, placement.usable_cores())
    return Ending(
        started_at=outcome.started_at,
        job_s=outcome.job_s,
        cores_shared=cores_shared,
        failure=failure.find(job, launcher, outcome, left, config.launcher.timeout_s),
        node_quotas=outcome.node_quotas,
        attachments={path.name: digest(path) for path in protocol.timeline_paths(job.folder)},
    )


def digest(path: Path) -> str:
    """Hexadecimal SHA-256 of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def measure(
    run: Run,
    launcher: Launcher,
    hosts: tuple[str, ...] = (),
    watches: Sequence[Watch] = (),
    rounds_end_s: float | None = None,
) -> RunRecord:
    """Make one run and write its record, complete or failed.

    hosts: as `Launcher.hosts` returns them.
    watches: each is told of the run, and gives a function that is called often while the job runs.
    rounds_end_s: as of `assignment`.
    Raises ConfigError where the image or an mpirun is missing, OSError where the folder or the record cannot be
    written, and Interrupted after the record of the interruption is written.
    """
    config = run.point.config
    setting = Setting(placed(hosts, run), launcher.mpirun(config), installed.digest(config.container))
    folder, generation = paths.new_run(run.home, run.repeat)
    asked = assignment(run, launcher, rounds_end_s)
    protocol.write_assignment(folder, asked)
    secret = Secret(protocol.secret_folder(folder))
    secret.create()
    job = make_job(config, folder.resolve(), setting)
    presence.begin(folder)
    looks = (presence.beats(folder), ends_with_make(), *(watch(folder, asked) for watch in watches))

    def look() -> None:
        for one in looks:
            one()

    outcome, interruption = JobRun(job, launcher, config.launcher.timeout_s, look).run()
    with interrupts_deferred() as came:
        secret.remove()
        left = parts.read(job.folder)
        record = assemble(left, identity(run, generation), ending(config, launcher, job, outcome, left))
        write_atomically(folder / RECORD_NAME, dumps(record))
        presence.end(folder)
    if came and not interruption:
        interruption = Interrupted(came[0])
    if interruption:
        raise interruption
    if record.status == "complete":
        shutil.rmtree(paths.checkpoints(folder), ignore_errors=True)
    return record


def placed(hosts: tuple[str, ...], run: Run) -> tuple[str, ...]:
    """The hosts of a run, in the order of its nodes.

    In rounds the base of all ratios is the first node: each launch begins with another host.
    """
    config = run.point.config
    taken = hosts[: config.all_nodes]
    first = run.repeat % len(taken) if taken and config.launch.rounds else 0
    return (*taken[first:], *taken[:first])


def describe_failure(record: RunRecord) -> str:
    """What failed, where, and the end of the log of the rank that failed first."""
    found = record.failure
    assert found is not None
    where = f" on rank {found.rank} ({found.host})" if found.rank is not None else ""
    when = f" in phase {found.phase}" if found.phase else ""
    text = f"{record.point} r{record.repeat} failed{where}{when}: {found.reason}"
    if found.log and Path(found.log).exists():
        lines = Path(found.log).read_text(errors="replace").splitlines()[-_LOG_LINES:]
        text += f"\n  log: {found.log}\n" + "\n".join(f"  | {line}" for line in lines)
    return text


def left_s(runs: Sequence[Run], known: Known) -> float | None:
    """How long the runs will take, in s; None where nothing tells it of one of them."""
    expected = [expected_s(run, known) for run in runs]
    return None if None in expected else sum(s for s in expected if s is not None)


def time_left(runs: Sequence[Run], known: Known) -> str:
    """How long the runs will take, in words."""
    seconds = left_s(runs, known)
    if seconds is None:
        return "time left: known after the first launch of a single point"
    return f"about {int(seconds // 60)} min {int(seconds % 60):02d} s left"


def _attempt(
    run: Run, launcher: Launcher, hosts: tuple[str, ...], watches: Sequence[Watch], rounds_end_s: float | None
) -> tuple[RunRecord | None, str | None]:
    """Make one run: its record, if it has one, and what failed. Raises Interrupted."""
    try:
        record = measure(run, launcher, hosts, watches, rounds_end_s)
    except OSError as error:
        return None, f"{run.label}: {error.filename or run.home}: {error.strerror}"
    return record, describe_failure(record) if record.status == "failed" else None


class _UnderWay(TextColumn):
    """The one column that gives way on a narrow terminal, cut off at its end: the table would wrap it instead."""

    def render(self, task: Task) -> Text:
        """The text of a task."""
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


def _progress(console: Console, runs: int) -> Progress:
    """The line at the bottom of a terminal: the run under way, how many are made, the time passed and left."""
    fixed = [
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),
    ]
    columns = (_UnderWay("{task.description}", table_column=Column(ratio=1)), *fixed)
    # Each refresh takes time from ranks that share the machine.
    return Progress(*columns, console=console, disable=not runs, expand=True, refresh_per_second=1)


def _watcher(progress: Progress, bar: TaskID, label: str, all_s: float | None) -> Watch:
    """Show how far a run has come: in the line at the bottom of a terminal, else in one of its own.

    all_s: how long it and all that follow will take, where that is known.
    """
    console = progress.console
    ends_at = None if all_s is None else time.monotonic() + all_s

    def show(said: str) -> None:
        if console.is_terminal:
            left = f"all {duration(max(0.0, ends_at - time.monotonic()))}" if ends_at else ""
            progress.update(bar, description=escape(f"{label}: {said}"), left=left)
        else:
            console.print(escape(f"{label}: {said}"), highlight=False)

    every_s = _TELL_EVERY_S[console.is_terminal]
    return lambda folder, asked: live.teller(folder, asked.config, show, every_s)


def _budget(planned: Sequence[Run], curves: CurveLaunches, force: bool) -> Budget | None:
    """Return the time for the curves in rounds of a command and all that is beside them; None without any.

    Launches that count already have used their share.
    """
    by_curve = {run.home: run for run in planned if run.point.config.launch.rounds}
    if not by_curve:
        return None
    counting = [record for run in by_curve.values() for record in curves.records(run)]
    budget = Budget(sum(run.point.config.measure.curve_budget_s for run in by_curve.values()))
    for run in planned:
        if record := paths.completed(run.home, run.repeat):
            budget.add(run, record)
            counting += [] if force or run.home in by_curve else [record]
    budget.total_s -= sum(record.job_s for record in counting)
    return budget


def run_all(
    planned: Sequence[Run], launcher: Launcher, force: bool, console: Console, watches: Sequence[Watch] = ()
) -> list[str]:
    """Make the runs that are not measured yet, or all with `force`; returns the labels of those that failed.

    watches: as for `measure`, of every run.
    Raises Interrupted, and ConfigError as `measure` does.
    """
    to_do, known = remaining(planned, force)
    if skipped := len(planned) - len(to_do):
        console.print(f"{skipped} of {len(planned)} runs are measured already; FORCE=1 measures again")
    curves = CurveLaunches(planned, force)
    budget = _budget(planned, curves, force)
    to_do += curves.further(budget) if budget and not to_do else []
    if budget and to_do:
        console.print(f"about {duration(budget.expected_s(to_do))} for all launches", highlight=False)
    hosts = launcher.hosts(to_do[0].point.config) if to_do else ()
    failed: list[str] = []
    noted: list[str] = []
    with _progress(console, len(to_do)) as progress:
        bar = progress.add_task("", total=len(to_do), left="")
        for number, run in enumerate(to_do):  # which grows where curves need another launch
            later, in_rounds = to_do[number + 1 :], bool(run.point.config.launch.rounds)
            progress.update(bar, description=run.label)
            if why := _not_worth_it(run, planned, budget):
                console.print(escape(f"{run.label}: not made, {why}"), highlight=False)
                progress.advance(bar)
                continue
            if force:  # from the beginning
                shutil.rmtree(paths.checkpoints(paths.run_folder(run.home, run.repeat, 1)), ignore_errors=True)
            all_s = budget.expected_s(to_do[number:]) if budget else left_s(to_do[number:], known)
            watcher = _watcher(progress, bar, run.label, all_s if later else None)
            rounds_end_s = budget.rounds_end_s(run, later) if budget and in_rounds else None
            record, problem = _attempt(run, launcher, hosts, [watcher, *watches], rounds_end_s)
            if record:
                known.add(run, record.job_s)
                for note in [note for note in record.notes if note not in noted]:
                    console.print(escape(f"{run.label}: {note}"), highlight=False)
                    noted.append(note)
            if problem:
                failed.append(run.label)
                console.print(f"[red]error:[/red] {escape(problem)}", highlight=False)
            elif record and budget:
                budget.add(run, record)
                if in_rounds:
                    curves.add(run, record)
                if not later and not failed:
                    to_do += (further := curves.further(budget))
                    progress.update(bar, total=len(to_do))
                    later = further
            if record and not problem and not console.is_terminal:
                left = f"about {duration(budget.expected_s(later))} left" if budget else time_left(later, known)
                console.print(escape(f"[{number + 1}/{len(to_do)}] {run.label}: {record.job_s:.0f} s; {left}"))
            if not problem and in_rounds:
                is_last = run.home not in {one.home for one in later}
                console.print(escape(curves.result(run, is_last)), highlight=False)
            progress.advance(bar)
        progress.update(bar, description="done", left="")
    return failed


def _not_worth_it(run: Run, planned: Sequence[Run], budget: Budget | None) -> str:
    """Return why a run is not made: its arm is significantly slower, or no time is left; "" where it is."""
    if slower := contest.given_up(run, planned):
        return f"{run.point.name} is surely behind, by about {100 * slower:.0f} %"
    if budget is None or run.repeat == 0 or budget.is_enough_for(run):
        return ""
    return "the time is over; with a larger measure.budget_s the same command makes it"


def records_of(runs: Sequence[Run]) -> list[Path]:
    """All records in the folders of the runs, of every generation."""
    homes = {run.home for run in runs}
    return sorted(path for home in homes for path in home.glob(f"*/{RECORD_NAME}"))
