"""Rounds: all points of a curve in one launch. A round runs every arm once, in an order drawn anew, between barriers.

An arm is one of the points: the first ranks of the job, with allreduce or without. In its turn each of its ranks
restores weights and optimizer state from its own copy, makes one untimed step, and then the timed steps of its window;
the other ranks wait in a barrier. Nothing but steps is in a window.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import tensorflow as tf

from train.config.schema import Config, RoundArm
from train.context import Context
from train.datasets import DATASETS
from train.distribution.protocol import Distribution
from train.loop.learner import Learner
from train.loop.step import TrainStep, make_train_step
from train.loop.timed_steps import Batches, NotFinite, run_steps
from train.record import intervals, rounds
from train.record.record import Window

_MIN_STEPS = 2  # of a window
_WARM_UP_STEPS = 3  # from which the length of a window is chosen: the first one after a restore is slow
_CYCLES = 4  # a window is at least so many of Horovod's cycles over the precision: it ends with a barrier, within one


@dataclass(frozen=True)
class _Arm:
    """An arm, on a rank that takes part in it."""

    group: Distribution
    step: TrainStep
    batches: Batches


@dataclass(frozen=True)
class _Told:
    """What each rank tells the others after a round."""

    windows: list[Window]
    finite: bool  # its losses
    elapsed_s: float  # since the launch of the job


class _Bench:
    """The arms on this rank (None: it takes no part), and the state that each window starts from."""

    def __init__(self, context: Context, learner: Learner) -> None:
        """Make the steps of the arms; they are traced when they first run."""
        self.ranks = context.distribution
        self.arms = _arms(context, learner)
        self._variables = learner.variables()
        self._initial = [tf.identity(variable) for variable in self._variables]

    def restore(self) -> None:
        """Set weights and optimizer state to this rank's copy: nothing is sent."""
        for variable, value in zip(self._variables, self._initial, strict=True):
            variable.assign(value)
        tf.test.experimental.sync_devices()

    def warm_up(self, place: int, steps: int = 1) -> float:
        """Make steps of an arm. Returns the median of their times on the slowest rank, in s."""
        arm, time_s = self.arms[place], 0.0
        self.restore()
        self.ranks.barrier()
        if arm:
            time_s = median(run_steps(arm.step, arm.batches, steps).times_s)
        return max(self.ranks.gather(time_s))

    def window(self, place: int, number: int, steps: int) -> tuple[Window | None, bool]:
        """Measure one window. Returns it, where this rank takes part, and whether its losses are finite."""
        arm = self.arms[place]
        self.restore()
        self.ranks.barrier()
        if arm is None:
            self.ranks.barrier()
            return None, True
        run_steps(arm.step, arm.batches, 1)
        arm.group.barrier()
        begin = time.perf_counter()
        timed = run_steps(arm.step, arm.batches, steps)
        arm.group.barrier()
        window_s = time.perf_counter() - begin
        self.ranks.barrier()
        finite = all(math.isfinite(float(loss)) for loss in timed.losses)
        return Window(number, place, window_s, timed.times_s, timed.compute_times_s), finite


def _arms(context: Context, learner: Learner) -> list[_Arm | None]:
    """The arms on this rank. Arms whose steps are the same, because nothing is exchanged in them, share one."""
    config, ranks = context.config, context.distribution
    steps: dict[tuple[int, int], TrainStep] = {}
    found: list[_Arm | None] = []
    for arm in config.rounds:
        size = arm.nodes * config.ranks_per_node
        if ranks.rank >= size:
            found.append(None)
            continue
        group = ranks.group(size, arm.allreduce)
        key = (size if arm.allreduce else 1, arm.batch_per_rank)
        if key not in steps:
            steps[key] = make_train_step(learner.model, learner.optimizer, group, config.optimizer.label_smoothing)
        found.append(_Arm(group, steps[key], _batches(config, arm, ranks.rank)))
    return found


def _batches(config: Config, arm: RoundArm, rank: int) -> Batches:
    """The batches of an arm, whose size may be another than that of the job's largest point."""
    size = arm.batch_per_rank
    own = replace(config, batch_per_rank=size, global_batch=size * config.ranks)
    return DATASETS[config.dataset.name](own, rank).training(0)


def measure_rounds(context: Context, learner: Learner) -> None:
    """Measure all arms, round after round, until every speedup is precise enough or the budget is spent.

    Records the windows of each round at its end. The ranks end with the weights of a step that all made together.
    Raises NotFinite.
    """
    clock, config = context.clock, context.config
    clock.enter("first_step")
    bench = _Bench(context, learner)
    places = range(len(bench.arms))
    for place in places:
        bench.warm_up(place)
    context.gate.wait_for_quota()
    clock.enter("warm_up")
    steps = [_steps(config, bench.warm_up(place, _WARM_UP_STEPS)) for place in places]
    clock.announce("timed")
    context.distribution.barrier()
    clock.enter("timed")
    _measure(context, bench, steps)
    clock.enter("evaluate")
    context.gate.release()
    bench.warm_up(next(p for p in places if config.rounds[p].nodes == config.nodes and config.rounds[p].allreduce))


def _steps(config: Config, step_s: float) -> int:
    """How many steps a window needs where one takes `step_s`: their time must be long beside the barrier at its end."""
    enough_s = _CYCLES * config.distribution.cycle_time_ms / 1e3 / config.measure.precision_fraction
    return max(_MIN_STEPS, math.ceil(enough_s / step_s))


def _measure(context: Context, bench: _Bench, steps: Sequence[int]) -> None:
    """Measure and record rounds until it is enough. Raises NotFinite."""
    config = context.config
    order = np.random.default_rng([config.seed, context.repeat])
    arms = [rounds.Arm(arm.nodes * config.ranks_per_node, arm.batch_per_rank) for arm in config.rounds]
    of_ranks: list[list[Window]] = [[] for _ in range(context.distribution.size)]
    for number in itertools.count():
        made = [bench.window(int(place), number, steps[place]) for place in order.permutation(len(arms))]
        own = [window for window, _ in made if window]
        context.part.add(windows=own)
        told = context.distribution.gather(_Told(own, all(finite for _, finite in made), context.clock.elapsed_s()))
        if not all(one.finite for one in told):
            raise NotFinite(1 + max(steps))
        for windows, one in zip(of_ranks, told, strict=True):
            windows += one.windows
        # All ranks decide alike: they know the same, and time is what rank 0 says.
        if told[0].elapsed_s >= config.measure.budget_s or _precise(rounds.rates(arms, of_ranks), config):
            return


def _precise(measured: rounds.Rates, config: Config) -> bool:
    """Whether the speedup of every arm over the first one is precise enough."""
    others = range(1, len(config.rounds))
    return all(intervals.precise(rounds.ratios(measured, arm), config.measure.precision_fraction) for arm in others)
