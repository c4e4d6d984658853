"""All figures: those of the reports, and those that fit the quantities and axes of the local records."""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from analysis import speedups
from analysis.atlas import local_curves
from analysis.experiments import ENERGY_LABELS
from analysis.experiments.arms import compared
from analysis.experiments.equivalence import pairs
from analysis.figures import FigureEntry, FigureKind, atlas_figure, diagnosis, scaling, settings, training_figures
from analysis.figures.reports import bnl, hacksa, msoe, osu, spreadsheet
from analysis.table.swept_axis import LINK, SCALING
from record.recorded_config import BATCHES, PROGRAM

REPORTS = (hacksa, osu, bnl, spreadsheet, msoe)


def figures(local: pd.DataFrame) -> dict[str, FigureEntry]:
    """Return the figures by id: those of the reports in order, then those of each experiment in the local table.

    Raises ValueError where two figures of reports have one id.
    """
    entries = [entry for report in REPORTS for entry in report.FIGURES]
    if twice := sorted(id for id, n in Counter(entry.id for entry in entries).items() if n > 1):
        raise ValueError(f"two figures are called {', '.join(twice)}")
    by_id = {entry.id: entry for entry in entries}
    for entry in experiment_figures(local):
        ids = (f"{entry.id}-{n}" if n > 1 else entry.id for n in itertools.count(1))  # a-b and a_b may be experiments
        id = next(id for id in ids if id not in by_id)
        by_id[id] = replace(entry, id=id)
    return by_id


def experiment_figures(local: pd.DataFrame) -> list[FigureEntry]:
    """Return the figures of each experiment in the local table, by the name of the experiment."""
    measured = local[local["kind"].eq("measured")]
    return [entry for name, rows in measured.groupby("experiment") for entry in _entries(str(name), rows)]


def _entries(experiment: str, rows: pd.DataFrame) -> Iterator[FigureEntry]:
    """Yield the figures of one experiment, for each axis. A run by hand, which sweeps nothing, is in none of them."""
    axes = [axis for axis in rows["axis"].unique() if axis] or [""]
    axes.sort(key=lambda axis: axis not in SCALING)
    for nth, axis in enumerate(axes):
        over = f"over-{axis.replace('.', '-').replace('_', '-')}" if nth else ""
        yield from (kind.entry(experiment, over, axis=axis) for kind in kinds(rows[rows["axis"] == axis], axis))


def kinds(rows: pd.DataFrame, axis: str) -> Iterator[FigureKind]:
    """Yield the kinds of figures that fit the measured rows of one experiment along one axis."""
    quantities = set(rows["quantity"])
    if "allreduce_s" in quantities:
        yield from (settings.ALLREDUCE_TIME, settings.ALLREDUCE_BANDWIDTH)
        return
    if rows["arm"].nunique() > 1 and pairs(rows):
        yield training_figures.EQUIVALENCE
        return
    if "epoch_s" in quantities:
        yield from (training_figures.CURVES, training_figures.TIME_TO_ACCURACY, training_figures.USAGE)
        yield from [training_figures.ACCURACY] if axis else []
    if "images_per_s" in quantities:
        yield from _throughput_kinds(rows, axis)
    if quantities & ENERGY_LABELS.keys():
        yield settings.ENERGY if axis else settings.ENERGY_SIDE_BY_SIDE


def _throughput_kinds(rows: pd.DataFrame, axis: str) -> Iterator[FigureKind]:
    if axis in SCALING:
        divided = axis == "ranks_per_node" and rows["threads_per_rank"].nunique() > 1
        yield from (settings.DIVISION if divided else scaling.THROUGHPUT, scaling.EFFICIENCY)
        yield from [scaling.STEPS] if rows["backend"].ne(PROGRAM).any() else []
        if compared(rows):
            yield settings.ARMS
        if rows["round"].notna().any() and any(local_curves(rows)):
            yield atlas_figure.ATLAS
        if axis == "nodes" and (rows["round"].notna().any() or _has_common_base(rows)):
            yield diagnosis.DIAGNOSIS
        if "job_s" in set(rows["quantity"]):  # launches in rounds have no time of the job of one point
            yield scaling.PHASES
    elif axis:
        yield settings.BATCH if axis in BATCHES else settings.LINK_RATES if axis == LINK else settings.SETTING
    else:
        yield settings.ARMS if compared(rows) else settings.SIDE_BY_SIDE


def _has_common_base(rows: pd.DataFrame) -> bool:
    """Return whether several arms begin with one on fewer ranks, so that their steps can be compared part by part."""
    rates = rows[rows["quantity"].eq("images_per_s")]
    bases = [speedups.base_of(series, rates) for _, series in rates.groupby(["model", "series"], sort=False)]
    return sum(base is not None for base in bases) > 1
