"""The runs of an experiment: make each, continue after one that failed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from train.launch.launchers.base import Launcher
from train.launch.plan.queue import Queue
from train.launch.plan.runs import Run
from train.launch.supervise.one_run import Watch, attempt
from train.launch.supervise.screen import Screen
from train.record import paths
from train.record.record import RECORD_NAME


def run_all(
    planned: Sequence[Run], launcher: Launcher, force: bool, console: Console, watches: Sequence[Watch] = ()
) -> list[str]:
    """Make the runs that are not measured yet, or all with `force`; return the labels of those that failed.

    watches: as for `one_run.measure`, of every run.
    Raises Interrupted, and ConfigError as `one_run.measure` does.
    """
    queue = Queue(planned, force)
    hosts = launcher.hosts(queue.runs[0].point.config) if queue.runs else ()
    screen = Screen(console, queue)
    with screen.shown():
        for run in queue:
            watch = screen.begin(run)
            if why := queue.why_not(run):
                screen.skip(run, why)
                continue
            if force:
                remove_checkpoints(run)
            record, problem = attempt(run, launcher, hosts, [watch, *watches], queue.rounds_end_s(run))
            queue.add(run, record, problem)
            screen.end(run, record, problem)
    return queue.failed


def remove_checkpoints(run: Run) -> None:
    """Remove what earlier generations of a run have left, so that it begins from the beginning."""
    shutil.rmtree(paths.checkpoints(paths.run_folder(run.home, run.repeat, 1)), ignore_errors=True)


def records_of(runs: Sequence[Run]) -> list[Path]:
    """All records in the folders of the runs, of every generation."""
    homes = {run.home for run in runs}
    return sorted(path for home in homes for path in home.glob(f"*/{RECORD_NAME}"))
