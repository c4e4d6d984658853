"""The order of the models, beside that of a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from analysis import metrics
from analysis.compare.comparison import Comparison, Subject, compared
from analysis.compare.curves import Curve
from analysis.compare.tolerances import Tolerance
from analysis.stats import student
from analysis.stats.number import Number, between, common_covers, exact
from analysis.stats.verdict import Bounds, apart

_SAME = Bounds(1.0, 1.0)  # the ratio of what does not differ


def compare_order(
    pairs: Sequence[tuple[Curve, Curve]], quantity: str, limits: Sequence[Tolerance]
) -> Iterator[Comparison]:
    """The order of the models, as the share of their pairs that are ordered as in the report.

    `pairs` has the published and the local curve of each model. By throughput, at the smallest size of each; or by the
    efficiency that a doubling keeps. A pair that the local repeats cannot tell apart, or that the report prints alike,
    is counted as either, in the two ends of the interval.
    """
    pairs = [(theirs, mine) for theirs, mine in pairs if not mine.lost]
    mine = {local.model: _standing(local, quantity) for _, local in pairs}
    if len(mine) < 2:
        return
    theirs = {local.model: _stated_standing(published, quantity) for published, local in pairs}
    ratios = {(a, b): student.ratio(mine[a], mine[b]) for a, b in combinations(mine, 2)}

    def ends(level: float) -> tuple[float, float]:
        low = high = 0
        for (a, b), ratio in ratios.items():
            # All of these intervals together hold the truth at this level (Bonferroni).
            local = ratio.ends(1 - (1 - level) / len(ratios))
            if math.isnan(local[0]):
                return math.nan, math.nan
            differ = _SAME.exclude(local) and apart(theirs[a], theirs[b])
            alike = (local[0] > 1) == (theirs[a].value > theirs[b].value)
            low, high = low + (alike and differ), high + (alike or not differ)
        return low / len(ratios), high / len(ratios)

    kept = sum((mine[a].value > mine[b].value) == (theirs[a].value > theirs[b].value) for a, b in ratios)
    seen = Number(kept / len(ratios), ends, min(e.n for e in mine.values()), common_covers([*ratios.values()]))
    note = "; ".join(
        f"{who}: {' > '.join(sorted(side, key=lambda model: -side[model].value))}"
        for who, side in (("report", theirs), ("local", mine))
    )
    published, local = pairs[0]
    what = Subject(published, replace(local, model=""), quantity)
    yield compared(what, exact(1.0), seen, what.limit(limits), note)


def _standing(curve: Curve, quantity: str) -> Number:
    curve = curve.by_launch()
    if quantity == "order_by_efficiency":
        return metrics.per_doubling(curve.sizes, curve.rates)
    return student.mean(curve.only([min(curve.sizes)]).rates)


def _stated_standing(curve: Curve, quantity: str) -> Number:
    """What a published curve is ordered by, with its rounding at the two ends of the curve."""
    first, last = min(curve.sizes), max(curve.sizes)
    if quantity != "order_by_efficiency":
        return curve.printed(first)
    value = metrics.per_doubling(curve.sizes, curve.rates).value
    ends = (curve.printed(first), curve.printed(last))
    off = sum((end.high - end.low) / 2 / end.value for end in ends) / math.log2(last / first)
    return between(value, value * (1 - off), value * (1 + off))
