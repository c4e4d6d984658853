"""How often a user's program is launched: until its speedups are precise, or the budget ends."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from train.config.schema import Measure
from train.launch.plan.runs import Point, Run
from train.record import intervals, paths
from train.record.intervals import Interval
from train.record.record import RunRecord


def program_budget_s(measure: Measure) -> float:
    """Return the time for all launches of a program, in s: that of the command, or else that of one curve."""
    return measure.budget_s or measure.curve_budget_s


def _launches(home: Path) -> list[RunRecord]:
    """Return the complete records of a point, in the order of its launches."""
    numbers = sorted({int(path.name[1:].partition(".")[0]) for path in home.glob("r*") if path.is_dir()})
    return [record for number in numbers if (record := paths.completed(home, number))]


def more_launches(planned: Sequence[Run]) -> list[Run]:
    """Return one more launch of each point of a user's program, in a random order; none where they are precise enough.

    That is where the interval of each speedup, over the launches of its point and of the smallest one in turn, is as
    narrow as asked for, or another launch of each point would exceed the budget.
    """
    points = list({run.home: run.point for run in planned if run.point.config.program}.values())
    if not points:
        return []
    records = {point.name: _launches(Run(point, 0).home) for point in points}
    asked, counts = points[0].config.measure, {len(launches) for launches in records.values()}
    if min(counts) < asked.repeats or max(counts) > min(counts):  # one failed, or is still to be made
        return []
    spent_s = sum(record.job_s for launches in records.values() for record in launches)
    next_s = sum(fmean(record.job_s for record in launches) for launches in records.values())
    measured = speedups(points, records).values()
    precise = all(i is not None and i.half_width_fraction <= asked.precision_fraction for i in measured)
    if precise or spent_s + next_s > program_budget_s(asked):
        return []
    repeat = min(counts)
    random.Random(f"{points[0].config.seed}-{repeat}").shuffle(points)
    return [Run(point, repeat) for point in points]


def speedups(points: Sequence[Point], records: Mapping[str, Sequence[RunRecord]]) -> dict[str, Interval | None]:
    """Return the speedup of each point of a program over the smallest of its series, launch by launch."""
    series: dict[str, list[Point]] = {}
    for point in points:
        others = {key: value for key, value in point.swept.items() if key not in ("nodes", "ranks_per_node")}
        series.setdefault(repr(others), []).append(point)
    intervals_by_point = {}
    for members in series.values():
        base, *rest = sorted(members, key=lambda point: point.config.ranks)
        for point in rest:
            pairs = zip(records[point.name], records[base.name], strict=False)
            ratios = [_printed(record) / _printed(first) for record, first in pairs]
            intervals_by_point[point.name] = intervals.median_interval(ratios)
    return intervals_by_point


def _printed(record: RunRecord) -> float:
    assert record.printed is not None
    return record.printed.value


def result(planned: Sequence[Run]) -> str:
    """Return what the launches of a program came to, in words; "" of other runs."""
    points = list({run.home: run.point for run in planned if run.point.config.program}.values())
    records = {point.name: _launches(Run(point, 0).home) for point in points}
    texts = [
        f"{name} {i.value:.3g}x ({i.low:.3g} to {i.high:.3g})" if i else f"{name} too few launches for an interval"
        for name, i in speedups(points, records).items()
    ]
    return "; ".join(texts)
