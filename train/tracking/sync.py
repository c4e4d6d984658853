"""Upload the W&B runs that were written offline: the only part of the kit that needs a W&B server, beside live runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from train.record.record import find
from train.tracking import folders

# Without a network wandb would retry for minutes. The user's environment overrides these, and where its log goes, by
# default to wandb/ in the working folder.
_UPLOAD_LIMITS = {
    "WANDB_X_GRAPHQL_RETRY_MAX": "3",
    "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "4",
    "WANDB_X_FILE_STREAM_RETRY_MAX": "5",
    "WANDB_X_FILE_TRANSFER_RETRY_MAX": "5",
}


class SyncError(Exception):
    """Some runs were not uploaded; the message says how many, where they are and what to do."""


def sync(results: Path) -> int:
    """Upload every mirror below the folder `results` that is not uploaded yet; returns how many.

    Raises SyncError if a mirror was not uploaded.
    """
    waiting = [file for path in find(results) if (file := folders.run_file(path)) and not folders.is_synced(file)]
    if not waiting:
        return 0
    command = [sys.executable, "-m", "wandb", "sync", "-n", "16", *map(str, waiting)]
    environment = {"WANDB_ERROR_REPORTING": "false", "WANDB_DIR": str(results), **_UPLOAD_LIMITS, **os.environ}
    # Without a terminal wandb reports a missing API key; with one it would wait for input.
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    left = [file for file in waiting if not folders.is_synced(file)]  # wandb's exit status is 0 also without a network
    if left:
        raise SyncError(
            f"{len(left)} of {len(waiting)} W&B runs were not uploaded (wandb says why above); nothing is lost, "
            f"the first is in {left[0].parent}. Log in with `wandb login` or set WANDB_API_KEY, check that this "
            f"machine reaches {environment.get('WANDB_BASE_URL', 'the W&B server')}, and run `make wandb-sync` again"
        )
    return len(waiting)
