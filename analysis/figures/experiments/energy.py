"""Figures of the energy of an image, over the points of an experiment, where the counters could be read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from analysis import labels, speedups
from analysis.experiments.points import ENERGY_LABELS, joules
from analysis.figures import plots
from analysis.figures.entry import Points
from analysis.figures.experiments.settings import along_axis
from analysis.figures.plots import Line
from analysis.stats import repeats
from analysis.stats.repeats import Launches
from analysis.table import controls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def over_axis(points: Points) -> Figure:
    """Energy of an image in the timed steps: median over rounds or launches, with its interval; dots: the single ones.

    Processors: the packages of all hosts that take part, as they count it themselves, whatever else ran on them; on one
    machine the energy of a smaller point holds that of the idle cores too. GPUs: those of the ranks. Memory, power
    supplies, fans and switches are in neither. The axis begins at 0.
    """
    local, finish = along_axis(points.local)
    runs = speedups.rates(local)
    quantities = _known(local)
    fig, panels = plots.canvas(len(quantities), 1, height_mm=36 + 38 * len(quantities), sharex=True)
    for axes, quantity in zip(panels, quantities, strict=True):
        plots.draw(axes, _lines(local, runs, quantity))
        finish(axes, axes is panels[-1])
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.set_ylabel(ENERGY_LABELS[quantity])
    return plots.legend(fig, labels.provenance(points.local))


def _known(local: pd.DataFrame) -> list[str]:
    return [quantity for quantity in ENERGY_LABELS if local["quantity"].eq(quantity).any()]


def _lines(local: pd.DataFrame, runs: pd.DataFrame, quantity: str) -> list[Line]:
    """A line for each series that has the quantity; runs: of all points, with their place `x`."""
    series_of = {str(model): [*of["series"].unique()] for model, of in runs.groupby("model", sort=False)}
    colours, lines = plots.colours(runs), []
    for (model, series), of_series in runs.groupby(["model", "series"], sort=False):
        at_x = {float(str(x)): joules(local, at, quantity) for x, at in of_series.groupby("x")}
        known = {x: values for x, values in at_x.items() if values}
        if not known:
            continue
        found = [repeats.median(values) for values in known.values()]
        raw = [(x, value) for x, values in known.items() for of in values for value in of]
        said = [f"{labels.name(model)}, local", labels.repeats(e.n for e in found), *labels.told_apart(of_series, runs)]
        nth = series_of[str(model)].index(series)
        look = colours[str(model), str(series)], plots.nth_marker(nth), plots.nth_style(nth)
        values, low, high = ([getattr(e, end) for e in found] for end in ("value", "low", "high"))
        lost = controls.lost(of_series).groupby(of_series["x"]).any()
        dots = ([x for x, _ in raw], [y for _, y in raw]) if len(raw) > len(known) else ((), ())
        lines.append(Line(", ".join(said), [*known], values, *look, low, high, [bool(lost[x]) for x in known], dots))
    return lines


def side_by_side(points: Points) -> Figure:
    """Energy of an image in the timed steps of each series: median over rounds or launches, with its interval.

    Dots are the single ones. Processors: the packages of all hosts that take part, as they count it themselves,
    whatever else ran on them. GPUs: those of the ranks. The axis begins at 0.
    """
    runs, quantities = speedups.rates(points.local), _known(points.local)
    at_points = [at for _, at in runs.groupby(["model", "series", "ranks"], sort=False)]
    fig, panels = plots.canvas(1, len(quantities), height_mm=34 + 9 * len(at_points), sharey=True)
    for axes, quantity in zip(panels, quantities, strict=True):
        for y, at in enumerate(at_points):
            _row(axes, joules(points.local, at, quantity), y, str(at["model"].iloc[0]))
        axes.set_xlim(0, 1.05 * axes.get_xlim()[1])
        axes.set_xlabel(ENERGY_LABELS[quantity])
    ticks = ["\n".join([_named(at), *labels.told_apart(at, runs)]) for at in at_points]
    panels[0].set_yticks(range(len(ticks)), ticks, fontsize=5.5)
    panels[0].set_ylim(len(ticks) - 0.5, -0.5)
    return plots.legend(fig, labels.provenance(points.local))


def _named(at: pd.DataFrame) -> str:
    ranks = int(at["ranks"].iloc[0])
    return f"{labels.name(at['model'].iloc[0])}, {ranks} rank{'s' * (ranks > 1)}, n={len(at)}"


def _row(axes: Axes, values: Launches, y: int, model: str) -> None:
    """One point along the x axis; nothing where its energy is not known."""
    if not values:
        return
    dots, middle = [value for of in values for value in of], repeats.median(values)
    axes.plot(dots, [y - 0.22] * len(dots), ".", color=plots.GREY, markersize=3)
    if not math.isnan(middle.low):
        axes.plot([middle.low, middle.high], [y, y], color=plots.colour(model))
    axes.plot(middle.value, y, plots.MARKERS[0], color=plots.colour(model))
