"""The state of each run of the experiments: done, running, queued, failed, or to do; and how far those that run are.

python -m train.launch.status [results]
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from train.config.checks import ConfigError
from train.launch import batch
from train.launch.batch import Submission
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import RUNNING, BatchLauncher
from train.launch.screen import Terminal
from train.launch.supervise import presence
from train.record import files, progress, protocol, record
from train.record.printable import printable_output

STATES = ("done", "running", "queued", "failed", "to do")


def state_of(home: Path, repeat: int, job: str | None) -> str:
    """Return the state of one repeat of a point.

    A run is in progress if its launcher says so, in any terminal, or if its batch job runs and it has begun.

    job: the state of the batch job that runs this point, None if it has none.
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


def find_jobs(results: Path) -> tuple[list[Submission], dict[str, str]]:
    """Return the submitted jobs of these results, and the states of those still in a queue."""
    submitted_jobs: list[Submission] = []
    queue: dict[str, str] = {}
    for launcher in LAUNCHERS.values():
        if isinstance(launcher, BatchLauncher) and (jobs := batch.read(results, launcher.name)):
            submitted_jobs += jobs
            try:
                queue |= launcher.queue()
            except ConfigError as error:
                print(f"warning: {error}; the state of its jobs is not known", file=sys.stderr)
    return submitted_jobs, queue


def counts(results: Path, submitted: Sequence[Submission], queue: Mapping[str, str]) -> dict[Path, Counter[str]]:
    """Return how many runs of each point are in each state. submitted, queue: from `find_jobs`."""
    in_queue = batch.states_of_points(submitted, queue)
    planned = {home: job.repeats for job in submitted for home in job.homes}
    by_point = {}
    for home in sorted({*homes(results), *map(Path, planned)}):
        repeats = max([planned.get(str(home), 0), *(number + 1 for number in files.repeats(home))])
        by_point[home] = Counter(state_of(home, repeat, in_queue.get(home)) for repeat in range(repeats))
    return by_point


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
    folders = sorted(folder for home in homes for folder in home.glob("r*") if presence.is_on(folder))
    return [
        f"{folder.parts[-4]} {folder.parts[-3]} {folder.name}: {_progress(folder, now)}"
        for folder in folders
        if not (folder / record.RECORD_NAME).exists()
    ]


def _progress(folder: Path, now: float) -> str:
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
    submitted, queue = find_jobs(results)
    by_point = counts(results, submitted, queue)
    if not by_point:
        print(f"{results}: nothing was measured or submitted yet")
        return 0
    console = Terminal()
    console.print(table(by_point))
    for line in under_way(by_point, time.time()):
        console.print(line, highlight=False, markup=False)
    for job in submitted:
        if job.job_id in queue:
            console.print(f"job {job.job_id}: {queue[job.job_id]}, {job.nodes} nodes", highlight=False)
    return 0


if __name__ == "__main__":
    with printable_output():
        sys.exit(main())
