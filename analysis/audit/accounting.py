"""Rules on where the time of a launch went: all of it is accounted for, and ranks meet where they wait."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from analysis import metrics
from analysis.audit.findings import RECORD_RULES, Finding, finding, rule
from analysis.stats import repeats
from analysis.table.checks.check import Slack, resized
from analysis.thresholds import limit
from train.record.record import PHASES, Rank, RunRecord, Window

Turns = dict[tuple[int, int], list[tuple[Rank, Window]]]
# All ranks leave these phases together: what ends them waits for all.
_TOGETHER = ("init", "broadcast", "first_step", "warm_up", "timed")
_TIMES, _FIRST_STEP_S = 4, 0.005  # as train.loop.rounds decides whether a turn has an untimed step


def turns(run: RunRecord) -> Turns:
    """Return the windows of all ranks by round and arm."""
    by_turn: Turns = {}
    for rank in run.ranks:
        for window in rank.windows:
            by_turn.setdefault((window.round, window.arm), []).append((rank, window))
    return by_turn


@rule(RECORD_RULES)
def barriers_together(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a rank that ends a phase earlier or later than the others, although all of them wait there for the last.

    The phases of a rank add up from the launch of the job. Ranks that join or leave, or that were started by hand, have
    no common origin.
    """
    if len(run.ranks) < 2 or resized(run) or run.failure or run.order is None:
        return
    slack = Slack.from_run(run)
    allowed_s = limit("together_s") + slack.pause_s + slack.cycles_s
    allowed_s += limit("clock_skew_s") if len({rank.host for rank in run.ranks}) > 1 else 0.0
    ends = {phase: [_end_s(rank, phase) for rank in run.ranks] for phase in _TOGETHER}
    apart = {phase: max(of_ranks) - min(of_ranks) for phase, of_ranks in ends.items()}
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
    by_turn = turns(run)
    if not by_turn or run.config.get("rank_groups_at_once") or run.failure:
        return
    timed_s = max(rank.phases_s.get("timed", 0.0) for rank in run.ranks)
    windows_s = sum(max(window.window_s for _, window in windows) for windows in by_turn.values())
    windows_s += max(sum(window.window_s for window in rank.exchanges) for rank in run.ranks)
    between_s = _between_s(run, by_turn)
    gap_s = timed_s - windows_s - between_s
    if gap_s > limit("gap_s") + limit("gap_fraction") * between_s:
        stated = f"{timed_s:.1f} s in the timed phase"
        follows = f"{windows_s + between_s:.1f} s at most, of {len(by_turn)} windows and what is between them"
        meaning = "Something else ran for that long, or rounds were removed."
        yield finding(path, "serious", stated, follows, metrics.change_fraction(timed_s - gap_s, timed_s), meaning)


def _between_s(run: RunRecord, by_turn: Turns) -> float:
    """Return how long the barriers and the untimed steps of all turns take, about.

    Whether an arm has an untimed step was decided once, by the time of its step in the warm-up.
    """
    precision = run.config["measure"].get("precision_fraction")
    steps_s = {
        turn: max(window.window_s / max(1, len(window.step_times_s)) for _, window in windows)
        for turn, windows in by_turn.items()
    }
    shortest_s: dict[int, float] = {}
    for (_, arm), step_s in steps_s.items():
        shortest_s[arm] = min(step_s, shortest_s.get(arm, step_s))
    untimed = {arm for arm, s in shortest_s.items() if not precision or s < _TIMES / precision * _FIRST_STEP_S}
    period_s = max((quota.period_s for quota in run.node_quotas), default=0.0)
    restored_s = run.work.gradient_bytes / limit("restored_bytes_per_s") if run.work else 0.0  # the weights, each turn
    barriers_s = len(by_turn) * (limit("between_windows_s") + limit("barrier_cycles") * period_s + restored_s)
    return barriers_s + sum(step_s for (_, arm), step_s in steps_s.items() if arm in untimed)


@rule(RECORD_RULES)
def idle_cores(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report windows without exchange in which cores were idle on one number of ranks and not on another.

    Without an exchange a rank computes all the time, alone or among others. Windows that were made longer, or shorter,
    are filled less, or more than others, by what the kernel counted.
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
    """Return the share of the windows of an arm in which its cores were busy; None for too few ticks to tell."""
    counted = [
        (window.cores, max(1, len(rank.cores)))
        for rank in run.ranks
        for window in rank.windows
        if window.arm == arm and window.cores
    ]
    spans_s = sum(use.wall_s * cores for use, cores in counted)
    if spans_s < limit("least_spans_s"):
        return None
    return sum(use.busy_s + use.steal_s for use, _ in counted) / spans_s


@rule(RECORD_RULES)
def cpu_of_steps(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a base whose steps took more CPU time than the same steps of the control, which exchanges nothing either.

    What a step computes does not depend on how many ranks compute. Neighbours can only make it take longer.
    """
    arms = run.config.get("rounds") or []
    bases = [index for index, arm in enumerate(arms) if arm["role"] == "base" and arm["ranks"] == 1]
    for base in bases:
        for index, arm in enumerate(arms):
            if arm["role"] != "control" or arm["batch_per_rank"] != arms[base]["batch_per_rank"]:
                continue
            ours, theirs = _cpu_s(run, base), _cpu_s(run, index)
            ratio = repeats.median([[ours[n] / theirs[n] for n in sorted(ours.keys() & theirs.keys())]])
            if ratio.has_interval and ratio.low > 1 + limit("cpu_apart"):
                stated = f"{arms[base]['name']}: {statistics.median(ours.values()):.4g} s of CPU time a step"
                follows = f"{statistics.median(theirs.values()):.4g} s at most, as in {arm['name']}"
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
