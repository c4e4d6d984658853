"""Local records beside the published numbers of the same experiment, each number with its verdict."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from analysis import epochs, metrics, speedups
from analysis.compare.comparison import (
    Comparison,
    Comparisons,
    Subject,
    compare_curves,
    compare_number,
    compare_order,
    holm_corrected,
)
from analysis.compare.curves import SIZES, Curve, axes, cell_text, column, local_curve, published_curves
from analysis.compare.tolerances import Tolerance
from analysis.curves import uncertain
from analysis.stats import student
from analysis.stats.number import Number, exact, unknown
from analysis.table.stated import number
from analysis.thresholds import limit

FLAT = limit("flat")
_FINAL = ("validation_accuracy", "train_accuracy")


def _single_rows(published: pd.DataFrame) -> pd.DataFrame:
    accuracy = published["quantity"].isin([*_FINAL, "epochs_to_stable"]) & published["kind"].eq("measured")
    return published[accuracy | published["quantity"].eq("flat_from_global_batch")]


def _single_numbers(published: pd.DataFrame, local: pd.DataFrame, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Compare final accuracies, epochs until they are stable, and the batch from which the throughput is flat."""
    for row in _single_rows(published).to_dict("records"):
        fits = local["experiment"].eq(row["experiment"])
        fits &= local["model"].eq(row["model"]) | (row["model"] == "")
        fits &= local["device"].eq(row["device"]) if pd.isna(row["ranks"]) else local["ranks"].eq(row["ranks"])
        for _, series in local[fits.fillna(False)].groupby("series", sort=False):
            if (local_number := _single(series, row["quantity"])) is None:
                continue
            axis = series["axis"].iloc[0]
            mine = local_curve(speedups.rates(series), "ranks" if axis == "nodes" else column(axis, series))
            on = ", ".join(filter(None, (row["run"], cell_text(row, "device", "gpu", "machine", "dataset"))))
            theirs = replace(mine, report=row["report"], on=on)
            at = None if pd.isna(row["ranks"]) else int(row["ranks"])
            what = Subject(theirs, mine, row["quantity"], at)
            yield compare_number(what, number({**row, "note": ""}), local_number, what.around(limits))


def _single(series: pd.DataFrame, quantity: str) -> Number | None:
    """Return a number of whole runs, over repeats, or of a whole curve; None if the records lack it."""
    if quantity == "flat_from_global_batch":
        mean = speedups.curve(speedups.rates(series), "global_batch").set_index("size")["rate"]
        # The rule for accuracies: the first from which on all stay close to the best.
        flat = metrics.epochs_to_stable(mean.index.tolist(), metrics.speedup(mean, mean.max()).tolist(), FLAT)
        return unknown(flat) if len(mean) > 1 else None
    values = epochs.final(series, quantity) if quantity in _FINAL else epochs.training(series)["epochs_to_stable"]
    return student.mean(values.dropna().tolist()) if values.notna().any() else None


def stated_values(local: pd.DataFrame, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Compare local curves with the values that the tolerances state for this machine."""
    if not any(limit.value is not None for limit in limits):
        return
    for _, series in local.groupby("series", sort=False):
        axis = series["axis"].iloc[0]
        over = "nodes" if axis in ("", "nodes") else column(axis, series)
        for by in speedups.BY:
            runs = speedups.rates(series, by).dropna(subset="rate")  # allreduces alone have wall times and no images
            if len(runs):
                yield from _stated_of(local_curve(runs, over, by), limits)


def _stated_of(curve: Curve, limits: Sequence[Tolerance]) -> Iterator[Comparison]:
    """Compare one local curve with the values that the tolerances state."""
    names = {f"{name}_{curve.by.replace(' ', '_')}": name for name in ("speedup", "efficiency")}
    names |= {"images_per_s": "rate"} if curve.by == "throughput" else {}
    first = min(curve.sizes)
    stated = []
    for quantity, name in names.items():
        for size in sorted(set(curve.sizes)):
            over = None if name == "rate" else first
            what = Subject(replace(curve, on="stated in the tolerances"), curve, quantity, size, over)
            limit = what.limit(limits)
            if limit and limit.value is not None:
                stated.append((what, limit, limit.value, size, name))
    numbers = uncertain(curve.points(), "size") if stated else {}  # most curves have nothing to reach
    for what, limit, value, size, name in stated:
        yield compare_number(what, exact(value), numbers[size][name], limit)


def compare(published: pd.DataFrame, local: pd.DataFrame, limits: Sequence[Tolerance]) -> Comparisons:
    """Compare the local table with the published one, by experiment and model.

    A model is compared with published numbers of the same device (CPU, GPU), or else of the other one.
    """
    local = local[local["kind"].eq("measured")]  # not the controls of emulated nodes: they tell which points are lost
    curves = published_curves(published, axes(local))
    rows: list[Comparison] = []
    alone: list[str] = []
    orders: dict[tuple[str, ...], list[tuple[Curve, Curve]]] = defaultdict(list)
    for (experiment, model, _), series in local.groupby(["experiment", "model", "series"], sort=False):
        there = [c for c in curves if c.experiment == experiment and c.model in (model, "")]
        there = [c for c in there if c.device == series["device"].iloc[0]] or there
        for theirs in there:
            runs = speedups.rates(series, theirs.by).dropna(subset="rate")
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
    return Comparisons(holm_corrected(rows), [*dict.fromkeys(alone)], left)


def _published_alone(table: pd.DataFrame, curves: Sequence[Curve], rows: Sequence[Comparison]) -> list[str]:
    """Return the published curves and single numbers without a comparison, as lines of text."""
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
    """Compare both orders of the models of one report and setting, without models with two local series."""
    models = [local.model for _, local in pairs]
    pairs = [pair for pair in pairs if pair[0].model and models.count(pair[1].model) == 1]
    if pairs and pairs[0][0].unit == "images/s":
        yield from compare_order(pairs, "order_by_throughput", limits)
    if pairs and pairs[0][1].axis in SIZES:
        both = [pair for pair in pairs if all(len(set(curve.sizes)) > 1 for curve in pair)]
        yield from compare_order(both, "order_by_efficiency", limits)
