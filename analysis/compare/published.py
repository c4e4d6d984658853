"""One's own records beside the published numbers of the same experiment, each number with its verdict."""

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
from analysis.compare.curves import AXES, SCALING, Curve, own_curve, per_doubling, published_curves, words
from analysis.compare.tolerances import Tolerance, Verdict
from analysis.metrics import Estimate

FLAT = 0.10  # a throughput within this fraction of the best one no longer rises
_FINAL = ("validation_accuracy", "train_accuracy")


class Seen(NamedTuple):
    """One's own number: the mean of its repeats and the ends of its 95 % interval, NaN where n is 1."""

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
    """One number of one's own beside the published one, in `unit`; NaN where not known.

    `at` is the size of the point on `axis`, None for what is of a whole curve. `allowed_low` and `allowed_high` are the
    ends of what the tolerance allows.
    """

    report: str
    experiment: str
    model: str
    published_on: str
    own_on: str
    quantity: str
    unit: str
    axis: str
    at: int | None
    published: float
    own: float
    low: float
    high: float
    n: int
    allowed_low: float
    allowed_high: float
    verdict: Verdict
    note: str


@dataclass(frozen=True)
class Compared:
    """What stands beside each other, and what has nothing to stand beside."""

    rows: list[Comparison]
    own_alone: list[str]
    published_alone: list[str]


def _comparison(
    published: Curve,
    own: Curve,
    quantity: str,
    at: int | None,
    value: float,
    seen: Seen,
    limit: Tolerance | None,
    note: str = "",
) -> Comparison:
    bounds = limit.bounds(value) if limit else (math.nan, math.nan)
    verdict = tolerances.judge(*seen[:3], bounds) if limit else "for information"
    remarks = [note] if note else []
    if limit and own.shared:
        verdict = "not decidable"
        remarks.append("ranks shared cores: no measure of scaling")
    elif limit and math.isnan(seen.low):
        remarks.append("no interval")
    unit = tolerances.unit(quantity)
    assert unit is not None
    return Comparison(
        published.report, own.experiment, own.model, published.on, own.on, quantity, unit, own.axis, at, value, *seen,
        *bounds, verdict, "; ".join(remarks),
    )  # fmt: skip


def _limit(limits: Sequence[Tolerance], quantity: str, own: Curve, at: int | None) -> Tolerance | None:
    return tolerances.find(limits, quantity, experiment=own.experiment, model=own.model, device=own.device, at=at)


def _around(limits: Sequence[Tolerance], quantity: str, own: Curve, at: int | None) -> Tolerance | None:
    """The tolerance around a published number; one that states its own value says nothing of the report's."""
    limit = _limit(limits, quantity, own, at)
    return limit if limit and limit.value is None else None


def compare_curves(published: Curve, own: Curve, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Two curves of one model over the same axis: raw rates, their ratios to the smallest size of both, their shape.

    Where the axis is one of scaling the ratios are speedup and efficiency, and the shape is the efficiency that each
    doubling keeps, over all sizes of each curve, which need not be the same.
    """
    by = own.by.replace(" ", "_")
    both = sorted(set(published.sizes) & set(own.sizes))
    theirs, mine = _points(published.only(both)), _points(own.only(both))

    def beside(quantity: str, column: str, size: int, note: str = "") -> Comparison:
        seen = Seen.at(mine[size], column, min(mine[s]["n"] for s in (size, both[0])))
        limit = _around(limits, quantity, own, size)
        return _comparison(published, own, quantity, size, theirs[size][column], seen, limit, note)

    for size in both if published.unit == own.unit == "images/s" and own.by == "throughput" else ():
        yield beside("images_per_s", "rate", size)
    for size in both[1:]:
        over = f"over {both[0]}"
        if own.axis in SCALING:
            yield beside(f"speedup_{by}", "speedup", size, over)
            yield beside(f"efficiency_{by}", "efficiency", size, over)
        else:
            yield beside("relative_throughput", "speedup", size, over)
    if own.axis in SCALING and len(set(published.sizes)) > 1 and len(set(own.sizes)) > 1:
        quantity = f"efficiency_{by}_per_doubling"
        stated, kept = (per_doubling(c.sizes, c.rates) for c in (published, own))
        spans = (f"{min(c.sizes)} to {max(c.sizes)}" for c in (published, own))
        note = "report {}, own {} {}".format(*spans, own.axis)
        yield _comparison(
            published, own, quantity, None, stated.value, _seen(kept), _around(limits, quantity, own, None), note
        )


def _points(curve: Curve) -> dict[int, dict[str, float]]:
    rows = metrics.curve(curve.sizes, curve.rates).to_dict("records")
    return {int(row["ranks"]): {str(name): float(value) for name, value in row.items()} for row in rows}


def _seen(e: Estimate) -> Seen:
    return Seen(e.value, e.low, e.high, e.n)


def compare_order(
    pairs: Sequence[tuple[Curve, Curve]], quantity: str, limits: Sequence[Tolerance]
) -> Iterator[Comparison]:
    """The order of the models, as the share of their pairs that stands as in the report.

    `pairs` has the published and the own curve of each model. By throughput, at the smallest size of each; or by the
    efficiency that a doubling keeps. A pair that one's own repeats cannot tell apart is counted as either, in the two
    ends of the interval.
    """
    theirs = {own.model: _standing(published, quantity) for published, own in pairs}
    mine = {own.model: _standing(own, quantity) for _, own in pairs}
    if len(mine) < 2:
        return
    kept = least = most = 0
    for a, b in combinations(mine, 2):
        ratio = metrics.ratio(mine[a], mine[b])
        alike = (mine[a].value > mine[b].value) == (theirs[a].value > theirs[b].value)
        undecided = not math.isnan(ratio.low) and ratio.low <= 1 <= ratio.high
        kept, least, most = kept + alike, least + (alike and not undecided), most + (alike or undecided)
    total, n = math.comb(len(mine), 2), min(e.n for e in mine.values())
    known = all(not math.isnan(e.low) for e in mine.values())
    seen = Seen(kept / total, *((least / total, most / total) if known else (math.nan, math.nan)), n)
    note = "; ".join(
        f"{who}: {' > '.join(sorted(side, key=lambda model: -side[model].value))}"
        for who, side in (("report", theirs), ("own", mine))
    )
    published, own = pairs[0]
    own = replace(own, model="", shared=any(curve.shared for _, curve in pairs))
    yield _comparison(published, own, quantity, None, 1.0, seen, _limit(limits, quantity, own, None), note)


def _standing(curve: Curve, quantity: str) -> Estimate:
    if quantity == "order_by_efficiency":
        return per_doubling(curve.sizes, curve.rates)
    return metrics.estimate(curve.only([min(curve.sizes)]).rates)


def _single_rows(published: pd.DataFrame) -> pd.DataFrame:
    accuracy = published["quantity"].isin([*_FINAL, "epochs_to_stable"]) & published["kind"].eq("measured")
    return published[accuracy | published["quantity"].eq("flat_from_global_batch")]


def _single_numbers(published: pd.DataFrame, own: pd.DataFrame, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Final accuracies and epochs until they are stable; from which batch on the throughput no longer rises."""
    for row in _single_rows(published).to_dict("records"):
        fits = own["experiment"].eq(row["experiment"])
        fits &= own["model"].eq(row["model"]) | (row["model"] == "")
        fits &= own["device"].eq(row["device"]) if pd.isna(row["ranks"]) else own["ranks"].eq(row["ranks"])
        for _, series in own[fits.fillna(False)].groupby("series", sort=False):
            if (seen := _single(series, row["quantity"])) is None:
                continue
            axis = AXES.get(row["experiment"], "ranks")
            mine = own_curve(metrics.rates(series), axis)
            on = ", ".join(filter(None, (row["run"], words(row, "device", "gpu", "machine", "dataset"))))
            theirs = replace(mine, report=row["report"], on=on)
            at = None if pd.isna(row["ranks"]) else int(row["ranks"])
            limit = _around(limits, row["quantity"], mine, at)
            yield _comparison(theirs, mine, row["quantity"], at, row["value"], seen, limit)


def _single(series: pd.DataFrame, quantity: str) -> Seen | None:
    """A number of a whole run, over one's repeats, or of a whole curve; None where the records do not have it."""
    if quantity == "flat_from_global_batch":
        mean = metrics.rates(series).groupby("global_batch")["rate"].mean().sort_index()
        # The rule for accuracies: the first from which on all stay close to the best.
        flat = metrics.epochs_to_stable(mean.index.tolist(), (mean / mean.max()).tolist(), FLAT)
        return Seen(flat) if len(mean) > 1 else None
    rows = series[series["quantity"] == (quantity if quantity in _FINAL else "validation_accuracy")]
    runs = [run for _, run in rows.sort_values("epoch").groupby("record")]
    if not runs:
        return None
    if quantity in _FINAL:
        return _seen(metrics.estimate([run["value"].iloc[-1] for run in runs]))
    return _seen(metrics.estimate([metrics.epochs_to_stable(r["epoch"].tolist(), r["value"].tolist()) for r in runs]))


def stated_values(own: pd.DataFrame, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """One's own curves against the values that the tolerances state themselves: what this machine is to reach."""
    if not any(limit.value is not None for limit in limits):
        return
    for _, series in own.groupby("series", sort=False):
        axis = AXES.get(series["experiment"].iloc[0], "nodes")
        for by in ("throughput", "wall time", "job time"):
            curve = own_curve(metrics.rates(series, by), axis, by)
            names = {f"{column}_{by.replace(' ', '_')}": column for column in ("speedup", "efficiency")}
            for quantity, column in (names | ({"images_per_s": "rate"} if by == "throughput" else {})).items():
                for size, point in _points(curve).items():
                    limit = _limit(limits, quantity, curve, size)
                    if limit and limit.value is not None:
                        theirs = replace(curve, on="stated in the tolerances")
                        seen = Seen.at(point, column, point["n"])
                        yield _comparison(theirs, curve, quantity, size, limit.value, seen, limit)


def compare(published: pd.DataFrame, own: pd.DataFrame, limits: Sequence[Tolerance]) -> Compared:
    """One's own tidy table beside the published one, experiment by experiment and model by model.

    A model is compared with the report's numbers of the same device (CPU, GPU) where there are any, else with those of
    the other one.
    """
    curves = published_curves(published)
    rows: list[Comparison] = []
    alone: list[str] = []
    orders: dict[tuple[str, ...], list[tuple[Curve, Curve]]] = defaultdict(list)
    own = own[own["kind"].eq("measured")]  # not the controls of emulated nodes
    for (experiment, model, _), series in own.groupby(["experiment", "model", "series"], sort=False):
        there = [c for c in curves if c.experiment == experiment and c.model in (model, "")]
        there = [c for c in there if c.device == series["device"].iloc[0]] or there
        for theirs in there:
            mine = own_curve(metrics.rates(series, theirs.by), theirs.axis, theirs.by)
            rows += compare_curves(theirs, mine, limits)
            if theirs.by == "throughput":
                alone += _other_sizes(theirs, mine)
                group = (theirs.report, theirs.experiment, theirs.device, theirs.on, theirs.unit, theirs.axis, mine.on)
                orders[group].append((theirs, mine))
        if not there:
            runs = series["record"].nunique()
            alone.append(f"{experiment}, {model or 'no model'}, {runs} runs: no report prints a number for it")
    for pairs in orders.values():
        rows += _orders(pairs, limits)
    rows += _single_numbers(published, own, limits)
    left = _published_alone(published, curves, rows)
    rows += stated_values(own, limits)
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


def _other_sizes(published: Curve, own: Curve) -> Iterator[str]:
    sizes = [sorted(set(curve.sizes)) for curve in (own, published)]
    if sizes[0] != sizes[1]:
        mine, theirs = (", ".join(map(str, s)) for s in sizes)
        axis = own.axis.replace("_", " ")
        yield f"{own.experiment}, {own.model}: own at {mine} {axis}, report {published.report} at {theirs}"


def _orders(pairs: Sequence[tuple[Curve, Curve]], limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Both orders of the models of one report and one setting; a model with two series of one's own stands in none."""
    models = [own.model for _, own in pairs]
    pairs = [pair for pair in pairs if pair[0].model and models.count(pair[1].model) == 1]
    if pairs and pairs[0][0].unit == "images/s":
        yield from compare_order(pairs, "order_by_throughput", limits)
    if pairs and pairs[0][1].axis in SCALING:
        both = [pair for pair in pairs if all(len(set(curve.sizes)) > 1 for curve in pair)]
        yield from compare_order(both, "order_by_efficiency", limits)


def counts(rows: Iterable[Comparison]) -> dict[str, int]:
    """How many comparisons have each verdict."""
    found: dict[str, Any] = dict.fromkeys(tolerances.VERDICTS, 0)
    for row in rows:
        found[row.verdict] += 1
    return found
