"""The state of each run of the experiments: done, running, queued, failed, or to do; and how far those that run are.

python -m train.launch.status [results]
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from common.printable import printable_output
from common.terminal import show
from record import ledger, progress, protocol
from record import run_files as files
from record import schema as record
from train.config.checks import ConfigError
from train.launch import batch
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import RUNNING, BatchLauncher, QueuedJob
from train.launch.screen import Terminal
from train.launch.supervise import presence

STATES = ("done", "running", "queued", "failed", "to do")


def state_of(runs: Sequence[Path], job: str | None) -> str:
    """Return the state of one repeat of a point, whose generations are in these folders, the newest last.

    A run is in progress if its launcher says so, in any terminal, or if its batch job runs and it has begun.

    job: the state of the batch job that runs this point, None if it has none.
    """
    if any(map(files.outcome, runs)):
        return "done"
    if any(map(presence.is_on, runs[-1:])):
        return "running"
    if job == RUNNING:
        return "running" if runs and not (runs[-1] / record.RECORD_NAME).exists() else "queued"
    if job:
        return "queued"
    return "failed" if runs else "to do"


def homes(results: Path) -> list[Path]:
    """Return the folders of all points below `results` that have a run."""
    return sorted({path.parent for path in results.glob("*/*/*/r*") if files.is_run(path.name) and path.is_dir()})


def find_jobs(results: Path) -> tuple[list[batch.Submission], dict[str, QueuedJob]]:
    """Return the submitted jobs of these results, and those still in a queue, by their ids."""
    submitted_jobs: list[batch.Submission] = []
    queue: dict[str, QueuedJob] = {}
    for launcher in LAUNCHERS.values():
        if isinstance(launcher, BatchLauncher) and (jobs := batch.read_submissions(results, launcher.name)):
            submitted_jobs += jobs
            try:
                queue |= launcher.queue()
            except ConfigError as error:
                show(f"warning: {error}; the state of its jobs is not known", file=sys.stderr)
    return submitted_jobs, queue


def state_counts(
    results: Path, submitted: Sequence[batch.Submission], queue: Mapping[str, QueuedJob]
) -> dict[Path, Counter[str]]:
    """Return how many runs of each point are in each state. submitted, queue: from `find_jobs`.

    A planned run counts until its job skips it, because an arm is slower or the time is over.
    """
    in_queue = batch.states_of_points(submitted, queue)
    planned: dict[Path, set[int]] = {}
    for home, repeats in ((Path(home), repeats) for job in submitted for home, repeats in job.runs.items()):
        planned.setdefault(home, set()).update(repeats)
    by_point = {}
    for home in sorted({*homes(results), *planned}):
        runs = files.runs(home)
        counted = runs.keys() | (planned.get(home, set()) - ledger.skipped(home))
        by_point[home] = Counter(state_of(runs.get(repeat, []), in_queue.get(home)) for repeat in counted)
    return by_point


def state_table(by_point: Mapping[Path, Counter[str]]) -> Table:
    """Return a row for each point, with its states in words, and one for all. Long names are folded.

    Points with the same name are told apart by the hash of their configuration.
    """
    rows = Table(box=None, header_style="bold", pad_edge=False)
    names = Counter(home.parent for home in by_point)
    for head in ("experiment", "point", "runs"):
        rows.add_column(head, overflow="fold", min_width=len("experiment"))
    for home, states in by_point.items():
        name = home.parent.name if names[home.parent] == 1 else f"{home.parent.name} {home.name}"
        rows.add_row(Text(home.parts[-3]), Text(name), in_words(states))
    rows.add_row("all", "", in_words(sum(by_point.values(), Counter())), style="bold")
    return rows


def in_words(states: Counter[str]) -> str:
    """Return the number of runs in each state as text: "3 done, 1 failed"."""
    return ", ".join(f"{states[state]} {state}" for state in STATES if states[state])


def under_way(homes: Iterable[Path], now: float) -> list[str]:
    """Return a line for each run in progress: how far it has come. now: seconds since the epoch."""
    every = (folder for home in homes for generations in files.runs(home).values() for folder in generations)
    folders = sorted(filter(presence.is_on, every))
    return [
        f"{folder.parts[-4]} {folder.parts[-3]} {folder.name}: {_progress(folder, now)}"
        for folder in folders
        if not (folder / record.RECORD_NAME).exists()
    ]


def _progress(folder: Path, now: float) -> str:
    try:
        state = progress.run_progress(progress.Follower(folder), protocol.read_assignment(folder).config)
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
        return f"its files cannot be read: {error}"
    return progress.progress_line(state, now) if state else "starting"


def main() -> int:
    """Print the table, the runs in progress, and the jobs in the queue."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.status", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"))
    results = parser.parse_args().results
    submitted, queue = find_jobs(results)
    by_point = state_counts(results, submitted, queue)
    if not by_point:
        show(f"{results}: nothing was measured or submitted yet")
        return 0
    Terminal().print(state_table(by_point))
    show(*under_way(by_point, time.time()))
    for job in submitted:
        if job.job_id in queue:
            queued = queue[job.job_id]
            reason = f" ({queued.reason})" if queued.reason else ""
            show(f"job {job.job_id}: {queued.state}{reason}, {job.nodes} nodes")
    return 0


if __name__ == "__main__":
    with printable_output():
        sys.exit(main())
