"""Where W&B's runs are kept, and how a record and its run are told to belong together.

`results/<experiment>/wandb/` has the runs of an experiment, one folder each, whose name ends with the run's ID. Beside
a record, `wandb-run-id` says that its run is complete; `wandb-live-id` is the ID of the run that was begun while the
run was in progress.
"""

from __future__ import annotations

import re
import shutil
import uuid
from pathlib import Path

from train.record import paths
from train.record.record import RECORD_NAME, RunRecord

MARKER_NAME = "wandb-run-id"
LIVE_NAME = "wandb-live-id"


def home(run_folder: Path) -> Path:
    """Return the folder of all W&B runs of an experiment, beside <point>/<hash8>/r<repeat>; an absolute path."""
    return run_folder.resolve().parents[2] / "wandb"


def run_id(record: RunRecord, run_folder: Path) -> str:
    """Return the ID of a record's run: the same at each attempt, so that a record never has two."""
    live = run_folder / LIVE_NAME
    return live.read_text() if live.exists() else record.sha256[:16]


def begin_live(run_folder: Path) -> str:
    """Return the ID of the run of a launch that begins now, kept beside it. Raises OSError.

    A launch before it of the same repeat that was cut off, and left no record, leaves it its ID: the run that was begun
    for it gives way to this one, also on a server.
    """
    repeat = int(re.match(r"r(\d+)", run_folder.name)[1])  # type: ignore[index]
    before = [paths.run_folder(run_folder.parent, repeat, n) for n in paths.generations(run_folder.parent, repeat)]
    cut_off = [one for one in before if one.name != run_folder.name and not (one / RECORD_NAME).exists()]
    name = uuid.uuid4().hex[:16]
    for one in cut_off:
        if (one / LIVE_NAME).exists():
            name = (one / LIVE_NAME).read_text()
            (one / LIVE_NAME).unlink()
    (run_folder / LIVE_NAME).write_text(name)
    return name


def remove_runs(run_folder: Path, name: str) -> None:
    """Remove what there is of the run with this ID."""
    for begun in home(run_folder).glob(f"*-{name}*"):
        shutil.rmtree(begun, ignore_errors=True)


def mark_complete(run_folder: Path, name: str) -> None:
    """Say that the run of the record in this folder is complete. Raises OSError."""
    temporary = run_folder / f".{MARKER_NAME}"
    temporary.write_text(name)
    temporary.replace(run_folder / MARKER_NAME)


def is_complete(run_folder: Path) -> bool:
    """Return whether the record in this folder has a complete run."""
    return (run_folder / MARKER_NAME).exists()


def run_file(record_path: Path) -> Path | None:
    """Return the file of a record's complete run; None where it has none."""
    if not is_complete(record_path.parent):
        return None
    name = (record_path.parent / MARKER_NAME).read_text()
    return next(home(record_path.parent).glob(f"*-{name}/run-{name}.wandb"), None)


def synced_marker(run_file: Path) -> Path:
    """Return the file that says that a run was uploaded: as `wandb sync` writes it."""
    return run_file.with_suffix(".wandb.synced")


def is_synced(run_file: Path) -> bool:
    """Return whether a run was uploaded."""
    return synced_marker(run_file).exists()
