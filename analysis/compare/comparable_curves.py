"""Curves that can be compared: published and local rates over the same axis."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from analysis import metrics, speedups
from analysis.curves import PER_RANK, RATES, bases, keeps_global_batch, lookup, measured, row_dicts
from analysis.curves import curves as table_curves
from analysis.derived import half_unit
from analysis.stats import Number, combined, exact, rounded
from analysis.table import controls
from record.recorded_config import BATCHES

# Sizes of a machine: over these, ratios of rates are speedups.
SIZES = ("nodes", "ranks")
_SETTING = ["report", "device", "gpu", "machine", "dataset"]
Axes = Mapping[str, str]  # experiment -> the key that its local records sweep


@dataclass(frozen=True)
class PublishedCurve:
    """The rates that a report prints of one model, ascending by size; a size may have several."""

    report: str
    experiment: str
    model: str
    device: str
    setting: str  # the machine and what else distinguishes it, in words
    axis: str
    by: str  # throughput, wall time, job time
    unit: str  # images/s, or x if only the ratios of the rates are known
    sizes: tuple[float, ...]
    rates: tuple[Number, ...]  # with their rounding

    @property
    def source(self) -> str:
        """Return the report and the setting, as text."""
        return f"report {self.report}, {self.setting}"

    def rate(self, size: float) -> Number:
        """Return the first rate at a size."""
        return self.rates[self.sizes.index(size)]

    @cached_property
    def per_doubling(self) -> Number:
        """Return the efficiency that each doubling keeps, over all sizes."""

        def formula(**rates: float) -> float:
            return metrics.per_doubling(self.sizes, [*rates.values()]).value

        return combined(formula, {f"rate_{nth}": rate for nth, rate in enumerate(self.rates)})


@dataclass(frozen=True, eq=False)
class LocalCurve:
    """The runs of one local series over an axis, as from `speedups.rates`, ascending by the column `size`."""

    runs: pd.DataFrame
    axis: str
    by: str

    @property
    def experiment(self) -> str:
        """Return the name of the experiment."""
        return str(self.runs["experiment"].iloc[0])

    @property
    def model(self) -> str:
        """Return the name of the model."""
        return str(self.runs["model"].iloc[0])

    @cached_property
    def on(self) -> str:
        """Return the machine and the setting, in words."""
        first = row_dicts(self.runs.head(1))[0]
        shared = [first["kept"]] if first["kept"] else []
        text = cell_text(first, "device", "machine", "dataset", *shared, "precision", "measure")
        return f"{text}, in rounds" if self.by == "throughput" and self.in_rounds else text

    @property
    def in_rounds(self) -> bool:
        """Return whether the points were measured in rounds."""
        return bool(self.runs["round"].notna().any())

    @property
    def sizes(self) -> list[float]:
        """Return the sizes, ascending."""
        return self.runs["size"].unique().tolist()

    def only(self, sizes: Iterable[float]) -> "LocalCurve":
        """Return the curve at these sizes alone."""
        return replace(self, runs=self.runs[self.runs["size"].isin([*sizes])])

    @cached_property
    def invalid(self) -> dict[float, str]:
        """Return the sizes that are not valid as scaling results, and why."""
        reasons = controls.why_invalid(self.runs) if self.axis in SIZES else [""] * len(self.runs)
        return {size: why for size, why in zip(self.runs["size"].tolist(), reasons, strict=True) if why}

    def why_invalid(self, *sizes: float) -> str:
        """Return why one of these sizes is not valid as a scaling result; "" if all are valid."""
        return "; ".join(f"{size:g} {self.axis}: {why}" for size, why in self.invalid.items() if size in sizes)

    def points(self, sizes: Iterable[float]) -> dict[float, speedups.ScalingPoint]:
        """Return the points at these sizes, by size: their speedups are over the smallest of them."""
        return {point.size: point for point in speedups.curve(self.only(sizes).runs, "size")}

    @property
    def per_doubling(self) -> Number:
        """Return the efficiency that each doubling keeps, over all sizes."""
        if not self.in_rounds:
            return metrics.per_doubling(self.runs["size"].tolist(), self.runs["rate"].tolist())
        return speedups.per_doubling(self.runs, "size")

    def launch_rates(self) -> pd.Series:
        """Return the typical rate of each launch; the index is the size."""
        rates = self.runs.groupby(["size", "record"])[[*self.runs]].apply(lambda runs: speedups.rate_of(runs).value)
        return rates.droplevel("record")


def cell_text(row: Mapping[Hashable, Any], *names: str) -> str:
    """Return the cells of a row that are not blank, as text."""
    forms = {"batch_per_rank": "batch {} per rank", "global_batch": "global batch {}"}
    return ", ".join(
        forms.get(name, "{}").format(row[name]) for name in names if not pd.isna(row[name]) and row[name] != ""
    )


def axes(local: pd.DataFrame) -> dict[str, str]:
    """Return the key that each experiment sweeps along its curves, from its local records."""
    return {str(name): str(rows["axis"].iloc[0]) for name, rows in local[local["axis"].ne("")].groupby("experiment")}


def column(axis: str, rows: pd.DataFrame) -> str:
    """Return the column with the sizes of a curve over `axis` that published and local rows both have."""
    if axis in BATCHES:
        return "global_batch"
    if axis in ("", "nodes"):
        return "nodes" if rows["nodes"].notna().all() and rows["nodes"].max() > 1 else "ranks"
    return "ranks_per_node" if axis == "ranks_per_node" else "axis_value"


def published_curves(table: pd.DataFrame, swept: Axes) -> list[PublishedCurve]:
    """Return every published curve, over the axis that local records of its experiment sweep.

    Curves are of throughputs; of stated speedups without throughputs; and of wall times and job times of equal work, as
    rates. A curve may have one point.
    """
    curves = [*_throughputs(table, swept)]
    whole = {(c.report, c.experiment, c.model, c.setting) for c in curves if len(c.sizes) > 1}
    curves += [c for c in _stated(table, swept) if (c.report, c.experiment, c.model, c.setting) not in whole]
    for by in ("wall time", "job time"):
        curves += _times(table, swept, by)
    return curves


def _curves(rows: pd.DataFrame, table: pd.DataFrame, swept: Axes, by: str = "throughput") -> Iterator[PublishedCurve]:
    based = bases(table)
    for (experiment, *_), group in rows.groupby(["experiment", *_SETTING], dropna=False):
        axis = swept.get(str(experiment), "")
        over = column(axis if axis in (*BATCHES, "ranks_per_node") else "", group)
        strong = metrics.shared_batch(group["ranks"].tolist(), group["global_batch"].tolist()) == "global_batch"
        strong = strong or all(keeps_global_batch(row, based(row)) for row in row_dicts(group))
        shared = [] if over == "global_batch" else ["global_batch" if strong else "batch_per_rank"]
        for _, curve in group.groupby(["model", *shared], dropna=False):
            points = row_dicts(curve.sort_values(over))
            first = points[0]
            yield PublishedCurve(
                first["report"], first["experiment"], first["model"], first["device"],
                cell_text(first, "device", "gpu", "machine", "dataset", *shared), over, by,
                "images/s" if first["quantity"] in (*RATES, *PER_RANK) else "x",
                tuple(float(point[over]) for point in points),
                tuple(rounded(point["rate"], half_unit(point) / point["value"] * point["rate"]) for point in points),
            )  # fmt: skip


def _throughputs(table: pd.DataFrame, swept: Axes) -> Iterator[PublishedCurve]:
    rows = measured(table, *RATES, *PER_RANK)
    rows = rows[rows["value"].gt(0) & rows["ranks"].notna()]
    job_rates = metrics.job_total(rows["value"], rows["ranks"].astype(float))
    yield from _curves(rows.assign(rate=rows["value"].mask(rows["quantity"].isin(PER_RANK), job_rates)), table, swept)


def _times(table: pd.DataFrame, swept: Axes, by: str) -> Iterator[PublishedCurve]:
    """Yield curves of times as rates over that of the fewest ranks: of images, or of equal work without printed steps.

    Each rate but the first has the rounding of two times, to first order.
    """
    steps, curves = lookup(table[table["quantity"].eq("steps_per_rank_planned")]), list[pd.DataFrame]()
    for curve in table_curves(table, speedups.TIMES[by]):
        points = row_dicts(curve)
        work = [steps(row)[0]["value"] * row["global_batch"] if steps(row) else 1.0 for row in points]
        rates = metrics.rate(pd.Series(work, curve.index), curve["value"])
        off = pd.Series([half_unit(row) / row["value"] for row in points], curve.index)
        off = (off + off.iloc[0]).where(curve.index > 0, 0.0)
        curves.append(curve.assign(rate=metrics.speedup(rates, rates.iloc[0]), half_unit=off * curve["value"]))
    if curves:
        yield from _curves(pd.concat(curves), table, swept, by)


def _stated(table: pd.DataFrame, swept: Axes) -> Iterator[PublishedCurve]:
    """Yield each speedup that is stated over one node as a curve of two points."""
    rows = table[table["kind"].eq("stated") & table["quantity"].eq("speedup_throughput") & table["nodes"].gt(1)]
    for curve in _curves(rows.assign(rate=rows["value"]), table, swept):
        yield replace(curve, sizes=(1.0, *curve.sizes), rates=(exact(1.0), *curve.rates))


def local_curve(runs: pd.DataFrame, axis: str, by: str) -> LocalCurve:
    """Return the curve of one local series over a column; runs: as from `speedups.rates` for `by`."""
    runs = runs[runs[axis].notna()].sort_values(axis, kind="stable")
    return LocalCurve(runs.assign(size=runs[axis].astype(float)), axis, by)
