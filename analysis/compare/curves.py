"""Curves that can be compared: published and local rates over the same axis."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import pandas as pd

from analysis import metrics, speedups
from analysis.curves import PER_RANK, RATES, bases, keeps_global_batch, measured, row_dicts
from analysis.derived import computed_rows, half_unit
from analysis.stats import Number, rounded
from analysis.stats.repeats import Spread
from analysis.table import controls
from analysis.table.identity import BATCHES

# Sizes of a machine: over these, ratios of rates are speedups.
SIZES = ("nodes", "ranks")
_SETTING = ["report", "device", "gpu", "machine", "dataset"]
Axes = Mapping[str, str]  # experiment -> the key that its local records sweep


@dataclass(frozen=True)
class ComparedCurve:
    """The rates of one model: one size (of the axis) and one rate a run or round, ascending by size.

    `unit` is images/s, or x if only the ratios of the rates are known.
    """

    report: str  # "" for local records
    experiment: str
    model: str
    device: str
    on: str  # the machine and the setting, in words
    axis: str
    by: str  # throughput, wall time, job time
    sizes: tuple[float, ...]
    rates: tuple[float, ...]
    unit: str = "images/s"
    half_units: tuple[float, ...] = ()  # in published curves, how far rounding can have moved each rate
    invalid: tuple[tuple[float, str], ...] = ()  # sizes that are not valid as scaling results, and why
    pairs: tuple[speedups.Pair, ...] = ()  # in local curves, that of each rate
    # In local curves in rounds, between launches, pooled over the curves measured alike: of speedups and per doubling.
    spread: Spread | None = None
    spread_per_doubling: Spread | None = None

    @property
    def source(self) -> str:
        """Return what a published curve is, as text."""
        return f"report {self.report}, {self.on}" if self.report else self.on

    @property
    def in_rounds(self) -> bool:
        """Return whether the points were measured in rounds."""
        return any(launch for launch, _, _ in self.pairs)

    def points(self) -> pd.DataFrame:
        """Return the runs as `speedups.curve` takes them, over the column `size`."""
        return speedups.points(self.sizes, self.rates, self.pairs)

    def only(self, sizes: Iterable[float]) -> ComparedCurve:
        """Return the curve at these sizes alone."""
        chosen = set(sizes)
        mask = [size in chosen for size in self.sizes]
        names = ("sizes", "rates", "half_units", "pairs")
        arrays: dict[str, Any] = {name: tuple(compress(getattr(self, name), mask)) for name in names}
        return replace(self, **arrays)

    def why_invalid(self, *sizes: float) -> str:
        """Return why one of these sizes (default: any) is not valid as a scaling result; "" if all are valid."""
        reasons = [f"{size:g} {self.axis}: {why}" for size, why in self.invalid if size in sizes or not sizes]
        return "; ".join(reasons)

    def rate(self, size: float) -> Number:
        """Return a published rate with its rounding."""
        nth = self.sizes.index(size)
        return rounded(self.rates[nth], self.half_units[nth] if self.half_units else 0.0)

    def by_launch(self) -> ComparedCurve:
        """Return the curve with one rate per launch: the harmonic mean over its rounds."""
        if not self.in_rounds:
            return self
        inverse = metrics.rate(1.0, self.points().set_index(["size", "launch"])["rate"])
        by_launch = metrics.rate(1.0, inverse.groupby(level=["size", "launch"]).mean())
        sizes, rates = by_launch.index.get_level_values("size"), by_launch.tolist()
        return replace(self, sizes=tuple(sizes), rates=tuple(rates), pairs=(), half_units=())


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


def published_curves(table: pd.DataFrame, swept: Axes) -> list[ComparedCurve]:
    """Return every published curve, over the axis that local records of its experiment sweep.

    Curves are of throughputs; of stated speedups without throughputs; and of wall times and job times of equal work, as
    rates. A curve may have one point.
    """
    curves = [*_throughputs(table, swept)]
    whole = {(c.report, c.experiment, c.model, c.on) for c in curves if len(c.sizes) > 1}
    curves += [c for c in _stated(table, swept) if (c.report, c.experiment, c.model, c.on) not in whole]
    times = computed_rows(table)
    for by in ("wall time", "job time"):
        rows = times[times["quantity"] == f"speedup_{by.replace(' ', '_')}"]
        curves += _curves(rows.assign(rate=rows["value"]), table, swept, by)
    return curves


def _curves(rows: pd.DataFrame, table: pd.DataFrame, swept: Axes, by: str = "throughput") -> Iterator[ComparedCurve]:
    based = bases(table)
    for (experiment, *_), group in rows.groupby(["experiment", *_SETTING], dropna=False):
        axis = swept.get(str(experiment), "")
        over = column(axis if axis in (*BATCHES, "ranks_per_node") else "", group)
        strong = metrics.shared_batch(group["ranks"].tolist(), group["global_batch"].tolist()) == "global_batch"
        strong = strong or all(keeps_global_batch(row, based(row)) for row in row_dicts(group))
        shared = [] if over == "global_batch" else ["global_batch" if strong else "batch_per_rank"]
        for _, curve in group.groupby(["model", *shared], dropna=False):
            yield _published_curve(curve.sort_values(over), over, by, shared)


def _published_curve(rows: pd.DataFrame, over: str, by: str, shared: list[str]) -> ComparedCurve:
    points = row_dicts(rows)
    first = points[0]
    return ComparedCurve(
        first["report"], first["experiment"], first["model"], first["device"],
        cell_text(first, "device", "gpu", "machine", "dataset", *shared), over, by,
        tuple(float(size) for size in rows[over]), tuple(float(rate) for rate in rows["rate"]),
        "images/s" if first["quantity"] in (*RATES, *PER_RANK) else "x",
        tuple(half_unit(row) / row["value"] * row["rate"] for row in points),
    )  # fmt: skip


def _throughputs(table: pd.DataFrame, swept: Axes) -> Iterator[ComparedCurve]:
    rows = measured(table, *RATES, *PER_RANK)
    rows = rows[rows["value"].gt(0) & rows["ranks"].notna()]
    job_rates = metrics.job_total(rows["value"], rows["ranks"].astype(float))
    yield from _curves(rows.assign(rate=rows["value"].mask(rows["quantity"].isin(PER_RANK), job_rates)), table, swept)


def _stated(table: pd.DataFrame, swept: Axes) -> Iterator[ComparedCurve]:
    """Yield each speedup that is stated over one node as a curve of two points."""
    rows = table[table["kind"].eq("stated") & table["quantity"].eq("speedup_throughput") & table["nodes"].gt(1)]
    for curve in _curves(rows.assign(rate=rows["value"]), table, swept):
        halves = (0.0, *curve.half_units)
        yield replace(curve, sizes=(1.0, *curve.sizes), rates=(1.0, *curve.rates), half_units=halves)


def local_curve(
    runs: pd.DataFrame, over: str, by: str = "throughput", among: pd.DataFrame | None = None
) -> ComparedCurve:
    """Return the curve of one local series over a column; `runs` as from `speedups.rates` for `by`.

    among: the runs of all series, which show how launches differ.
    """
    runs = runs[runs[over].notna()].sort_values(over, kind="stable")
    first = runs.head(1).to_dict("records")[0]
    shared = [first["kept"]] if first["kept"] else []
    reasons = controls.why_invalid(runs) if over in SIZES else [""] * len(runs)
    return ComparedCurve(
        "", first["experiment"], first["model"], first["device"],
        cell_text(first, "device", "machine", "dataset", *shared, "precision", "measure")
        + (", in rounds" if by == "throughput" and runs["round"].notna().any() else ""), over, by,
        tuple(float(size) for size in runs[over]), tuple(float(rate) for rate in runs["rate"]),
        invalid=tuple(dict.fromkeys((float(size), why) for size, why in zip(runs[over], reasons, strict=True) if why)),
        pairs=tuple((str(launch), int(seed), int(turn)) for launch, seed, turn in runs[speedups.PAIR].to_numpy()),
        spread=None if among is None else speedups.spread_between_launches(runs, among, over),
        spread_per_doubling=None if among is None else speedups.spread_per_doubling(runs, among, over),
    )  # fmt: skip
