"""Checks of a launch in rounds: its windows against their steps, between ranks, and against the order of rounds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from analysis.table.checks.check import Contradiction, Slack, check, delayed_s, in_rounds, off
from analysis.thresholds import limit
from train.record.record import RunRecord, Window
from train.record.rounds import ranks_of

Windows = dict[tuple[int, int], list[Window]]  # of each round and arm, one a rank


def _by_turn(run: RunRecord) -> Windows:
    windows: Windows = defaultdict(list)
    for rank in run.ranks:
        for window in rank.windows:
            windows[window.round, window.arm].append(window)
    return windows


def _ranks(run: RunRecord) -> list[range]:
    """Return the ranks of each arm; none of one that was left out."""
    arms = run.config.get("rounds") or []
    return [
        range(0) if arm["name"] in run.arms_left_out else ranks_of(run.config, index) for index, arm in enumerate(arms)
    ]


def _called(turn: tuple[int, int]) -> str:
    return f"round {turn[0]}, arm {turn[1]}"


@check
def windows_and_rounds(run: RunRecord) -> Iterator[Contradiction]:
    """Each round has every arm once, on the ranks that are its, and rounds follow each other.

    A launch that failed may lack windows of its last round.
    """
    arms = _ranks(run)
    measured: Counter[tuple[int, int]] = Counter()
    for rank in (rank for rank in run.ranks if rank.windows):
        turns = [(window.round, window.arm) for window in rank.windows]
        measured.update(turns)
        own = {index for index, ranks in enumerate(arms) if rank.rank in ranks}
        for turn, count in Counter(turns).items():
            if turn[1] not in own:
                yield Contradiction(f"rank {rank.rank} in {_called(turn)}", "no such part of it")
            elif count > 1:
                yield Contradiction(f"rank {rank.rank}: {count} windows of {_called(turn)}", "one a round")
        rounds_of_rank = [window.round for window in rank.windows]
        if rounds_of_rank != sorted(rounds_of_rank):
            yield Contradiction(f"rank {rank.rank}: rounds out of order", "time goes forward")
    if run.status == "complete" and in_rounds(run):
        rounds = 1 + max((turn[0] for turn in measured), default=-1)
        for turn in ((number, arm) for number in range(rounds) for arm in range(len(arms))):
            if measured[turn] != len(arms[turn[1]]):
                yield Contradiction(
                    f"{_called(turn)}: windows of {measured[turn]} ranks",
                    f"{len(arms[turn[1]])} ranks", off(measured[turn], len(arms[turn[1]])),
                )  # fmt: skip


@check
def steps_of_windows(run: RunRecord) -> Iterator[Contradiction]:
    """The windows of an arm have the same number of steps, in every round and on every rank."""
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for window in (window for rank in run.ranks for window in rank.windows):
        computed, steps = len(window.compute_times_s), len(window.step_times_s)
        counts[window.arm][steps] += 1
        if computed != steps and computed:
            turn = _called((window.round, window.arm))
            yield Contradiction(f"{turn}: {computed} compute_times_s", f"{steps} steps")
    for arm, step_counts in counts.items():
        (usual, often), *others = step_counts.most_common()
        for count, times in others:
            yield Contradiction(
                f"arm {arm}: {times} windows of {count} steps", f"{often} windows of {usual} steps", off(count, usual)
            )


@check
def steps_in_windows(run: RunRecord) -> Iterator[Contradiction]:
    """The steps of a window lie between its barriers; on the slowest rank they fill it. Ranks time it alike."""
    by_turn = _by_turn(run)
    if not by_turn:
        return
    slack, rounding_s = Slack.from_run(run), limit("rounding_s")
    for turn, windows in by_turn.items():
        sums = [sum(window.step_times_s) for window in windows]
        times_s = [window.window_s for window in windows]
        longest, shortest = max(times_s), min(times_s)
        for window_s, steps_s in zip(times_s, sums, strict=True):
            if steps_s > window_s + rounding_s:
                yield _apart(turn, window_s, steps_s)
        delayed = delayed_s(window.cores for window in windows)
        if longest - max(sums) > slack.barrier_s(longest, len(windows)) + delayed:
            yield _apart(turn, longest, max(sums))
        if longest - shortest > slack.apart_s(longest) + delayed:
            yield Contradiction(
                f"{_called(turn)}: window of {longest:.6g} s on one rank",
                f"{shortest:.6g} s on another", off(longest, shortest),
            )  # fmt: skip


def _apart(turn: tuple[int, int], window_s: float, steps_s: float) -> Contradiction:
    return Contradiction(
        f"{_called(turn)}: window of {window_s:.6g} s", f"its steps add up to {steps_s:.6g} s", off(window_s, steps_s)
    )


@check
def windows_and_timed(run: RunRecord) -> Iterator[Contradiction]:
    """The windows of a rank lie within its timed phase."""
    for rank in (rank for rank in run.ranks if rank.windows):
        windows_s = sum([window.window_s for window in rank.windows])
        timed_s = rank.phases_s.get("timed", 0.0)
        if windows_s > timed_s + limit("rounding_s"):
            yield Contradiction(
                f"rank {rank.rank}: timed {timed_s:.6g} s",
                f"its windows add up to {windows_s:.6g} s", off(timed_s, windows_s),
            )  # fmt: skip
