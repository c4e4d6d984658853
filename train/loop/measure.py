"""The measurement protocol: first step, warm-up, barrier, timed steps, barrier. Nothing else between the barriers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import tensorflow as tf
import tf_keras

from train.datasets import Data
from train.distribution.backends import Distribution
from train.loop.step import EvaluationStep, TrainStep
from train.rank.phases import PhaseClock
from train.rank.quota_gate import NO_LIMITS, Limits
from train.record.predictions import Predictions
from train.record.record import Epoch


class NotFinite(Exception):
    """The loss of some rank became NaN or infinite: says at which step, counted from 1 over the whole run."""

    def __init__(self, step: int) -> None:
        """Keep the step for the record."""
        super().__init__(
            f"the loss is not finite at step {step}: the learning rate is too high for this model and batch, "
            "or the data has values that are not finite"
        )
        self.step = step


@dataclass
class Measurement:
    """What one rank measured. Times in seconds, one per step."""

    warm_up_step_times_s: list[float] = field(default_factory=list)
    step_times_s: list[float] = field(default_factory=list)
    compute_times_s: list[float] = field(default_factory=list)  # the part of it until the own gradients were there
    losses: list[float] = field(default_factory=list)  # of the timed steps, mean over ranks
    epochs: list[Epoch] = field(default_factory=list)
    predictions: Predictions | None = None  # after the last epoch: counts of all ranks, examples of this one


@dataclass(frozen=True)
class Validation:
    """Means over the whole validation part: loss, accuracy, absolute error of the expected class."""

    loss: float
    accuracy: float
    mean_absolute_error: float


Batches = Iterator[tuple[tf.Tensor, tf.Tensor]]


def _run_steps(
    step: TrainStep, batches: Batches, count: int, times: list[float], compute_times: list[float] | None = None
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Make `count` steps. Their losses and correct answers stay on the device: reading them would be a transfer.

    times, compute_times: of each step, and of the part of it until this rank's own gradients were there, are added.
    """
    losses, correct, begun_at, computed_at = [], [], [], []
    for _ in range(count):
        begun_at.append(time.time())
        begin = time.perf_counter()
        images, labels = next(batches)
        loss, hits, computed = step(images, labels)
        tf.test.experimental.sync_devices()
        times.append(time.perf_counter() - begin)
        losses.append(loss)
        correct.append(hits)
        computed_at.append(computed)
    if compute_times is not None:
        compute_times += [float(end) - begin for begin, end in zip(begun_at, computed_at, strict=True)]
    return losses, correct


def _mean_losses(losses: list[tf.Tensor], distribution: Distribution, steps_before: int) -> list[float]:
    """The losses, mean over ranks. Raises NotFinite, on every rank, at the first step where some rank has no number."""
    sums = distribution.sum(np.array([float(loss) for loss in losses], np.float64))
    wrong = np.flatnonzero(~np.isfinite(sums))
    if wrong.size:
        raise NotFinite(steps_before + int(wrong[0]) + 1)
    return [float(value) for value in sums / distribution.size]


def time_steps(
    step: TrainStep,
    data: Data,
    warm_up_steps: int,
    timed_steps: int,
    distribution: Distribution,
    clock: PhaseClock,
    limits: Limits = NO_LIMITS,
) -> Measurement:
    """Time `timed_steps` training steps between two barriers, after a first step and the warm-up. Raises NotFinite.

    limits: hold from the warm-up to the last timed step.
    """
    measurement = Measurement()
    batches = _endless(data)
    clock.enter("first_step")
    first, _ = _run_steps(step, batches, 1, [])
    limits.begin()
    clock.enter("warm_up")
    warm_up, _ = _run_steps(step, batches, warm_up_steps, measurement.warm_up_step_times_s)
    _mean_losses(first + warm_up, distribution, 0)
    distribution.barrier()
    clock.enter("timed")
    losses, _ = _run_steps(step, batches, timed_steps, measurement.step_times_s, measurement.compute_times_s)
    distribution.barrier()
    clock.enter("evaluate")
    limits.end()
    measurement.losses = _mean_losses(losses, distribution, 1 + warm_up_steps)
    return measurement


def _endless(data: Data) -> Batches:
    epoch = 0
    while True:
        yield from data.training(epoch)
        epoch += 1


@dataclass(frozen=True)
class Progress:
    """How far training over epochs has come: with the variables, all that ranks need to go on from there.

    Sums are over the epoch under way, and the same on every rank.
    """

    epochs: tuple[Epoch, ...] = ()  # that are done
    losses: tuple[float, ...] = ()  # of the timed steps so far, mean over ranks
    steps: int = 0
    samples: int = 0  # of all ranks together
    loss_sum: float = 0.0  # over the steps, of the mean over ranks
    hits: float = 0.0  # of all ranks together
    duration_s: float = 0.0

    @property
    def steps_before(self) -> int:
        """Steps since the beginning of training."""
        return sum(epoch.steps for epoch in self.epochs) + self.steps


def _keep_nothing(_progress: Progress) -> None:
    """Where nobody wants to go on from the middle."""


def train_epochs(
    step: TrainStep,
    evaluation_step: EvaluationStep,
    model: tf_keras.Model,
    data: Data,
    epochs: int,
    distribution: Distribution,
    clock: PhaseClock,
    progress: Progress = Progress(),
    commit: Callable[[Progress], None] = _keep_nothing,
    commit_steps: int | None = None,
    step_times_s: list[float] | None = None,
    ordered: bool = False,
) -> Measurement:
    """Train whole epochs, with accuracy on training and validation data after each. Raises NotFinite.

    The very first step (tracing) is booked apart; the timed phase is the sum of the epochs between their barriers.

    Args:
        progress: where to go on.
        commit: called with the progress after every `commit_steps` steps (None: never within an epoch), and after
            each epoch.
        step_times_s: the times of this rank's steps are added to it, also of those that a failure makes void.
        ordered: the classes are numbers; the mean absolute error of their expectation is kept too.
    """
    times = [] if step_times_s is None else step_times_s
    traced = False
    predictions: Predictions | None = None
    while len(progress.epochs) < epochs:
        batches = data.training(len(progress.epochs), progress.samples)
        while left := data.steps_left(progress.samples):
            count = min(left, commit_steps or left)
            losses: list[tf.Tensor] = []
            correct: list[tf.Tensor] = []
            begin = time.perf_counter()
            if not traced:
                clock.enter("first_step")
                losses, correct = _run_steps(step, batches, 1, [])
                traced = True
            distribution.barrier()
            clock.enter("timed")
            more_losses, more_correct = _run_steps(step, batches, count - len(losses), times)
            distribution.barrier()
            duration_s = time.perf_counter() - begin
            clock.enter("evaluate")
            means = _mean_losses(losses + more_losses, distribution, progress.steps_before)
            hits = sum(float(value) for value in correct + more_correct)
            progress = replace(
                progress,
                losses=(*progress.losses, *(means if progress.steps_before else means[len(losses) :])),
                steps=progress.steps + count,
                samples=progress.samples + count * data.batch_per_rank * distribution.size,
                loss_sum=progress.loss_sum + sum(means),
                hits=progress.hits + float(distribution.sum(np.array([hits], np.float64))[0]),
                duration_s=progress.duration_s + duration_s,
            )
            if count < left:
                commit(progress)
        if len(progress.epochs) == epochs - 1:
            predictions = Predictions.of(model.output_shape[-1], data.class_names)
        validation = evaluate(evaluation_step, model, data, distribution, predictions)
        if validation and not np.isfinite(validation.loss):
            raise NotFinite(progress.steps_before)  # the last update spoilt the weights
        done = Epoch(
            epoch=len(progress.epochs) + 1,
            steps=progress.steps,
            duration_s=progress.duration_s,
            train_loss=progress.loss_sum / progress.steps,
            train_accuracy=progress.hits / progress.samples,
            validation_loss=validation.loss if validation else None,
            validation_accuracy=validation.accuracy if validation else None,
            validation_mean_absolute_error=validation.mean_absolute_error if validation and ordered else None,
        )
        progress = Progress(epochs=(*progress.epochs, done), losses=progress.losses)
        commit(progress)
    return Measurement(
        step_times_s=times, losses=list(progress.losses), epochs=list(progress.epochs), predictions=predictions
    )


def moving_statistics(model: tf_keras.Model) -> list[tf.Variable]:
    """The variables that training moves without a gradient; those of layers that are not trained stay as they are."""
    layers = [layer for layer in model.submodules if isinstance(layer, tf_keras.layers.Layer) and layer.trainable]
    single = [layer for layer in layers if not isinstance(layer, tf_keras.Model)]
    return [variable for layer in single for variable in layer.non_trainable_variables if variable.dtype.is_floating]


def evaluate(
    step: EvaluationStep,
    model: tf_keras.Model,
    data: Data,
    distribution: Distribution,
    predictions: Predictions | None = None,
) -> Validation | None:
    """Means over the whole validation part, exact: every sample counts once. None where there is none.

    Moving statistics (batch normalisation) have drifted apart between ranks; they are averaged first, so that all
    ranks evaluate the same model. What the model answers is added to `predictions`.
    """
    distribution.average(moving_statistics(model))
    sums = np.zeros(4, np.float64)
    for images, labels, weights in data.validation():
        batch, answers, probabilities = step(images, labels, weights)
        sums += batch.numpy()
        if predictions:
            predictions.add(*(tensor.numpy() for tensor in (images, labels, weights, answers, probabilities)))
    loss, correct, weight, error = distribution.sum(sums)
    if predictions:
        predictions.confusion = distribution.sum(predictions.confusion.astype(np.float64)).astype(np.int64)
    return Validation(float(loss / weight), float(correct / weight), float(error / weight)) if weight else None
