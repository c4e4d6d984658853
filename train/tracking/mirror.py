"""Mirror finished run records to Weights & Biases: each record that has no complete run gets one, written offline.

Records are mirrored after all points of an experiment have been measured, never while a job runs. That makes good too
what a live run (live.py) could not end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from train.config.schema import Tracking
from train.record.record import load
from train.tracking import folders, rows, wandb_runs


def mirror(record_paths: Sequence[Path], tracking: Tracking) -> list[str]:
    """Mirror each record that has no complete run yet; returns a line for each that failed.

    A mirror that fails is not a failed measurement: the others are still made, no record is changed, and the next call
    tries again. To be called after all points are measured, from one process.
    """
    return TRACKERS[tracking.name](record_paths, tracking)


def mirror_to_wandb(record_paths: Sequence[Path], tracking: Tracking) -> list[str]:
    """Write one offline W&B run per record into `results/<experiment>/wandb/`. No network, no login; see `mirror`."""
    waiting = [path.resolve() for path in record_paths if not folders.is_complete(path.parent)]
    if not waiting:
        return []
    failures = []
    with wandb_runs.module(folders.home(waiting[0].parent)) as wandb:
        for path in waiting:
            try:
                record = load(path)
                asked = wandb_runs.named(record, path.parent, tracking)
                run = wandb_runs.begin(wandb, asked, path.parent, tracking, mode="offline")
                wandb_runs.complete(wandb, run, record, path, rows.of_record(record))
            except Exception as error:  # whatever W&B raises, the other records are mirrored
                failures.append(f"{path}: not mirrored to W&B: {error}")
    return failures


def mirror_nowhere(record_paths: Sequence[Path], tracking: Tracking) -> list[str]:
    """Do nothing."""
    return []


TRACKERS: dict[str, Callable[[Sequence[Path], Tracking], list[str]]] = {
    "wandb": mirror_to_wandb,
    "none": mirror_nowhere,
}
