"""Checks over many numbers: means over models, trends over sizes, ratios over cells, predictions for more ranks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from analysis import TableError, explain, metrics
from analysis.claims.numbers import (
    ClaimBounds,
    Data,
    Result,
    Selection,
    Unknown,
    arithmetic,
    counts,
    groups,
    rows_by_group,
)
from analysis.curves import TIMES
from analysis.derived import MARGIN, RATIOS, half_unit, pairs, stated_number
from analysis.explain import runs
from analysis.predict import Curve, answers, calibration, reading
from analysis.stats import Number, combined, student, unknown
from analysis.stats.student import Trend, exponential, widened
from analysis.stats.verdict import Bounds, Verdict, judge, judge_all, opposite, together

# Columns that all points of one curve share.
_CURVE = ["experiment", "model", "dataset", "device", "gpu", "machine", "batch_per_rank"]
_SAME = Bounds(1 - MARGIN, 1 + MARGIN)
_MARGIN_TEXT = f"within {100 * MARGIN:.3g} % of 1"


def mean(data: Data, numbers: Selection, unit: Sequence[str], **claimed: float) -> Result:
    """Return whether the geometric mean of a selection is within bounds; each value of the columns `unit` counts once.

    Points of one curve share a base and are no repeats of each other: the interval is over the units.
    """
    units = []
    for name, rows in groups(data.select(numbers), unit):
        values = rows.to_dict("records")
        log = float(np.mean([math.log(row["value"]) for row in values]))
        units.append((name, log, float(np.mean([half_unit(row) / row["value"] for row in values]))))
    return _mean_of_logs(units, ClaimBounds(**claimed))


def mean_ratio(
    data: Data, formula: str, numbers: Mapping[str, Selection], each: Sequence[str], **claimed: float
) -> Result:
    """Return whether the geometric mean of a formula, computed for each value of columns, is within bounds."""
    units = []
    for name, rows in rows_by_group(data, numbers, each):
        inputs = {key: stated_number(row) for key, row in rows.items()}
        number = combined(lambda **values: arithmetic(formula, values), inputs)
        units.append((name, math.log(number.value), math.log(number.high / number.low) / 2))
    return _mean_of_logs(units, ClaimBounds(**claimed))


def _mean_of_logs(units: Sequence[tuple[str, float, float]], claim_bounds: ClaimBounds) -> Result:
    """Return the verdict on the geometric mean over units, each with its name, its logarithm and its rounding."""
    rounding = float(np.mean([half for _, _, half in units]))
    number = exponential(widened(student.mean([log for _, log, _ in units]), rounding))
    texts = ", ".join(f"{name} {math.exp(log):.4g}" for name, log, _ in units)
    evidence = f"claimed: {claim_bounds}. Geometric mean over {len(units)}: {number}; {texts}"
    verdict = judge(number, claim_bounds.bounds, claim_bounds.with_margin)
    return Result(verdict, evidence, ((number, claim_bounds.bounds),))


def trend(
    data: Data, numbers: Selection, direction: Literal["rising", "falling", "none"], margin: float = MARGIN
) -> Result:
    """Return whether a quantity rises or falls with the size; "none": changes by less than a margin at each doubling.

    It fits one slope of ln(value) over log2(size) to all curves of a quantity. All quantities must agree.
    """
    bounds = {
        "falling": Bounds(high=1.0, strict=True),
        "rising": Bounds(low=1.0, strict=True),
        "none": Bounds(1 - margin, 1 + margin),
    }[direction]
    verdicts, texts, slopes = [], [], []
    for name, rows in groups(data.select(numbers), ["quantity"]):
        curves = _curves(rows)
        number, _ = _slope(curves)
        slopes.append((number, bounds))
        verdicts.append(judge(number, bounds))
        texts.append(f"{name}: x {number} at each doubling, from {number.n} points of {len(curves)} curves")
    claimed = f"within {100 * margin:.3g} % of 1" if direction == "none" else direction
    return Result(together(verdicts), f"claimed: {claimed}. {'; '.join(texts)}", tuple(slopes))


def same_trend(data: Data, numbers: Selection, among: str, one: str) -> Result:
    """Return whether one value of a column changes at each doubling by the same factor as the others, within a margin.

    Only the sizes of that value count. All quantities must agree.
    """
    verdicts, texts, ratios = [], [], []
    for name, rows in groups(data.select(numbers), ["quantity"]):
        selected = rows[rows[among].eq(one)]
        others = rows[rows[among].ne(one) & rows["ranks"].isin(selected["ranks"])]
        (a, my_trend), (b, other_trend) = (_slope(_curves(part)) for part in (selected, others))
        number = exponential(student.difference(my_trend.slope, other_trend.slope))
        ratios.append((number, _SAME))
        verdicts.append(judge(number, _SAME))
        texts.append(f"{name}: x {a} at each doubling, the others x {b}: the ratio is {number}")
    return Result(together(verdicts), f"claimed: the ratio is {_MARGIN_TEXT}. {'; '.join(texts)}", tuple(ratios))


def _curves(rows: pd.DataFrame) -> list[list[dict]]:
    """Return the points of each curve of two numbers of ranks or more, by ranks."""
    by = [name for name in _CURVE if name in rows]
    curves = [
        [{**row, "x": math.log2(row["ranks"])} for row in curve.sort_values("ranks").to_dict("records")]
        for _, curve in rows.groupby(by, dropna=False, sort=False)
        if curve["ranks"].nunique() > 1
    ]
    if not curves:
        raise Unknown("no curve of two points or more is known over ranks")
    return curves


def _slope(curves: Sequence[Sequence[dict]]) -> tuple[Number, Trend]:
    """Return the factor by which a quantity changes at each doubling, and the line of its logarithm."""
    fitted = student.trend([[(row["x"], math.log(row["value"])) for row in curve] for curve in curves])
    rounding = fitted.rounding([[(row["x"], half_unit(row) / row["value"]) for row in curve] for curve in curves])
    return exponential(widened(fitted.slope, rounding)), fitted


def same(data: Data, ratio: str, by: Sequence[str]) -> Result:
    """Return whether two settings give the same throughput: in each group the mean ratio is within a margin of 1.

    Student's t on the logarithms of the ratios of one group (columns `by`), over all groups by Holm.
    """
    if ratio not in RATIOS:
        raise ValueError(f"ratio '{ratio}' given, allowed: {', '.join(RATIOS)}")
    cells = pairs(data.table, ratio)
    if cells.empty:
        raise Unknown(f"no pair of cells for {ratio}")
    ratios, texts = [], []
    for name, group in groups(cells, by):
        number = exponential(widened(student.mean(np.log(group["follows"])), float(group["off"].mean())))
        ratios.append(number)
        texts.append(f"{name}: {number}, {len(group)} cells")
    verdicts = judge_all(ratios, _SAME)
    evidence = f"claimed: {_MARGIN_TEXT}. {'; '.join(texts)}; {counts(verdicts)}"
    return Result(together(verdicts), evidence, tuple((ratio, _SAME) for ratio in ratios))


def irreconcilable(data: Data, numbers: Selection) -> Result:
    """Return whether no fixed cost reconciles speeds with wall times.

    The wall time of each point is regressed on its images over its measured speed: if only a fixed cost separates the
    two, the slope is 1. The models share a slope, each with another fixed cost. It is judged with the smallest point of
    each curve, which exchanges nothing, and without it: both verdicts must agree.
    """
    verdicts, texts, slopes = [], [], []
    curves = [_computing_and_wall_times(data, rows) for _, rows in groups(data.select(numbers), ["model"])]
    for name, first in (("all points", 0), ("without the smallest of each curve", 1)):
        rest = [curve[first:] for curve in curves if len(curve) > first]
        number = student.trend(rest).slope
        verdicts.append(judge(number, _SAME))
        slopes.append((number, Bounds(low=1 + MARGIN)))
        texts.append(f"{name}, {number.n} of {len(rest)} curves: {number} s of wall time for a second of computing")
    agree = len({verdict.outcome for verdict in verdicts}) == 1
    verdict = opposite(together(verdicts)) if agree else Verdict("undecided")
    texts += _explanations(data)
    return Result(verdict, f"reconciled: 1 within {100 * MARGIN:.3g} %. {'; '.join(texts)}", tuple(slopes))


def _explanations(data: Data) -> Iterator[str]:
    """Yield the result of `make explain` for each curve whose speeds hide a cost: the cost, and speedups without it."""
    points, _ = runs.points(data.table, "the report")
    for name, curve in runs.curves(points):
        try:
            explained = explain.explain(curve, name)
        except TableError:
            continue
        if explained.hides_speedup:
            last = explained.points[~explained.points["misfit"] & explained.points["used"]].iloc[-1]
            ends = f"{last['speedup_without_fixed_low']:.3g} to {last['speedup_without_fixed_high']:.3g}"
            yield (
                f"`make explain`, {curve['model'].iloc[0]}: {explained.fixed_s.text('.3g', 's')} of each run are "
                f"beyond its steps; without them {last['speedup_without_fixed']:.3g}x ({ends}) on {last['ranks']}, by "
                f"speed {last['speedup_throughput']:.3g}x"
            )


def _computing_and_wall_times(data: Data, walls: pd.DataFrame) -> list[tuple[float, float]]:
    """Return the time that the images of each point take at its measured speed, and its wall time, in s, by ranks."""
    key = ["model", "ranks", "batch_per_rank"]
    speed = data.select({"quantity": "images_per_s_per_rank"})
    steps = data.select({"quantity": "steps_per_rank_planned", "kind": "planned"})
    points = walls[[*key, "value"]].merge(speed[speed["value"].gt(0)][[*key, "value"]], on=key, suffixes=("", "_speed"))
    points = points.merge(steps[[*key, "value"]], on=key, suffixes=("", "_steps")).sort_values("ranks")
    images = points["value_steps"] * points["batch_per_rank"].astype(float)
    return list(zip((images / points["value_speed"]).tolist(), points["value"].tolist(), strict=True))


def predicted(data: Data, numbers: Selection, at: int, share: bool = False, **claimed: float) -> Result:
    """Return whether the prediction of `make predict` for `at` ranks is within bounds, with its 90 % interval.

    `share`: the bounds are those of the efficiency over the smallest point, else of the quantity itself. A prediction
    that is consistent with the claim shows it only if its whole interval is within the bounds.
    """
    claim_bounds = ClaimBounds(**claimed)
    verdicts, texts, published = [], [], calibration.published_curves(data.report.published)
    repeated: list[tuple[Number, Bounds]] = []
    for curve, in_time in _predicted_curves(data, numbers):
        bounds = _rate_bounds(curve, claim_bounds.bounds, at, share, in_time)
        verdict, reason = answers.judge_claim(curve, at, bounds, published.learned_for(curve))
        verdicts.append(verdict)
        texts.append(f"{curve.model + ': ' if curve.model else ''}{answers.claim_verdict(verdict)}: {reason}")
        if len(curve.ranks) > 1:
            repeated.append((_last_doubling(curve, at, share, in_time), claim_bounds.bounds))
    return Result(together(verdicts), f"claimed: {claim_bounds}. {'; '.join(texts)}", tuple(repeated))


def _last_doubling(curve: Curve, at: int, share: bool, in_time: bool) -> Number:
    """Return the rate, time or efficiency that follows if the doubling of the last two points repeats."""
    power = math.log(curve.images_per_s[-1] / curve.images_per_s[-2]) / math.log(curve.ranks[-1] / curve.ranks[-2])
    rate = float(curve.images_per_s[-1] * (at / curve.ranks[-1]) ** power)
    if share:
        rate /= metrics.job_total(float(curve.images_per_s[curve.base] / curve.ranks[curve.base]), at)
    return unknown(metrics.rate(1.0, rate) if in_time else rate, n=2)


def _predicted_curves(data: Data, numbers: Selection) -> Iterator[tuple[Curve, bool]]:
    """Yield the curves of a selection, and whether they are of times; one curve without points if it is empty."""
    try:
        rows = data.select(numbers)
    except Unknown:
        rows = data.table.iloc[:0]
    times, rates = rows[rows["quantity"].isin(TIMES)], rows[~rows["quantity"].isin(TIMES)]
    if len(times) or rows.empty:
        yield reading.timed(times), True
    yield from ((curve, False) for curve in reading.tidy(rates))


def _rate_bounds(curve: Curve, bounds: Bounds, at: int, share: bool, in_time: bool) -> Bounds:
    """Return the bounds of a time, or of an efficiency, as those of the rate of a curve at so many ranks."""
    low, high = max(bounds.low, 0.0), bounds.high
    if share:
        if not len(curve.ranks):
            return Bounds()
        ideal = metrics.job_total(float(curve.images_per_s[curve.base] / curve.ranks[curve.base]), at)
        return Bounds(low * ideal, high * ideal)
    if in_time:
        return Bounds(metrics.rate(1.0, high), metrics.rate(1.0, low) if low else float("inf"))
    return Bounds(low, high)
