"""Copies: two records whose times are equal to the last digit are one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.table.checks.contradiction import Contradiction
from analysis.thresholds import limit
from train.record.record import RunRecord

_MICROSECOND = 1e-6
# So many equal times are a copy, whatever their share: two phases of two runs may agree by chance, three do not.
_FEWEST = 3


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
    return Trace(path, run.sha256, run.started_at, frozenset(time_s for time_s in times if _of_a_clock(time_s)))


def _of_a_clock(time_s: float) -> bool:
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
