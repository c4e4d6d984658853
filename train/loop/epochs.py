"""Training over whole epochs, with accuracy on training and validation data after each, and checkpoints between them.

A checkpoint has everything that training needs to resume after an epoch. It is beside the run folder
(`record.run_files.checkpoints`), because the next launch of the same run has another folder. The launcher removes it
when the run is complete. Rank 0 writes and reads it; the others get its content by broadcast.
"""

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import msgspec
import numpy as np
import tensorflow as tf

from record import run_files as files
from record.schema import CoreUse, Epoch
from train.loop import NotFinite
from train.loop.learner import Learner
from train.loop.timed_steps import Batches, Steps, finite_losses, run_steps
from train.predictions import Predictions
from train.rank import counters, environment
from train.task import Context

_MAX_CHECKPOINTS = 2
_HEAD = "head"
# The errors of NumPy, its archive and msgspec for a damaged file.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, RuntimeError, zlib.error, BadZipFile, msgspec.MsgspecError)


@dataclass(frozen=True)
class Progress:
    """The progress of training over epochs: with the variables, everything that ranks need to resume.

    Sums are over the current epoch, and the same on every rank.
    """

    epochs: tuple[Epoch, ...] = ()  # complete ones
    losses: tuple[float, ...] = ()  # of the timed steps so far, mean over ranks
    steps: int = 0
    samples: int = 0  # of all ranks together
    loss_sum: float = 0.0  # over the steps, of the mean over ranks
    hits: float = 0.0  # of all ranks together
    duration_s: float = 0.0

    @property
    def steps_before(self) -> int:
        """Return the steps since the beginning of training."""
        return sum(epoch.steps for epoch in self.epochs) + self.steps


Save = Callable[[Progress], None]


def train_epochs(context: Context, learner: Learner, progress: Progress, save: Save) -> Predictions | None:
    """Return the model's answers after the last epoch; None where `progress` has all epochs.

    The very first step (tracing) is a separate phase; the phase `timed` is the sum of the epochs between their
    barriers. Epochs and losses are recorded at each epoch's end.

    progress: where to resume.
    save: called with the progress after each epoch.
    Raises NotFinite, after the finite losses before it are recorded.
    """
    run = _Run(context, learner)
    predictions: Predictions | None = None
    record_progress(context, progress)
    while len(progress.epochs) < context.config.measure.epochs:
        progress = run.train_epoch(progress)
        if len(progress.epochs) == context.config.measure.epochs - 1:
            predictions = Predictions.empty(learner.model.output_shape[-1], learner.data.class_names)
        progress = _evaluated(context, learner, progress, predictions)
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


class _Run:
    def __init__(self, context: Context, learner: Learner) -> None:
        self._context, self._learner = context, learner
        self._traced = False
        self._uses: list[CoreUse | None] = []  # of the cores, in the timed steps of each epoch

    def train_epoch(self, progress: Progress) -> Progress:
        """Return the progress after all steps of the next epoch. Raises NotFinite."""
        data = self._learner.data
        steps, untimed, duration_s = self._run_steps(data.training(len(progress.epochs)), data.steps_per_epoch)
        return self._progress_after(progress, steps, untimed, duration_s)

    def _run_steps(self, batches: Batches, count: int) -> tuple[Steps, int, float]:
        """Make `count` steps; return them, the number of untimed ones (the very first), and the time of all in s."""
        step, distribution, clock = self._learner.train_step, self._context.distribution, self._context.clock
        if not self._traced:
            clock.enter("first_step")
        first = run_steps(step, batches, 0 if self._traced else 1)
        self._traced = True
        clock.announce("timed")
        reading = counters.read_counters(self._context.meter)
        distribution.barrier()
        clock.enter("timed")
        begin = time.perf_counter()  # not before the barrier: another rank may take long to write its announcement
        timed = run_steps(step, batches, count - len(first.losses))
        distribution.barrier()
        duration_s = sum(first.times_s) + time.perf_counter() - begin
        clock.enter("evaluate")
        self._uses.append(counters.counted_since(reading, self._context.meter))
        self._context.part.add(step_times_s=timed.times_s, timed_cores=counters.total(self._uses))
        return first + timed, len(first.losses), duration_s

    def _progress_after(self, progress: Progress, steps: Steps, untimed: int, duration_s: float) -> Progress:
        """Return the progress after these steps. Raises NotFinite."""
        distribution, step_batch = self._context.distribution, self._learner.data.step_batch
        count = len(steps.losses)
        losses = finite_losses(steps.losses, distribution)
        timed = losses if progress.steps_before else losses[untimed:]
        if len(losses) < count:
            record_progress(self._context, replace(progress, losses=(*progress.losses, *timed)))
            raise NotFinite(progress.steps_before + len(losses) + 1)
        hits = sum(float(value) for value in steps.correct)
        return replace(
            progress,
            losses=(*progress.losses, *timed),
            steps=progress.steps + count,
            samples=progress.samples + count * step_batch * distribution.size,
            loss_sum=progress.loss_sum + sum(losses),
            hits=progress.hits + float(distribution.sum(np.array([hits], np.float64))[0]),
            duration_s=progress.duration_s + duration_s,
        )


def _evaluated(context: Context, learner: Learner, progress: Progress, predictions: Predictions | None) -> Progress:
    """Return the progress with the current epoch evaluated and done. Raises NotFinite."""
    validation = learner.evaluate(predictions)
    if validation and not np.isfinite(validation.loss):
        raise NotFinite(progress.steps_before)  # the last update spoilt the weights
    ordered = context.config.dataset.ordered
    complete = Epoch(
        epoch=len(progress.epochs) + 1,
        steps=progress.steps,
        duration_s=progress.duration_s,
        train_loss=progress.loss_sum / progress.steps,
        train_accuracy=progress.hits / progress.samples,
        validation_loss=validation.loss if validation else None,
        validation_accuracy=validation.accuracy if validation else None,
        validation_mean_absolute_error=validation.mean_absolute_error if validation and ordered else None,
    )
    return Progress(epochs=(*progress.epochs, complete), losses=progress.losses)


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
