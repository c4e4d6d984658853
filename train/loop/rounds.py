"""Rounds: all points of a curve in one launch. A round runs every arm once, in an order drawn anew, between barriers.

An arm is one of the points: the first ranks of the job, or of one of its worlds, with allreduce or without.
`train.loop.arms` has the arms on a rank, `train.loop.bench` takes their turns.

With measure.split a round also has what tells the parts of a step apart: the exchange of each point's gradients by
itself, and where images are read from files, each point with one batch in memory.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from train.config.checks import check
from train.config.schema import RunConfig
from train.context import Context
from train.loop import limits
from train.loop.bench import Bench, Length, Turn
from train.loop.learner import Learner
from train.loop.timed_steps import NotFinite
from train.record import intervals, rounds
from train.transport.rendezvous import IMPORT_WITHIN_S
from train.transport.tcp_group import AllRanks, TcpGroup, time_limit

_MIN_STEPS = 2  # of a window, unless steps are long
_LONG_S = 1.0  # of a step: a window of one is enough
_GLOO_TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
_STALL_SHUTDOWN = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
_PATIENCE = 10  # a disturbed window takes several times as long as expected
_MIN_ARMS = 2  # these are measured whatever the budget is: with fewer there is no ratio
_TIMES = 4  # a time is long beside a short one where it is at least so many times as long, over the precision
_BARRIER_S = 0.005  # over TCP, of hundreds of ranks
_BARRIER_OF_QUOTA_S = 0.02  # a node that has used up its quota goes on in its next period
_FIRST_STEP_S = 0.005  # what a first step takes longer than others, at most


@dataclass(frozen=True)
class _Told:
    """What each rank tells the others after a round."""

    finite: bool  # its losses
    began_s: float  # the rounds, since the launch of the job
    elapsed_s: float  # now


def turns(config: RunConfig) -> list[Turn]:
    """The arms by turns of a round: one each, or all together where worlds measure at the same time."""
    places = range(len(config.launch.rounds))
    return [tuple(places)] if config.launch.groups_at_once else [(place,) for place in places]


def measure_rounds(context: Context, learner: Learner) -> None:
    """Measure all arms, round after round, until the time of the launch is over.

    Records the windows of each round at its end. The ranks of a world end with the weights of a step that all of them
    made together. Raises NotFinite, and ConfigError where ranks that wait would be ended.
    """
    clock, config = context.clock, context.config
    clock.enter("first_step")
    bench = Bench(context, learner)
    bench.trace(config)
    clock.enter("warm_up")
    with context.distribution.apart():
        times_s = _affordable(context, bench)
        for place in bench.exchanges:
            bench.exchange(place, 0)  # traced, not measured
        context.gate.wait_for_quota()
        bench.limited = True
        if config.system.cpus_per_node is not None:
            times_s = {turn: _step_s(bench, turn) for turn in times_s}
        steps = {turn: _steps(config, step_s) for turn, step_s in times_s.items()}
        longest_s = max(step_s * steps[turn].timed for turn, step_s in times_s.items())
        _check_patience(longest_s)
        _limit_waits(context.everyone, longest_s)
        _measure_limits(context, bench)
        clock.announce("timed")
        context.everyone.barrier()
        clock.enter("timed")
        _measure(context, bench, steps)
        clock.enter("evaluate")
        _measure_limits(context, bench)
        bench.limited = False
        context.gate.release()
        for world in range(max(1, len(config.launch.groups))):
            bench.last_step_s((_largest(config, world),), 1)


def _measure_limits(context: Context, bench: Bench) -> None:
    """Measure what limits the ranks of each arm: before the rounds and after them, so that one disturbance spoils one.

    On a virtual machine whose cores are threads of a busy host, products were seen at half their speed for seconds.
    """
    for place in limits.places(context.config):
        bench.measure_limits(context, place)


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


def _limit_waits(everyone: AllRanks, longest_s: float) -> None:
    """From now on name a rank that does not come to a window, and wait for it no longer.

    longest_s: of a window. In an exchange Horovod's Gloo waits as long as its variable says.
    """
    if isinstance(everyone, TcpGroup):
        hosts = everyone.gather(socket.gethostname(), str)
        limit_s = max(float(os.environ.get(_GLOO_TIMEOUT, IMPORT_WITHIN_S)), _PATIENCE * longest_s)
        everyone.on_wait = time_limit(limit_s, everyone.rank, hosts, "come to the next window")


def _step_s(bench: Bench, turn: Turn) -> float:
    """The time of a step of a turn, in s.

    The first step does not count: it may trace, and take memory. The shorter of two others, because a window whose
    length is chosen from a disturbed step would be too short; steps of _LONG_S or more are not made again.
    """
    step_s = bench.last_step_s(turn, 2)
    return step_s if step_s >= _LONG_S else min(step_s, bench.last_step_s(turn, 1))


def _affordable(context: Context, bench: Bench) -> dict[Turn, float]:
    """The time of a step in each turn of a round, but for arms of batches of which the budget allows few rounds.

    Such an arm is not run at all: its time is estimated from that of the batch before it. Records why it is left out.
    """
    config = context.config
    times_s: dict[Turn, float] = {}
    round_s, step_s, before = 0.0, 0.0, None
    for turn in turns(config):
        arm = config.launch.rounds[turn[0]]
        larger = before and arm.ranks == before.ranks and arm.batch_per_rank > before.batch_per_rank
        if before and larger and len(times_s) >= _MIN_ARMS:
            expected_s = step_s * arm.batch_per_rank / before.batch_per_rank
            with_it_s = round_s + _turn_s(config, expected_s)
            if with_it_s * math.ceil(intervals.MIN_VALUES / config.measure.repeats) > _end_s(config):
                budget = f"a launch has {_end_s(config):.0f} s"
                context.part.add(arms_left_out={arm.name: f"a round with it would take {with_it_s:.0f} s; {budget}"})
                continue
        times_s[turn] = step_s = _step_s(bench, turn)
        round_s, before = round_s + _turn_s(config, step_s), arm
    return times_s


def _largest(config: RunConfig, world: int) -> int:
    """The first arm with allreduce of most ranks of a world, else the one without."""
    places = [place for place, arm in enumerate(config.launch.rounds) if arm.group == world]
    return max(places, key=lambda place: (config.launch.rounds[place].ranks, config.launch.rounds[place].allreduce))


def _steps(config: RunConfig, step_s: float) -> Length:
    """How many steps a turn needs where one takes `step_s`.

    A window must be long beside the barrier at its end. A step that by itself is long beside what a first step takes
    longer than others needs none before it.
    """
    barrier_s = _BARRIER_S if config.system.cpus_per_node is None else _BARRIER_OF_QUOTA_S
    if config.launch.groups_at_once:  # by Horovod, which ends it with a cycle
        barrier_s = config.distribution.cycle_time_ms / 1e3
    times = _TIMES / config.measure.precision_fraction
    least = 1 if step_s >= _LONG_S else _MIN_STEPS
    return Length(max(least, math.ceil(times * barrier_s / step_s)), untimed=int(step_s < times * _FIRST_STEP_S))


def _turn_s(config: RunConfig, step_s: float) -> float:
    """How long a turn takes where a step takes `step_s`."""
    steps = _steps(config, step_s)
    return step_s * (steps.timed + steps.untimed)


def _end_s(config: RunConfig) -> float:
    """Return when the rounds end, in s after the start of the launch: the launcher divides the time of its command."""
    assert config.measure.budget_s is not None
    return config.measure.budget_s


def _measure(context: Context, bench: Bench, steps: Mapping[Turn, Length]) -> None:
    """Measure and record rounds until the time is over, one at least. steps: of each turn. Raises NotFinite."""
    config, taken = context.config, list(steps)
    begin_s = context.clock.elapsed_s()
    for number, order in enumerate(rounds.orders(config.seed, context.repeat, len(taken))):
        made = [bench.take(taken[n], number, steps[taken[n]]) for n in order]
        own = [window for window, _ in made if window]
        alone = [bench.exchange(place, number) for place in bench.exchanges]
        context.part.add(windows=own, exchanges=[window for window in alone if window])
        told = context.everyone.gather(
            _Told(all(finite for _, finite in made), begin_s, context.clock.elapsed_s()), _Told
        )
        if not all(one.finite for one in told):
            raise NotFinite(1 + max(of.timed for of in steps.values()))
        # All ranks decide alike: time is what rank 0 says. Half of the next round may be beyond the end.
        elapsed_s = told[0].elapsed_s
        if elapsed_s + (elapsed_s - told[0].began_s) / (number + 1) / 2 >= _end_s(config):
            return
