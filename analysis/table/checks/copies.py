"""Copies: times that are equal to the last digit were measured once, so two such records are one run."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.table.checks.check import Contradiction, check, window_name
from analysis.thresholds import limit
from train.record.record import AllreduceTimes, Rank, RunRecord, Window

_MICROSECOND = 1e-6
# The fewest equal times that are a copy: two phases of two runs may agree by chance, three do not.
_FEWEST = 3
_IN_A_ROW = 3  # two neighbouring times of 100,000 steps may occur again by chance, three do not


@check
def copied_steps(run: RunRecord) -> Iterator[Contradiction]:
    """No three different times of a clock in a row occur twice: such a stretch was measured once."""
    in_order = _in_order(times for _, _, times in _measured(run))
    if np.count_nonzero(in_order[1:] == in_order[:-1]) < _IN_A_ROW:  # most often no time occurs twice
        return
    measured = list(_measured(run))
    times_s = np.array([*chain.from_iterable(times for _, _, times in measured)])
    owners = np.repeat(np.arange(len(measured)), [len(times) for _, _, times in measured])
    within = owners[: 1 - _IN_A_ROW] == owners[_IN_A_ROW - 1 :]
    rows, owners = np.lib.stride_tricks.sliding_window_view(times_s, _IN_A_ROW)[within], owners[: 1 - _IN_A_ROW][within]
    for first, again in _equal(rows):
        yield Contradiction(
            f"{_location(*measured[owners[again]])}: {', '.join(f'{time_s:.9g}' for time_s in rows[again])} s in a row",
            f"{_location(*measured[owners[first]])} has the same, to the last digit",
        )


def _in_order(lists: Iterable[Iterable[float]]) -> np.ndarray:
    times_s = np.fromiter(chain.from_iterable(lists), float)
    times_s.sort()
    return times_s


def _equal(rows: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs of positions of equal rows (n, 3) of differing times of a clock: the earlier, the later."""
    differ = (rows[:, 0] != rows[:, 1]) & (rows[:, 1] != rows[:, 2]) & (rows[:, 0] != rows[:, 2])
    (positions,) = np.nonzero(from_clock(rows).all(axis=1) & differ)
    positions = positions[np.lexsort((positions, *rows[positions].T))]
    equal = (rows[positions[1:]] == rows[positions[:-1]]).all(axis=1)
    pairs = zip(positions[:-1][equal].tolist(), positions[1:][equal].tolist(), strict=True)
    return sorted(pairs, key=itemgetter(1))


def from_clock(times_s: np.ndarray) -> np.ndarray:
    """Return which times have more digits than a person would type."""
    return abs(times_s - np.rint(times_s / _MICROSECOND) * _MICROSECOND) > limit("clock_digits_s")


def _measured(run: RunRecord) -> Iterator[tuple[Rank, Window | AllreduceTimes | None, list[float]]]:
    """Yield each sequence of times with its rank: steps, a window with its steps, allreduces of one size."""
    for rank in run.ranks:
        yield rank, None, rank.step_times_s
        for window in rank.windows:
            yield rank, window, [window.window_s, *window.step_times_s]
        for allreduce in rank.allreduces:
            yield rank, allreduce, allreduce.times_s


def _location(rank: Rank, measured: Window | AllreduceTimes | None, _: list[float]) -> str:
    if isinstance(measured, AllreduceTimes):
        return f"rank {rank.rank}, {measured.message_bytes} bytes, round {measured.round}"
    return window_name(rank, measured)


class Trace(NamedTuple):
    """The fingerprint of a run: its start, and the times of its clocks."""

    path: str
    sha256: str
    started_at: str
    times_s: np.ndarray  # each once


def trace(run: RunRecord, path: str) -> Trace:
    """Return the trace of a record: the phases of all ranks, and all timed steps and windows of rank 0."""
    lists = [[run.job_s], *(rank.phases_s.values() for rank in run.ranks)]
    for rank in run.ranks[:1]:
        lists += [rank.step_times_s, [window.window_s for window in rank.windows]]
        lists += [allreduce.times_s for allreduce in rank.allreduces]
    in_order = _in_order(lists)
    unique = np.ones(len(in_order), bool)  # np.unique takes longer than all the rest
    unique[1:] = in_order[1:] != in_order[:-1]
    times_s = in_order[unique]
    return Trace(path, run.sha256, run.started_at, times_s[from_clock(times_s)])


def find(traces: Sequence[Trace]) -> dict[str, Contradiction]:
    """Return the paths of copies with the reason; the run that began first is the original.

    The same record twice is no copy.
    """
    ordered = sorted(traces, key=lambda candidate: (candidate.started_at, candidate.path))
    owners: dict[float, list[Trace]] = defaultdict(list)
    copies: dict[str, Contradiction] = {}
    for position, times_s in _in_common(ordered).items():
        candidate = ordered[position]
        others = (owner for time_s in times_s for owner in owners[time_s] if owner.sha256 != candidate.sha256)
        shared = Counter(owner.path for owner in others)
        path, count = max(shared.items(), key=itemgetter(1), default=("", 0))
        if count >= max(_FEWEST, limit("copied_times") * len(candidate.times_s)):
            stated = f"{len(candidate.times_s)} times that a clock gave"
            copies[candidate.path] = Contradiction(stated, f"{count} of them are those of {path}", rule="copied_run")
        else:
            for time_s in times_s:
                owners[time_s].append(candidate)
    return copies


def _in_common(traces: Sequence[Trace]) -> dict[int, list[float]]:
    """Return the times that several traces share, by position of each trace with enough of them for a copy."""
    times_s = np.concatenate([np.empty(0), *(trace.times_s for trace in traces)])
    positions = np.repeat(np.arange(len(traces)), np.fromiter((len(trace.times_s) for trace in traces), int))
    several = pd.Series(times_s).duplicated(keep=False).to_numpy()
    common = several & (np.bincount(positions[several], minlength=len(traces))[positions] >= _FEWEST)
    shared: dict[int, list[float]] = defaultdict(list)
    for position, time_s in zip(positions[common].tolist(), times_s[common].tolist(), strict=True):
        shared[position].append(time_s)
    return shared
