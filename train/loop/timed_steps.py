"""The measurement protocol: first step, warm-up, barrier, timed steps, barrier. Nothing else between the barriers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from record.schema import CoreUse, StepPhase
from train.datasets import Data
from train.distribution import Distribution
from train.loop import NotFinite, roofline
from train.loop.devices import synchronize_devices
from train.rank import counters
from train.rank.phases import PhaseClock
from train.task import Context
from train.transport.tcp_group import AllRanks

if TYPE_CHECKING:
    import tensorflow as tf

    from train.loop.step import TrainStep

Batches = Iterator[tuple["tf.Tensor", "tf.Tensor"]]


@dataclass(frozen=True)
class Steps:
    """Consecutive training steps on this rank, one entry each; the results are still on the device."""

    losses: list[tf.Tensor]
    correct: list[tf.Tensor]  # answers
    times_s: list[float]
    begun_at: list[float]  # seconds since the epoch
    computed_at: list[tf.Tensor]  # when the local gradients were ready, seconds since the epoch

    def __add__(self, later: Steps) -> Steps:
        """Return these steps and later ones."""
        return Steps(*(getattr(self, item.name) + getattr(later, item.name) for item in fields(self)))

    @property
    def compute_times_s(self) -> list[float]:
        """Return the part of each step until the local gradients were ready. Reads them from the device.

        Their clock is the system's. If that is set during a step, this part is taken as none or all of the step.
        """
        steps = zip(self.begun_at, self.computed_at, self.times_s, strict=True)
        return [min(max(0.0, float(end) - begin), time_s) for begin, end, time_s in steps]


@dataclass(frozen=True)
class TimedSteps:
    """Steps between two barriers."""

    steps: Steps
    window_s: float  # between the barriers
    cores: CoreUse | None


def run_steps(step: TrainStep, batches: Batches, count: int) -> Steps:
    """Make `count` steps. Losses and correct answers stay on the device: reading them would be a transfer."""
    steps = Steps([], [], [], [], [])
    for _ in range(count):
        begin = time.perf_counter()
        steps.begun_at.append(time.time())  # after the other clock: no step has its gradients after its end
        images, labels = next(batches)
        loss, hits, computed_at = step(images, labels)
        synchronize_devices()
        steps.times_s.append(time.perf_counter() - begin)
        steps.losses.append(loss)
        steps.correct.append(hits)
        steps.computed_at.append(computed_at)
    return steps


def time_window(
    context: Context, ranks: AllRanks, step: TrainStep, batches: Batches, count: int, clock: PhaseClock | None = None
) -> TimedSteps:
    """Make `count` steps between two barriers of these ranks: nothing else is between them.

    clock: its phase is `timed` in the window, and `evaluate` after it.
    """
    if clock:
        clock.announce("timed")
    reading = counters.read_counters(context.meter)
    ranks.barrier()
    if clock:
        clock.enter("timed")
    begin = time.perf_counter()  # not before the barrier: another rank may take long to write its announcement
    steps = run_steps(step, batches, count)
    ranks.barrier()
    window_s = time.perf_counter() - begin
    if clock:
        clock.enter("evaluate")
    return TimedSteps(steps, window_s, counters.counted_since(reading, context.meter))


def finite_losses(losses: Sequence[tf.Tensor], distribution: Distribution) -> list[float]:
    """Return the losses, mean over ranks, up to the first step at which the loss of any rank is not finite."""
    return finite(distribution.sum(np.array([float(loss) for loss in losses], np.float64)) / distribution.size)


def finite(values: np.ndarray) -> list[float]:
    """Return the values before the first that is not finite."""
    wrong = np.flatnonzero(~np.isfinite(values))
    return [float(value) for value in (values[: wrong[0]] if wrong.size else values)]


def time_steps(context: Context, step: TrainStep, data: Data) -> dict[StepPhase, Steps]:
    """Time training steps of ranks that train together, as `time_phases`."""
    batches, ranks = endless(data), context.distribution
    return time_phases(
        context,
        lambda count: run_steps(step, batches, count),
        lambda count: time_window(context, ranks, step, batches, count, context.clock),
        lambda losses: finite_losses(losses, ranks),
    )


def time_phases(
    context: Context,
    run: Callable[[int], Steps],
    time_in_window: Callable[[int], TimedSteps],
    mean_losses: Callable[[Sequence[tf.Tensor]], list[float]],
) -> dict[StepPhase, Steps]:
    """Time training steps between two barriers, after a first step and the warm-up; returns all these steps.

    The launcher's quotas, if any, hold from the warm-up to the last timed step.

    run: makes so many steps. time_in_window: makes them between barriers, in the phase `timed`.
    mean_losses: returns losses, mean over ranks, up to the first that is not finite.
    Raises NotFinite, after the finite losses before it are recorded.
    """
    settings, clock, part = context.config.measure, context.clock, context.part
    clock.enter("first_step")
    first = run(1)
    context.gate.wait_for_quota()
    clock.enter("warm_up")
    warm_up = run(settings.warm_up_steps)
    part.add(warm_up_step_times_s=warm_up.times_s)
    require_finite(mean_losses((first + warm_up).losses), 1 + settings.warm_up_steps, before=0)
    window = time_in_window(settings.timed_steps)
    timed = window.steps
    part.add(step_times_s=timed.times_s, timed_cores=window.cores)
    if context.config.device == "cpu":  # a GPU gets its work in advance: the step cannot see when it is done
        part.add(compute_times_s=timed.compute_times_s)
    roofline.measure(context, context.distribution)
    context.gate.release()
    losses = mean_losses(timed.losses)
    if context.distribution.rank == 0:
        part.add(losses=losses)
    require_finite(losses, settings.timed_steps, before=1 + settings.warm_up_steps)
    return {"first_step": first, "warm_up": warm_up, "timed": timed}


def require_finite(losses: Sequence[float], count: int, before: int) -> None:
    """Raise NotFinite if there are fewer finite losses than the `count` steps after the first `before`."""
    if len(losses) < count:
        raise NotFinite(before + len(losses) + 1)


def endless(data: Data, epoch: int = 0) -> Generator[tuple[tf.Tensor, tf.Tensor]]:
    """Yield the batches of this epoch and of all that follow."""
    for number in itertools.count(epoch):
        yield from data.training(number)
