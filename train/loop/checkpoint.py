"""Checkpoints: after an epoch, all that training needs to resume from there.

They are kept beside the run folder (`train.record.paths.checkpoints`), because the next launch of the same run has its
own; the launcher removes them when the run is complete. Rank 0 writes and reads them; the others get all by broadcast.
"""

import os
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import tensorflow as tf

from train.loop.epochs import Progress

_KEPT = 2
_HEAD = "head"
_UNREADABLE = (
    OSError,
    EOFError,
    KeyError,
    ValueError,
    RuntimeError,
    zlib.error,
    zipfile.BadZipFile,
    msgspec.MsgspecError,
)


@dataclass(frozen=True)
class _Head:
    progress: Progress
    fingerprint: str  # of the samples it was trained on


_decoder = msgspec.json.Decoder(_Head)


def save(folder: Path, progress: Progress, variables: Sequence[tf.Variable], fingerprint: str) -> None:
    """Write the checkpoint of the last epoch that is done, whole or not at all, and remove all but the newest two.

    folder: of this run's checkpoints; created where it is missing.
    variables: of model and optimizer, in an order that is the same in every launch.
    fingerprint: of the samples (`Data.fingerprint`).
    Raises OSError naming the file.
    """
    path = folder / f"epoch-{len(progress.epochs):05d}.npz"
    temporary = path.with_suffix(".writing")
    head = np.frombuffer(msgspec.json.encode(_Head(progress, fingerprint)), np.uint8)
    try:
        folder.mkdir(exist_ok=True)
        with temporary.open("wb") as file:
            arrays: dict[str, Any] = {_HEAD: head, **{str(n): one.numpy() for n, one in enumerate(variables)}}
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        for older in _newest_first(folder)[_KEPT:]:
            older.unlink()
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; the checkpoint was not written", str(path)) from error


def restore(folder: Path, variables: Sequence[tf.Variable], fingerprint: str) -> tuple[Progress, list[str]]:
    """Return the progress of the newest valid checkpoint, to which `variables` are set, and notes for the record.

    Without a checkpoint no progress, and `variables` stay as they are. Raises OSError where the folder cannot be read.
    """
    notes = []
    for path in _newest_first(folder):
        try:
            head, values = _read(path, len(variables))
        except _UNREADABLE as error:
            notes.append(f"{path}: damaged, not used: {error}")
            continue
        if head.fingerprint != fingerprint:
            notes.append(f"{path}: of a run on other samples, not used")
            continue
        shapes = [value.shape for value in values]
        if shapes != [tuple(variable.shape) for variable in variables]:
            notes.append(f"{path}: of another model or optimizer, not used")
            continue
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        notes.append(
            f"an earlier launch was interrupted: this one resumed after its epoch {len(head.progress.epochs)}; "
            "phases, step times and job time are of this launch only"
        )
        return head.progress, notes
    return Progress(), notes


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch-*.npz"), reverse=True)


def _read(path: Path, count: int) -> tuple[_Head, list[np.ndarray]]:
    """Return everything in a checkpoint. Raises one of _UNREADABLE where it is damaged: the archive has checksums."""
    with np.load(path, allow_pickle=False) as archive:
        head = _decoder.decode(archive[_HEAD].tobytes())
        return head, [archive[str(n)] for n in range(count)]
