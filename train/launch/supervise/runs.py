"""The runs of an experiment: launch each, write its record, go on after one that failed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from train.config.identity import config_hash, resolved
from train.config.schema import REMOTE
from train.launch.emulate import cgroups, networks
from train.launch.emulate.enforcement import Hold
from train.launch.plan import preflight
from train.launch.plan.job import Job, Outcome, make_job
from train.launch.plan.points import Point
from train.launch.start import images, mpirun
from train.launch.supervise import failure
from train.launch.supervise.execute import Interrupted, interrupts_noted, run
from train.rank import placement
from train.record import parts, paths
from train.record.record import RECORD_NAME, RunRecord, dumps, write_atomically

_LOG_LINES = 12


@dataclass(frozen=True)
class Run:
    """One launch that is to be made, or that was made before."""

    point: Point
    repeat: int

    @property
    def home(self) -> Path:
        """The folder of this point in this configuration."""
        config = self.point.config
        return paths.point_folder(Path(config.results), config.experiment, self.point.name, config_hash(config))

    @property
    def label(self) -> str:
        """How the screen names it."""
        return f"{self.point.name} r{self.repeat}"


def make_record(run: Run, job: Job, outcome: Outcome, generation: int) -> RunRecord:
    """Put the parts of the ranks, and what the launcher saw, into one record."""
    config = run.point.config
    left = parts.read(job.folder)
    return parts.assemble(
        left,
        failure=failure.find(job, outcome, left, config.launcher.timeout_s),
        identity={
            "experiment": config.experiment,
            "point": run.point.name,
            "repeat": run.repeat,
            "generation": generation,
            "config_hash": config_hash(config),
            "config": resolved(config),
            "command": ["python", "-m", "train", *run.point.overrides],
        },
        started_at=datetime.fromtimestamp(outcome.started_at, UTC).isoformat(timespec="seconds"),
        job_s=outcome.job_s,
        ended_at=outcome.job_s,
        cores_shared=placement.shared_on_a_host((part.rank.host, part.rank.cores) for part in left)
        if config.launcher.name in REMOTE
        else preflight.shares_cores(config, placement.usable_cores()),
        node_quotas=outcome.node_quotas,
    )


@dataclass(frozen=True)
class Where:
    """What the runs of an experiment are made on."""

    hosts: tuple[str, ...] = ()  # where nodes are hosts of their own
    means: cgroups.Means | None = None  # of holding nodes of this machine to quotas, where there are any


def launch(job: Job, timeout_s: int, means: cgroups.Means | None) -> tuple[Outcome, Interrupted | None]:
    """Run the job, on nodes that are held to their quotas and have networks of their own, where it asks for that."""
    hold = (
        Hold(job, means, f"{networks.own_name()}-{job.folder.name}", job.cpus_per_node)
        if means and job.cpus_per_node
        else None
    )
    if job.networks is None:
        return run(job, timeout_s, hold)
    try:
        networks.make(job.networks, len(job.hosts))
        return run(job, timeout_s, hold)
    finally:
        with interrupts_noted():
            networks.remove(job.networks)


def measure(planned: Run, where: Where) -> RunRecord:
    """Launch one run and write its record, complete or failed.

    Raises OSError where the folder or the record cannot be written, and Interrupted after the record of the
    interruption is written.
    """
    folder, generation = paths.new_run(planned.home, planned.repeat)
    config = planned.point.config
    job = make_job(
        planned.point,
        folder.resolve(),
        images.digest(config.container),
        mpirun=mpirun.implementation(config),
        networks=networks.own_name(),
        prefix=where.means.prefix if where.means else (),
        hosts=where.hosts,
    )
    outcome, interruption = launch(job, config.launcher.timeout_s, where.means)
    with interrupts_noted() as came:
        record = make_record(planned, job, outcome, generation)
        write_atomically(folder / RECORD_NAME, dumps(record))
    if came and not interruption:
        interruption = Interrupted(came[0])
    if interruption:
        raise interruption
    if record.status == "complete":
        shutil.rmtree(paths.checkpoints(folder), ignore_errors=True)
    return record


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


def expected_s(planned: Run, known: dict[str, list[float]]) -> float | None:
    """Seconds that a run will take: the mean of its point's earlier runs, else of all points'; None where none ran."""
    times = known.get(planned.point.name) or [s for times in known.values() for s in times]
    return sum(times) / len(times) if times else None


def time_left(runs: Sequence[Run], known: dict[str, list[float]]) -> str:
    """How long the runs will take, in words."""
    expected = [expected_s(run, known) for run in runs]
    seconds = sum(s for s in expected if s is not None)
    if runs and expected[0] is None:
        return "time left: known after the first point"
    return f"about {int(seconds // 60)} min {int(seconds % 60):02d} s left"


def run_all(planned: list[Run], where: Where, force: bool, console: Console) -> list[str]:
    """Measure what is not measured, and say what failed. Raises Interrupted."""
    known: dict[str, list[float]] = {}
    todo, failed = [], []
    for item in planned:
        done = None if force else paths.completed(item.home, item.repeat)
        if done is None:
            todo.append(item)
        else:
            known.setdefault(item.point.name, []).append(done.job_s)
    if len(todo) < len(planned):
        console.print(f"{len(planned) - len(todo)} of {len(planned)} runs are measured already; FORCE=1 measures again")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=console, disable=not todo) as progress:
        bar = progress.add_task("", total=len(todo), left="")
        for number, item in enumerate(todo):
            progress.update(bar, description=item.label, left=time_left(todo[number:], known))
            if force:  # from the beginning
                shutil.rmtree(paths.checkpoints(paths.run_folder(item.home, item.repeat, 1)), ignore_errors=True)
            try:
                record = measure(item, where)
            except OSError as error:
                failed.append(f"{item.label}: {error.filename}: {error.strerror}")
                console.print(f"[red]error:[/red] {escape(failed[-1])}", highlight=False)
                progress.advance(bar)
                continue
            known.setdefault(item.point.name, []).append(record.job_s)
            if record.status == "failed":
                failed.append(item.label)
                console.print(f"[red]error:[/red] {escape(describe_failure(record))}", highlight=False)
            elif not console.is_terminal:
                left = time_left(todo[number + 1 :], known)
                console.print(escape(f"[{number + 1}/{len(todo)}] {item.label}: {record.job_s:.0f} s; {left}"))
            progress.advance(bar)
        progress.update(bar, description="done", left="")
    return failed


def records_of(planned: Sequence[Run]) -> list[Path]:
    """All records below the folders of the runs, of every generation."""
    homes = {item.home for item in planned}
    return sorted(path for home in homes for path in home.glob(f"*/{RECORD_NAME}"))
