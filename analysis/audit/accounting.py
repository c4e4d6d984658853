"""Rules on the time of a launch: all of it is accounted for, and ranks leave a barrier together."""

import math
import statistics
from collections.abc import Iterator
from itertools import pairwise

from analysis import metrics
from analysis.audit.findings import RECORD_RULES, Finding, finding, rule
from analysis.stats import repeats
from analysis.table.checks.check import Slack, resized
from analysis.thresholds import limit
from train.record.record import PHASES, Rank, RunRecord, Usage, Window
from train.record.rounds import windows_by_turn

Turns = dict[tuple[int, int], list[Window]]  # by round and arm
# All ranks leave these phases together: each ends with a wait for all ranks.
_TOGETHER = ("init", "broadcast", "first_step", "warm_up", "timed")
_FACTOR, _FIRST_STEP_S = 4, 0.005  # as train.loop.rounds decides whether a turn has an untimed step


@rule(RECORD_RULES)
def barriers_together(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a rank that ends a phase earlier or later than the others, although all of them wait there for the last.

    The phases of a rank add up from the launch of the job. Ranks that join or leave, or that were started by hand, have
    no common origin. If other processes had the cores, a rank that may go on can wait that much longer to do so.
    """
    if len(run.ranks) < 2 or resized(run) or run.failure or (run.order is None and run.rounds_end_s is None):
        return
    slack = Slack.from_run(run)
    allowed_s = limit("together_s") * _slowed(run) + slack.pause_s + slack.cycles_s
    allowed_s += limit("clock_skew_s") if len({rank.host for rank in run.ranks}) > 1 else 0.0
    ends = {phase: [_end_s(rank, phase) for rank in run.ranks] for phase in _TOGETHER}
    apart = {phase: max(ends_s) - min(ends_s) for phase, ends_s in ends.items()}
    phase = max(apart, key=lambda name: apart[name])
    if apart[phase] > allowed_s:
        late = max(run.ranks, key=lambda rank: abs(_end_s(rank, phase) - statistics.median(ends[phase])))
        stated = f"rank {late.rank} ends {phase} {apart[phase]:.2f} s away from another rank"
        meaning = "All ranks wait for each other there. Its phases, or those of the others, are not as they were."
        yield finding(path, "serious", stated, f"{allowed_s:.2f} s at most", None, meaning)


def _end_s(rank: Rank, phase: str) -> float:
    """Return when a rank ended a phase, in seconds from the launch of the job."""
    return sum(rank.phases_s.get(name, 0.0) for name in PHASES[: PHASES.index(phase) + 1])


@rule(RECORD_RULES)
def timed_phase_filled(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a timed phase that its windows, with their barriers and untimed steps, do not fill, or do not fit into.

    A round that was removed leaves a gap. One that was added, or a window that was made longer, has no room.
    """
    by_turn = windows_by_turn(rank.windows for rank in run.ranks)
    if not by_turn or run.config.get("rank_groups_at_once") or run.failure:
        return
    timed_s = max(rank.phases_s.get("timed", 0.0) for rank in run.ranks)
    windows_s = _windows_s(run, by_turn)
    between_s = _between_s(run, by_turn, _untimed_arms(run, by_turn))
    gap_s = timed_s - windows_s - between_s
    if gap_s > limit("gap_s") + limit("gap_fraction") * between_s:
        stated = f"{timed_s:.1f} s in the timed phase"
        follows = f"{windows_s + between_s:.1f} s at most, of {len(by_turn)} windows and what is between them"
        meaning = "Something else ran for that long, or rounds were removed."
        yield finding(path, "serious", stated, follows, metrics.change_fraction(timed_s - gap_s, timed_s), meaning)


def _windows_s(run: RunRecord, by_turn: Turns) -> float:
    """Return how long the windows of these turns take, one after the other, and the exchanges of their rounds."""
    rounds = {number for number, _ in by_turn}
    exchanges = [sum(window.window_s for window in rank.exchanges if window.round in rounds) for rank in run.ranks]
    return sum(max(window.window_s for window in windows) for windows in by_turn.values()) + max(exchanges)


def _steps_s(by_turn: Turns) -> dict[tuple[int, int], float]:
    """Return the time of a step on the slowest rank, by turn."""
    return {
        turn: max(window.window_s / max(1, len(window.step_times_s)) for window in windows)
        for turn, windows in by_turn.items()
    }


def _untimed_arms(run: RunRecord, by_turn: Turns) -> set[int]:
    """Return the arms whose windows come after an untimed step, as a step in the warm-up decided.

    That step may have been shorter than those of the windows, by the time that other processes took from these.
    """
    precision = run.config["measure"].get("precision_fraction")
    long_s = _FACTOR / precision * _FIRST_STEP_S * _slowed(run) if precision else math.inf
    shortest_s: dict[int, float] = {}
    for (_, arm), step_s in _steps_s(by_turn).items():
        shortest_s[arm] = min(step_s, shortest_s.get(arm, step_s))
    return {arm for arm, step_s in shortest_s.items() if step_s < long_s}


def _slowed(run: RunRecord) -> float:
    """Return by which factor other processes on the cores of a rank slowed everything, as the kernel counted it.

    1 if nodes are held to quotas: there the other processes are mostly the other ranks.
    """
    shares = [0.0]
    for rank in run.ranks if not run.node_quotas else ():
        counts = [window.cores for window in rank.windows if window.cores]
        spans_s = sum(span.wall_s for span in counts) * max(1, len(rank.cores))
        # The time in which the rank was ready and had no core, if the kernel counts it.
        taken_s = sum(c.steal_s + (c.busy_s - c.own_s if c.delay_s is None else c.delay_s) for c in counts)
        shares += [taken_s / spans_s] if spans_s else []
    return 1 / (1 - min(max(shares), limit("most_taken")))


def _between_s(run: RunRecord, by_turn: Turns, untimed: set[int]) -> float:
    """Return about how long the barriers and the untimed steps of these turns take."""
    period_s = max((quota.period_s for quota in run.node_quotas), default=0.0)
    restored_s = run.work.gradient_bytes / limit("restored_bytes_per_s") if run.work else 0.0  # the weights, each turn
    joined_s = limit("joined_s") if run.config.get("join_in_turn") else 0.0
    turn_s = limit("between_windows_s") + limit("barrier_cycles") * period_s + restored_s + joined_s
    steps_s = sum(step_s for (_, arm), step_s in _steps_s(by_turn).items() if arm in untimed)
    return len(by_turn) * turn_s * _slowed(run) + steps_s


@rule(RECORD_RULES)
def stopping_rule(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a launch whose rounds end before, or go on after, the launcher's end of its rounds let them.

    Rank 0 decides after each round: half of a mean round may lie beyond that end. The last round ends with its timed
    phase. The end of the round before it follows from the windows of the last round and the time between them.
    """
    by_turn, end_s = windows_by_turn(rank.windows for rank in run.ranks), run.rounds_end_s
    if end_s is None or not by_turn or run.failure:
        return
    last = max(number for number, _ in by_turn)
    stopped_s, timed_s = _end_s(run.ranks[0], "timed"), run.ranks[0].phases_s.get("timed", 0.0)
    in_last = {turn: windows for turn, windows in by_turn.items() if turn[0] == last}
    between_s = _between_s(run, in_last, _untimed_arms(run, by_turn))
    between_s = max(between_s, (timed_s - _windows_s(run, by_turn)) / (last + 1))  # of this round, or the mean of all
    last_s = _windows_s(run, in_last) + limit("gap_s") + (1 + limit("gap_fraction")) * between_s
    before_s = stopped_s - last_s
    meaning = "Rounds were removed, or added, or times were changed: the launcher's rule stops elsewhere."
    if stopped_s + timed_s / (last + 1) / 2 < end_s - limit("rounding_s"):
        stated = f"{last + 1} rounds, the last of which ended after {stopped_s:.1f} s"
        yield finding(path, "serious", stated, f"one more: they were to end after {end_s:.1f} s", None, meaning)
    elif last and before_s + (timed_s - last_s) / last / 2 >= end_s:
        stated = f"round {last + 1}, begun after {before_s:.1f} s"
        yield finding(path, "serious", stated, f"none: rounds were to end after {end_s:.1f} s", None, meaning)


def _sampled(run: RunRecord) -> Iterator[tuple[Rank, Usage]]:
    """Yield the ranks with usable samples of usage.

    A driver of a GPU may hang, and ranks that share cores keep each other's samples waiting.
    """
    for rank in run.ranks if not (run.failure or run.cores_shared) else ():
        if rank.usage and len(rank.usage.at_s) >= limit("least_samples") and not rank.gpu:
            yield rank, rank.usage


@rule(RECORD_RULES)
def sampled_throughout(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a rank whose samples of usage leave a gap, or end before it: time was added, or samples were removed.

    A process beside the rank takes them, period by period, until the last line of the rank.
    """
    for rank, used in _sampled(run):
        end_s = sum(time_s for name, time_s in rank.phases_s.items() if name != "exit")
        spans = [(later - earlier, earlier) for earlier, later in pairwise([*used.at_s, max(end_s, used.at_s[-1])])]
        usual_s = statistics.median(span_s for span_s, _ in spans)
        period_s = max(run.config["measure"].get("usage_period_s") or 0.0, usual_s)
        longest_s, at_s = max(spans)
        if longest_s > 1.5 * period_s + limit("sampled_late_s"):
            stated = f"rank {rank.rank}: no sample of its usage for {longest_s:.1f} s after {at_s:.1f} s"
            meaning = "It is sampled until it ends. Its phases are longer than they were, or samples were removed."
            yield finding(path, "serious", stated, f"one in {period_s:.3g} s", None, meaning)
            return


@rule(RECORD_RULES)
def cpu_of_samples(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report samples between which a rank took more CPU time than its cores have: time between them was cut."""
    for rank, used in _sampled(run):
        cores = max(1, len(rank.cores))
        beyond_s = most_s = 0.0  # for the stretch of samples that ends here, and for the worst stretch
        for (cpu_s, at_s), (next_cpu_s, next_at_s) in pairwise(zip(used.cpu_s, used.at_s, strict=True)):
            beyond_s = max(0.0, beyond_s + next_cpu_s - cpu_s - cores * (next_at_s - at_s))
            most_s = max(most_s, beyond_s)
        if most_s > limit("sampled_cpu_s") * cores:
            stated = f"rank {rank.rank}: {most_s:.2f} s more CPU time between samples than its cores have"
            meaning = "The times of its samples are closer to each other than they were."
            yield finding(path, "serious", stated, f"{cores} s a second at most", None, meaning)
            return


@rule(RECORD_RULES)
def idle_cores(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report windows without exchange in which cores were idle on one number of ranks and not on another.

    Without an exchange a rank computes all the time, alone or among others. Windows that were made longer, or shorter,
    are filled less, or more than others, by the kernel's count.
    """
    arms = run.config.get("rounds") or []
    shares = {
        arm["name"]: share
        for index, arm in enumerate(arms)
        if (arm["role"] == "control" or arm["ranks"] == 1) and (share := _busy_share(run, index)) is not None
    }
    if len(shares) < 2 or run.cores_shared:
        return
    low, high = min(shares, key=lambda name: shares[name]), max(shares, key=lambda name: shares[name])
    off = metrics.change_fraction(shares[high], shares[low])
    if off < -limit("idle_apart"):
        stated = f"{low}: cores busy {shares[low]:.0%} of its windows"
        meaning = "Neither exchanges anything. Its windows were made longer, or it waited for something else."
        yield finding(path, "serious", stated, f"{shares[high]:.0%}, as in {high}", off, meaning)


def _busy_share(run: RunRecord, arm: int) -> float | None:
    """Return the share of the windows of an arm in which its cores were busy; None for too few ticks."""
    counted = [
        (window.cores, max(1, len(rank.cores)))
        for rank in run.ranks
        for window in rank.windows
        if window.arm == arm and window.cores
    ]
    spans_s = sum(core_use.wall_s * cores for core_use, cores in counted)
    if spans_s < limit("least_spans_s"):
        return None
    return sum(core_use.busy_s + core_use.steal_s for core_use, _ in counted) / spans_s


@rule(RECORD_RULES)
def cpu_of_steps(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a base whose steps took more CPU time than the same steps of the control, which exchanges nothing either.

    The computation of a step does not depend on the number of ranks. Neighbours can only make it take longer.
    """
    arms = run.config.get("rounds") or []
    bases = [index for index, arm in enumerate(arms) if arm["role"] == "base" and arm["ranks"] == 1]
    for base in bases:
        for index, arm in enumerate(arms):
            if arm["role"] != "control" or arm["batch_per_rank"] != arms[base]["batch_per_rank"]:
                continue
            base_s, control_s = _cpu_s(run, base), _cpu_s(run, index)
            ratio = repeats.median([[base_s[n] / control_s[n] for n in sorted(base_s.keys() & control_s.keys())]])
            if ratio.has_interval and ratio.low > 1 + limit("cpu_apart"):
                stated = f"{arms[base]['name']}: {statistics.median(base_s.values()):.4g} s of CPU time a step"
                follows = f"{statistics.median(control_s.values()):.4g} s at most, as in {arm['name']}"
                meaning = "Both compute the same. The windows of one of them are longer or shorter than they were."
                yield finding(path, "serious", stated, follows, ratio.value - 1, meaning)


def _cpu_s(run: RunRecord, arm: int) -> dict[int, float]:
    """Return the CPU time of a step of an arm in each round, of all its ranks together."""
    used: dict[int, list[float]] = {}
    for rank in run.ranks:
        for window in rank.windows:
            if window.arm == arm and window.cores and window.step_times_s and window.cores.own_s > 0:
                used.setdefault(window.round, []).append(window.cores.own_s / len(window.step_times_s))
    return {number: statistics.mean(values) for number, values in used.items()}
