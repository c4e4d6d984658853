"""Local records beside the published numbers of the same experiment, each number with its verdict.

Tolerances decide, which are written as in ReFrame: (value, lower, upper, unit).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import msgspec
import pandas as pd

from analysis import TableError, metrics, speedups
from analysis.compare import EQUAL, Comparison, Comparisons, Judged, compared, corrected, over
from analysis.compare.curves import SIZES, ComparedCurve, axes, cell_text, column, local_curve, published_curves
from analysis.derived import stated_number
from analysis.experiments import final_values, training_runs
from analysis.stats import Number, between, combined, common_variation, exact, student, unknown
from analysis.stats.repeats import median
from analysis.stats.verdict import Bounds, apart
from analysis.table import schema
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
_SELECTORS = ("experiment", "model", "device", "at")


def unit(quantity: str) -> str | None:
    """Return the unit of a quantity of the tidy table or of a comparison; None for an unknown quantity."""
    definition = schema.quantity(quantity)
    return definition.unit if definition else COMPARED.get(quantity)


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
        for held, key, allowed in (
            (unit(self.quantity), "quantity", "must be one of the tidy table or of a comparison"),
            (self.unit == unit(self.quantity), "unit", f"must be '{unit(self.quantity)}'"),
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


@dataclass(frozen=True)
class Subject:
    """A quantity of two curves: at one size, over another size for a ratio, or of the whole curve."""

    published: ComparedCurve
    local: ComparedCurve
    quantity: str
    at: float | None = None
    over: float | None = None

    def find(self, quantity: str, tolerances: Tolerances) -> Tolerance | None:
        """Return the tolerance for a quantity at this point."""
        curve = self.local
        point = {"at": self.at} | {name: getattr(curve, name) for name in ("experiment", "model", "device")}
        return find_tolerance(tolerances, quantity, **point)

    def tolerance(self, tolerances: Tolerances) -> Tolerance | None:
        """Return its tolerance; None for an efficiency whose speedup has one, as both are one measurement."""
        speedup = self.quantity.replace("efficiency_", "speedup_")
        if speedup != self.quantity and self.at is not None and self.find(speedup, tolerances):
            return None
        return self.find(self.quantity, tolerances)

    def published_tolerance(self, tolerances: Tolerances) -> Tolerance | None:
        """Return its tolerance around a published number; None for one that states a value itself."""
        tolerance = self.tolerance(tolerances)
        return tolerance if tolerance and tolerance.stated is None else None

    def why_invalid(self) -> str:
        """Return why one of its points is not valid as a scaling result, and it is not judged; "" if all are valid."""
        return self.local.why_invalid(*(size for size in (self.over, self.at) if size is not None))


def compare_number(
    subject: Subject, value: Number, local: Number, tolerance: Tolerance | None, note: str = ""
) -> Judged:
    """Return a local number beside a published value, judged by a tolerance (None: for information)."""
    published, curve, axis = subject.published, subject.local, subject.local.axis.replace("_", " ")
    quantity_unit = unit(subject.quantity)
    assert quantity_unit is not None
    axis = axis.removesuffix("s") if subject.at == 1 and curve.axis in SIZES else axis
    return compared(
        value, local, over(local, value), tolerance.allowed if tolerance else None, subject.why_invalid(), note,
        experiment=curve.experiment, model=curve.model, point="" if subject.at is None else f"{subject.at:g} {axis}",
        quantity=subject.quantity, unit=quantity_unit, source=published.source, on=curve.on,
    )  # fmt: skip


def compare_curves(published: ComparedCurve, local: ComparedCurve, tolerances: Tolerances) -> Iterator[Judged]:
    """Compare two curves of one model over the same axis: rates, ratios to the smallest common size, and shape.

    On an axis of scaling the ratios are speedup and efficiency. The shape is the efficiency that each doubling keeps,
    over all sizes of each curve.
    """
    by = local.by.replace(" ", "_")
    sizes = sorted(set(published.sizes) & set(local.sizes))
    numbers = speedups.numbers(local.only(sizes).points(), "size", local.spread)
    if published.unit == local.unit == "images/s" and local.by == "throughput":
        for size in sizes:
            subject = Subject(published, local, "images_per_s", size)
            tolerance = subject.published_tolerance(tolerances)
            yield compare_number(subject, published.rate(size), numbers[size]["rate"], tolerance)
    for size in sizes[1:]:
        rates = {"rate": published.rate(size), "base": published.rate(sizes[0])}
        stated = combined(lambda rate, base: metrics.speedup(rate, base), rates)
        scaled = {"speedup": stated, "efficiency": stated.over(size / sizes[0])} if local.axis in SIZES else {}
        for name, value in (scaled or {"speedup": stated}).items():
            subject = Subject(published, local, f"{name}_{by}" if scaled else "relative_throughput", size, sizes[0])
            tolerance, note = subject.published_tolerance(tolerances), f"over {sizes[0]:g}"
            if name == "efficiency" and tolerance is None and subject.find(f"speedup_{by}", tolerances):
                note += "; judged as the speedup"
            yield compare_number(subject, value, numbers[size][name], tolerance, note)
    yield from _shapes(published, local, tolerances)


def _shapes(published: ComparedCurve, local: ComparedCurve, tolerances: Tolerances) -> Iterator[Judged]:
    """Compare the efficiency that each doubling keeps, without points that are not valid as scaling results.

    It is for information if both curves have the same two sizes: then it repeats their speedup.
    """
    valid = local.only(size for size in local.sizes if not local.why_invalid(size))
    if local.axis not in SIZES or len(set(published.sizes)) < 2 or len(set(valid.sizes)) < 2:
        return
    quantity = f"efficiency_{local.by.replace(' ', '_')}_per_doubling"
    spans = (f"{min(c.sizes):g} to {max(c.sizes):g}" for c in (published, valid))
    note = "report {}, local {} {}".format(*spans, local.axis)
    if invalid := local.why_invalid():
        note += f"; without {invalid}"
    subject = Subject(published, replace(valid, invalid=()), quantity)
    repeats_speedup = set(published.sizes) == set(valid.sizes) and len(set(valid.sizes)) == 2
    rates = {f"r{nth}": published.rate(size) for nth, size in enumerate(published.sizes)}

    def shape(**values: float) -> float:
        return metrics.per_doubling(published.sizes, [*values.values()]).value

    stated = combined(shape, rates) if len(rates) <= 8 else unknown(shape(**{n: r.value for n, r in rates.items()}))
    tolerance = None if repeats_speedup else subject.published_tolerance(tolerances)
    note += "; judged as the speedup" if repeats_speedup else ""
    yield compare_number(subject, stated, _per_doubling(valid), tolerance, note)


def _per_doubling(local: ComparedCurve) -> Number:
    if local.in_rounds:
        return median(speedups.shares_per_doubling(local.points(), "size"), spread=local.spread_per_doubling)
    return metrics.per_doubling(local.sizes, local.rates)


def compare_order(
    pairs: Sequence[tuple[ComparedCurve, ComparedCurve]], quantity: str, tolerances: Tolerances
) -> Iterator[Judged]:
    """Compare the order of the models: the share of their pairs that are ordered as in the report.

    `pairs` has the published and the local curve of each model. They are ordered by throughput at the smallest size, or
    by the efficiency that a doubling keeps. A pair that does not differ significantly, or that the report prints alike,
    counts as agreeing at the upper end of the interval only.
    """
    pairs = [(published, local) for published, local in pairs if not local.invalid]
    measured = {local.model: _standing(local, quantity) for _, local in pairs}
    if len(measured) < 2:
        return
    stated = {local.model: _stated_standing(published, quantity) for published, local in pairs}
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
    subject = Subject(published, replace(local, model=""), quantity)
    tolerance = subject.tolerance(tolerances)
    stated_share = 1.0 if tolerance is None or tolerance.stated is None else tolerance.stated
    yield compare_number(subject, exact(stated_share), share, tolerance, note)


def _standing(curve: ComparedCurve, quantity: str) -> Number:
    curve = curve.by_launch()
    if quantity == "order_by_efficiency":
        return metrics.per_doubling(curve.sizes, curve.rates)
    return student.mean(curve.only([min(curve.sizes)]).rates)


def _stated_standing(curve: ComparedCurve, quantity: str) -> Number:
    """Return the number by which a published curve is ordered, with its rounding at both ends of the curve."""
    first, last = min(curve.sizes), max(curve.sizes)
    if quantity != "order_by_efficiency":
        return curve.rate(first)
    value = metrics.per_doubling(curve.sizes, curve.rates).value
    ends = (curve.rate(first), curve.rate(last))
    off = sum((end.high - end.low) / 2 / end.value for end in ends) / math.log2(last / first)
    return between(value, value * (1 - off), value * (1 + off))


FLAT = limit("graded_serious")
_FINAL = ("validation_accuracy", "train_accuracy")


def _single_rows(published: pd.DataFrame) -> pd.DataFrame:
    accuracy = published["quantity"].isin([*_FINAL, "epochs_to_stable"]) & published["kind"].eq("measured")
    return published[accuracy | published["quantity"].eq("flat_from_global_batch")]


def _single_numbers(published: pd.DataFrame, local: pd.DataFrame, tolerances: Tolerances) -> Iterator[Judged]:
    """Compare final accuracies, epochs until they are stable, and the batch from which the throughput is flat."""
    for row in _single_rows(published).to_dict("records"):
        fits = local["experiment"].eq(row["experiment"])
        fits &= local["model"].eq(row["model"]) | (row["model"] == "")
        fits &= local["device"].eq(row["device"]) if pd.isna(row["ranks"]) else local["ranks"].eq(row["ranks"])
        for _, series in local[fits.fillna(False)].groupby("series", sort=False):
            if (local_number := _single(series, row["quantity"])) is None:
                continue
            axis = series["axis"].iloc[0]
            curve = local_curve(speedups.rates(series), "ranks" if axis == "nodes" else column(axis, series))
            on = ", ".join(filter(None, (row["run"], cell_text(row, "device", "gpu", "machine", "dataset"))))
            reference = replace(curve, report=row["report"], on=on)
            at = None if pd.isna(row["ranks"]) else int(row["ranks"])
            subject = Subject(reference, curve, row["quantity"], at)
            stated, tolerance = stated_number({**row, "note": ""}), subject.published_tolerance(tolerances)
            yield compare_number(subject, stated, local_number, tolerance)


def _single(series: pd.DataFrame, quantity: str) -> Number | None:
    """Return a number of whole runs, over repeats, or of a whole curve; None if the records lack it."""
    if quantity == "flat_from_global_batch":
        mean = speedups.curve(speedups.rates(series), "global_batch").set_index("size")["rate"]
        # The rule for accuracies: the first from which on all stay close to the best.
        flat = metrics.epochs_to_stable(mean.index.tolist(), metrics.speedup(mean, mean.max()).tolist(), FLAT)
        return unknown(flat) if len(mean) > 1 else None
    values = final_values(series, quantity) if quantity in _FINAL else training_runs(series)["epochs_to_stable"]
    return student.mean(values.dropna().tolist()) if values.notna().any() else None


def stated_values(local: pd.DataFrame, tolerances: Tolerances) -> Iterator[Judged]:
    """Compare local curves with the values that the tolerances state for this machine."""
    if all(tolerance.stated is None for tolerance in tolerances):
        return
    among = {by: speedups.rates(local, by) for by in speedups.BY}
    for _, series in local.groupby("series", sort=False):
        axis = series["axis"].iloc[0]
        over = "nodes" if axis in ("", "nodes") else column(axis, series)
        for by in speedups.BY:
            runs = speedups.rates(series, by).dropna(subset="rate")  # allreduces alone have wall times and no images
            if len(runs):
                yield from _stated_on_curve(local_curve(runs, over, by, among[by]), tolerances)


def _stated_on_curve(curve: ComparedCurve, tolerances: Tolerances) -> Iterator[Judged]:
    names = {f"{name}_{curve.by.replace(' ', '_')}": name for name in ("speedup", "efficiency")}
    names |= {"images_per_s": "rate"} if curve.by == "throughput" else {}
    first = min(curve.sizes)
    stated = []
    for quantity, name in names.items():
        for size in sorted(set(curve.sizes)):
            over = None if name == "rate" else first
            subject = Subject(replace(curve, on="stated in the tolerances"), curve, quantity, size, over)
            tolerance = subject.tolerance(tolerances)
            if tolerance and tolerance.stated is not None:
                stated.append((subject, tolerance, tolerance.stated, size, name))
    # Most curves have nothing to reach.
    numbers = speedups.numbers(curve.points(), "size", curve.spread) if stated else {}
    for subject, tolerance, value, size, name in stated:
        yield compare_number(subject, exact(value), numbers[size][name], tolerance)


def compare(published: pd.DataFrame, local: pd.DataFrame, tolerances: Tolerances) -> Comparisons:
    """Compare the local table with the published one, by experiment and model.

    A model is compared with published numbers of the same device (CPU, GPU), or else of the other one.
    """
    local = local[local["kind"].eq("measured")]  # without controls of emulated nodes, which show the invalid points
    curves = published_curves(published, axes(local))
    rows: list[Judged] = []
    alone: list[str] = []
    orders: dict[tuple[str, ...], list[tuple[ComparedCurve, ComparedCurve]]] = defaultdict(list)
    among: dict[str, pd.DataFrame] = {by: speedups.rates(local, by) for by in speedups.BY}
    for (experiment, model, _), series in local.groupby(["experiment", "model", "series"], sort=False):
        candidates = [c for c in curves if c.experiment == experiment and c.model in (model, "")]
        candidates = [c for c in candidates if c.device == series["device"].iloc[0]] or candidates
        for reference in candidates:
            runs = speedups.rates(series, reference.by).dropna(subset="rate")
            if runs.empty:  # rounds alone have no wall time
                continue
            curve = local_curve(runs, reference.axis, reference.by, among[reference.by])
            rows += compare_curves(reference, curve, tolerances)
            if reference.by == "throughput":
                alone += _other_sizes(reference, curve)
                names = ("report", "experiment", "device", "on", "unit", "axis")
                orders[*(getattr(reference, name) for name in names), curve.on].append((reference, curve))
        if not candidates:
            number = series["record"].nunique()
            alone.append(f"{experiment}, {model or 'no model'}, {number} runs: no report prints a number for it")
    for pairs in orders.values():
        rows += _orders(pairs, tolerances)
    rows += _single_numbers(published, local, tolerances)
    unmatched = _published_alone(published, curves, [row for row, _ in rows])
    rows += stated_values(local, tolerances)
    unpaired = [*dict.fromkeys(alone)]
    return Comparisons(
        comparisons=corrected(rows), differences=[], unpaired=unpaired, reference_alone=unmatched, left_out=[]
    )


def _published_alone(table: pd.DataFrame, curves: Sequence[ComparedCurve], rows: Sequence[Comparison]) -> list[str]:
    """Return the published curves and single numbers without a comparison, as lines of text."""
    compared = {((row.source, row.experiment), row.model) for row in rows}
    unmatched: dict[str, set[str]] = defaultdict(set)
    for c in curves:
        models = {model for setting, model in compared if setting == (c.source, c.experiment)}
        if not (c.model in models if c.model else models):
            unmatched[f"report {c.report}, {c.experiment} ({c.on})"].add(c.model or c.by)
    judged = {(row.source[:10], row.experiment, row.quantity) for row in rows}  # report 000
    for single in _single_rows(table).to_dict("records"):
        if (f"report {single['report']}", single["experiment"], single["quantity"]) not in judged:
            unmatched[f"report {single['report']}, {single['experiment']} ({single['device']})"].add(single["quantity"])
    return [f"{setting}: {', '.join(sorted(unmatched[setting]))}" for setting in sorted(unmatched)]


def _other_sizes(published: ComparedCurve, local: ComparedCurve) -> Iterator[str]:
    sizes = [sorted(set(curve.sizes)) for curve in (local, published)]
    if sizes[0] != sizes[1]:
        at_local, at_published = (", ".join(f"{size:g}" for size in s) for s in sizes)
        at_local += f" {local.axis.replace('_', ' ')}"
        yield f"{local.experiment}, {local.model}: local at {at_local}, report {published.report} at {at_published}"


def _orders(pairs: Sequence[tuple[ComparedCurve, ComparedCurve]], tolerances: Tolerances) -> Iterator[Judged]:
    """Compare both orders of the models of one report and setting, without models with two local series."""
    models = [local.model for _, local in pairs]
    pairs = [pair for pair in pairs if pair[0].model and models.count(pair[1].model) == 1]
    if pairs and pairs[0][0].unit == "images/s":
        yield from compare_order(pairs, "order_by_throughput", tolerances)
    if pairs and pairs[0][1].axis in SIZES:
        with_doublings = [pair for pair in pairs if all(len(set(curve.sizes)) > 1 for curve in pair)]
        yield from compare_order(with_doublings, "order_by_efficiency", tolerances)
