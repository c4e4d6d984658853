"""Comparisons of a local curve with a published one: rates, ratios, shape, and the order of the models."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated, Any, TypeVar

from analysis import documents, metrics, speedups
from analysis.compare import tolerances
from analysis.compare.curves import SIZES, Curve
from analysis.compare.tolerances import VERDICT_NAMES, Tolerance, VerdictName
from analysis.curves import uncertain
from analysis.documents import Document, PValue, about, filled
from analysis.stats import student
from analysis.stats.number import Number, between, combined, common_covers, exact, unknown
from analysis.stats.repeats import median
from analysis.stats.verdict import Bounds, Verdict, apart, holm


class AllowedRange(Document):
    """The allowed values of a quantity."""

    low: Annotated[float | None, about("the lowest; null: no bound")]
    high: Annotated[float | None, about("the highest; null: no bound")]


class ReportComparison(Document):
    """A number that a report and local records have."""

    report: Annotated[str, about("000 to 004; empty: a value stated in the tolerances")]
    experiment: str
    model: Annotated[str, about("of both; empty: all models together")]
    published_on: Annotated[str, about("the machine and setting of the report")]
    local_on: Annotated[str, about("those of your records")]
    quantity: str
    unit: str
    axis: Annotated[str, about("the swept parameter")]
    at: Annotated[float | None, about("the size on this axis; null: the whole curve")]
    published: Annotated[documents.Number, about("what the report prints; its interval is what rounds to it")]
    local: Annotated[documents.Number, about("what you measured")]
    allowed: Annotated[AllowedRange, about("by analysis/compare/tolerances.toml")]
    p_value: PValue
    verdict: Annotated[VerdictName, about("on the comparison")]
    note: Annotated[str, about("for the reader")]


@dataclass(frozen=True)
class Comparison:
    """A local number beside the published one, in `unit`.

    `at` is the size of the point on `axis`, None for what is of a whole curve. `allowed`: by the tolerance; None: for
    information. `judged` is None for information, and where the local number is not valid; in what `compare` returns
    its p is Holm's, over all comparisons that are judged.
    """

    report: str
    experiment: str
    model: str
    published_on: str
    local_on: str
    quantity: str
    unit: str
    axis: Annotated[str, about("the swept parameter")]
    at: float | None
    published: Number
    local: Number
    allowed: Bounds | None
    judged: Verdict | None
    note: str

    @property
    def verdict(self) -> VerdictName:
        """Return the verdict in words."""
        if self.judged:
            return VERDICT_NAMES[self.judged.outcome]
        return "not judged" if self.allowed else "for information"

    def as_json(self) -> ReportComparison:
        """Return the comparison for programs."""
        low, high = (self.allowed.low, self.allowed.high) if self.allowed else (None, None)
        allowed = AllowedRange(low=low, high=high)
        return filled(ReportComparison, self, allowed=allowed, p_value=self.judged.p if self.judged else None)


@dataclass(frozen=True)
class Comparisons:
    """All comparisons, and what has no counterpart."""

    rows: list[Comparison]
    local_alone: list[str]
    published_alone: list[str]


@dataclass(frozen=True)
class Subject:
    """A quantity of two curves: at one size, over another size for a ratio, or of the whole curve."""

    published: Curve
    local: Curve
    quantity: str
    at: float | None = None
    over: float | None = None

    def find(self, quantity: str, limits: Sequence[Tolerance]) -> Tolerance | None:
        """Return the tolerance for a quantity at this point."""
        mine = self.local
        point = {"experiment": mine.experiment, "model": mine.model, "device": mine.device, "at": self.at}
        return tolerances.find(limits, quantity, **point)

    def limit(self, limits: Sequence[Tolerance]) -> Tolerance | None:
        """Return its tolerance; none for an efficiency whose speedup has one, as both are one measurement."""
        speedup = self.quantity.replace("efficiency_", "speedup_")
        if speedup != self.quantity and self.at is not None and self.find(speedup, limits):
            return None
        return self.find(self.quantity, limits)

    def around(self, limits: Sequence[Tolerance]) -> Tolerance | None:
        """Return the tolerance around a published number; one that states a value does not apply to a report."""
        limit = self.limit(limits)
        return limit if limit and limit.value is None else None

    def why_lost(self) -> str:
        """Return why it is not judged: a point is not valid as a scaling result; "" if all are."""
        return self.local.why_lost(*(size for size in (self.over, self.at) if size is not None))


Judged = TypeVar("Judged", bound=Any)  # a dataclass with `judged`: Verdict | None


def holm_corrected(rows: Sequence[Judged]) -> list[Judged]:
    """Return comparisons with verdicts that are corrected for their number (Holm)."""
    verdicts = iter(holm([row.judged for row in rows if row.judged]))
    return [replace(row, judged=next(verdicts)) if row.judged else row for row in rows]


def compare_number(what: Subject, value: Number, local: Number, limit: Tolerance | None, note: str = "") -> Comparison:
    """Return a local number beside a published value, judged by a tolerance (None: for information)."""
    allowed = limit.bounds(value.value) if limit else None
    lost = what.why_lost()
    judged = limit.judge(local, value) if limit and not lost else None
    remarks = [note, lost, judged.why if judged and judged.why == "no interval" else ""]
    unit = tolerances.unit(what.quantity)
    assert unit is not None
    theirs, mine = what.published, what.local
    return Comparison(
        theirs.report, mine.experiment, mine.model, theirs.on, mine.on, what.quantity, unit, mine.axis, what.at,
        value, local, allowed, judged, "; ".join(filter(None, remarks)),
    )  # fmt: skip


def compare_curves(published: Curve, local: Curve, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Compare two curves of one model over the same axis: rates, ratios to the smallest common size, and shape.

    On an axis of scaling the ratios are speedup and efficiency. The shape is the efficiency that each doubling keeps,
    over all sizes of each curve.
    """
    by = local.by.replace(" ", "_")
    both = sorted(set(published.sizes) & set(local.sizes))
    mine = uncertain(local.only(both).points(), "size")
    if published.unit == local.unit == "images/s" and local.by == "throughput":
        for size in both:
            what = Subject(published, local, "images_per_s", size)
            yield compare_number(what, published.printed(size), mine[size]["rate"], what.around(limits))
    for size in both[1:]:
        rates = {"rate": published.printed(size), "base": published.printed(both[0])}
        stated = combined(lambda rate, base: metrics.speedup(rate, base), rates)
        scaled = {"speedup": stated, "efficiency": stated.over(size / both[0])} if local.axis in SIZES else {}
        for name, value in (scaled or {"speedup": stated}).items():
            what = Subject(published, local, f"{name}_{by}" if scaled else "relative_throughput", size, both[0])
            limit, note = what.around(limits), f"over {both[0]:g}"
            if name == "efficiency" and limit is None and what.find(what.quantity.replace(name, "speedup"), limits):
                note += "; judged as the speedup"
            yield compare_number(what, value, mine[size][name], limit, note)
    yield from _shapes(published, local, limits)


def _shapes(published: Curve, local: Curve, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Compare the efficiency that each doubling keeps, without points that are not valid as scaling results.

    It is for information if both curves have the same two sizes: then it repeats their speedup.
    """
    valid = local.only(size for size in local.sizes if not local.why_lost(size))
    if local.axis not in SIZES or len(set(published.sizes)) < 2 or len(set(valid.sizes)) < 2:
        return
    quantity = f"efficiency_{local.by.replace(' ', '_')}_per_doubling"
    spans = (f"{min(c.sizes):g} to {max(c.sizes):g}" for c in (published, valid))
    note = "report {}, local {} {}".format(*spans, local.axis)
    if left := local.why_lost():
        note += f"; without {left}"
    what = Subject(published, replace(valid, lost=()), quantity)
    same = set(published.sizes) == set(valid.sizes) and len(set(valid.sizes)) == 2
    rates = {f"r{nth}": published.printed(size) for nth, size in enumerate(published.sizes)}

    def shape(**values: float) -> float:
        return metrics.per_doubling(published.sizes, [*values.values()]).value

    stated = combined(shape, rates) if len(rates) <= 8 else unknown(shape(**{n: r.value for n, r in rates.items()}))
    limit = None if same else what.around(limits)
    yield compare_number(what, stated, _per_doubling(valid), limit, note + ("; judged as the speedup" if same else ""))


def _per_doubling(local: Curve) -> Number:
    if local.in_rounds:
        return median(speedups.shares_per_doubling(local.points(), "size"))
    return metrics.per_doubling(local.sizes, local.rates)


_SAME = Bounds(1.0, 1.0)  # the ratio of what does not differ


def compare_order(
    pairs: Sequence[tuple[Curve, Curve]], quantity: str, limits: Sequence[Tolerance]
) -> Iterator[Comparison]:
    """Compare the order of the models: the share of their pairs that are ordered as in the report.

    `pairs` has the published and the local curve of each model. They are ordered by throughput at the smallest size, or
    by the efficiency that a doubling keeps. A pair that does not differ significantly, or that the report prints alike,
    counts as agreeing at the upper end of the interval only.
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

    agreeing = sum((mine[a].value > mine[b].value) == (theirs[a].value > theirs[b].value) for a, b in ratios)
    share = Number(agreeing / len(ratios), ends, min(e.n for e in mine.values()), common_covers([*ratios.values()]))
    note = "; ".join(
        f"{who}: {' > '.join(sorted(side, key=lambda model: -side[model].value))}"
        for who, side in (("report", theirs), ("local", mine))
    )
    published, local = pairs[0]
    what = Subject(published, replace(local, model=""), quantity)
    yield compare_number(what, exact(1.0), share, what.limit(limits), note)


def _standing(curve: Curve, quantity: str) -> Number:
    curve = curve.by_launch()
    if quantity == "order_by_efficiency":
        return metrics.per_doubling(curve.sizes, curve.rates)
    return student.mean(curve.only([min(curve.sizes)]).rates)


def _stated_standing(curve: Curve, quantity: str) -> Number:
    """Return the number by which a published curve is ordered, with its rounding at both ends of the curve."""
    first, last = min(curve.sizes), max(curve.sizes)
    if quantity != "order_by_efficiency":
        return curve.printed(first)
    value = metrics.per_doubling(curve.sizes, curve.rates).value
    ends = (curve.printed(first), curve.printed(last))
    off = sum((end.high - end.low) / 2 / end.value for end in ends) / math.log2(last / first)
    return between(value, value * (1 - off), value * (1 + off))
