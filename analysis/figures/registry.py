"""All figures: those of the reports, and those that fit what the local records hold, never by a name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd

from analysis import speedups
from analysis.experiments.arms import compared
from analysis.experiments.equivalence import pairs
from analysis.experiments.points import ENERGIES
from analysis.figures import diagnosis
from analysis.figures.entry import LOCAL, Draw, Entry, Where
from analysis.figures.experiments import energy, network, scaling, settings, training
from analysis.figures.reports import bnl, hacksa, msoe, osu, spreadsheet
from analysis.table.identity import BATCHES, LINK, SCALING


@dataclass(frozen=True)
class Kind:
    """A kind of figure. `name` ends the figure's id: "" for the one figure of a special experiment."""

    name: str
    shows: str
    draw: Draw
    where: Where = field(default_factory=dict)
    reads_records: bool = False  # it draws what is in the records and not in the table


_EPOCHS: Where = {"quantity": training.OF_EPOCHS}
_TRAINING = (
    Kind("curves", "accuracy over epochs", training.curves, _EPOCHS),
    Kind("time-to-accuracy", "time per epoch, epochs and time to stable accuracy", training.time_to_accuracy, _EPOCHS),
    Kind("usage", "CPU, memory and GPU use over time", training.usage, {"quantity": training.OF_TIME}),
)
_ACCURACY = Kind("accuracy", "final accuracy", training.final_accuracy, _EPOCHS)
_THROUGHPUT = Kind("throughput", "throughput against ideal", scaling.throughput)
_DIVISION = Kind("", "throughput over ranks x threads on one node", settings.division)
_WITH_CONTROL: Where = {"kind": ("measured", "control")}
_EFFICIENCY = Kind(
    "efficiency", "efficiency by throughput and, if known, by wall time", scaling.efficiency, _WITH_CONTROL
)
_STEPS = Kind("steps", "distribution of the step times", scaling.step_times, _WITH_CONTROL, reads_records=True)
DIAGNOSIS = Kind("diagnosis", "where the time of a step goes", diagnosis.diagnosis, _WITH_CONTROL, reads_records=True)
_PHASES = Kind("phases", "where the time of the job went", scaling.phases)
_BATCH = Kind("", "throughput over batch size on one node", settings.batch)
_LINK = Kind("", "throughput and exposed communication over the rate of the links", network.link_rates, _WITH_CONTROL)
_SETTING = Kind("throughput", "throughput over what is swept", settings.throughput)
_ARMS = Kind("", "one arm against another, as ratios", settings.overhead)
_SIDE_BY_SIDE = Kind("throughput", "throughput of each series", settings.side_by_side)
_ENERGY = Kind("energy", "energy of an image", energy.over_axis)
_ENERGY_SIDE_BY_SIDE = Kind("energy", "energy of an image of each series", energy.side_by_side)
_EQUIVALENCE = Kind("", "does averaging gradients lose precision: loss curves", training.losses)
_ALLREDUCE = (
    Kind("time", "time of an allreduce over message size", network.allreduce_time),
    Kind("bandwidth", "bus bandwidth of an allreduce over message size", network.allreduce_bandwidth),
)


def experiment_figures(local: pd.DataFrame) -> list[Entry]:
    """The figures of each experiment in the local table, by the name of the experiment."""
    measured = local[local["kind"].eq("measured")]
    return [entry for name, rows in measured.groupby("experiment") for entry in _of_experiment(str(name), rows)]


def _of_experiment(experiment: str, rows: pd.DataFrame) -> Iterator[Entry]:
    """Of runs that swept other keys, each axis has its figures; a run by hand, which sweeps nothing, joins none."""
    axes = [axis for axis in rows["axis"].unique() if axis] or [""]
    axes.sort(key=lambda axis: axis not in SCALING)
    id = f"{LOCAL}-{experiment.replace('_', '-')}"
    for nth, axis in enumerate(axes):
        of_axis = rows[rows["axis"] == axis]
        over = f"over-{axis.replace('.', '-').replace('_', '-')}" if nth else ""
        for kind in fitting(of_axis, axis):
            yield Entry(
                "-".join(part for part in (id, kind.name, over) if part), f"{experiment}: {kind.shows}", kind.draw,
                local={"experiment": experiment, "axis": axis} | kind.where, reads_records=kind.reads_records,
            )  # fmt: skip


def fitting(rows: pd.DataFrame, axis: str) -> Iterator[Kind]:
    """The kinds of figures that fit the measured rows of one experiment along one axis."""
    holds = set(rows["quantity"])
    if "allreduce_s" in holds:
        yield from _ALLREDUCE
        return
    if rows["arm"].nunique() > 1 and pairs(rows):
        yield _EQUIVALENCE
        return
    if "epoch_s" in holds:
        yield from (*_TRAINING, *([_ACCURACY] if axis else []))
    if "images_per_s" in holds:
        yield from _of_throughput(rows, axis)
    if holds & ENERGIES:
        yield _ENERGY if axis else _ENERGY_SIDE_BY_SIDE


def _of_throughput(rows: pd.DataFrame, axis: str) -> Iterator[Kind]:
    if axis in SCALING:
        divided = axis == "ranks_per_node" and rows["threads_per_rank"].nunique() > 1
        yield from (_DIVISION if divided else _THROUGHPUT, _EFFICIENCY, _STEPS)
        if compared(rows):
            yield _ARMS
        if axis == "nodes" and (rows["round"].notna().any() or _on_one_alone(rows)):
            yield DIAGNOSIS
        if "job_s" in set(rows["quantity"]):  # a launch in rounds alone has none of a point
            yield _PHASES
    elif axis:
        yield _BATCH if axis in BATCHES else _LINK if axis == LINK else _SETTING
    else:
        yield _ARMS if compared(rows) else _SIDE_BY_SIDE


def _on_one_alone(rows: pd.DataFrame) -> bool:
    """Whether several arms begin with one that is on fewer ranks, so that their steps can be compared part by part."""
    rates = rows[rows["quantity"].eq("images_per_s")]
    begins = [speedups.base_of(of, rates) is not None for _, of in rates.groupby(["model", "series"], sort=False)]
    return sum(begins) > 1


REPORTS = (hacksa, osu, bnl, spreadsheet, msoe)


def figures(local: pd.DataFrame) -> dict[str, Entry]:
    """Figures by id, in the order of the reports; then those of each experiment in the local table, by its name.

    Raises ValueError where two figures have one id.
    """
    entries = [entry for report in REPORTS for entry in report.FIGURES] + experiment_figures(local)
    found = {entry.id: entry for entry in entries}
    if len(found) < len(entries):
        twice = sorted(id for id in found if sum(entry.id == id for entry in entries) > 1)
        raise ValueError(f"two figures are called {', '.join(twice)}")
    return found
