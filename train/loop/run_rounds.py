"""Rounds: all points of a curve in one launch. A round runs every arm once, in a new random order, between barriers.

An arm is one of the points: the first ranks of the job, or of one of its rank groups, with allreduce or without.
`train.loop.arms` makes the arms on a rank, and `train.loop.windows` runs their windows. Nothing here needs TensorFlow.

With measure.split a round also measures the parts of a step: the exchange of each point's gradients by itself, and, if
images are read from files, each point with one batch in memory.
"""

import math
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from record import intervals, rounds
from record.disturbance import largest, select, window_disturbance
from record.protocol import EarlierLaunch
from train.config.checks import check
from train.config.run_config import RunConfig
from train.loop import ArmSet, Length, NotFinite
from train.loop.windows import WindowRunner
from train.rank import placement
from train.task import Context
from train.transport.rendezvous import IMPORT_WITHIN_S
from train.transport.tcp_group import AllRanks, TcpGroup, time_limit

_MIN_STEPS = 2  # of a window, unless steps are long
_LONG_S = 1.0  # of a step: a window of one is enough
_GLOO_TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
_STALL_SHUTDOWN = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
_STALL_FACTOR = 10  # a disturbed window takes several times as long as expected
_MIN_ARMS = 2  # measured with any budget: with fewer there is no ratio
_TIMES = 4  # a time is long compared with another if it is at least _TIMES / precision times as long
_BARRIER_S = 0.005  # over TCP, of hundreds of ranks
_QUOTA_BARRIER_S = 0.02  # a node that has used up its quota continues in its next period
_FIRST_STEP_S = 0.005  # at most, by which a first step is longer than others


@dataclass(frozen=True)
class _Seat:
    """Where a rank runs, for all others."""

    rank_group: int
    host: str
    cores: list[int]


@dataclass(frozen=True)
class _Report:
    """A rank's results of a round, for all others."""

    finite: bool  # all its losses are
    disturbance: float | None  # the largest of its windows
    began_s: float  # the rounds, since the launch of the job
    elapsed_s: float  # now


def measure_rounds(context: Context, runner: WindowRunner) -> None:
    """Measure all arms, round after round, until the time of the launch is over.

    Records the windows of each round at its end. The ranks of a group end with the weights of a step that all of them
    made together. Raises NotFinite, and ConfigError if Horovod would end waiting ranks.
    """
    clock, config = context.clock, context.config
    runner.trace()
    clock.enter("warm_up")
    earlier = _earlier_launch(context)
    with context.distribution.apart():
        times_s = _earlier_times(context, runner, earlier) if earlier else _affordable(context, runner)
        for index in runner.exchanges:
            runner.exchange(index, 0)  # traced, not measured
        context.gate.wait_for_quota()
        runner.limited = True
        if config.emulated and not earlier:
            times_s = {arms: _step_s(runner, arms) for arms in times_s}
        steps = {arms: _steps(config, step_s) for arms, step_s in times_s.items()}
        if context.all_ranks.rank == 0:
            names = {config.launch.rounds[index].name: arms for arms in steps for index in arms}
            context.part.add(untimed_steps={name: steps[arms].untimed for name, arms in names.items()})
        longest_s = max(step_s * steps[arms].timed for arms, step_s in times_s.items())
        _check_stall_shutdown(longest_s)
        seat = _Seat(placement.rank_group(), socket.gethostname(), list(context.part.part.cores))
        seats = context.all_ranks.gather(seat, _Seat)
        _limit_waits(context.all_ranks, [seat.host for seat in seats], longest_s)
        if not earlier:
            _measure_rooflines(context, runner)
        clock.announce("timed")
        context.all_ranks.barrier()
        clock.enter("timed")
        _measure(context, runner, steps, _ranks_share_cores(config, seats))
        clock.enter("evaluate")
        if not earlier:
            _measure_rooflines(context, runner, brief=True)
        runner.limited = False
        context.gate.release()
        for group in range(max(1, len(config.launch.rank_groups))):
            runner.last_step_s((_largest_arm(config, group),), 1)


def _earlier_launch(context: Context) -> EarlierLaunch | None:
    """Return what an earlier launch of the same plan on these hosts measured; None if there was none."""
    environment, earlier = context.part.part.environment, context.rounds.earlier
    hosts = [(host.host, host.cpu_model, host.cores) for host in environment.hosts] if environment else []
    alike = earlier is not None and sorted(hosts) == sorted(earlier.hosts)  # only rank 0 knows all hosts
    return earlier if context.all_ranks.gather(alike, bool)[0] else None


def _earlier_times(context: Context, runner: WindowRunner, earlier: EarlierLaunch) -> dict[ArmSet, float]:
    """Return the times of a step of the arms in an earlier launch; a step that has not run yet is traced."""
    times_s = {}
    for arms in _arm_sets(context.config):
        if runner.is_untraced(arms):
            runner.last_step_s(arms, 1)
        times_s[arms] = max(earlier.step_times_s[index] for index in arms)
    return times_s


def _measure_rooflines(context: Context, runner: WindowRunner, brief: bool = False) -> None:
    """Measure the rooflines of the arms, in the first launch on a machine; `brief` again after its rounds.

    Arms of the same rank group, number of ranks and rate of links have the same one: it is measured once.

    A disturbance so spoils only one. On a virtual machine whose cores are threads of a busy host, products ran at half
    their speed for seconds.
    """
    first: dict[tuple[int, int, float | None], int] = {}
    for index, arm in enumerate(context.config.launch.rounds):
        first.setdefault((arm.rank_group, arm.ranks, arm.link_mbit_per_s), index)
    for index in first.values():
        runner.measure_roofline(index, brief)


def _check_stall_shutdown(longest_s: float) -> None:
    """Raise ConfigError if Horovod would end ranks that wait while others measure a window this long, in s.

    Waiting ranks exchange nothing but Horovod's negotiation in each cycle. So only its stall check can end them, and
    only if a user has switched it on.
    """
    value = os.environ.get(_STALL_SHUTDOWN, "0")
    check(
        not 0 < float(value) < _STALL_FACTOR * longest_s,
        _STALL_SHUTDOWN,
        value,
        f"ranks wait while others measure windows of about {longest_s:.0f} s; unset it, or set at least "
        f"{_STALL_FACTOR * longest_s:.0f}",
    )


def _limit_waits(all_ranks: AllRanks, hosts: Sequence[str], longest_s: float) -> None:
    """Limit the waits for ranks that do not come to a window; the error names the rank.

    hosts: of all ranks. longest_s: of a window. In an exchange Horovod's Gloo waits as long as its variable says.
    """
    if isinstance(all_ranks, TcpGroup):
        limit_s = max(float(os.environ.get(_GLOO_TIMEOUT, IMPORT_WITHIN_S)), _STALL_FACTOR * longest_s)
        all_ranks.on_wait = time_limit(limit_s, all_ranks.rank, hosts, "come to the next window")


def _ranks_share_cores(config: RunConfig, seats: Sequence[_Seat]) -> bool:
    """Return whether other ranks are most of what else runs on a rank's cores. seats: of all ranks.

    Rank groups may have the same cores, as they take turns.
    """
    own = [(seat.host, seat.cores, 1) for seat in seats if seat.rank_group == placement.rank_group()]
    return config.emulated or placement.shared_on_a_host(own)


def _step_s(runner: WindowRunner, arms: ArmSet) -> float:
    """Return the time of a step of these arms, in s.

    The first step of a compiled function does not count: it is traced, and allocates memory. The shorter of two other
    steps counts: after a disturbed one, windows would be too short. Steps of _LONG_S or more are not repeated.
    """
    step_s = runner.last_step_s(arms, 1 + runner.is_untraced(arms))
    return step_s if step_s >= _LONG_S else min(step_s, runner.last_step_s(arms, 1))


def _affordable(context: Context, runner: WindowRunner) -> dict[ArmSet, float]:
    """Return the time of a step of the arms, without arms with batches so large that the budget allows few rounds.

    Such an arm is not run at all: its time is estimated from that of the batch before it. The reason is recorded.
    """
    config = context.config
    times_s: dict[ArmSet, float] = {}
    round_s, measured = 0.0, dict[int, tuple[int, float]]()  # ranks -> batch of the last arm on them, time of its step
    for arms in _arm_sets(config):
        arm = config.launch.rounds[arms[0]]
        batch, step_s = measured.get(arm.ranks, (arm.batch_per_rank, 0.0))
        if arm.batch_per_rank > batch and len(times_s) >= _MIN_ARMS:
            expected_s = step_s * arm.batch_per_rank / batch
            with_it_s = round_s + _window_s(config, expected_s)
            if with_it_s * math.ceil(intervals.MIN_VALUES / config.measure.repeats) > end_s(config):
                budget = f"a launch has {end_s(config):.0f} s"
                context.part.add(arms_left_out={arm.name: f"a round with it would take {with_it_s:.0f} s; {budget}"})
                continue
        times_s[arms] = step_s = _step_s(runner, arms)
        round_s, measured[arm.ranks] = round_s + _window_s(config, step_s), (arm.batch_per_rank, step_s)
    return times_s


def _arm_sets(config: RunConfig) -> list[ArmSet]:
    """Return the sets of arms that measure at the same time, in the order of the arms."""
    indices = range(len(config.launch.rounds))
    return [tuple(indices)] if config.launch.rank_groups_at_once else [(index,) for index in indices]


def _largest_arm(config: RunConfig, group: int) -> int:
    """Return the first arm on most ranks of a rank group, if possible one with allreduce."""
    arms = config.launch.rounds
    indices = [index for index, arm in enumerate(arms) if arm.rank_group == group]
    return max(indices, key=lambda index: (arms[index].ranks, arms[index].allreduce))


def _steps(config: RunConfig, step_s: float) -> Length:
    """Return how many steps a window needs if one takes `step_s`.

    A window must be long compared with the barrier at its end. Long steps need no untimed step before them: the extra
    time of a first step does not matter then.
    """
    barrier_s = _QUOTA_BARRIER_S if config.emulated else _BARRIER_S
    if config.launch.rank_groups_at_once:  # the barrier is Horovod's, which ends with a cycle
        barrier_s = config.distribution.cycle_time_ms / 1e3
    times = _TIMES / config.measure.precision_fraction
    least = 1 if step_s >= _LONG_S else _MIN_STEPS
    return Length(max(least, math.ceil(times * barrier_s / step_s)), untimed=int(step_s < times * _FIRST_STEP_S))


def _window_s(config: RunConfig, step_s: float) -> float:
    """Return how long a window takes with its untimed steps if a step takes `step_s`."""
    steps = _steps(config, step_s)
    return step_s * (steps.timed + steps.untimed)


def end_s(config: RunConfig) -> float:
    """Return when the rounds end, in s after the start of the launch. Tests replace it, to end after so many rounds."""
    return config.launch.rounds_end_s


def _is_due(config: RunConfig, arms: ArmSet, number: int) -> bool:
    """Return whether a round measures these arms: all but the first in CONTROL_EVERY leave out controls.

    Speedups do not need them. Every round has them if one is the base, serves to split a step, or shows whether
    emulated nodes disturb each other.
    """
    roles = {arm.role for arm in config.launch.rounds}
    every = config.measure.split or config.emulated or "base" not in roles
    control = all(config.launch.rounds[index].role == "control" for index in arms)
    return every or not control or number % rounds.CONTROL_EVERY == 0


def _measure(context: Context, runner: WindowRunner, steps: Mapping[ArmSet, Length], ranks_share_cores: bool) -> None:
    """Measure and record rounds until enough of them count, or the time is over; one at least.

    steps: of each window. Raises NotFinite.
    """
    config, measured = context.config, list(steps)
    begin_s, disturbances = context.clock.elapsed_s(), dict[int, float | None]()
    for number, order in enumerate(rounds.orders(config.seed, context.repeat, len(measured))):
        due = [arms for n in order if _is_due(config, arms := measured[n], number)]
        results = [runner.run_window(arms, number, steps[arms]) for arms in due]
        windows = [window for window, _ in results if window]
        exchanges = [runner.exchange(index, number) for index in runner.exchanges]
        context.part.add(windows=windows, exchanges=[window for window in exchanges if window])
        fractions = (window_disturbance(w.cores, len(context.part.part.cores), ranks_share_cores) for w in windows)
        finite = all(finite for _, finite in results)
        report = _Report(finite, largest(fractions), begin_s, context.clock.elapsed_s())
        reports = context.all_ranks.gather(report, _Report)
        disturbances[number] = largest(report.disturbance for report in reports)
        if context.all_ranks.rank == 0:
            context.part.add(disturbances=[disturbances[number]])
        if not all(rank_report.finite for rank_report in reports):
            raise NotFinite(1 + max(length.timed for length in steps.values()))
        counting = len(select(disturbances, config.measure.precision_fraction).counting)
        enough = context.rounds.enough_rounds is not None and counting >= context.rounds.enough_rounds
        begin_s, now_s = reports[0].began_s, reports[0].elapsed_s  # all ranks decide alike, by the time of rank 0
        round_s = (now_s - begin_s) / (number + 1)  # half of the next one may be beyond the end
        if enough or now_s + round_s / 2 >= max(end_s(config), begin_s + context.rounds.rounds_s):
            return
