"""Rounds: all points of a curve in one launch. A round runs every arm once, in an order drawn anew, between barriers.

An arm is one of the points: the first ranks of the job, or of one of its worlds, with allreduce or without. In its turn
each of its ranks restores weights and optimizer state from its own copy, makes one untimed step, and then the timed
steps of its window; the other ranks wait in a barrier. Nothing but steps is in a window. Worlds that measure at the
same time share a turn: they make their windows once on the cores of each.

With measure.split a round also has what tells the parts of a step apart: the exchange of each point's gradients by
itself, and where images are read from files, each point with one batch in memory.
"""

from __future__ import annotations

import copy
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import tensorflow as tf

from train.config.checks import check
from train.config.schema import Config, RoundArm
from train.context import Context
from train.datasets import DATASETS, Data
from train.distribution.protocol import Distribution
from train.loop.learner import Learner
from train.loop.step import ExchangeStep, TrainStep, make_exchange_step, make_train_step
from train.loop.timed_steps import Batches, NotFinite, Steps, endless, run_steps
from train.rank import core_use, placement
from train.record import intervals, rounds
from train.record.record import CoreUse, Window

_MIN_STEPS = 2  # of a window
_STALL_SHUTDOWN = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
_PATIENCE = 10  # a disturbed window takes several times as long as expected
_MIN_ARMS = 2  # these are measured whatever the budget is: with fewer there is no ratio
_WARM_UP_STEPS = 3  # from which the length of a window is chosen
_SETTLE_STEPS = 3  # untimed, until reading ahead is as far ahead as it stays
_EXCHANGES = 2  # of one arm in a round
_CYCLES = 4  # a window is at least so many of Horovod's cycles over the precision: it ends with a barrier, within one


Turn = tuple[int, ...]  # the arms, by their places, that measure at the same time


@dataclass(frozen=True)
class _Arm:
    """An arm, on a rank that takes part in it."""

    group: Distribution
    step: TrainStep
    batches: Callable[[], AbstractContextManager[Batches]]  # those of one window: nothing is read before or after
    settle_steps: int  # untimed, before a window


@dataclass(frozen=True)
class _Half:
    """Timed steps on one set of cores."""

    window_s: float  # between the barriers of the arm's ranks
    steps: Steps
    cores: CoreUse | None


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
        self.everyone, self._places, self._gate = context.everyone, context.places, context.gate
        self._links = [arm.link_mbit_per_s for arm in context.config.rounds]
        self.arms = _arms(context, learner)
        self._variables = learner.variables()
        self._initial = [tf.identity(variable) for variable in self._variables]
        self.limited = False  # whether the nodes are held to their quotas, and their links to a rate
        self._on_cpu = context.config.device == "cpu"
        self._counts_energy = context.part.part.local_rank == 0  # of the host: once
        self.exchanges = _exchanges(context, learner, self.arms)

    def trace_alone(self, config: Config) -> None:
        """Trace the step without exchange of the first arm's batch on all ranks at once; in turns each would wait."""
        first = config.rounds[0].batch_per_rank
        for arm, listed in zip(self.arms, config.rounds, strict=True):
            if arm and not _is_exchanged(listed) and listed.batch_per_rank == first:
                with arm.batches() as batches:
                    run_steps(arm.step, batches, 1)
                break

    def restore(self) -> None:
        """Set weights and optimizer state to this rank's copy: nothing is sent."""
        for variable, value in zip(self._variables, self._initial, strict=True):
            variable.assign(value)
        tf.test.experimental.sync_devices()

    def warm_up(self, turn: Turn, steps: int = 1) -> float:
        """Make steps of the arms of a turn. Returns the median of their times on the slowest rank, in s.

        The first of several steps does not count: it may trace, and the first after a restore is slow.
        """
        arm, time_s = self._own(turn), 0.0
        self._prepare(turn)
        if arm:
            with arm.batches() as batches:
                times = run_steps(arm.step, batches, steps).times_s
            time_s = median(times[1:] or times)
        return max(self.everyone.gather(time_s))

    def take(self, turn: Turn, number: int, steps: int) -> tuple[Window | None, bool]:
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
            self.everyone.barrier()
            return None
        times_s = []
        arm.group.barrier()
        begin = time.perf_counter()
        for _ in range(_EXCHANGES):
            begin_one = time.perf_counter()
            exchange()
            tf.test.experimental.sync_devices()
            times_s.append(time.perf_counter() - begin_one)
        arm.group.barrier()
        window_s = time.perf_counter() - begin
        self.everyone.barrier()
        return Window(number, place, window_s, times_s)

    def _prepare(self, turn: Turn) -> None:
        """Wait until all ranks, and the links between them, are ready for a turn."""
        self.restore()
        if self.everyone.rank == 0 and self.limited and len(set(self._links)) > 1:
            self._gate.use_link(self._links[turn[0]])
        self.everyone.barrier()

    def _own(self, turn: Turn) -> _Arm | None:
        """The arm of a turn that this rank takes part in."""
        return next((arm for place in turn if (arm := self.arms[place])), None)

    def _measure(self, turn: Turn, steps: int) -> _Half | None:
        """Steps of this rank's arm of a turn, between barriers; None where it has none there."""
        arm = self._own(turn)
        self._prepare(turn)
        with arm.batches() if arm else nullcontext(iter(())) as batches:
            if arm:
                run_steps(arm.step, batches, arm.settle_steps)
            if len(turn) > 1:
                self.everyone.barrier()
            made = self._window(arm, batches, steps) if arm else None
            self.everyone.barrier()
        return made

    def _window(self, arm: _Arm, batches: Batches, steps: int) -> _Half:
        """Timed steps between the barriers of the arm's ranks: nothing else is between them."""
        counted = core_use.read(energy=self._counts_energy)
        arm.group.barrier()
        begin = time.perf_counter()
        timed = run_steps(arm.step, batches, steps)
        arm.group.barrier()
        window_s = time.perf_counter() - begin
        return _Half(window_s, timed, core_use.since(counted))


def _arms(context: Context, learner: Learner) -> list[_Arm | None]:
    """The arms on this rank. Arms whose steps are the same, because nothing is exchanged in them, share one."""
    config, ranks = context.config, context.distribution
    steps: dict[tuple[int, int], TrainStep] = {}
    found: list[_Arm | None] = []
    for arm in config.rounds:
        if arm.world != placement.world() or ranks.rank >= arm.ranks:
            found.append(None)
            continue
        group = ranks.group(arm.ranks, arm.allreduce)
        key = (arm.ranks if _is_exchanged(arm) else 1, arm.batch_per_rank)
        if key not in steps:
            steps[key] = make_train_step(learner.model, learner.optimizer, group, config.optimizer.label_smoothing)
        found.append(_Arm(group, steps[key], *_batches(arm, _data(context, learner, arm))))
    return found


def _is_exchanged(arm: RoundArm) -> bool:
    return arm.allreduce and arm.ranks > 1


def _data(context: Context, learner: Learner, arm: RoundArm) -> Data:
    """The share of this rank in the data of an arm, whose batch may be another than that of the job's largest point."""
    config, rank, size = context.config, context.distribution.rank, arm.batch_per_rank
    if size == learner.data.batch_per_rank:
        data = copy.copy(learner.data)
    else:
        data = DATASETS[config.dataset.name](
            replace(config, batch_per_rank=size, global_batch=size * config.ranks), rank
        )
    data.share_out(rank, arm.ranks)
    return data


def _batches(arm: RoundArm, data: Data) -> tuple[Callable[[], AbstractContextManager[Batches]], int]:
    """What gives the batches of a window of an arm, and how many untimed steps it needs before."""
    if arm.reads:
        epochs = itertools.count()
        return lambda: _read(data, next(epochs)), _SETTLE_STEPS
    [batch] = itertools.islice(data.training(0), 1)
    return lambda: nullcontext(itertools.repeat(batch)), 1


@contextmanager
def _read(data: Data, epoch: int) -> Iterator[Batches]:
    """Batches from the files, from this epoch on. At the end reading ahead ends too: it would disturb other windows."""
    batches = endless(data, epoch)
    try:
        yield batches
    finally:
        batches.close()


def _exchanges(context: Context, learner: Learner, arms: Sequence[_Arm | None]) -> dict[int, ExchangeStep | None]:
    """The exchange of gradients by itself, by the arm's place: once for each number of ranks and rate of links.

    None on ranks that have no part in it. Empty unless measure.split asks for it.
    """
    of_config = context.config.rounds if context.config.measure.split else []
    first: dict[tuple[int, float | None], int] = {}
    for place, arm in enumerate(of_config):
        if arm.allreduce and arm.ranks > 1:
            first.setdefault((arm.ranks, arm.link_mbit_per_s), place)
    own = {place: arms[place] for place in first.values()}
    return {place: make_exchange_step(learner.model, arm.group) if arm else None for place, arm in own.items()}


def turns(config: Config) -> list[Turn]:
    """The arms by turns of a round: one each, or all together where worlds measure at the same time."""
    places = range(len(config.rounds))
    return [tuple(places)] if config.worlds_at_once else [(place,) for place in places]


def measure_rounds(context: Context, learner: Learner) -> None:
    """Measure all arms, round after round, until every speedup is precise enough or the budget is spent.

    Records the windows of each round at its end. The ranks of a world end with the weights of a step that all of them
    made together. Raises NotFinite, and ConfigError where ranks that wait would be ended.
    """
    clock, config = context.clock, context.config
    clock.enter("first_step")
    bench = _Bench(context, learner)
    bench.trace_alone(config)
    kept = _affordable(context, bench)
    for place in bench.exchanges:
        bench.exchange(place, 0)  # traced, not measured
    context.gate.wait_for_quota()
    bench.limited = True
    clock.enter("warm_up")
    times_s = [bench.warm_up(turn, _WARM_UP_STEPS) for turn in kept]
    steps = {turn: _steps(config, step_s) for turn, step_s in zip(kept, times_s, strict=True)}
    _check_patience(max(step_s * count for step_s, count in zip(times_s, steps.values(), strict=True)))
    clock.announce("timed")
    context.everyone.barrier()
    clock.enter("timed")
    _measure(context, bench, steps)
    clock.enter("evaluate")
    bench.limited = False
    context.gate.release()
    for world in range(max(1, len(config.worlds))):
        bench.warm_up((_largest(config, world),))


def _check_patience(longest_s: float) -> None:
    """Raise ConfigError where Horovod would end ranks that wait while others measure a window this long, in s.

    Waiting ranks exchange nothing but what Horovod negotiates in each cycle, so only its stall check can end them, and
    that only where a user has told it to.
    """
    given = os.environ.get(_STALL_SHUTDOWN, "0")
    check(
        not 0 < float(given) < _PATIENCE * longest_s,
        _STALL_SHUTDOWN,
        given,
        f"ranks wait while others measure windows of about {longest_s:.0f} s; unset it, or set at least "
        f"{_PATIENCE * longest_s:.0f}",
    )


def _affordable(context: Context, bench: _Bench) -> list[Turn]:
    """The turns of a round, each traced, but for arms of batches with which the budget would end after few rounds.

    Such an arm is not run at all: its time is estimated from that of the batch before it. Records why it is left out.
    """
    config = context.config
    kept: list[Turn] = []
    round_s = step_s = 0.0
    for turn in turns(config):
        arm, before = config.rounds[turn[0]], config.rounds[kept[-1][0]] if kept else None
        larger = before and arm.ranks == before.ranks and arm.batch_per_rank > before.batch_per_rank
        if before and larger and len(kept) >= _MIN_ARMS:
            expected_s = step_s * arm.batch_per_rank / before.batch_per_rank
            with_it_s = round_s + expected_s * (1 + _steps(config, expected_s))
            if with_it_s * intervals.MIN_VALUES > config.measure.budget_s:
                budget = f"the budget is {config.measure.budget_s:.0f} s"
                context.part.add(arms_left_out={arm.name: f"a round with it would take {with_it_s:.0f} s; {budget}"})
                continue
        step_s = bench.warm_up(turn, 2)
        round_s += step_s * (1 + _steps(config, step_s))
        kept.append(turn)
    return kept


def _largest(config: Config, world: int) -> int:
    """The first arm with allreduce of most ranks of a world, else the one without."""
    places = [place for place, arm in enumerate(config.rounds) if arm.world == world]
    return max(places, key=lambda place: (config.rounds[place].ranks, config.rounds[place].allreduce))


def _steps(config: Config, step_s: float) -> int:
    """How many steps a window needs where one takes `step_s`: their time must be long beside the barrier at its end."""
    enough_s = _CYCLES * config.distribution.cycle_time_ms / 1e3 / config.measure.precision_fraction
    return max(_MIN_STEPS, math.ceil(enough_s / step_s))


def _measure(context: Context, bench: _Bench, steps: Mapping[Turn, int]) -> None:
    """Measure and record rounds until it is enough. steps: of a window of each turn. Raises NotFinite."""
    config, taken = context.config, list(steps)
    order = np.random.default_rng([config.seed, context.repeat])
    arms = [rounds.Arm(arm.ranks, arm.batch_per_rank) for arm in config.rounds]
    of_ranks: list[list[Window]] = [[] for _ in range(context.everyone.size)]
    for number in itertools.count():
        made = [bench.take(taken[n], number, steps[taken[n]]) for n in order.permutation(len(taken))]
        own = [window for window, _ in made if window]
        alone = [bench.exchange(place, number) for place in bench.exchanges]
        context.part.add(windows=own, exchanges=[window for window in alone if window])
        told = context.everyone.gather(_Told(own, all(finite for _, finite in made), context.clock.elapsed_s()))
        if not all(one.finite for one in told):
            raise NotFinite(1 + max(steps.values()))
        for windows, one in zip(of_ranks, told, strict=True):
            windows += one.windows
        # All ranks decide alike: they know the same, and time is what rank 0 says.
        if told[0].elapsed_s >= config.measure.budget_s or _precise(rounds.rates(arms, of_ranks), config):
            return


def _precise(measured: rounds.Rates, config: Config) -> bool:
    """Whether the speedup of every measured arm over the first one is precise enough."""
    others = sorted({arm for rates in measured for arm in rates} - {0})
    return all(intervals.precise(rounds.ratios(measured, arm), config.measure.precision_fraction) for arm in others)
