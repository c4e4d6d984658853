"""Checks of times: sums, ranks against each other, clocks, the kernel's counters, and the windows of rounds."""

import math
import operator
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from analysis.table.checks.check import (
    Contradiction,
    Slack,
    check,
    core_uses,
    delayed_s,
    in_rounds,
    off,
    resized,
    sweeps,
    trained_epochs,
    unequal_ranks,
    unequal_times,
    window_name,
)
from analysis.thresholds import limit
from train.record import summary as summaries
from train.record.record import Rank, RunRecord, Window
from train.record.rounds import ranks_of, windows_by_turn


@check
def phases_and_job(run: RunRecord) -> Iterator[Contradiction]:
    """The phases of a rank add up to the time of the job: a launcher assigns the rest to `exit`.

    If they are longer than the job (`exit` is then 0), the clocks of two hosts differ. Without a launcher the time of
    the job is the sum of rank 0.
    """
    rounding_s = limit("rounding_s")
    for rank in run.ranks:
        phases_s = sum(rank.phases_s.values())
        if "exit" not in rank.phases_s and (rank.rank or run.status == "failed"):
            continue
        skew_s = limit("clock_skew_s") if rank.phases_s.get("exit") == 0 else 0.0
        if not -rounding_s <= phases_s - run.job_s <= skew_s + rounding_s:
            yield unequal_times("job_s", run.job_s, f"the phases of rank {rank.rank} add up to", phases_s)


@check
def clocks_forward(run: RunRecord) -> Iterator[Contradiction]:
    """Times are not negative, steps take time, and times ascend within the time of the job.

    A rank is sampled until its last line: the phase `exit` comes after it.
    """
    try:
        datetime.fromisoformat(run.started_at)
    except ValueError:
        yield Contradiction(f"started_at {run.started_at!r}", "no date and time in ISO 8601")
    for rank in run.ranks:
        times_s = {f"phase {name}": time_s for name, time_s in rank.phases_s.items() if time_s < 0}
        times_s |= {
            name: least_s
            for name in ("step_times_s", "warm_up_step_times_s", "compute_times_s")
            if (least_s := min(getattr(rank, name), default=1.0)) < 0 or (least_s == 0 and name != "compute_times_s")
        }
        for name, time_s in times_s.items():
            yield Contradiction(f"rank {rank.rank}: {name} {time_s:.6g} s", "time goes forward")
        if used := rank.usage:
            end_s = run.job_s - rank.phases_s.get("exit", 0.0) + limit("clock_skew_s")
            yield from _ascending(f"rank {rank.rank}: samples of usage at", used.at_s, end_s)
            yield from _ascending(f"rank {rank.rank}: CPU time of samples", used.cpu_s)
    yield from _ascending("changes of the ranks at", [change.at_s for change in run.resizes], run.job_s)
    numbers = [epoch.epoch for epoch in run.epochs]
    if numbers != list(range(1, len(numbers) + 1)):
        yield Contradiction(f"epochs numbered {numbers}", "one after the other, from 1")


def _ascending(text: str, values: list[float], end: float = math.inf) -> Iterator[Contradiction]:
    for before, after in pairwise(values):
        if after < before:
            yield Contradiction(f"{text} {after:.6g} s", f"{before:.6g} s before it")
    if values and values[-1] > end:
        yield Contradiction(f"{text} {values[-1]:.6g} s", f"the end was at {end:.6g} s")


def _fit(window_s: float, steps_s: float, slack_s: float = math.inf) -> bool:
    """Return whether steps lie within their window, and fill it up to `slack_s`."""
    return -limit("rounding_s") <= window_s - steps_s <= slack_s


def _misfit(text: str, window_s: float, steps_s: float) -> Contradiction:
    return unequal_times(text, window_s, "its steps add up to", steps_s)


@check
def steps_and_window(run: RunRecord) -> Iterator[Contradiction]:
    """The timed steps of a rank lie between the barriers of its window; on the slowest rank they fill it.

    With epochs there are as many windows; of a sweep, one for each message size.
    """
    if in_rounds(run) or resized(run) or run.printed or run.status != "complete" or not run.ranks:
        return
    if sweeps(run):
        windows, sums = len(run.ranks[0].allreduces), [sum(map(sum, _allreduces(rank))) for rank in run.ranks]
    else:
        windows, sums = max(1, len(run.epochs)), [sum(rank.step_times_s) for rank in run.ranks]
    timed, slack = [rank.phases_s["timed"] for rank in run.ranks], Slack.from_run(run)
    longest_s, shortest_s = max(timed), min(timed)
    delayed = delayed_s(rank.timed_cores for rank in run.ranks)
    slack_s = windows * slack.barrier_s(longest_s / windows, len(run.ranks)) + delayed
    for rank, steps_s, window_s in zip(run.ranks, sums, timed, strict=True):
        if not _fit(window_s, steps_s):
            yield _misfit(f"rank {rank.rank}: timed", window_s, steps_s)
    if not _fit(longest_s, max(sums), slack_s):
        yield _misfit("the longest timed phase", longest_s, max(sums))
    apart = windows * slack.apart_s(longest_s / windows) + delayed
    if longest_s - shortest_s > apart:
        yield unequal_ranks("timed", longest_s, shortest_s, ", within the same barriers")


def _allreduces(rank: Rank) -> list[list[float]]:
    return [entry.times_s for entry in rank.allreduces]


@check
def allreduces_of_ranks(run: RunRecord) -> Iterator[Contradiction]:
    """The allreduces of one message size take all ranks equally long: each waits for all, between two barriers."""
    if not all(rank.allreduces for rank in run.ranks):
        return
    slack = Slack.from_run(run)
    for entries in zip(*(rank.allreduces for rank in run.ranks), strict=False):
        sums = [sum(entry.times_s) for entry in entries]
        one_s = max(sums) / max(1, len(entries[0].times_s))  # the last one ends on all ranks within its own time
        if max(sums) - min(sums) > slack.barrier_s(max(sums), len(run.ranks)) + one_s:
            text = f"{len(entries[0].times_s)} allreduces of {entries[0].message_bytes} bytes in"
            yield unequal_ranks(text, max(sums), min(sums))


@check
def warm_up_and_phase(run: RunRecord) -> Iterator[Contradiction]:
    """The steps of the warm-up lie within the phase."""
    for rank in run.ranks:
        if rank.warm_up_step_times_s and "warm_up" in rank.phases_s:
            phase_s, steps_s = rank.phases_s["warm_up"], sum(rank.warm_up_step_times_s)
            if not _fit(phase_s, steps_s):
                yield _misfit(f"rank {rank.rank}: warm_up", phase_s, steps_s)


@check
def computing_and_step(run: RunRecord) -> Iterator[Contradiction]:
    """The local gradients are ready before the step ends."""
    for rank in run.ranks:
        holders: list[Rank | Window] = [rank, *rank.windows]
        for timed in holders:
            if any(map(operator.gt, timed.compute_times_s, timed.step_times_s)):  # seldom
                counted = timed.cores if isinstance(timed, Window) else timed.timed_cores
                yield from _computed_late(rank, timed, Slack.from_run(run).pause_s + delayed_s([counted]))


def _computed_late(rank: Rank, timed: Rank | Window, slack_s: float) -> Iterator[Contradiction]:
    """Yield the steps that ended more than `slack_s` before their gradients were ready."""
    for step_s, computed_s in zip(timed.step_times_s, timed.compute_times_s, strict=False):
        if computed_s > step_s + slack_s:
            text = f"rank {rank.rank}: a step of"
            yield unequal_times(text, step_s, "its gradients were ready after", computed_s)


@check
def counters_and_window(run: RunRecord) -> Iterator[Contradiction]:
    """The kernel's counters of a rank's cores span the barriers of the timed steps: they took no less time."""
    rounding_s = limit("rounding_s")
    for rank, window, counted in core_uses(run):
        time_s = window.window_s if window else rank.phases_s.get("timed", 0.0)
        if counted.wall_s < time_s - rounding_s:
            text = f"{window_name(rank, window)}: {'window' if window else 'timed'}"
            yield unequal_times(text, time_s, "the counters of its cores were read within", counted.wall_s)


@check
def epochs_and_steps(run: RunRecord) -> Iterator[Contradiction]:
    """The time of an epoch is that of its steps and of the barrier at its end; of the first one, the first step too."""
    if not run.epochs or resized(run) or run.status != "complete":
        return
    first_step_s, slack = run.ranks[0].phases_s["first_step"], Slack.from_run(run)
    for position, steps in trained_epochs(run):
        epoch = run.epochs[position]
        sums = max(sum(rank.step_times_s[steps]) for rank in run.ranks)
        slack_s = slack.barrier_s(epoch.duration_s, len(run.ranks)) + limit("write_s")
        slack_s += first_step_s if steps.start == 0 else 0.0
        if not _fit(epoch.duration_s, sums, slack_s):
            yield _misfit(f"epoch {epoch.epoch}:", epoch.duration_s, sums)


@check
def summary(run: RunRecord) -> Iterator[Contradiction]:
    """The summary for people was computed from the rest of the record."""
    if run.status != "complete" or not run.summary:
        return
    follows = summaries.timed_summary(run)
    for name in ("timed_s", "images_per_s", "largest_message_s"):
        stated, expected = run.summary.get(name), follows.get(name)
        if stated is not None and expected is not None and not math.isclose(stated, expected, rel_tol=1e-9):
            yield Contradiction(f"summary: {name} {stated:.6g}", f"{expected:.6g}", off(stated, expected))


# User, nice and system time make up the time of all processes. Each is rounded to whole ticks at both ends, and the
# kernel adds to them at its own tick.
_TICKS_MORE = 3 + 1


@check
def counters_and_cores(run: RunRecord) -> Iterator[Contradiction]:
    """The cores of a rank did not work for longer than the span in which they were counted."""
    factor, ticks_s = 1 + limit("counted_more"), _TICKS_MORE * limit("tick_s")
    for rank, window, core_use in core_uses(run):
        cores, longest_s = len(rank.cores), max(core_use.own_s, core_use.busy_s, core_use.steal_s)
        most_s = cores * core_use.wall_s
        if cores and longest_s > most_s * factor + ticks_s * cores:
            by_whom = {"this rank": core_use.own_s, "all processes": core_use.busy_s, "a hypervisor": core_use.steal_s}
            by = max(by_whom, key=lambda name: by_whom[name])
            stated = f"{window_name(rank, window)}: {longest_s:.6g} s of core time for {by}"
            follows = f"{cores} cores in {core_use.wall_s:.6g} s have {most_s:.6g} s"
            yield Contradiction(stated, follows, off(longest_s, most_s))


@check
def whole_ticks(run: RunRecord) -> Iterator[Contradiction]:
    """The kernel counts the time of cores in whole ticks: any other number was computed, not read."""
    tick_s, rounding_s = limit("tick_s"), limit("tick_rounding_s")
    for rank, window, core_use in core_uses(run):
        for name, time_s in (("busy_s", core_use.busy_s), ("steal_s", core_use.steal_s)):
            ticks = time_s / tick_s
            if abs(ticks - round(ticks)) * tick_s > rounding_s:
                text = f"{window_name(rank, window)}: {name} {time_s:.9g} s"
                yield Contradiction(text, f"ticks of {tick_s:g} s are counted")


def _ranks(run: RunRecord) -> list[range]:
    """Return the ranks of each arm; no ranks for an arm that was left out."""
    arms = run.config.get("rounds") or []
    left_out = [arm["name"] in run.arms_left_out for arm in arms]
    return [range(0) if left_out[index] else ranks_of(run.config, index) for index in range(len(arms))]


def _label(turn: tuple[int, int]) -> str:
    return f"round {turn[0]}, arm {turn[1]}"


@check
def windows_and_rounds(run: RunRecord) -> Iterator[Contradiction]:
    """Each round has every arm once, on the ranks of that arm, and rounds follow each other.

    A launch that failed may lack windows of its last round.
    """
    arms = _ranks(run)
    measured: Counter[tuple[int, int]] = Counter()
    for rank in (rank for rank in run.ranks if rank.windows):
        turns = [(window.round, window.arm) for window in rank.windows]
        measured.update(turns)
        own_arms = {index for index, ranks in enumerate(arms) if rank.rank in ranks}
        for turn, count in Counter(turns).items():
            if turn[1] not in own_arms:
                yield Contradiction(f"rank {rank.rank} in {_label(turn)}", "no such part of it")
            elif count > 1:
                yield Contradiction(f"rank {rank.rank}: {count} windows of {_label(turn)}", "one a round")
        round_numbers = [window.round for window in rank.windows]
        if round_numbers != sorted(round_numbers):
            yield Contradiction(f"rank {rank.rank}: rounds out of order", "time goes forward")
    if run.status == "complete" and in_rounds(run):
        rounds = 1 + max((turn[0] for turn in measured), default=-1)
        for turn in ((number, arm) for number in range(rounds) for arm in range(len(arms))):
            count, ranks = measured[turn], len(arms[turn[1]])
            if count != ranks:
                yield Contradiction(f"{_label(turn)}: windows of {count} ranks", f"{ranks} ranks", off(count, ranks))


@check
def steps_of_windows(run: RunRecord) -> Iterator[Contradiction]:
    """The windows of an arm have the same number of steps, in every round and on every rank."""
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for window in (window for rank in run.ranks for window in rank.windows):
        counted, steps = len(window.compute_times_s), len(window.step_times_s)
        counts[window.arm][steps] += 1
        if counted != steps and counted:
            turn = _label((window.round, window.arm))
            yield Contradiction(f"{turn}: {counted} compute_times_s", f"{steps} steps")
    for arm, step_counts in counts.items():
        (usual, often), *others = step_counts.most_common()
        for count, windows in others:
            stated = f"arm {arm}: {windows} windows of {count} steps"
            yield Contradiction(stated, f"{often} windows of {usual} steps", off(count, usual))


@check
def steps_in_windows(run: RunRecord) -> Iterator[Contradiction]:
    """The steps of a window lie between its barriers; on the slowest rank they fill it. Ranks time it alike."""
    by_turn = windows_by_turn(rank.windows for rank in run.ranks)
    if not by_turn:
        return
    slack, rounding_s = Slack.from_run(run), limit("rounding_s")
    for turn, windows in by_turn.items():
        sums = [sum(window.step_times_s) for window in windows]
        times_s = [window.window_s for window in windows]
        longest, shortest = max(times_s), min(times_s)
        for window_s, steps_s in zip(times_s, sums, strict=True):
            if steps_s > window_s + rounding_s:
                yield _misfit(f"{_label(turn)}: window of", window_s, steps_s)
        delayed = delayed_s(window.cores for window in windows)
        if longest - max(sums) > slack.barrier_s(longest, len(windows)) + delayed:
            yield _misfit(f"{_label(turn)}: window of", longest, max(sums))
        if longest - shortest > slack.apart_s(longest) + delayed:
            yield unequal_ranks(f"{_label(turn)}: window of", longest, shortest)


@check
def windows_and_timed(run: RunRecord) -> Iterator[Contradiction]:
    """The windows of a rank lie within its timed phase."""
    for rank in (rank for rank in run.ranks if rank.windows):
        windows_s = sum([window.window_s for window in rank.windows])
        timed_s = rank.phases_s.get("timed", 0.0)
        if windows_s > timed_s + limit("rounding_s"):
            yield unequal_times(f"rank {rank.rank}: timed", timed_s, "its windows add up to", windows_s)
