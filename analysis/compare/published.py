"""Local records beside the published numbers of the same experiment, each number with its verdict."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import pandas as pd

from analysis import metrics
from analysis.compare import tolerances
from analysis.compare.curves import SIZES, Curve, axes, column, local_curve, published_curves, words
from analysis.compare.tolerances import Tolerance, Verdict
from analysis.metrics import Estimate, Statistic

FLAT = 0.10  # a throughput within this fraction of the best one no longer rises
_FINAL = ("validation_accuracy", "train_accuracy")


class Seen(NamedTuple):
    """A local number and the ends of its 95 % interval, NaN where none is known."""

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 1

    @classmethod
    def at(cls, point: Mapping[str, float], column: str, n: float) -> Seen:
        """What a point of `metrics.curve` says of one of its columns."""
        return cls(point[column], point[f"{column}_low"], point[f"{column}_high"], int(n))


@dataclass(frozen=True)
class Comparison:
    """A local number beside the published one, in `unit`; NaN where not known.

    `at` is the size of the point on `axis`, None for what is of a whole curve. `allowed_low` and `allowed_high` are the
    ends of what the tolerance allows.
    """

    report: str
    experiment: str
    model: str
    published_on: str
    local_on: str
    quantity: str
    unit: str
    axis: str
    at: float | None
    published: float
    local: float
    low: float
    high: float
    n: int
    allowed_low: float
    allowed_high: float
    verdict: Verdict
    note: str


@dataclass(frozen=True)
class Compared:
    """All comparisons, and what has no counterpart."""

    rows: list[Comparison]
    local_alone: list[str]
    published_alone: list[str]


@dataclass(frozen=True)
class _Subject:
    """What is compared: a quantity of two curves, at one size or as a whole (None)."""

    published: Curve
    local: Curve
    quantity: str
    at: float | None = None

    def limit(self, limits: Sequence[Tolerance]) -> Tolerance | None:
        """The tolerance for it."""
        mine = self.local
        point = {"experiment": mine.experiment, "model": mine.model, "device": mine.device, "at": self.at}
        return tolerances.find(limits, self.quantity, **point)

    def around(self, limits: Sequence[Tolerance]) -> Tolerance | None:
        """The tolerance around a published number; one that states a value says nothing about that of the report."""
        limit = self.limit(limits)
        return limit if limit and limit.value is None else None


def _comparison(what: _Subject, value: float, seen: Seen, limit: Tolerance | None, note: str = "") -> Comparison:
    bounds = limit.bounds(value) if limit else (math.nan, math.nan)
    verdict = tolerances.judge(*seen[:3], bounds) if limit else "for information"
    remarks = [note] if note else []
    if limit and what.local.shared:
        verdict = "not decidable"
        remarks.append("ranks shared cores: no measure of scaling")
    elif limit and math.isnan(seen.low):
        remarks.append("no interval")
    unit = tolerances.unit(what.quantity)
    assert unit is not None
    theirs, mine = what.published, what.local
    return Comparison(
        theirs.report, mine.experiment, mine.model, theirs.on, mine.on, what.quantity, unit, mine.axis, what.at, value,
        *seen, *bounds, verdict, "; ".join(remarks),
    )  # fmt: skip


def compare_curves(published: Curve, local: Curve, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Two curves of one model over the same axis: raw rates, their ratios to the smallest size of both, their shape.

    Where the axis is one of scaling the ratios are speedup and efficiency, and the shape is the efficiency that each
    doubling keeps, over all sizes of each curve, which need not be the same.
    """
    by = local.by.replace(" ", "_")
    both = sorted(set(published.sizes) & set(local.sizes))
    theirs, mine = _points(published.only(both)), _points(local.only(both))

    def beside(quantity: str, column: str, size: float, note: str = "") -> Comparison:
        seen = Seen.at(mine[size], column, min(mine[s]["n"] for s in (size, both[0])))
        what = _Subject(published, local, quantity, size)
        return _comparison(what, theirs[size][column], seen, what.around(limits), note)

    for size in both if published.unit == local.unit == "images/s" and local.by == "throughput" else ():
        yield beside("images_per_s", "rate", size)
    for size in both[1:]:
        over = f"over {both[0]:g}"
        if local.axis in SIZES:
            yield beside(f"speedup_{by}", "speedup", size, over)
            yield beside(f"efficiency_{by}", "efficiency", size, over)
        else:
            yield beside("relative_throughput", "speedup", size, over)
    if local.axis in SIZES and len(set(published.sizes)) > 1 and len(set(local.sizes)) > 1:
        quantity = f"efficiency_{by}_per_doubling"
        stated = metrics.per_doubling(published.sizes, published.rates)
        kept = _kept_per_doubling(local)
        spans = (f"{min(c.sizes):g} to {max(c.sizes):g}" for c in (published, local))
        note = "report {}, local {} {}".format(*spans, local.axis)
        what = _Subject(published, local, quantity)
        yield _comparison(what, stated.value, _seen(kept), what.around(limits), note)


def _kept_per_doubling(local: Curve) -> Estimate | Statistic:
    if local.in_rounds:
        return metrics.per_doubling_in_rounds(local.points(), "size")
    return metrics.per_doubling(local.sizes, local.rates)


def _points(curve: Curve) -> dict[float, dict[str, float]]:
    rows = metrics.curve(curve.points(), "size").to_dict("records")
    return {row["size"]: {str(name): float(value) for name, value in row.items()} for row in rows}


def _seen(e: Estimate | Statistic) -> Seen:
    return Seen(e.value, e.low, e.high, e.n)


def compare_order(
    pairs: Sequence[tuple[Curve, Curve]], quantity: str, limits: Sequence[Tolerance]
) -> Iterator[Comparison]:
    """The order of the models, as the share of their pairs that are ordered as in the report.

    `pairs` has the published and the local curve of each model. By throughput, at the smallest size of each; or by the
    efficiency that a doubling keeps. A pair that the local repeats cannot tell apart is counted as either, in the two
    ends of the interval.
    """
    theirs = {local.model: _standing(published, quantity) for published, local in pairs}
    mine = {local.model: _standing(local, quantity) for _, local in pairs}
    if len(mine) < 2:
        return
    kept = low = high = 0
    for a, b in combinations(mine, 2):
        ratio = metrics.ratio(mine[a], mine[b])
        alike = (mine[a].value > mine[b].value) == (theirs[a].value > theirs[b].value)
        undecided = not math.isnan(ratio.low) and ratio.low <= 1 <= ratio.high
        kept, low, high = kept + alike, low + (alike and not undecided), high + (alike or undecided)
    total, n = math.comb(len(mine), 2), min(e.n for e in mine.values())
    known = all(not math.isnan(e.low) for e in mine.values())
    seen = Seen(kept / total, *((low / total, high / total) if known else (math.nan, math.nan)), n)
    note = "; ".join(
        f"{who}: {' > '.join(sorted(side, key=lambda model: -side[model].value))}"
        for who, side in (("report", theirs), ("local", mine))
    )
    published, local = pairs[0]
    local = replace(local, model="", shared=any(curve.shared for _, curve in pairs))
    what = _Subject(published, local, quantity)
    yield _comparison(what, 1.0, seen, what.limit(limits), note)


def _standing(curve: Curve, quantity: str) -> Estimate:
    curve = curve.by_launch()
    if quantity == "order_by_efficiency":
        return metrics.per_doubling(curve.sizes, curve.rates)
    return metrics.estimate(curve.only([min(curve.sizes)]).rates)


def _single_rows(published: pd.DataFrame) -> pd.DataFrame:
    accuracy = published["quantity"].isin([*_FINAL, "epochs_to_stable"]) & published["kind"].eq("measured")
    return published[accuracy | published["quantity"].eq("flat_from_global_batch")]


def _single_numbers(published: pd.DataFrame, local: pd.DataFrame, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Final accuracies and epochs until they are stable; from which batch on the throughput no longer rises."""
    for row in _single_rows(published).to_dict("records"):
        fits = local["experiment"].eq(row["experiment"])
        fits &= local["model"].eq(row["model"]) | (row["model"] == "")
        fits &= local["device"].eq(row["device"]) if pd.isna(row["ranks"]) else local["ranks"].eq(row["ranks"])
        for _, series in local[fits.fillna(False)].groupby("series", sort=False):
            if (seen := _single(series, row["quantity"])) is None:
                continue
            axis = series["axis"].iloc[0]
            mine = local_curve(metrics.rates(series), "ranks" if axis == "nodes" else column(axis, series))
            on = ", ".join(filter(None, (row["run"], words(row, "device", "gpu", "machine", "dataset"))))
            theirs = replace(mine, report=row["report"], on=on)
            at = None if pd.isna(row["ranks"]) else int(row["ranks"])
            what = _Subject(theirs, mine, row["quantity"], at)
            yield _comparison(what, row["value"], seen, what.around(limits))


def _single(series: pd.DataFrame, quantity: str) -> Seen | None:
    """A number of a whole run, over repeats, or of a whole curve; None where the records do not have it."""
    if quantity == "flat_from_global_batch":
        mean = metrics.curve(metrics.rates(series), "global_batch").set_index("size")["rate"]
        # The rule for accuracies: the first from which on all stay close to the best.
        flat = metrics.epochs_to_stable(mean.index.tolist(), metrics.speedup(mean, mean.max()).tolist(), FLAT)
        return Seen(flat) if len(mean) > 1 else None
    found = metrics.final(series, quantity) if quantity in _FINAL else metrics.training(series)["epochs_to_stable"]
    return _seen(metrics.estimate(found.dropna().tolist())) if found.notna().any() else None


def stated_values(local: pd.DataFrame, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Local curves against the values that the tolerances state: what this machine is to reach."""
    if not any(limit.value is not None for limit in limits):
        return
    for _, series in local.groupby("series", sort=False):
        axis = series["axis"].iloc[0]
        over = "nodes" if axis in ("", "nodes") else column(axis, series)
        for by in metrics.BY:
            if len(runs := metrics.rates(series, by)):
                yield from _stated_of(local_curve(runs, over, by), limits)


def _stated_of(curve: Curve, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """One local curve against the values that the tolerances state."""
    names = {f"{name}_{curve.by.replace(' ', '_')}": name for name in ("speedup", "efficiency")}
    names |= {"images_per_s": "rate"} if curve.by == "throughput" else {}
    for quantity, name in names.items():
        for size, point in _points(curve).items():
            what = _Subject(replace(curve, on="stated in the tolerances"), curve, quantity, size)
            limit = what.limit(limits)
            if limit and limit.value is not None:
                yield _comparison(what, limit.value, Seen.at(point, name, point["n"]), limit)


def compare(published: pd.DataFrame, local: pd.DataFrame, limits: Sequence[Tolerance]) -> Compared:
    """Returns the local table beside the published one, experiment by experiment and model by model.

    A model is compared with the report's numbers of the same device (CPU, GPU) where there are any, else with those of
    the other one.
    """
    local = local[local["kind"].eq("measured")]  # not the controls of emulated nodes
    curves = published_curves(published, axes(local))
    rows: list[Comparison] = []
    alone: list[str] = []
    orders: dict[tuple[str, ...], list[tuple[Curve, Curve]]] = defaultdict(list)
    for (experiment, model, _), series in local.groupby(["experiment", "model", "series"], sort=False):
        there = [c for c in curves if c.experiment == experiment and c.model in (model, "")]
        there = [c for c in there if c.device == series["device"].iloc[0]] or there
        for theirs in there:
            runs = metrics.rates(series, theirs.by)
            if runs.empty:  # rounds alone have no wall time
                continue
            mine = local_curve(runs, theirs.axis, theirs.by)
            rows += compare_curves(theirs, mine, limits)
            if theirs.by == "throughput":
                alone += _other_sizes(theirs, mine)
                group = (theirs.report, theirs.experiment, theirs.device, theirs.on, theirs.unit, theirs.axis, mine.on)
                orders[group].append((theirs, mine))
        if not there:
            number = series["record"].nunique()
            alone.append(f"{experiment}, {model or 'no model'}, {number} runs: no report prints a number for it")
    for pairs in orders.values():
        rows += _orders(pairs, limits)
    rows += _single_numbers(published, local, limits)
    left = _published_alone(published, curves, rows)
    rows += stated_values(local, limits)
    return Compared(rows, [*dict.fromkeys(alone)], left)


def _published_alone(table: pd.DataFrame, curves: Sequence[Curve], rows: Sequence[Comparison]) -> list[str]:
    """The curves, and the single numbers of an experiment, that no comparison has, in words."""
    beside = {(row.report, row.experiment, row.published_on): {row.model} for row in rows}
    for row in rows:
        beside[row.report, row.experiment, row.published_on].add(row.model)
    left: dict[str, set[str]] = defaultdict(set)
    for c in curves:
        models = beside.get((c.report, c.experiment, c.on), set())
        if not (c.model in models if c.model else models):
            left[f"report {c.report}, {c.experiment} ({c.on})"].add(c.model or c.by)
    judged = {(row.report, row.experiment, row.quantity) for row in rows}
    for single in _single_rows(table).to_dict("records"):
        if (single["report"], single["experiment"], single["quantity"]) not in judged:
            left[f"report {single['report']}, {single['experiment']} ({single['device']})"].add(single["quantity"])
    return [f"{where}: {', '.join(sorted(left[where]))}" for where in sorted(left)]


def _other_sizes(published: Curve, local: Curve) -> Iterator[str]:
    sizes = [sorted(set(curve.sizes)) for curve in (local, published)]
    if sizes[0] != sizes[1]:
        mine, theirs = (", ".join(f"{size:g}" for size in s) for s in sizes)
        axis = local.axis.replace("_", " ")
        yield f"{local.experiment}, {local.model}: local at {mine} {axis}, report {published.report} at {theirs}"


def _orders(pairs: Sequence[tuple[Curve, Curve]], limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Both orders of the models of one report and one setting; a model with two local series is in none."""
    models = [local.model for _, local in pairs]
    pairs = [pair for pair in pairs if pair[0].model and models.count(pair[1].model) == 1]
    if pairs and pairs[0][0].unit == "images/s":
        yield from compare_order(pairs, "order_by_throughput", limits)
    if pairs and pairs[0][1].axis in SIZES:
        both = [pair for pair in pairs if all(len(set(curve.sizes)) > 1 for curve in pair)]
        yield from compare_order(both, "order_by_efficiency", limits)


def counts(rows: Iterable[Comparison]) -> dict[str, int]:
    """How many comparisons have each verdict."""
    found: dict[str, Any] = dict.fromkeys(tolerances.VERDICTS, 0)
    for row in rows:
        found[row.verdict] += 1
    return found
