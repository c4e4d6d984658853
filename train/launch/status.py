"""The state of each run of the experiments: done, running, queued, failed, or to do; and how far those that run are.

python -m train.launch.status [results]
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.table import Table

from train.config.checks import ConfigError
from train.launch import batch
from train.launch.batch import Submitted
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import RUNNING, BatchLauncher
from train.launch.screen import Terminal
from train.launch.supervise import presence
from train.record import files, progress, protocol, record
from train.record.printable import printable_output

STATES = ("done", "running", "queued", "failed", "to do")


@dataclass(frozen=True)
class Jobs:
    """The batch jobs of the experiments, and the queues that they are in."""

    submitted: Sequence[Submitted]
    queue: Mapping[str, str]  # job id -> state, of those that a batch system still has


def state_of(home: Path, repeat: int, job: str | None) -> str:
    """Return the state of one repeat of a point.

    A run is in progress where its launcher says so, in any terminal, or where its batch job runs and it has begun.

    job: the state of the batch job that runs this point, None where it has none.
    """
    if files.completed(home, repeat):
        return "done"
    last = files.generations(home, repeat)[-1:]
    if any(presence.is_on(files.run_folder(home, repeat, number)) for number in last):
        return "running"
    recorded = [(files.run_folder(home, repeat, number) / record.RECORD_NAME).exists() for number in last]
    if job == RUNNING:
        return "running" if recorded == [False] else "queued"
    if job:
        return "queued"
    return "failed" if last else "to do"


def homes(results: Path) -> list[Path]:
    """Return the folders of all points below `results` that have a run."""
    return sorted({path.parent for path in results.glob("*/*/*/r*") if path.is_dir()})


def repeats_of(home: Path, planned: Mapping[str, int]) -> int:
    """Return the number of repeats of a point: as a job planned them, or more where it has more."""
    return max([planned.get(str(home), 0), *(number + 1 for number in files.repeats(home))])


def find_jobs(results: Path) -> Jobs:
    """Return the jobs that every batch system was given for these results."""
    submitted_jobs: list[Submitted] = []
    queue: dict[str, str] = {}
    for launcher in LAUNCHERS.values():
        if isinstance(launcher, BatchLauncher) and (jobs := batch.read(results, launcher.name)):
            submitted_jobs += jobs
            try:
                queue |= launcher.queue()
            except ConfigError as error:
                print(f"warning: {error}; the state of its jobs is not known", file=sys.stderr)
    return Jobs(submitted_jobs, queue)


def counts(results: Path, jobs: Jobs) -> dict[Path, Counter[str]]:
    """Return how many runs of each point are in each state."""
    in_queue = batch.states_of_points(jobs.submitted, jobs.queue)
    planned = {home: job.repeats for job in jobs.submitted for home in job.homes}
    return {
        home: Counter(state_of(home, repeat, in_queue.get(home)) for repeat in range(repeats_of(home, planned)))
        for home in sorted({*homes(results), *map(Path, planned)})
    }


def table(by_point: Mapping[Path, Counter[str]]) -> Table:
    """Return a row for each point, and one for all."""
    rows = Table(box=None, header_style="bold")
    for head in ("experiment", "point", "configuration"):
        rows.add_column(head, no_wrap=True)
    for head in STATES:
        rows.add_column(head, justify="right")
    for home, states in by_point.items():
        rows.add_row(home.parts[-3], home.parts[-2], home.name, *(str(states[s] or "") for s in STATES))
    total = sum(by_point.values(), Counter())
    rows.add_row("", "all", "", *(str(total[s]) for s in STATES), style="bold")
    return rows


def under_way(homes: Iterable[Path], now: float) -> list[str]:
    """Return a line for each run in progress: how far it has come. now: seconds since the epoch."""
    folders = sorted(folder for home in homes for folder in home.glob("r*") if in_progress(folder))
    return [f"{folder.parts[-4]} {folder.parts[-3]} {folder.name}: {_seen(folder, now)}" for folder in folders]


def in_progress(folder: Path) -> bool:
    """Return whether the run in a folder is in progress."""
    return presence.is_on(folder) and not (folder / record.RECORD_NAME).exists()


def _seen(folder: Path, now: float) -> str:
    try:
        state = progress.run_progress(progress.Follower(folder), protocol.read_assignment(folder).config)
    except (OSError, msgspec.DecodeError) as error:
        return f"its files cannot be read: {error}"
    return progress.progress_line(state, now) if state else "starting"


def main() -> int:
    """Print the table, the runs in progress, and the jobs in the queue."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.status", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"))
    results = parser.parse_args().results
    jobs = find_jobs(results)
    by_point = counts(results, jobs)
    if not by_point:
        print(f"{results}: nothing was measured or submitted yet")
        return 0
    console = Terminal(soft_wrap=True)
    console.print(table(by_point))
    for line in under_way(by_point, time.time()):
        console.print(line, highlight=False, markup=False)
    for job in jobs.submitted:
        if job.job_id in jobs.queue:
            console.print(f"job {job.job_id}: {jobs.queue[job.job_id]}, {job.nodes} nodes", highlight=False)
    return 0


if __name__ == "__main__":
    with printable_output():
        sys.exit(main())
