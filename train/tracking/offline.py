"""Offline runs of Weights & Biases: written from finished records, and uploaded later.

Records are mirrored after all points of an experiment have been measured, never while a job runs. That also completes
runs that a live run (live.py) could not end. Beside live runs, only the upload needs a W&B server.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from train.config.schema import Tracking
from train.record.record import find, load
from train.tracking import wandb_runs

# Without a network wandb would retry for minutes. The user's environment overrides these, and where its log goes, by
# default to wandb/ in the working folder.
_UPLOAD_LIMITS = {
    "WANDB_X_GRAPHQL_RETRY_MAX": "3",
    "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "4",
    "WANDB_X_FILE_STREAM_RETRY_MAX": "5",
    "WANDB_X_FILE_TRANSFER_RETRY_MAX": "5",
}


def mirror_records(record_paths: Sequence[Path], tracking: Tracking) -> list[str]:
    """Write an offline run of each record that has no complete one yet into `results/<experiment>/wandb/`.

    Returns a line for each that failed. That is not a failed measurement: the others are still made, no record is
    changed, and the next call tries again. To be called after all points are measured, from one process.
    """
    waiting = [path.resolve() for path in record_paths if not wandb_runs.is_complete(path.parent)]
    if not waiting or tracking.name == "none":
        return []
    failures = []
    with wandb_runs.wandb_module(wandb_runs.home(waiting[0].parent)) as wandb:
        for path in waiting:
            try:
                record = load(path)
                asked = wandb_runs.run_name(record, path.parent, tracking)
                run = wandb_runs.begin(wandb, asked, path.parent, tracking, mode="offline")
                wandb_runs.complete(wandb, run, record, path, wandb_runs.record_rows(record))
            except Exception as error:  # whatever W&B raises, the other records are mirrored
                failures.append(f"{path}: not mirrored to W&B: {error}")
    return failures


class UploadError(Exception):
    """Some runs were not uploaded; the message says how many, where they are and what to do."""


def upload_runs(results: Path) -> int:
    """Upload every mirror below the folder `results` that is not uploaded yet; returns how many.

    Raises UploadError if a mirror was not uploaded.
    """
    waiting = [file for path in find(results) if (file := wandb_runs.run_file(path)) and not wandb_runs.is_synced(file)]
    if not waiting:
        return 0
    command = [sys.executable, "-m", "wandb", "sync", "-n", "16", *map(str, waiting)]
    environment = {"WANDB_ERROR_REPORTING": "false", "WANDB_DIR": str(results), **_UPLOAD_LIMITS, **os.environ}
    # Without a terminal wandb reports a missing API key; with one it would wait for input.
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    # wandb's exit status is 0 also without a network.
    left = [file for file in waiting if not wandb_runs.is_synced(file)]
    if left:
        raise UploadError(
            f"{len(left)} of {len(waiting)} W&B runs were not uploaded (wandb says why above); nothing is lost, "
            f"the first is in {left[0].parent}. Log in with `wandb login` or set WANDB_API_KEY, check that this "
            f"machine reaches {environment.get('WANDB_BASE_URL', 'the W&B server')}, and run `make wandb-sync` again"
        )
    return len(waiting)
