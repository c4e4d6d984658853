"""Local records beside the published numbers of the same experiment, each number with its verdict.

Tolerances decide, which are written as in ReFrame: (value, lower, upper, unit).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import msgspec
import pandas as pd

from analysis import TableError, metrics, speedups
from analysis.compare import EQUAL, Comparison, Comparisons, Judged, compared, comparisons, over
from analysis.compare.comparable_curves import (
    SIZES,
    LocalCurve,
    PublishedCurve,
    axes,
    cell_text,
    column,
    local_curve,
    published_curves,
)
from analysis.derived import stated_number
from analysis.experiments import final_values, training_runs
from analysis.stats import Number, combined, common_variation, exact, student, unknown
from analysis.stats.verdict import Bounds, apart
from analysis.table import tidy_columns
from analysis.thresholds import limit

TOLERANCES = Path(__file__).with_name("tolerances.toml")

# Quantities of comparisons that the tidy table does not have, with their units.
COMPARED = {
    "efficiency_throughput_per_doubling": "fraction",
    "efficiency_wall_time_per_doubling": "fraction",
    "efficiency_job_time_per_doubling": "fraction",
    "relative_throughput": "x",
    "order_by_throughput": "fraction",
    "order_by_efficiency": "fraction",
}
_UNITS = {name: quantity.unit for name, quantity in tidy_columns.QUANTITIES.items()} | COMPARED
_SELECTORS = ("experiment", "model", "device", "at")


class Tolerance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reference: its value, the allowed relative deviations below and above, and the points that it is for."""

    quantity: str
    unit: str
    value: Literal["published"] | float
    lower: float | None = None
    upper: float | None = None
    experiment: str | None = None
    model: str | None = None
    device: str | None = None
    at: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError naming what is given and what is allowed."""
        unit = _UNITS.get(self.quantity)
        for held, key, allowed in (
            (unit, "quantity", "must be one of the tidy table or of a comparison"),
            (self.unit == unit, "unit", f"must be '{unit}'"),
            (self.stated is None or math.isfinite(self.stated), "value", "must be 'published' or a number"),
            (-math.inf < (self.lower or 0) <= 0, "lower", "must be a fraction of the value, 0 or negative"),
            (0 <= (self.upper or 0) < math.inf, "upper", "must be a fraction of the value, 0 or positive"),
        ):
            if not held:
                raise ValueError(f"{key} = {getattr(self, key)!r} given, {allowed}")

    @property
    def stated(self) -> float | None:
        """Return the value; None for the published number."""
        return None if self.value == "published" else self.value

    @property
    def allowed(self) -> Bounds:
        """Return the ratios to the reference that are allowed."""
        low = -math.inf if self.lower is None else 1 + self.lower
        return Bounds(low, math.inf if self.upper is None else 1 + self.upper)


Tolerances = Sequence[Tolerance]


class _File(msgspec.Struct):
    tolerance: list[Tolerance]


def read_tolerances(path: Path = TOLERANCES) -> list[Tolerance]:
    """Return the tolerances in the TOML file `path`, in its order. Raises TableError naming the file and the fault."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_File).tolerance
    except (OSError, ValueError) as error:
        raise TableError(f"{path}: not a readable list of [[tolerance]]: {error}") from error


def find_tolerance(tolerances: Tolerances, quantity: str, **point: Any) -> Tolerance | None:
    """Return the first tolerance for a quantity at a point (experiment, model, device, at), or None."""
    for one in tolerances:
        if one.quantity == quantity and all(getattr(one, name) in (None, point.get(name)) for name in _SELECTORS):
            return one
    return None


def _tolerance(
    tolerances: Tolerances, quantity: str, local: LocalCurve, at: float | None = None
) -> tuple[Tolerance | None, str]:
    """Return the tolerance for a quantity of a local curve, and a note if another quantity is judged instead."""
    point = {name: local.runs[name].iloc[0] for name in ("experiment", "model", "device")} | {"at": at}
    speedup = quantity.replace("efficiency_", "speedup_")
    if speedup != quantity and at is not None and find_tolerance(tolerances, speedup, **point):
        return None, "judged as the speedup"  # both are one measurement
    return find_tolerance(tolerances, quantity, **point), ""


def _around_published(tolerance: Tolerance | None) -> Tolerance | None:
    """Return a tolerance around a published number; None for one that states a value itself."""
    return tolerance if tolerance and tolerance.stated is None else None


def _judged(
    local: LocalCurve, quantity: str, at: float | None, source: str, reference: Number, measured: Number,
    tolerance: Tolerance | None, *notes: str, base: float | None = None,
) -> Judged:  # fmt: skip
    """Return a local number at a size, or of the whole curve, beside a reference, judged by a tolerance.

    tolerance: None for information. base: the size that a ratio is over.
    """
    axis = local.axis.replace("_", " ")
    axis = axis.removesuffix("s") if at == 1 and local.axis in SIZES else axis
    return compared(
        reference, measured, over(measured, reference), tolerance.allowed if tolerance else None,
        local.why_invalid(*(size for size in (base, at) if size is not None)), "; ".join(filter(None, notes)),
        experiment=local.experiment, model=local.model, point="" if at is None else f"{at:g} {axis}",
        quantity=quantity, unit=_UNITS[quantity], source=source, on=local.on,
    )  # fmt: skip


def _measured(local: LocalCurve, sizes: Sequence[float]) -> Iterator[tuple[str, float, float | None, Number]]:
    """Yield each quantity, its size, the size that it is over, and its number: rates, and ratios to the smallest size.

    On an axis of scaling the ratios are speedup and efficiency.
    """
    points, by = local.points(sizes), local.by.replace(" ", "_")
    for size in sizes if local.by == "throughput" else ():
        yield "images_per_s", size, None, points[size].rate
    ratios = {"relative_throughput": "speedup"}
    if local.axis in SIZES:
        ratios = {f"{name}_{by}": name for name in ("speedup", "efficiency")}
    for size in sizes[1:]:
        for quantity, name in ratios.items():
            yield quantity, size, sizes[0], getattr(points[size], name)


def compare_curves(published: PublishedCurve, local: LocalCurve, tolerances: Tolerances) -> Iterator[Judged]:
    """Compare two curves of one model over the same axis: rates, ratios to the smallest common size, and shape."""
    sizes = sorted({*published.sizes} & {*local.sizes})
    for quantity, size, base, number in _measured(local, sizes):
        reference, over_base = published.rate(size), ""
        if base is not None:
            reference = combined(metrics.speedup, {"rate": reference, "base_rate": published.rate(base)})
            reference = reference.over(size / base) if quantity.startswith("efficiency") else reference
            over_base = f"over {base:g}"
        elif published.unit != "images/s":
            continue
        tolerance, note = _tolerance(tolerances, quantity, local, size)
        yield _judged(local, quantity, size, published.source, reference, number, _around_published(tolerance),
                      over_base, note, base=base)  # fmt: skip
    yield from _shape(published, local, tolerances)


def _shape(published: PublishedCurve, local: LocalCurve, tolerances: Tolerances) -> Iterator[Judged]:
    """Compare the efficiency that each doubling keeps over all sizes of each curve, without points that are not valid.

    It is for information if both curves have the same two sizes: then it repeats their speedup.
    """
    valid = local.only(size for size in local.sizes if size not in local.invalid)
    if local.axis not in SIZES or len({*published.sizes}) < 2 or len(valid.sizes) < 2:
        return
    quantity = f"efficiency_{local.by.replace(' ', '_')}_per_doubling"
    tolerance, repeats_speedup = _tolerance(tolerances, quantity, valid)[0], ""
    if len(valid.sizes) == 2 and {*published.sizes} == {*valid.sizes}:
        tolerance, repeats_speedup = None, "judged as the speedup"
    spans = (f"{min(sizes):g} to {max(sizes):g}" for sizes in (published.sizes, valid.sizes))
    note = "report {}, local {} {}".format(*spans, local.axis)
    invalid = f"without {why}" if (why := local.why_invalid(*local.sizes)) else ""
    yield _judged(valid, quantity, None, published.source, published.per_doubling, valid.per_doubling,
                  _around_published(tolerance), note, invalid, repeats_speedup)  # fmt: skip


Pairs = Sequence[tuple[PublishedCurve, LocalCurve]]


def _orders(pairs: Pairs, tolerances: Tolerances) -> Iterator[Judged]:
    """Compare both orders of the models of one report and setting, without models with two local series."""
    models = [local.model for _, local in pairs]
    pairs = [(c, local) for c, local in pairs if c.model and models.count(local.model) == 1 and not local.invalid]
    if pairs and pairs[0][0].unit == "images/s":
        yield from _order(pairs, "order_by_throughput", tolerances)
    if pairs and pairs[0][1].axis in SIZES:
        with_doublings = [pair for pair in pairs if all(len({*curve.sizes}) > 1 for curve in pair)]
        yield from _order(with_doublings, "order_by_efficiency", tolerances)


def _order(pairs: Pairs, quantity: str, tolerances: Tolerances) -> Iterator[Judged]:
    """Compare the order of the models: the share of their pairs that are ordered as in the report.

    `pairs` has the published and the local curve of each model. They are ordered by throughput at the smallest size, or
    by the efficiency that a doubling keeps. A pair that does not differ significantly, or that the report prints alike,
    counts as agreeing at the upper end of the interval only.
    """
    if len(pairs) < 2:
        return
    if quantity == "order_by_efficiency":
        stated = {local.model: published.per_doubling for published, local in pairs}
        rates = {local.model: local.launch_rates() for _, local in pairs}
        measured = {model: metrics.per_doubling(x.index.tolist(), x.tolist()) for model, x in rates.items()}
    else:
        stated = {local.model: published.rate(min(published.sizes)) for published, local in pairs}
        smallest = {local.model: local.launch_rates().loc[[min(local.sizes)]] for _, local in pairs}
        measured = {model: student.mean(rates.tolist()) for model, rates in smallest.items()}
    ratios = {(a, b): student.ratio(measured[a], measured[b]) for a, b in combinations(measured, 2)}

    def ends(level: float) -> tuple[float, float]:
        low = high = 0
        for (a, b), ratio in ratios.items():
            # All of these intervals together hold the truth at this level (Bonferroni).
            interval = ratio.ends(1 - (1 - level) / len(ratios))
            if math.isnan(interval[0]):
                return math.nan, math.nan
            differ = EQUAL.exclude(interval) and apart(stated[a], stated[b])
            alike = (interval[0] > 1) == (stated[a].value > stated[b].value)
            low, high = low + (alike and differ), high + (alike or not differ)
        return low / len(ratios), high / len(ratios)

    agreeing = sum((measured[a].value > measured[b].value) == (stated[a].value > stated[b].value) for a, b in ratios)
    n = min(standing.n for standing in measured.values())
    share = Number(agreeing / len(ratios), ends, n, common_variation([*ratios.values()]))
    note = "; ".join(
        f"{label}: {' > '.join(sorted(side, key=lambda model: -side[model].value))}"
        for label, side in (("report", stated), ("local", measured))
    )
    published, local = pairs[0]
    local = replace(local, runs=local.runs.assign(model=""))
    tolerance, _ = _tolerance(tolerances, quantity, local)
    stated_share = 1.0 if tolerance is None or tolerance.stated is None else tolerance.stated
    yield _judged(local, quantity, None, published.source, exact(stated_share), share, tolerance, note)


FLAT = limit("graded_serious")
_FINAL = ("validation_accuracy", "train_accuracy")


def _single_rows(published: pd.DataFrame) -> pd.DataFrame:
    accuracy = published["quantity"].isin([*_FINAL, "epochs_to_stable"]) & published["kind"].eq("measured")
    return published[accuracy | published["quantity"].eq("flat_from_global_batch")]


def _single_numbers(published: pd.DataFrame, local: pd.DataFrame, tolerances: Tolerances) -> Iterator[Judged]:
    """Compare final accuracies, epochs until they are stable, and the batch from which the throughput is flat."""
    for row in _single_rows(published).to_dict("records"):
        quantity, at = row["quantity"], None if pd.isna(row["ranks"]) else int(row["ranks"])
        fits = local["experiment"].eq(row["experiment"])
        fits &= local["model"].eq(row["model"]) | (row["model"] == "")
        fits &= local["device"].eq(row["device"]) if at is None else local["ranks"].eq(at)
        for _, series in local[fits.fillna(False)].groupby("series", sort=False):
            if (number := _single(series, quantity)) is None:
                continue
            axis = series["axis"].iloc[0]
            over = "ranks" if axis == "nodes" else column(axis, series)
            curve = local_curve(speedups.rates(series), over, "throughput")
            setting = ", ".join(filter(None, (row["run"], cell_text(row, "device", "gpu", "machine", "dataset"))))
            tolerance, _ = _tolerance(tolerances, quantity, curve, at)
            yield _judged(curve, quantity, at, f"report {row['report']}, {setting}", stated_number({**row, "note": ""}),
                          number, _around_published(tolerance))  # fmt: skip


def _single(series: pd.DataFrame, quantity: str) -> Number | None:
    """Return a number of whole runs, over repeats, or of a whole curve; None if the records lack it."""
    if quantity == "flat_from_global_batch":
        rates = {int(point.size): point.rate.value for point in speedups.curve(speedups.rates(series), "global_batch")}
        # The rule for accuracies: the first from which on all stay close to the best.
        fractions_of_best = [rate / max(rates.values()) for rate in rates.values()]
        return unknown(metrics.epochs_to_stable([*rates], fractions_of_best, FLAT)) if len(rates) > 1 else None
    values = final_values(series, quantity) if quantity in _FINAL else training_runs(series)["epochs_to_stable"]
    return student.mean(values.dropna().tolist()) if values.notna().any() else None


def _stated_values(local: pd.DataFrame, tolerances: Tolerances) -> Iterator[Judged]:
    """Compare local curves with the values that the tolerances state for this machine."""
    stated = {one.quantity for one in tolerances if one.stated is not None}
    if not any(quantity.startswith(("images_per_s", "speedup_", "efficiency_", "relative_")) for quantity in stated):
        return  # most have nothing to reach
    for _, series in local.groupby("series", sort=False):
        axis = series["axis"].iloc[0]
        over = "nodes" if axis in ("", "nodes") else column(axis, series)
        for by in speedups.BY:
            runs = speedups.rates(series, by).dropna(subset="rate")  # allreduces alone have wall times and no images
            if runs.empty:
                continue
            curve = local_curve(runs, over, by)
            for quantity, size, base, number in _measured(curve, curve.sizes):
                tolerance, _ = _tolerance(tolerances, quantity, curve, size)
                if tolerance and tolerance.stated is not None:
                    yield _judged(curve, quantity, size, "stated in the tolerances", exact(tolerance.stated), number,
                                  tolerance, "" if base is None else f"over {base:g}", base=base)  # fmt: skip


def compare(published: pd.DataFrame, local: pd.DataFrame, tolerances: Tolerances) -> Comparisons:
    """Compare the local table with the published one, by experiment and model.

    A model is compared with published numbers of the same device (CPU, GPU), or else of the other one.
    """
    local = local[local["kind"].eq("measured")]  # without controls of emulated nodes, which show the invalid points
    curves = published_curves(published, axes(local))
    rows: list[Judged] = []
    alone: list[str] = []
    orders: dict[tuple[str, ...], list[tuple[PublishedCurve, LocalCurve]]] = defaultdict(list)
    for (experiment, model, _), series in local.groupby(["experiment", "model", "series"], sort=False):
        candidates = [c for c in curves if c.experiment == experiment and c.model in (model, "")]
        candidates = [c for c in candidates if c.device == series["device"].iloc[0]] or candidates
        for reference in candidates:
            runs = speedups.rates(series, reference.by).dropna(subset="rate")
            if runs.empty:  # rounds alone have no wall time
                continue
            curve = local_curve(runs, reference.axis, reference.by)
            rows += compare_curves(reference, curve, tolerances)
            if reference.by == "throughput":
                alone += _other_sizes(reference, curve)
                setting = (reference.experiment, reference.source, reference.unit, reference.axis, curve.on)
                orders[setting].append((reference, curve))
        if not candidates:
            number = series["record"].nunique()
            alone.append(f"{experiment}, {model or 'no model'}, {number} runs: no report prints a number for it")
    for pairs in orders.values():
        rows += _orders(pairs, tolerances)
    rows += _single_numbers(published, local, tolerances)
    unmatched = _published_alone(published, curves, [row for row, _ in rows])
    rows += _stated_values(local, tolerances)
    return comparisons(rows, unpaired=[*dict.fromkeys(alone)], reference_alone=unmatched)


def _published_alone(table: pd.DataFrame, curves: Sequence[PublishedCurve], rows: Sequence[Comparison]) -> list[str]:
    """Return the published curves and single numbers without a comparison, as lines of text."""
    compared = {((row.source, row.experiment), row.model) for row in rows}
    unmatched: dict[str, set[str]] = defaultdict(set)
    for c in curves:
        models = {model for setting, model in compared if setting == (c.source, c.experiment)}
        if not (c.model in models if c.model else models):
            unmatched[f"report {c.report}, {c.experiment} ({c.setting})"].add(c.model or c.by)
    judged = {(row.source[:10], row.experiment, row.quantity) for row in rows}  # report 000
    for single in _single_rows(table).to_dict("records"):
        if (f"report {single['report']}", single["experiment"], single["quantity"]) not in judged:
            unmatched[f"report {single['report']}, {single['experiment']} ({single['device']})"].add(single["quantity"])
    return [f"{setting}: {', '.join(sorted(unmatched[setting]))}" for setting in sorted(unmatched)]


def _other_sizes(published: PublishedCurve, local: LocalCurve) -> Iterator[str]:
    if {*local.sizes} != {*published.sizes}:
        at_local, at_published = (
            ", ".join(f"{size:g}" for size in sorted({*sizes})) for sizes in (local.sizes, published.sizes)
        )
        at_local += f" {local.axis.replace('_', ' ')}"
        yield f"{local.experiment}, {local.model}: local at {at_local}, report {published.report} at {at_published}"
