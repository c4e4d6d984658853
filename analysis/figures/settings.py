"""Figures of throughput and energy over a setting or for each series, and of arms over their base."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from analysis import labels, speedups
from analysis.documents import counted
from analysis.experiments.arms import ratios
from analysis.experiments.points import ENERGY_LABELS, joules, point_bounds
from analysis.figures import plots
from analysis.figures.entry import Kind, Points
from analysis.figures.plots import Line
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.table import controls
from analysis.table.identity import SCALING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _over(local: pd.DataFrame, column: str, x_axis: Callable[[Axes], None]) -> Figure:
    """Return the throughput over a column, with its bounds; x_axis: sets up the axis of the column."""
    fig, (axes,) = plots.canvas(height_mm=72)
    plots.draw(axes, plots.local_lines(local, over=column))
    x_axis(axes)
    axes.set_ylim(0)
    plots.draw_bounds(axes, local, column)
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


def _row(
    axes: Axes, y: float, dots: list[float], number: Number, model: object, face: str | None = None,
    size: float | None = None,
) -> None:  # fmt: skip
    """Draw one number along the x axis, with its interval and the values behind it. face, size: of the marker."""
    colour = plots.colour(model)
    axes.plot(dots, [y - 0.22] * len(dots), ".", color=plots.GREY, markersize=3)
    axes.plot([number.low, number.high], [y, y], color=colour)
    axes.plot(number.value, y, plots.MARKERS[0], color=colour, mfc=face or colour, markersize=size)


def _named_rows(axes: Axes, names: list[str], below: float = 0.5) -> None:
    """Set up a y axis of named rows, the first one on top."""
    axes.set_yticks(range(len(names)), names, fontsize=5.5)
    axes.set_ylim(max(len(names), 1) - below, -0.5)


def _side_by_side(points: Points) -> Figure:
    runs = speedups.rates(points.local)
    series = list(runs.groupby(["model", "series"], sort=False))
    fig, (axes,) = plots.canvas(height_mm=34 + 9 * len(series))
    ticks: list[str] = []
    for y, ((model, _), rows) in enumerate(series):
        rates = rows["rate"].tolist()
        mean = repeats.harmonic_mean([rates])
        _row(axes, y, rates, mean, model, "white" if rows["cores_shared"].any() else plots.colour(model))
        plots.mark_bounds(axes, point_bounds(points.local, rows), y)
        ticks.append("\n".join([f"{labels.name(model)}, n={mean.n}", *labels.distinctions(rows, runs)]))
    _named_rows(axes, ticks)
    axes.set_xlim(0)
    axes.set_xlabel("throughput [images/s]")
    return plots.legend(fig, labels.figure_note(points.local))


def _overhead(points: Points) -> Figure:
    compared = list(ratios(points.local))
    fig, (axes,) = plots.canvas(height_mm=34 + 10 * len(compared))
    ticks: list[str] = []
    for y, ratio in enumerate(compared):
        e = repeats.median(ratio.launches)
        _row(axes, y, [value for launch in ratio.launches for value in launch], e, ratio.model, size=4)
        numbers = f"median {e.text('.3f')}, n={counted(e.n, ratio.unit)}"
        ticks.append("\n".join(line for line in (*ratio.label, numbers) if line))
    axes.axvline(1, color=plots.GREY, linestyle=":")
    _named_rows(axes, ticks, below=0.4)
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
            if values := joules(points.local, at, quantity):  # else its energy is not known
                dots = [value for launch in values for value in launch]
                _row(axes, y, dots, repeats.median(values), at["model"].iloc[0])
        axes.set_xlim(0, 1.05 * axes.get_xlim()[1])
        axes.set_xlabel(ENERGY_LABELS[quantity])
    ticks = ["\n".join([_named(at), *labels.distinctions(at, runs)]) for at in at_points]
    _named_rows(panels[0], ticks)
    return plots.legend(fig, labels.figure_note(points.local))


def _named(at: pd.DataFrame) -> str:
    return f"{labels.name(at['model'].iloc[0])}, {counted(at['ranks'].iloc[0], 'rank')}, n={len(at)}"


DIVISION = Kind("division", "", _division)
BATCH = Kind("batch", "", _batch)
SETTING = Kind("setting", "throughput", _throughput)
ARMS = Kind("arms", "", _overhead)
SIDE_BY_SIDE = Kind("side-by-side", "throughput", _side_by_side)
ENERGY = Kind("energy", "energy", _energy_over_axis)
ENERGY_SIDE_BY_SIDE = Kind("energy-side-by-side", "energy", _energy_side_by_side)
