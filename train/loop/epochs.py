"""Training over whole epochs, with accuracy on training and validation data after each, and checkpoints between them.

A checkpoint has everything that training needs to resume after an epoch. It is beside the run folder
(`record.run_files.checkpoints`), because the next launch of the same run has another folder. The launcher removes it
when the run is complete. Rank 0 writes and reads it; the others get its content by broadcast.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import msgspec
import numpy as np

from record import run_files as files
from record.schema import CoreUse, Epoch
from train.loop import NotFinite
from train.loop.timed_steps import finite_losses, require_finite, run_steps, time_window
from train.predictions import Predictions
from train.rank import counters, environment
from train.task import Context

if TYPE_CHECKING:
    import tensorflow as tf

    from train.loop.learner import Learner

_MAX_CHECKPOINTS = 2
_HEAD = "head"
# The errors of NumPy, its archive and msgspec for a damaged file.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, RuntimeError, zlib.error, BadZipFile, msgspec.MsgspecError)


@dataclass(frozen=True)
class Progress:
    """The progress of training after whole epochs: with the variables, everything that ranks need to resume."""

    epochs: tuple[Epoch, ...] = ()
    losses: tuple[float, ...] = ()  # of the timed steps so far, mean over ranks

    @property
    def steps(self) -> int:
        """Return the steps since the beginning of training."""
        return sum(epoch.steps for epoch in self.epochs)


Save = Callable[[Progress], None]


def train_epochs(context: Context, learner: Learner, progress: Progress, save: Save) -> Predictions | None:
    """Return the model's answers after the last epoch; None where `progress` has all epochs.

    The very first step (tracing) is a separate phase; the phase `timed` is the sum of the epochs between their
    barriers. Epochs and losses are recorded at each epoch's end.

    progress: where to resume.
    save: called with the progress after each epoch.
    Raises NotFinite, after the finite losses before it are recorded.
    """
    uses: list[CoreUse | None] = []
    predictions: Predictions | None = None
    record_progress(context, progress)
    while len(progress.epochs) < context.config.measure.epochs:
        if len(progress.epochs) == context.config.measure.epochs - 1:
            predictions = Predictions.empty(learner.model.output_shape[-1], learner.data.class_names)
        progress = _train_epoch(context, learner, progress, uses, predictions)
        record_progress(context, progress)
        save(progress)
    return predictions


def record_progress(context: Context, progress: Progress) -> None:
    """Add to the part of rank 0 the epochs and losses that it does not have yet.

    So a rank that resumes from a checkpoint gets the earlier ones.
    """
    if context.distribution.rank == 0:
        part = context.part.part
        epochs, losses = progress.epochs[len(part.epochs) :], progress.losses[len(part.losses) :]
        context.part.add(epochs=list(epochs), losses=list(losses))


def _train_epoch(
    context: Context,
    learner: Learner,
    progress: Progress,
    uses: list[CoreUse | None],
    predictions: Predictions | None,
) -> Progress:
    """Train and evaluate the next epoch; return the progress after it. Raises NotFinite.

    uses: of the cores, in the timed steps of each epoch of this launch; takes those of this one.
    predictions: takes the model's answers.
    """
    distribution, clock, data = context.distribution, context.clock, learner.data
    batches, count, untimed = data.training(len(progress.epochs)), data.steps_per_epoch, 0 if uses else 1
    if untimed:
        clock.enter("first_step")
    first = run_steps(learner.train_step, batches, untimed)
    timed = time_window(context, distribution, learner.train_step, batches, count - untimed, clock)
    uses.append(timed.cores)
    context.part.add(step_times_s=timed.steps.times_s, timed_cores=counters.total(uses))
    steps = first + timed.steps
    losses = finite_losses(steps.losses, distribution)
    reached = replace(progress, losses=(*progress.losses, *losses[0 if progress.epochs else untimed :]))
    if len(losses) < count:
        record_progress(context, reached)
    require_finite(losses, count, before=progress.steps)
    hits = distribution.sum(np.array([sum(float(value) for value in steps.correct)], np.float64))[0]
    validation = learner.evaluate(predictions)
    if validation and not np.isfinite(validation.loss):
        raise NotFinite(progress.steps + count)  # the last update spoilt the weights
    epoch = Epoch(
        epoch=len(progress.epochs) + 1,
        steps=count,
        duration_s=sum(first.times_s) + timed.window_s,
        train_loss=sum(losses) / count,
        train_accuracy=float(hits) / (count * data.step_batch * distribution.size),
        validation_loss=validation.loss if validation else None,
        validation_accuracy=validation.accuracy if validation else None,
        validation_mean_absolute_error=(
            validation.mean_absolute_error if validation and context.config.dataset.ordered else None
        ),
    )
    return replace(reached, epochs=(*progress.epochs, epoch))


@dataclass(frozen=True)
class _Head:
    progress: Progress
    fingerprint: str  # of the samples it was trained on
    code: str = ""  # as `_code`


def _code() -> str:
    """Return a digest of the kit's files and of the versions of packages: a record is of one code."""
    return files.source_digest({**files.source_files(), **environment.versions()})


_decoder = msgspec.json.Decoder(_Head)


def save_checkpoint(folder: Path, progress: Progress, variables: Sequence[tf.Variable], fingerprint: str) -> None:
    """Write the checkpoint of the last complete epoch, whole or not at all, and remove all but the newest two.

    folder: of this run's checkpoints; created if missing.
    variables: of model and optimizer, in an order that is the same in every launch.
    fingerprint: of the samples (`Data.fingerprint`).
    Raises OSError naming the file.
    """
    path = folder / f"epoch-{len(progress.epochs):05d}.npz"
    head = np.frombuffer(msgspec.json.encode(_Head(progress, fingerprint, _code())), np.uint8)
    arrays: dict[str, Any] = {_HEAD: head, **{str(n): variable.numpy() for n, variable in enumerate(variables)}}
    with files.whole_file(path, replace=True) as file:
        np.savez(file, **arrays)
    for older in _newest_first(folder)[_MAX_CHECKPOINTS:]:
        older.unlink()


def restore_checkpoint(folder: Path, variables: Sequence[tf.Variable], fingerprint: str) -> tuple[Progress, list[str]]:
    """Return the progress of the newest valid checkpoint, to which `variables` are set, and notes for the record.

    Without a checkpoint there is no progress, and `variables` do not change. Raises OSError if it cannot be read.
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
        if head.code != _code():
            notes.append(f"{path}: of other code of the kit or other versions of packages, not used")
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
    return sorted(folder.glob(f"epoch-{'[0-9]' * 5}.npz"), reverse=True)


def _read(path: Path, count: int) -> tuple[_Head, list[np.ndarray]]:
    """Return everything in a checkpoint. Raises one of _UNREADABLE if it is damaged: the archive has checksums."""
    with np.load(path, allow_pickle=False) as archive:
        head = _decoder.decode(archive[_HEAD].tobytes())
        return head, [archive[str(n)] for n in range(count)]
