"""Run an experiment: expand it into points, launch each, go on after a failed one, resume what was interrupted.

python -m train.launch experiment=weak_scaling nodes=2 model=resnet50,vgg16
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from train import environment, folders, parts, placement, tracking
from train.config import config_hash, resolved
from train.launch import failure, images, links, preflight, quota
from train.launch.commands import command
from train.launch.hold import Hold
from train.launch.job import Job, Outcome, make_job
from train.launch.points import Point, expand
from train.launch.run import Interrupted, interrupts_ignored, interrupts_raise, run
from train.record import RECORD_NAME, RunRecord, dumps, write_atomically
from train.schema import ConfigError

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
        return folders.point_folder(Path(config.results), config.experiment, self.point.name, config_hash(config))

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
        cores_shared=preflight.shares_cores(config, placement.usable_cores()),
        node_quotas=outcome.node_quotas,
    )


def launch(job: Job, timeout_s: int, means: quota.Means | None) -> tuple[Outcome, Interrupted | None]:
    """Run the job, on nodes that are held to their quotas and have networks of their own, where it asks for that."""
    hold = (
        Hold(job, means, f"{links.own_name()}-{job.folder.name}", job.cpus_per_node)
        if means and job.cpus_per_node
        else None
    )
    if job.networks is None:
        return run(job, timeout_s, hold)
    try:
        links.make(job.networks, len(job.hosts), job.link_mbit_per_s)
        return run(job, timeout_s, hold)
    finally:
        with interrupts_ignored():
            links.remove(job.networks)


def measure(planned: Run, means: quota.Means | None) -> RunRecord:
    """Launch one run and write its record, complete or failed. means: of holding nodes to quotas, where there are any.

    Raises OSError where the folder or the record cannot be written, and Interrupted after the record of the
    interruption is written.
    """
    folder, generation = folders.new_run(planned.home, planned.repeat)
    config = planned.point.config
    prefix = means.prefix if means else ()
    job = make_job(planned.point, folder.resolve(), images.digest(config.container), links.own_name(), prefix)
    outcome, interruption = launch(job, config.launcher.timeout_s, means)
    record = make_record(planned, job, outcome, generation)
    write_atomically(folder / RECORD_NAME, dumps(record))
    if interruption:
        raise interruption
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


def run_all(planned: list[Run], means: quota.Means | None, force: bool, console: Console) -> list[str]:
    """Measure what is not measured, and say what failed. Raises Interrupted."""
    known: dict[str, list[float]] = {}
    todo, failed = [], []
    for item in planned:
        done = None if force else folders.completed(item.home, item.repeat)
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
            try:
                record = measure(item, means)
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


def show_plan(points: Sequence[Point], console: Console) -> None:
    """What will be run, as a table."""
    table = Table(box=None, header_style="bold")
    table.add_column("point", no_wrap=True)
    for head in ("ranks", "cores a node", "threads a rank", "batch a rank", "global batch", "steps"):
        table.add_column(head, justify="right")
    for point in points:
        config = point.config
        steps = f"{config.measure.epochs} epochs" if config.measure.epochs else str(config.measure.timed_steps)
        batches = (str(config.batch_per_rank), str(config.global_batch))
        if config.allreduce_sweep:
            steps, batches = f"{len(config.allreduce_sweep.sizes_bytes)} sizes", ("", "")
        numbers = (config.ranks, config.system.cpus_per_node or config.system.cores_per_node, config.threads_per_rank)
        table.add_row(point.name, *map(str, numbers), *batches, steps)
    console.print(table)
    launches = sum(point.config.measure.repeats for point in points)
    console.print(f"{len(points)} points, {launches} launches: every repeat is a launch of its own")


def mirror(planned: Sequence[Run], console: Console) -> None:
    """Mirror the records to tracking, after all measuring."""
    settings = planned[0].point.config.tracking
    for problem in tracking.mirror(records_of(planned), settings):
        console.print(f"[yellow]warning:[/yellow] {escape(problem)}", highlight=False)
    if settings.sync:
        try:
            tracking.sync(Path(planned[0].point.config.results))
        except tracking.SyncError as error:
            console.print(f"[yellow]warning:[/yellow] {escape(str(error))}", highlight=False)


def main() -> int:
    """Expand, check, run, mirror. The exit status is 0 only where every run of the experiment is complete."""
    parser = argparse.ArgumentParser(prog="python -m train.launch", description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="print the plan and the commands, start nothing")
    parser.add_argument("--force", action="store_true", help="measure again what is measured: adds, replaces nothing")
    parser.add_argument("overrides", nargs="*", help="experiment=weak_scaling nodes=2 model=vgg16,resnet50 ...")
    arguments = parser.parse_intermixed_args()
    console = Console(soft_wrap=True)
    available = placement.usable_cores()
    left_out: list[str] = []
    means = quota.find()
    no_quotas = means if isinstance(means, str) else None
    try:
        points = expand(arguments.overrides, len(available), left_out, no_quotas)
        preflight.check_gpus(points, environment.gpus())
        preflight.check_networks(points, links.missing())
        if not arguments.dry_run:
            for point in points:
                images.digest(point.config.container)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show_plan(points, console)
    for reason in left_out:
        console.print(f"[yellow]left out:[/yellow] {escape(reason)}", highlight=False)
    if told := preflight.emulation(points[0].config):
        console.print(told, highlight=False)
    for warning in preflight.warnings(points, environment.variables(), no_quotas):
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False)
    free_bytes = psutil.virtual_memory().available
    too_large = {point.name: why for point in points if (why := preflight.memory_shortage(point.config, free_bytes))}
    for name, why in too_large.items():
        console.print(f"[red]error:[/red] {name} is left out: {escape(why)}", highlight=False)
    points = [point for point in points if point.name not in too_large]
    # Repeats are the outer loop: arms and points interleave, so that a slow drift of the machine falls on all alike.
    most = max((point.config.measure.repeats for point in points), default=0)
    planned = [Run(p, repeat) for repeat in range(most) for p in points if repeat < p.config.measure.repeats]
    if arguments.dry_run:
        for point in points:
            print(shlex.join(command(make_job(point, Run(point, 0).home / "r0"))))
        return 0
    interruption = None
    failed: list[str] = []
    with interrupts_raise():
        try:
            failed = run_all(planned, means if isinstance(means, quota.Means) else None, arguments.force, console)
        except Interrupted as caught:
            interruption = caught
            console.print(f"interrupted by {caught}: what was measured is kept, the same command goes on from here")
    if planned:
        mirror(planned, console)
    if interruption:
        return 128 + interruption.signal
    if failed:
        console.print(f"[red]{len(failed)} of {len(planned)} runs failed:[/red] {', '.join(failed)}", highlight=False)
        console.print("The same command runs only these again.")
    return 1 if failed or too_large else 0


if __name__ == "__main__":
    sys.exit(main())
