"""Figures of throughput and energy over a setting or for each series, and of arms over their base."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from analysis import labels, speedups
from analysis.experiments.arms import ratios
from analysis.experiments.points import ENERGY_LABELS, joules, point_bounds
from analysis.figures import plots, roofline
from analysis.figures.entry import Kind, Points
from analysis.figures.plots import Line
from analysis.stats import repeats
from analysis.stats.repeats import Launches
from analysis.table import controls
from analysis.table.identity import SCALING
from analysis.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _over(local: pd.DataFrame, column: str, x_axis: Callable[[Axes], None]) -> Figure:
    """Return the throughput over a column, with its bounds; x_axis: sets up the axis of the column."""
    fig, (axes,) = plots.canvas(height_mm=72)
    plots.draw(axes, plots.local_lines(local, over=column))
    x_axis(axes)
    axes.set_ylim(0)
    roofline.draw(axes, local, column)
    axes.set_ylabel("throughput [images/s]")
    return plots.legend(fig, labels.figure_note(local))


def _throughput(points: Points) -> Figure:
    local, values = positioned(points.local)
    return _over(local, "position", lambda axes: plots.setting(axes, values, str(local["axis"].iloc[0])))


def _batch(points: Points) -> Figure:
    batches = points.local["global_batch"]
    return _over(points.local, "global_batch", lambda axes: plots.doubling(axes, batches, "global batch [images]"))


def _division(points: Points) -> Figure:
    named = points.local.drop_duplicates("ranks_per_node").sort_values("ranks_per_node")
    ranks = named["ranks_per_node"].tolist()

    def x_axis(axes: Axes) -> None:
        plots.doubling(axes, ranks, "ranks per node x threads per rank")
        axes.set_xticks(ranks, [f"{r} x {t}" for r, t in zip(ranks, named["threads_per_rank"], strict=True)])

    return _over(points.local, "ranks_per_node", x_axis)


def positioned(local: pd.DataFrame) -> tuple[pd.DataFrame, list[float]]:
    """Return the local table with the column `position`, of its value on its axis, and the values in order."""
    values = labels.ordered_values(local["axis_value"])
    # By text: a NaN equals no other.
    positions = dict(zip(map(str, values), labels.positions(values)[0], strict=True))
    return local.assign(position=[positions[str(float(value))] for value in local["axis_value"]]), values


def along_axis(local: pd.DataFrame) -> tuple[pd.DataFrame, Callable[[Axes, bool], None]]:
    """Return the table with the column `x`, and a function that gives panels this axis, the last one with its label.

    Over the ranks, or over the values of the swept key where that is no number of ranks or nodes.
    """
    axis = str(local["axis"].iloc[0]) if len(local) else ""
    if axis in ("", *SCALING):
        ranks = local["ranks"].astype(float)
        return local.assign(x=ranks), lambda axes, last: plots.doubling(axes, ranks, "ranks" if last else "")
    table, values = positioned(local)
    return table.assign(x=table["position"]), lambda axes, last: plots.setting(axes, values, axis if last else "")


def _side_by_side(points: Points) -> Figure:
    runs = speedups.rates(points.local)
    series = list(runs.groupby(["model", "series"], sort=False))
    fig, (axes,) = plots.canvas(height_mm=34 + 9 * len(series))
    ticks: list[str] = []
    for y, ((model, _), rows) in enumerate(series):
        mean = repeats.harmonic_mean([rows["rate"].tolist()])
        axes.plot(rows["rate"], [y - 0.22] * len(rows), ".", color=plots.GREY, markersize=3)
        axes.plot([mean.low, mean.high], [y, y], color=plots.colour(model))
        face = "white" if rows["cores_shared"].any() else plots.colour(model)
        axes.plot(mean.value, y, plots.MARKERS[0], color=plots.colour(model), mfc=face)
        roofline.mark(axes, point_bounds(points.local, rows), y)
        ticks.append("\n".join([f"{labels.name(model)}, n={mean.n}", *labels.distinctions(rows, runs)]))
    axes.set_yticks(range(len(ticks)), ticks, fontsize=5.5)
    axes.set_ylim(max(len(ticks), 1) - 0.5, -0.5)
    axes.set_xlim(0)
    axes.set_xlabel("throughput [images/s]")
    return plots.legend(fig, labels.figure_note(points.local))


def _overhead(points: Points) -> Figure:
    compared = list(ratios(points.local))
    fig, (axes,) = plots.canvas(height_mm=34 + 10 * len(compared))
    ticks: list[str] = []
    for y, ratio in enumerate(compared):
        e = repeats.median(ratio.launches)
        dots = [value for launch in ratio.launches for value in launch]
        axes.plot(dots, [y - 0.22] * len(dots), ".", color=plots.GREY, markersize=3)
        axes.plot([e.low, e.high], [y, y], color=plots.colour(ratio.model))
        axes.plot(e.value, y, plots.MARKERS[0], color=plots.colour(ratio.model), markersize=4)
        interval = "" if math.isnan(e.low) else f" ({e.low:.3f} to {e.high:.3f})"
        numbers = f"median {e.value:.3f}{interval}, n={counted(e.n, ratio.unit)}"
        ticks.append("\n".join(line for line in (*ratio.label, numbers) if line))
    axes.axvline(1, color=plots.GREY, linestyle=":")
    axes.set_yticks(range(len(ticks)), ticks, fontsize=5.5)
    axes.set_ylim(max(len(ticks), 1) - 0.4, -0.5)
    axes.set_xlabel("ratio of throughputs")
    return plots.legend(fig, labels.figure_note(points.local))


def _energy_over_axis(points: Points) -> Figure:
    local, finish = along_axis(points.local)
    runs = speedups.rates(local)
    quantities = _known(local)
    fig, panels = plots.canvas(len(quantities), 1, height_mm=36 + 38 * len(quantities), sharex=True)
    for axes, quantity in zip(panels, quantities, strict=True):
        plots.draw(axes, _energy_lines(local, runs, quantity))
        finish(axes, axes is panels[-1])
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.set_ylabel(ENERGY_LABELS[quantity])
    return plots.legend(fig, labels.figure_note(points.local))


def _known(local: pd.DataFrame) -> list[str]:
    return [quantity for quantity in ENERGY_LABELS if local["quantity"].eq(quantity).any()]


def _energy_lines(local: pd.DataFrame, runs: pd.DataFrame, quantity: str) -> list[Line]:
    """Return a line for each series that has the quantity; runs: of all points, with their position `x`."""
    series_by_model = {str(model): [*rows["series"].unique()] for model, rows in runs.groupby("model", sort=False)}
    colours, lines = plots.colours(runs), []
    for (model, series), rows in runs.groupby(["model", "series"], sort=False):
        joules_at = {float(str(x)): joules(local, at, quantity) for x, at in rows.groupby("x")}
        launches = {x: values for x, values in joules_at.items() if values}
        if not launches:
            continue
        medians = [repeats.median(values) for values in launches.values()]
        raw = [(x, value) for x, values in launches.items() for launch in values for value in launch]
        label = [f"{labels.name(model)}, local", labels.n_range(median.n for median in medians)]
        nth = series_by_model[str(model)].index(series)
        look = colours[str(model), str(series)], plots.nth_marker(nth), plots.nth_style(nth)
        values, low, high = ([getattr(median, end) for median in medians] for end in ("value", "low", "high"))
        invalid = controls.invalid(rows).groupby(rows["x"]).any()
        lines.append(
            Line(
                ", ".join([*label, *labels.distinctions(rows, runs)]), [*launches], values, *look, low, high,
                [bool(invalid[x]) for x in launches],
                ([x for x, _ in raw], [y for _, y in raw]) if len(raw) > len(launches) else ((), ()),
            )
        )  # fmt: skip
    return lines


def _energy_side_by_side(points: Points) -> Figure:
    runs, quantities = speedups.rates(points.local), _known(points.local)
    at_points = [at for _, at in runs.groupby(["model", "series", "ranks"], sort=False)]
    fig, panels = plots.canvas(1, len(quantities), height_mm=34 + 9 * len(at_points), sharey=True)
    for axes, quantity in zip(panels, quantities, strict=True):
        for y, at in enumerate(at_points):
            _energy_row(axes, joules(points.local, at, quantity), y, str(at["model"].iloc[0]))
        axes.set_xlim(0, 1.05 * axes.get_xlim()[1])
        axes.set_xlabel(ENERGY_LABELS[quantity])
    ticks = ["\n".join([_named(at), *labels.distinctions(at, runs)]) for at in at_points]
    panels[0].set_yticks(range(len(ticks)), ticks, fontsize=5.5)
    panels[0].set_ylim(len(ticks) - 0.5, -0.5)
    return plots.legend(fig, labels.figure_note(points.local))


def _named(at: pd.DataFrame) -> str:
    return f"{labels.name(at['model'].iloc[0])}, {counted(at['ranks'].iloc[0], 'rank')}, n={len(at)}"


def _energy_row(axes: Axes, values: Launches, y: int, model: str) -> None:
    """Draw one point along the x axis; nothing where its energy is not known."""
    if not values:
        return
    dots, middle = [value for launch in values for value in launch], repeats.median(values)
    axes.plot(dots, [y - 0.22] * len(dots), ".", color=plots.GREY, markersize=3)
    if not math.isnan(middle.low):
        axes.plot([middle.low, middle.high], [y, y], color=plots.colour(model))
    axes.plot(middle.value, y, plots.MARKERS[0], color=plots.colour(model))


DIVISION = Kind("division", "", _division)
BATCH = Kind("batch", "", _batch)
SETTING = Kind("setting", "throughput", _throughput)
ARMS = Kind("arms", "", _overhead)
SIDE_BY_SIDE = Kind("side-by-side", "throughput", _side_by_side)
ENERGY = Kind("energy", "energy", _energy_over_axis)
ENERGY_SIDE_BY_SIDE = Kind("energy-side-by-side", "energy", _energy_side_by_side)
