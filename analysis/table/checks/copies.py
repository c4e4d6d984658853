"""Copies: times that are equal to the last digit were measured once. So two such records are one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from analysis.table.checks.contradiction import Contradiction, check
from analysis.thresholds import limit
from train.record.record import RunRecord

_MICROSECOND = 1e-6
# So many equal times are a copy, whatever their share: two phases of two runs may agree by chance, three do not.
_FEWEST = 3
_IN_A_ROW = 3  # two neighbouring times of 100,000 steps may occur again by chance, three do not


@check
def copied_steps(run: RunRecord) -> Iterator[Contradiction]:
    """No stretch of times occurs twice: of three in a row that differ, one that a clock gave was measured once."""
    where, lists = zip(*_measured(run), strict=True) if run.ranks else ((), ())
    times_s = np.fromiter(chain.from_iterable(lists), float)
    if len(times_s) < _IN_A_ROW:
        return
    of = np.repeat(np.arange(len(lists)), [len(times) for times in lists])
    within = of[: 1 - _IN_A_ROW] == of[_IN_A_ROW - 1 :]
    rows, of = np.lib.stride_tricks.sliding_window_view(times_s, _IN_A_ROW)[within], of[: 1 - _IN_A_ROW][within]
    for first, again in _equal(rows):
        yield Contradiction(
            "copied_steps", f"{where[of[again]]}: {', '.join(f'{time_s:.9g}' for time_s in rows[again])} s in a row",
            f"{where[of[first]]} has the same, to the last digit",
        )  # fmt: skip


def _equal(rows: np.ndarray) -> list[tuple[int, int]]:
    """The places of equal rows (n, 3) of times that differ and that a clock gave, each with that of the one before."""
    of_clock = abs(rows - np.round(rows / _MICROSECOND) * _MICROSECOND) > limit("clock_digits_s")
    differ = (rows[:, 0] != rows[:, 1]) & (rows[:, 1] != rows[:, 2]) & (rows[:, 0] != rows[:, 2])
    (places,) = np.nonzero(of_clock.all(axis=1) & differ)
    places = places[np.lexsort((places, *rows[places].T))]
    equal = (rows[places[1:]] == rows[places[:-1]]).all(axis=1)
    return sorted(zip(places[:-1][equal].tolist(), places[1:][equal].tolist(), strict=True), key=lambda pair: pair[1])


def _measured(run: RunRecord) -> Iterator[tuple[str, list[float]]]:
    """What was timed one after the other, and where: steps, each window with its steps, allreduces of a size."""
    for rank in run.ranks:
        yield f"rank {rank.rank}", rank.step_times_s
        for window in rank.windows:
            yield f"rank {rank.rank}, round {window.round}, arm {window.arm}", [window.window_s, *window.step_times_s]
        for of in rank.allreduces:
            yield f"rank {rank.rank}, {of.message_bytes} bytes, round {of.round}", of.times_s


@dataclass(frozen=True)
class Trace:
    """What tells one run from another: when it began, and the times that its clocks gave."""

    path: str
    sha256: str
    started_at: str
    times: frozenset[float]


def trace(run: RunRecord, path: str) -> Trace:
    """The trace of a record: the phases of all ranks, and all timed steps and windows of rank 0."""
    times = [run.job_s, *(value for rank in run.ranks for value in rank.phases_s.values())]
    for rank in run.ranks[:1]:
        times += rank.step_times_s
        times += [window.window_s for window in rank.windows]
        times += [time_s for of in rank.allreduces for time_s in of.times_s]
    return Trace(path, run.sha256, run.started_at, frozenset(time_s for time_s in times if of_a_clock(time_s)))


def of_a_clock(time_s: float) -> bool:
    """Whether a time has more digits than one would type in."""
    return abs(time_s - round(time_s / _MICROSECOND) * _MICROSECOND) > limit("clock_digits_s")


def find(traces: Sequence[Trace]) -> dict[str, Contradiction]:
    """The paths of copies, each with what it is a copy of; of runs that are equal the one that began first is none.

    One record that was given twice is one run, and no copy.
    """
    owners: dict[float, list[Trace]] = {}
    found: dict[str, Contradiction] = {}
    for one in sorted(traces, key=lambda trace: (trace.started_at, trace.path)):
        others = (owner for time_s in one.times for owner in owners.get(time_s, ()))
        shared = Counter(owner.path for owner in others if owner.sha256 != one.sha256)
        path, count = next(iter(shared.most_common(1)), ("", 0))
        if count >= max(_FEWEST, limit("copied_times") * len(one.times)):
            found[one.path] = Contradiction(
                "copied_run", f"{len(one.times)} times that a clock gave", f"{count} of them are those of {path}"
            )
        else:
            _own(owners, one)
    return found


def _own(owners: dict[float, list[Trace]], one: Trace) -> None:
    for time_s in one.times:
        owners.setdefault(time_s, []).append(one)
