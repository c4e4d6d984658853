"""Curves that can be laid side by side: a report's and one's own, rates over the same axis."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis import claims
from analysis.audit.points import measured
from analysis.metrics import Estimate

# What the points of an experiment differ in, where it is no number of nodes or ranks.
AXES = {"batch_sweep": "global_batch", "ranks_threads": "ranks_per_node"}
SCALING = ("nodes", "ranks")
# The batch that all points of a curve share.
_KEPT: dict[str, list[str]] = {"strong_scaling": ["global_batch"], "ranks_threads": ["global_batch"], "batch_sweep": []}
_SETTING = ["report", "model", "dataset", "device", "gpu", "machine"]


@dataclass(frozen=True)
class Curve:
    """The rates of one model: one size (of the axis) and one rate a run, ascending by size.

    `unit` is images/s, or x where only the ratios of the rates are known.
    """

    report: str  # "" for one's own
    experiment: str
    model: str
    device: str
    on: str  # the machine and the setting, in words
    axis: str
    by: str  # throughput, wall time, job time
    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    unit: str = "images/s"
    shared: bool = False  # did ranks share cores at any point

    def only(self, sizes: Iterable[int]) -> Curve:
        """The same curve at these sizes alone."""
        wanted = set(sizes)
        kept = [(size, rate) for size, rate in zip(self.sizes, self.rates, strict=True) if size in wanted]
        return replace(self, sizes=tuple(size for size, _ in kept), rates=tuple(rate for _, rate in kept))


def words(row: Mapping[Hashable, Any], *names: str) -> str:
    """The cells of a row that are known, for people."""
    said = {"batch_per_rank": "batch {} a rank", "global_batch": "global batch {}"}
    return ", ".join(
        said.get(name, "{}").format(row[name]) for name in names if not pd.isna(row[name]) and row[name] != ""
    )


def kept(experiment: str) -> list[str]:
    """The columns of the batch that all points of a curve of this experiment share."""
    return _KEPT.get(experiment, ["batch_per_rank"])


def published_curves(table: pd.DataFrame) -> list[Curve]:
    """Every curve of the reports, from the published tidy table.

    Throughputs; a speedup that is stated where the throughputs are not known; and wall times and job times of equal
    work, as rates. A curve may have one point.
    """
    found = [*_throughputs(table)]
    whole = {(c.report, c.experiment, c.model, c.on) for c in found if len(c.sizes) > 1}
    found += [c for c in _stated(table) if (c.report, c.experiment, c.model, c.on) not in whole]
    times = claims.computed(table)
    for by in ("wall time", "job time"):
        rows = times[times["quantity"] == f"speedup_{by.replace(' ', '_')}"]
        found += _curves(rows.assign(rate=rows["value"]), by, "x")
    return found


def _curves(rows: pd.DataFrame, by: str, unit: str) -> Iterator[Curve]:
    for experiment, same in rows.groupby("experiment"):
        batch = kept(str(experiment))
        for _, group in same.groupby([*_SETTING, *batch], dropna=False):
            several = group["nodes"].notna().all() and group["nodes"].max() > 1
            axis = AXES.get(str(experiment)) or ("nodes" if several else "ranks")
            group = group.sort_values(axis)
            first = group.to_dict("records")[0]
            yield Curve(
                first["report"], str(experiment), first["model"], first["device"],
                words(first, "device", "gpu", "machine", "dataset", *batch), axis, by,
                tuple(int(size) for size in group[axis]), tuple(float(rate) for rate in group["rate"]), unit,
            )  # fmt: skip


def _throughputs(table: pd.DataFrame) -> Iterator[Curve]:
    rows = measured(table, "images_per_s", "images_per_s_per_rank")
    rows = rows[rows["value"].gt(0) & rows["ranks"].notna()]
    per_rank = rows["quantity"].eq("images_per_s_per_rank")
    rate = rows["value"] * rows["ranks"].astype(float).where(per_rank, 1.0)
    yield from _curves(rows.assign(rate=rate), "throughput", "images/s")


def _stated(table: pd.DataFrame) -> Iterator[Curve]:
    """A speedup that is stated over one node, as the curve of two points that it is."""
    rows = table[table["kind"].eq("stated") & table["quantity"].eq("speedup_throughput") & table["nodes"].gt(1)]
    for curve in _curves(rows.assign(rate=rows["value"]), "throughput", "x"):
        yield replace(curve, sizes=(1, *curve.sizes), rates=(1.0, *curve.rates))


def own_curve(runs: pd.DataFrame, axis: str, by: str = "throughput") -> Curve:
    """The curve of one series of one's own; `runs` as `metrics.rates` gives them for `by`."""
    runs = runs.sort_values(axis)
    first = runs.to_dict("records")[0]
    return Curve(
        "", first["experiment"], first["model"], first["device"],
        words(first, "device", "machine", "dataset", *kept(first["experiment"]), "precision", "measure"), axis, by,
        tuple(int(size) for size in runs[axis]), tuple(float(rate) for rate in runs["rate"]),
        shared=bool(runs["cores_shared"].any()),
    )  # fmt: skip


def per_doubling(sizes: Sequence[int], rates: Sequence[float]) -> Estimate:
    """The share of its efficiency that a curve keeps each time its size doubles: 1 is ideal scaling.

    From the least-squares line of ln(rate) over log2(size) through all runs: exp(slope) / 2. The standard error is that
    of the slope, carried over to first order (JCGM 100:2008, 5.1.2), with runs - 2 degrees of freedom; two runs have
    none. Raises ValueError for a single size.
    """
    from scipy.stats import linregress  # it takes longer to import than most commands to run

    if len(set(sizes)) < 2:
        raise ValueError(f"a slope needs two sizes; given: {list(sizes)}")
    line = linregress(np.log2(np.asarray(sizes, float)), np.log(np.asarray(rates, float)))
    value, n = math.exp(line.slope) / 2, min(list(sizes).count(size) for size in set(sizes))
    if len(sizes) == 2:
        return Estimate(value, n=n)
    return Estimate(value, value * float(line.stderr), len(sizes) - 2, n)
