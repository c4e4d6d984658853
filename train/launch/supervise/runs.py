"""The runs of an experiment: make each, write its record, continue after one that failed."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from train.config.identity import config_hash, learning_rate, resolved
from train.config.schema import Config
from train.launch.plan import precision, preflight
from train.launch.plan.job import Job, Outcome, Setting, make_job
from train.launch.plan.launcher import Launcher
from train.launch.plan.runs import Known, Run, expected_s, remaining
from train.launch.start import images
from train.launch.supervise import failure, live
from train.launch.supervise.job_run import JobRun
from train.launch.supervise.signals import Interrupted, interrupts_deferred
from train.rank import placement
from train.record import parts, paths, protocol, source
from train.record.assembly import Ending, Identity, assemble
from train.record.record import RECORD_NAME, RunRecord, dumps, write_atomically

_LOG_LINES = 12


def assignment(run: Run, launcher: Launcher) -> protocol.Assignment:
    """What the ranks of a run are asked for."""
    config = run.point.config
    values = asdict(config)
    if config.rounds:
        values["measure"]["budget_s"] = precision.budget_left_s(run.point, run.home)
    return protocol.Assignment(
        config=values,
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
        arm_keys=point.arm_keys,
        order=run.order,
    )


def ending(config: Config, launcher: Launcher, job: Job, outcome: Outcome, left: Sequence[parts.Part]) -> Ending:
    """How the job of a run ended. left: the parts of its ranks."""
    if launcher.hosts_apart:
        cores_shared = placement.shared_on_a_host((part.host, part.cores) for part in left)
    else:
        cores_shared = preflight.shares_cores(config, placement.usable_cores())
    return Ending(
        started_at=outcome.started_at,
        job_s=outcome.job_s,
        cores_shared=cores_shared,
        failure=failure.find(job, launcher, outcome, left, config.launcher.timeout_s),
        node_quotas=outcome.node_quotas,
    )


def measure(
    run: Run, launcher: Launcher, hosts: tuple[str, ...] = (), tell: Callable[[str], None] = lambda said: None
) -> RunRecord:
    """Make one run and write its record, complete or failed.

    hosts: as `Launcher.hosts` returns them.
    tell: is told now and then what was measured so far.
    Raises ConfigError where the image or an mpirun is missing, OSError where the folder or the record cannot be
    written, and Interrupted after the record of the interruption is written.
    """
    config = run.point.config
    setting = Setting(placed(hosts, run), launcher.mpirun(config), images.digest(config.container))
    folder, generation = paths.new_run(run.home, run.repeat)
    protocol.write_assignment(folder, assignment(run, launcher))
    job = make_job(run.point, folder.resolve(), setting)
    outcome, interruption = JobRun(job, launcher, config.launcher.timeout_s, live.teller(folder, config, tell)).run()
    with interrupts_deferred() as came:
        left = parts.read(job.folder)
        record = assemble(left, identity(run, generation), ending(config, launcher, job, outcome, left))
        write_atomically(folder / RECORD_NAME, dumps(record))
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
    taken = hosts[: config.nodes]
    first = run.repeat % len(taken) if taken and config.rounds else 0
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


def time_left(runs: Sequence[Run], known: Known) -> str:
    """How long the runs will take, in words."""
    expected = [expected_s(run, known) for run in runs]
    seconds = sum(s for s in expected if s is not None)
    if runs and expected[0] is None:
        return "time left: known after the first point"
    return f"about {int(seconds // 60)} min {int(seconds % 60):02d} s left"


def _attempt(
    run: Run, launcher: Launcher, hosts: tuple[str, ...], tell: Callable[[str], None]
) -> tuple[RunRecord | None, str | None]:
    """Make one run: its record, if it has one, and what failed. Raises Interrupted."""
    try:
        record = measure(run, launcher, hosts, tell)
    except OSError as error:
        return None, f"{run.label}: {error.filename or run.home}: {error.strerror}"
    return record, describe_failure(record) if record.status == "failed" else None


def _progress(console: Console, runs: int) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TextColumn("{task.fields[left]}"), console=console, disable=not runs)


def _say(progress: Progress, bar: TaskID, label: str, said: str) -> None:
    """Show what a run has measured so far."""
    progress.update(bar, description=f"{label} {escape(said)}")


def run_all(planned: Sequence[Run], launcher: Launcher, force: bool, console: Console) -> list[str]:
    """Make the runs that are not measured yet, or all with `force`; returns the labels of those that failed.

    Raises Interrupted, and ConfigError as `measure` does.
    """
    to_do, known = remaining(planned, force)
    if skipped := len(planned) - len(to_do):
        console.print(f"{skipped} of {len(planned)} runs are measured already; FORCE=1 measures again")
    to_do += [more for run in _last_of_curves(planned, to_do) if (more := precision.next_launch(run))]
    hosts = launcher.hosts(to_do[0].point.config) if to_do else ()
    failed = []
    with _progress(console, len(to_do)) as progress:
        bar = progress.add_task("", total=len(to_do), left="")
        for number, run in enumerate(to_do):  # which grows where a curve needs another launch
            progress.update(bar, description=run.label, left=time_left(to_do[number:], known))
            if force:  # from the beginning
                shutil.rmtree(paths.checkpoints(paths.run_folder(run.home, run.repeat, 1)), ignore_errors=True)
            said = functools.partial(_say, progress, bar, run.label)
            record, problem = _attempt(run, launcher, hosts, said)
            if record:
                known.setdefault(run.point.name, []).append(record.job_s)
            if problem:
                failed.append(run.label)
                console.print(f"[red]error:[/red] {escape(problem)}", highlight=False)
            elif record and not console.is_terminal:
                left = time_left(to_do[number + 1 :], known)
                console.print(escape(f"[{number + 1}/{len(to_do)}] {run.label}: {record.job_s:.0f} s; {left}"))
            if not problem and _last_of_curves([run], to_do[number + 1 :]):
                if more := precision.next_launch(run):
                    to_do.append(more)
                    progress.update(bar, total=len(to_do))
                else:
                    console.print(escape(precision.result(run)), highlight=False)
            progress.advance(bar)
        progress.update(bar, description="done", left="")
    return failed


def _last_of_curves(runs: Sequence[Run], to_do: Sequence[Run]) -> list[Run]:
    """The last of these runs for each curve that is measured in rounds, where none of it is still to be made."""
    waiting = {run.home for run in to_do}
    return list({run.home: run for run in runs if run.point.config.rounds and run.home not in waiting}.values())


def records_of(runs: Sequence[Run]) -> list[Path]:
    """All records in the folders of the runs, of every generation."""
    homes = {run.home for run in runs}
    return sorted(path for home in homes for path in home.glob(f"*/{RECORD_NAME}"))
