"""The measurement protocol: first step, warm-up, barrier, timed steps, barrier. Nothing else between the barriers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
import tf_keras

from train.datasets import Data
from train.distribution import Distribution
from train.phases import PhaseClock
from train.record import Epoch
from train.step import EvaluationStep, TrainStep


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
    losses: list[float] = field(default_factory=list)  # of the timed steps, mean over ranks
    epochs: list[Epoch] = field(default_factory=list)


Batches = Iterator[tuple[tf.Tensor, tf.Tensor]]


def _run_steps(
    step: TrainStep, batches: Batches, count: int, times: list[float]
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Make `count` steps. Their losses and correct answers stay on the device: reading them would be a transfer."""
    losses, correct = [], []
    for _ in range(count):
        begin = time.perf_counter()
        images, labels = next(batches)
        loss, hits = step(images, labels)
        tf.test.experimental.sync_devices()
        times.append(time.perf_counter() - begin)
        losses.append(loss)
        correct.append(hits)
    return losses, correct


def _mean_losses(losses: list[tf.Tensor], distribution: Distribution, steps_before: int) -> list[float]:
    """The losses, mean over ranks. Raises NotFinite, on every rank, at the first step where some rank has no number."""
    sums = distribution.sum(np.array([float(loss) for loss in losses], np.float64))
    wrong = np.flatnonzero(~np.isfinite(sums))
    if wrong.size:
        raise NotFinite(steps_before + int(wrong[0]) + 1)
    return [float(value) for value in sums / distribution.size]


def time_steps(
    step: TrainStep, data: Data, warm_up_steps: int, timed_steps: int, distribution: Distribution, clock: PhaseClock
) -> Measurement:
    """Time `timed_steps` training steps between two barriers, after a first step and the warm-up. Raises NotFinite."""
    measurement = Measurement()
    batches = _endless(data)
    clock.enter("first_step")
    first, _ = _run_steps(step, batches, 1, [])
    clock.enter("warm_up")
    warm_up, _ = _run_steps(step, batches, warm_up_steps, measurement.warm_up_step_times_s)
    _mean_losses(first + warm_up, distribution, 0)
    distribution.barrier()
    clock.enter("timed")
    losses, _ = _run_steps(step, batches, timed_steps, measurement.step_times_s)
    distribution.barrier()
    clock.enter("evaluate")
    measurement.losses = _mean_losses(losses, distribution, 1 + warm_up_steps)
    return measurement


def _endless(data: Data) -> Batches:
    epoch = 0
    while True:
        yield from data.training(epoch)
        epoch += 1


def train_epochs(
    step: TrainStep,
    evaluation_step: EvaluationStep,
    model: tf_keras.Model,
    data: Data,
    epochs: int,
    distribution: Distribution,
    clock: PhaseClock,
) -> Measurement:
    """Train whole epochs, with accuracy on training and validation data after each. Raises NotFinite.

    The very first step (tracing) is booked apart; the timed phase is the sum of the epochs between their barriers.
    """
    assert data.steps_per_epoch is not None
    measurement = Measurement()
    for epoch in range(epochs):
        batches = data.training(epoch)
        losses: list[tf.Tensor] = []
        correct: list[tf.Tensor] = []
        begin = time.perf_counter()
        if epoch == 0:
            clock.enter("first_step")
            losses, correct = _run_steps(step, batches, 1, [])
        distribution.barrier()
        clock.enter("timed")
        more_losses, more_correct = _run_steps(
            step, batches, data.steps_per_epoch - len(losses), measurement.step_times_s
        )
        distribution.barrier()
        duration_s = time.perf_counter() - begin
        clock.enter("evaluate")
        means = _mean_losses(losses + more_losses, distribution, epoch * data.steps_per_epoch)
        measurement.losses += means[len(losses) :]
        hits = sum(float(value) for value in correct + more_correct)
        samples = data.steps_per_epoch * data.batch_per_rank
        total_hits, total_samples = distribution.sum(np.array([hits, samples], np.float64))
        validation = evaluate(evaluation_step, model, data, distribution)
        if validation and not np.isfinite(validation[0]):
            raise NotFinite((epoch + 1) * data.steps_per_epoch)  # the last update spoilt the weights
        measurement.epochs.append(
            Epoch(
                epoch=epoch + 1,
                steps=data.steps_per_epoch,
                duration_s=duration_s,
                train_loss=float(np.mean(means)),
                train_accuracy=float(total_hits / total_samples),
                validation_loss=validation[0] if validation else None,
                validation_accuracy=validation[1] if validation else None,
            )
        )
    return measurement


def evaluate(
    step: EvaluationStep, model: tf_keras.Model, data: Data, distribution: Distribution
) -> tuple[float, float] | None:
    """Mean loss and accuracy over the whole validation part, exact: every sample counts once. None where there is none.

    Moving statistics (batch normalisation) have drifted apart between ranks; they are averaged first, so that all
    ranks evaluate the same model.
    """
    trainable = {id(variable) for variable in model.trainable_variables}
    distribution.average([v for v in model.variables if id(v) not in trainable and v.dtype.is_floating])
    sums = np.zeros(3, np.float64)
    for images, labels, weights in data.validation():
        sums += step(images, labels, weights).numpy()
    loss, correct, weight = distribution.sum(sums)
    return (float(loss / weight), float(correct / weight)) if weight else None
