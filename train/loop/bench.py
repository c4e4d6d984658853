"""The bench of a launch in rounds, on one rank: it takes the turns of a round, each from the same weights.

In its turn each rank of an arm restores weights and optimizer state from its own copy, makes one untimed step unless
steps are long, and then the timed steps of its window, between two barriers of all ranks. Nothing but steps is in a
window. Worlds that measure at the same time share a turn: they make their windows once on the cores of each, between
barriers of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from train.config.schema import RunConfig
from train.context import Context
from train.loop import devices, limits
from train.loop.arms import Arm, arms_of, exchanges_of
from train.loop.learner import Learner
from train.loop.timed_steps import Batches, Steps, run_steps
from train.rank import core_use, placement
from train.record.record import CoreUse, Window
from train.transport.tcp_group import AllRanks

_EXCHANGES = 2  # of one arm in a round

Turn = tuple[int, ...]  # the arms, by their places, that measure at the same time


@dataclass(frozen=True)
class Length:
    """How many steps a rank makes in its turn."""

    timed: int
    untimed: int = 1  # before them


@dataclass(frozen=True)
class _Half:
    """Timed steps on one set of cores."""

    window_s: float  # between the barriers around them
    steps: Steps
    cores: CoreUse | None


class Bench:
    """The arms on this rank (None: it takes no part), and the state that each window starts from."""

    def __init__(self, context: Context, learner: Learner) -> None:
        """Make the steps of the arms; they are traced when they first run."""
        self.everyone, self._places, self._gate = context.everyone, context.places, context.gate
        self._links = [arm.link_mbit_per_s for arm in context.config.launch.rounds]
        self.arms = arms_of(context, learner)
        self._restore = _restoring(learner.variables())
        self.limited = False  # whether the nodes are held to their quotas, and their links to a rate
        self._on_cpu = context.config.device == "cpu"
        self._meter = context.meter
        self.exchanges = exchanges_of(context, learner, self.arms)

    def trace(self, config: RunConfig) -> None:
        """Trace the step of the first arm's batch on all ranks at once, without exchange; in turns each would wait."""
        first = config.launch.rounds[0].batch_per_rank
        for arm, listed in zip(self.arms, config.launch.rounds, strict=True):
            if arm and arm.local_step and listed.batch_per_rank == first:
                with arm.batches() as batches:
                    run_steps(arm.local_step, batches, 1)
                break

    def restore(self) -> None:
        """Set weights and optimizer state to this rank's copy: nothing is sent."""
        self._restore()
        devices.synchronize()

    def last_step_s(self, turn: Turn, steps: int) -> float:
        """Make steps of the arms of a turn. Returns the time of the last one on the slowest rank, in s."""
        arm, time_s = self._own(turn), 0.0
        self._prepare(turn)
        if arm:
            with arm.group.joined(), arm.batches() as batches:
                time_s = run_steps(arm.step, batches, steps).times_s[-1]
        return max(self.everyone.gather(time_s, float))

    def take(self, turn: Turn, number: int, steps: Length) -> tuple[Window | None, bool]:
        """Take a turn in a round. Returns this rank's window, if it has one, and whether its losses are finite.

        Arms that take their turn together make their windows on the cores of each: a window is all of these.
        """
        halves = []
        for cores in self._places if len(turn) > 1 else [None]:
            if cores is not None:
                placement.move(cores)
            halves.append(self._measure(turn, steps))
        made = [half for half in halves if half]
        if not made:
            return None, True
        place = next(place for place in turn if self.arms[place])
        times = [time_s for half in made for time_s in half.steps.times_s]
        computed = [time_s for half in made for time_s in half.steps.compute_times_s] if self._on_cpu else []
        used = core_use.together([half.cores for half in made])
        finite = all(math.isfinite(float(loss)) for half in made for loss in half.steps.losses)
        return Window(number, place, sum(half.window_s for half in made), times, computed, used), finite

    def exchange(self, place: int, number: int) -> Window | None:
        """Exchange the gradients of an arm by themselves; None on ranks that have no part in it."""
        self._prepare((place,))
        arm, exchange = self.arms[place], self.exchanges[place]
        if arm is None or exchange is None:
            self._sit_out()
            return None
        times_s = []
        with arm.group.joined():
            self.everyone.barrier()
            begin = time.perf_counter()
            for _ in range(_EXCHANGES):
                begin_one = time.perf_counter()
                exchange()
                devices.synchronize()
                times_s.append(time.perf_counter() - begin_one)
            self.everyone.barrier()
            window_s = time.perf_counter() - begin
        return Window(number, place, window_s, times_s)

    def measure_limits(self, context: Context, place: int) -> None:
        """Measure what limits the ranks of an arm."""
        self._meet((place,))
        if arm := self.arms[place]:
            with arm.group.joined():
                limits.measure(context, arm.group, place)
        self.everyone.barrier()

    def _prepare(self, turn: Turn) -> None:
        """Restore the weights of those whose turn it is, and wait until all is ready for it."""
        if self._own(turn):
            self.restore()
        self._meet(turn)

    def _meet(self, turn: Turn) -> None:
        """Wait until all ranks, and the links between them, are ready for a turn."""
        if self.everyone.rank == 0 and self.limited and len(set(self._links)) > 1:
            self._gate.use_link(self._links[turn[0]])
        self.everyone.barrier()

    def _own(self, turn: Turn) -> Arm | None:
        """The arm of a turn that this rank takes part in."""
        return next((arm for place in turn if (arm := self.arms[place])), None)

    def _measure(self, turn: Turn, steps: Length) -> _Half | None:
        """Steps of this rank's arm of a turn, between barriers; None where it has none there."""
        arm = self._own(turn)
        self._prepare(turn)
        if arm is None:
            self._sit_out()
            return None
        with arm.group.joined(), arm.batches() as batches:
            run_steps(arm.step, batches, max(arm.settle_steps, steps.untimed))
            if len(turn) == 1:
                return self._window(arm, batches, steps.timed, self.everyone)
            self.everyone.barrier()
            made = self._window(arm, batches, steps.timed, arm.group)  # which must not wait for the other worlds
            self.everyone.barrier()
            return made

    def _sit_out(self) -> None:
        """Wait at the two barriers of a window of other ranks."""
        self.everyone.barrier()
        self.everyone.barrier()

    def _window(self, arm: Arm, batches: Batches, steps: int, waiting: AllRanks) -> _Half:
        """Timed steps between two barriers of these ranks: nothing else is between them."""
        counted = core_use.read(self._meter)
        waiting.barrier()
        begin = time.perf_counter()
        timed = run_steps(arm.step, batches, steps)
        waiting.barrier()
        window_s = time.perf_counter() - begin
        return _Half(window_s, timed, core_use.since(counted, self._meter))


def _restoring(variables: Sequence[tf.Variable]) -> Callable[[], None]:
    """A function that sets the variables to the values that they have now.

    In memory of their own: what shares memory with the copy would be copied by the first step that changes it. Raw
    operations, of which a thousand take 0.05 s of CPU time: as methods of the variables they take ten times as long,
    and a function compiled of them takes a second to compile.
    """
    pairs = [(variable.handle, tf.identity(variable)) for variable in variables]

    def restore() -> None:
        for handle, value in pairs:
            tf.raw_ops.AssignVariableOp(resource=handle, value=tf.raw_ops.DeepCopy(x=value))

    return restore
