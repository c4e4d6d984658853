"""The windows of a launch in rounds, on one rank. Nothing here needs TensorFlow.

For a window each rank of an arm restores weights and optimizer state from its own copy. It makes one untimed step,
unless steps are long, and then the timed steps, between two barriers of all ranks. A window has nothing but steps. Rank
groups that measure at the same time run each window on the cores of every group, between barriers of the group.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from record.recorded_config import RoundArm
from record.schema import Window
from train.distribution import Distribution
from train.loop import ArmSet, Length, roofline
from train.loop.devices import synchronize_devices
from train.loop.timed_steps import Batches, TimedSteps, run_steps, time_window
from train.rank import counters, placement
from train.task import Context

if TYPE_CHECKING:
    from train.loop.step import ExchangeStep, TrainStep

_EXCHANGES = 2  # of one arm in a round


@dataclass(frozen=True)
class LocalArm:
    """An arm, on a rank that takes part in it."""

    group: Distribution
    step: TrainStep
    batches: Callable[[], AbstractContextManager[Batches]]  # the batches of one window: nothing is read before or after
    settle_steps: int  # untimed steps before a window
    local_step: TrainStep | None  # of the same compiled function, without exchange; None if there is none


def is_exchanged(arm: RoundArm) -> bool:
    """Return whether the ranks of an arm exchange their gradients."""
    return arm.allreduce and arm.ranks > 1


class WindowRunner:
    """The arms on this rank (None: it takes no part), and their windows."""

    def __init__(
        self,
        context: Context,
        arms: Sequence[LocalArm | None],
        restore: Callable[[], None],
        exchanges: Mapping[int, ExchangeStep | None],
    ) -> None:
        """Note the arms.

        restore: sets weights and optimizer state to those that each window starts from.
        exchanges: of gradients by themselves, by the index of the arm; None if this rank has no part in it.
        """
        self._context, self.all_ranks, self._config_arms = context, context.all_ranks, context.config.launch.rounds
        self.arms, self._restore, self.exchanges = arms, restore, exchanges
        self._traced: set[int] = set()  # the steps that have run, by their identity
        self.limited = False  # whether the nodes are held to their quotas, and their links to a rate

    def trace(self) -> None:
        """Trace the step of the first arm's batch on all ranks at once, without exchange: one by one, each would wait.

        If ranks join in turn, also trace the steps of arms that exchange nothing. They may share a step with another
        arm, and to trace its exchange Horovod must have joined the ranks; when they first run it has not. Ranks have
        different arms, and so different steps to trace: the others wait.
        """
        exchanged = {arm.batch_per_rank for arm in self._config_arms if is_exchanged(arm)}
        sizes = [self._config_arms[0].batch_per_rank]
        if self._context.config.launch.join_in_turn:
            alone = [arm.batch_per_rank for arm in self._config_arms if not is_exchanged(arm)]
            sizes += [size for size in alone if size in exchanged]
        for size in dict.fromkeys(sizes):
            for arm, config_arm in zip(self.arms, self._config_arms, strict=True):
                if arm and arm.local_step and config_arm.batch_per_rank == size:
                    with arm.batches() as batches:
                        run_steps(arm.local_step, batches, 1)
                    self._traced.add(id(arm.local_step))
                    break
        self.all_ranks.barrier()

    def is_untraced(self, arms: ArmSet) -> bool:
        """Return whether the step of these arms has not run yet on some rank."""
        arm = self._local_arm(arms)
        return any(self.all_ranks.gather(arm is not None and id(arm.step) not in self._traced, bool))

    def last_step_s(self, arms: ArmSet, steps: int) -> float:
        """Run steps of these arms; returns the time of the last one on the slowest rank, in s."""
        arm, time_s = self._local_arm(arms), 0.0
        self._prepare(arms)
        if arm:
            with arm.group.joined(), arm.batches() as batches:
                time_s = run_steps(arm.step, batches, steps).times_s[-1]
            self._traced.add(id(arm.step))
        return max(self.all_ranks.gather(time_s, float))

    def run_window(self, arms: ArmSet, number: int, steps: Length) -> tuple[Window | None, bool]:
        """Run a window in a round; returns this rank's window, if it has one, and whether its losses are finite.

        Arms that measure at the same time run a part of the window on the cores of each.
        """
        parts: list[TimedSteps] = []
        for cores in self._context.core_sets if len(arms) > 1 else [None]:
            if cores is not None:
                placement.move(cores)
            if part := self._measure(arms, steps):
                parts.append(part)
        if not parts:
            return None, True
        index = next(index for index in arms if self.arms[index])
        times = [time_s for part in parts for time_s in part.steps.times_s]
        on_cpu = self._context.config.device == "cpu"
        compute_times = [time_s for part in parts for time_s in part.steps.compute_times_s] if on_cpu else []
        cores_used = counters.total([part.cores for part in parts])
        finite = all(math.isfinite(float(loss)) for part in parts for loss in part.steps.losses)
        return Window(number, index, sum(part.window_s for part in parts), times, compute_times, cores_used), finite

    def exchange(self, index: int, number: int) -> Window | None:
        """Exchange the gradients of an arm by themselves; None on ranks that have no part in it."""
        self._prepare((index,))
        arm, exchange = self.arms[index], self.exchanges[index]
        if arm is None or exchange is None:
            self._wait()
            return None
        times_s = []
        with arm.group.joined():
            self.all_ranks.barrier()
            begin = time.perf_counter()
            for _ in range(_EXCHANGES):
                exchange_begin = time.perf_counter()
                exchange()
                synchronize_devices()
                times_s.append(time.perf_counter() - exchange_begin)
            self.all_ranks.barrier()
            window_s = time.perf_counter() - begin
        return Window(number, index, window_s, times_s)

    def measure_roofline(self, index: int, brief: bool) -> None:
        """Measure the roofline of the ranks of an arm."""
        self._wait_until_ready((index,))
        if arm := self.arms[index]:
            with arm.group.joined():
                roofline.measure(self._context, arm.group, index, brief)
        self.all_ranks.barrier()

    def _prepare(self, arms: ArmSet) -> None:
        """Restore the weights of the ranks of these arms, and wait until all ranks are ready."""
        if self._local_arm(arms):
            self._restore()
            synchronize_devices()
        self._wait_until_ready(arms)

    def _wait_until_ready(self, arms: ArmSet) -> None:
        """Wait until all ranks, and the links between them, are ready for these arms."""
        rates = [arm.link_mbit_per_s for arm in self._config_arms]
        if self.all_ranks.rank == 0 and self.limited and len(set(rates)) > 1:
            self._context.gate.use_link(rates[arms[0]])
        self.all_ranks.barrier()

    def _local_arm(self, arms: ArmSet) -> LocalArm | None:
        """Return the arm among these that this rank takes part in."""
        return next((arm for index in arms if (arm := self.arms[index])), None)

    def _measure(self, arms: ArmSet, steps: Length) -> TimedSteps | None:
        """Run steps of this rank's arm among these, between barriers; None if it has none there."""
        arm = self._local_arm(arms)
        self._prepare(arms)
        if arm is None:
            self._wait()
            return None
        with arm.group.joined(), arm.batches() as batches:
            run_steps(arm.step, batches, max(arm.settle_steps, steps.untimed))
            if len(arms) == 1:
                return time_window(self._context, self.all_ranks, arm.step, batches, steps.timed)
            self.all_ranks.barrier()
            part = time_window(self._context, arm.group, arm.step, batches, steps.timed)
            self.all_ranks.barrier()
            return part

    def _wait(self) -> None:
        """Wait at the two barriers of a window of other ranks."""
        self.all_ranks.barrier()
        self.all_ranks.barrier()
