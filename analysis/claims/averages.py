"""Checks over many numbers: means over models, trends over sizes, ratios over cells, predictions for more ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.claims.numbers import Claimed, Data, Selection, Unknown, arithmetic, counts, groups, one
from analysis.curves import TIMES
from analysis.derived import RATIOS, pairs
from analysis.predict import answers, calibration, reading
from analysis.predict.points import Curve
from analysis.stats import student
from analysis.stats import trend as trends
from analysis.stats.number import Number, combined
from analysis.stats.student import exponential, widened
from analysis.stats.trend import Trend
from analysis.stats.verdict import Bounds, Verdict, judge, judge_all, opposite, together
from analysis.table import stated
from analysis.table.stated import MARGIN, half_unit

Found = tuple[Verdict, str]
# What all points of one curve share.
_CURVE = ["experiment", "model", "dataset", "device", "gpu", "machine", "batch_per_rank"]


def mean(data: Data, of: Selection, unit: Sequence[str], **claimed: float) -> Found:
    """The geometric mean of a selection is within the limits; each value of the columns `unit` counts once.

    Points of one curve share a base and are no repeats of each other: the interval is over the units.
    """
    found = [(name, _log_mean(rows)) for name, rows in groups(data.select(of), unit)]
    return _of_units(found, Claimed(**claimed))


def mean_ratio(data: Data, formula: str, of: Mapping[str, Selection], each: Sequence[str], **claimed: float) -> Found:
    """The geometric mean of a formula, worked out for each value of some columns, is within the limits."""
    selected = {name: dict(groups(data.select(selection), each)) for name, selection in of.items()}
    common = [key for key in next(iter(selected.values())) if all(key in other for other in selected.values())]
    if not common:
        raise Unknown(f"no {', '.join(each)} for which all of {', '.join(of)} are known")
    found = []
    for key in common:
        rows = {name: one(selected[name][key], f"{name}, {key}") for name in of}
        numbers = {name: stated.number(row) for name, row in rows.items()}
        number = combined(lambda **values: arithmetic(formula, values), numbers)
        found.append((key, (math.log(number.value), math.log(number.high / number.low) / 2)))
    return _of_units(found, Claimed(**claimed))


def _log_mean(rows: pd.DataFrame) -> tuple[float, float]:
    """The mean of the logarithms of some values, and how far rounding can move it."""
    values = rows.to_dict("records")
    return (
        float(np.mean([math.log(row["value"]) for row in values])),
        float(np.mean([half_unit(row) / row["value"] for row in values])),
    )


def _of_units(found: Sequence[tuple[str, tuple[float, float]]], wanted: Claimed) -> Found:
    """The verdict on the geometric mean over units, from the logarithm of each and its rounding."""
    rounding = float(np.mean([half for _, (_, half) in found]))
    number = exponential(widened(student.mean([log for _, (log, _) in found]), rounding))
    told = ", ".join(f"{name} {math.exp(log):.4g}" for name, (log, _) in found)
    return (
        judge(number, wanted.bounds, wanted.same),
        f"claimed: {wanted}. Geometric mean over {len(found)}: {number}; {told}",
    )


def trend(data: Data, of: Selection, direction: Literal["rising", "falling", "none"], margin: float = MARGIN) -> Found:
    """A quantity rises or falls with the size; "none": it changes by less than a margin at each doubling.

    From the slope of ln(value) over log2(size) that all curves have in common, each quantity by itself: all must agree.
    """
    bounds = {
        "falling": Bounds(high=1.0, strict=True),
        "rising": Bounds(low=1.0, strict=True),
        "none": Bounds(1 - margin, 1 + margin),
    }[direction]
    found, told = [], []
    for name, rows in groups(data.select(of), ["quantity"]):
        curves = _curves(rows)
        number, _ = _slope(curves)
        found.append(judge(number, bounds))
        told.append(f"{name}: x {number} at each doubling, from {number.n} points of {len(curves)} curves")
    claimed = f"within {100 * margin:.3g} % of 1" if direction == "none" else direction
    return together(found), f"claimed: {claimed}. {'; '.join(told)}"


def same_trend(data: Data, of: Selection, among: str, one: str) -> Found:
    """One of a column changes with the size as the others do: at each doubling by the same factor, within a margin.

    Over the sizes that it has; each quantity by itself: all must agree.
    """
    found, told = [], []
    for name, rows in groups(data.select(of), ["quantity"]):
        mine = rows[rows[among].eq(one)]
        others = rows[rows[among].ne(one) & rows["ranks"].isin(mine["ranks"])]
        (a, of_mine), (b, of_others) = (_slope(_curves(part)) for part in (mine, others))
        number = exponential(student.difference(of_mine.slope, of_others.slope))
        found.append(judge(number, Bounds(1 - MARGIN, 1 + MARGIN)))
        told.append(f"{name}: x {a} at each doubling, the others x {b}: the ratio is {number}")
    return together(found), f"claimed: the ratio is within {100 * MARGIN:.3g} % of 1. {'; '.join(told)}"


def _curves(rows: pd.DataFrame) -> list[list[dict]]:
    """The points of each curve of two numbers of ranks or more, by ranks."""
    by = [name for name in _CURVE if name in rows]
    found = [of.sort_values("ranks").to_dict("records") for _, of in rows.groupby(by, dropna=False, sort=False)]
    curves = [of for of in found if len({row["ranks"] for row in of}) > 1]
    if not curves:
        raise Unknown("no curve of two points or more is known over ranks")
    return [[{**row, "x": math.log2(row["ranks"])} for row in of] for of in curves]


def _slope(curves: Sequence[Sequence[dict]]) -> tuple[Number, Trend]:
    """The factor by which a quantity changes at each doubling, with its interval; and the line of its logarithm."""
    fitted = trends.fit([[(row["x"], math.log(row["value"])) for row in of] for of in curves])
    rounding = fitted.rounding([[(row["x"], half_unit(row) / row["value"]) for row in of] for of in curves])
    return exponential(widened(fitted.slope, rounding)), fitted


def same(data: Data, ratio: str, by: Sequence[str]) -> Found:
    """Two settings give the same throughput: in each group of cells the mean ratio is within a margin of 1.

    Student's t on the logarithms of the ratios of one group (columns `by`), over all groups by Holm.
    """
    if ratio not in RATIOS:
        raise ValueError(f"ratio '{ratio}' given, allowed: {', '.join(RATIOS)}")
    cells = pairs(data.table, ratio)
    if cells.empty:
        raise Unknown(f"no pair of cells for {ratio}")
    numbers, told = [], []
    for name, group in groups(cells, by):
        number = exponential(widened(student.mean(np.log(group["follows"])), float(group["off"].mean())))
        numbers.append(number)
        told.append(f"{name}: {number}, {len(group)} cells")
    found = judge_all(numbers, Bounds(1 - MARGIN, 1 + MARGIN))
    return together(found), f"claimed: within {100 * MARGIN:.3g} % of 1. {'; '.join(told)}; {counts(found)}"


def irreconcilable(data: Data, of: Selection) -> Found:
    """Speed and wall time contradict each other: no fixed cost reconciles them.

    The wall time of each point is regressed on its images over its measured speed: where a fixed cost is all that the
    two differ by, the slope is 1. The models have one slope, and each a fixed cost of its own. Judged with the smallest
    point of each curve and without it, which exchanges nothing: a verdict that depends on it is none.
    """
    found, told = [], []
    curves = [_times(data, rows) for _, rows in groups(data.select(of), ["model"])]
    for said, first in (("all points", 0), ("without the smallest of each curve", 1)):
        kept = [of[first:] for of in curves if len(of) > first]
        number = trends.fit(kept).slope
        found.append(judge(number, Bounds(1 - MARGIN, 1 + MARGIN)))
        told.append(f"{said}, {number.n} of {len(kept)} curves: {number} s of wall time for a second of computing")
    verdict = opposite(together(found)) if len({one.outcome for one in found}) == 1 else Verdict("undecided")
    return verdict, f"reconciled: 1 within {100 * MARGIN:.3g} %. {'; '.join(told)}"


def _times(data: Data, walls: pd.DataFrame) -> list[tuple[float, float]]:
    """The time that the images of each point take at its measured speed, and its wall time, in s, by ranks."""
    key = ["model", "ranks", "batch_per_rank"]
    speed = data.select({"quantity": "images_per_s_per_rank"})
    steps = data.select({"quantity": "steps_per_rank_planned", "kind": "planned"})
    both = walls[[*key, "value"]].merge(speed[speed["value"].gt(0)][[*key, "value"]], on=key, suffixes=("", "_speed"))
    both = both.merge(steps[[*key, "value"]], on=key, suffixes=("", "_steps")).sort_values("ranks")
    images = both["value_steps"] * both["batch_per_rank"].astype(float)
    return list(zip((images / both["value_speed"]).tolist(), both["value"].tolist(), strict=True))


def predicted(data: Data, of: Selection, at: int, share: bool = False, **claimed: float) -> tuple[Verdict, str]:
    """What the measured points carry for more ranks is within the limits, with the 90 % interval of `make predict`.

    `share`: the bounds are of the efficiency over the smallest point, else of the quantity itself. A prediction that is
    consistent with the claim shows it only where its whole interval is within the bounds.
    """
    wanted = Claimed(**claimed)
    found, told, taught = [], [], calibration.published_curves(data.report.published)
    for curve, in_time in _predicted_curves(data, of):
        claimed_rate = _rate_bounds(curve, wanted.bounds, at, share, in_time)
        verdict, reason = answers.judge_claim(curve, at, claimed_rate, taught.learned_for(curve))
        found.append(verdict)
        told.append(f"{curve.model + ': ' if curve.model else ''}{answers.claim_verdict(verdict)}: {reason}")
    return together(found), f"claimed: {wanted}. {'; '.join(told)}"


def _predicted_curves(data: Data, of: Selection) -> Iterator[tuple[Curve, bool]]:
    """The curves of a selection, and whether they are of times; without any number one curve without points."""
    try:
        rows = data.select(of)
    except Unknown:
        rows = data.table.iloc[:0]
    times, rates = rows[rows["quantity"].isin(TIMES)], rows[~rows["quantity"].isin(TIMES)]
    if len(times) or rows.empty:
        yield reading.timed(times), True
    yield from ((curve, False) for curve in reading.tidy(rates))


def _rate_bounds(curve: Curve, bounds: Bounds, at: int, share: bool, in_time: bool) -> Bounds:
    """The bounds of a time, or of an efficiency, as those of the rate of a curve at so many ranks."""
    low, high = max(bounds.low, 0.0), bounds.high
    if share:
        if not len(curve.ranks):
            return Bounds()
        ideal = metrics.whole_job(float(curve.images_per_s[curve.base] / curve.ranks[curve.base]), at)
        return Bounds(low * ideal, high * ideal)
    if in_time:
        return Bounds(metrics.rate(1.0, high), metrics.rate(1.0, low) if low else float("inf"))
    return Bounds(low, high)
