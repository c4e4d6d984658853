"""Throughput over a setting: any swept number, the batch, how a node is divided into ranks; or series side by side."""

from collections.abc import Callable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import limits, plots, speedups
from analysis.figures import Points
from analysis.stats import repeats
from analysis.table.identity import SCALING


def throughput(points: Points) -> Figure:
    """Throughput of the timed steps over the values of the swept key, with its interval, and the limits."""
    fig, (axes,) = plots.canvas(height_mm=72)
    local, values = placed(points.local)
    plots.draw(axes, plots.local_lines(local, over="place"))
    plots.setting(axes, values, str(local["axis"].iloc[0]))
    axes.set_ylim(0)
    limits.draw(axes, local, "place")
    axes.set_ylabel("throughput [images/s]")
    return plots.legend(fig, plots.provenance(local))


def placed(local: pd.DataFrame) -> tuple[pd.DataFrame, list[float]]:
    """The local table with the column `place`, where each value of its axis stands, and the values in order."""
    values = plots.ordered_values(local["axis_value"])
    places, _ = plots.positions(values)
    place = {f"{value}": x for value, x in zip(values, places, strict=True)}  # a NaN equals no other, its text does
    return local.assign(place=[place[f"{float(value)}"] for value in local["axis_value"]]), values


def along_axis(local: pd.DataFrame) -> tuple[pd.DataFrame, Callable[[Axes, bool], None]]:
    """The table with the column `x`, and a function that gives panels this axis, with its label where it is the last.

    Over the ranks, or over the values of the swept key where that is no number of ranks or nodes.
    """
    axis = str(local["axis"].iloc[0]) if len(local) else ""
    if axis in ("", *SCALING):
        ranks = local["ranks"].astype(float)
        return local.assign(x=ranks), lambda axes, last: plots.doubling(axes, ranks, "ranks" if last else "")
    table, values = placed(local)
    return table.assign(x=table["place"]), lambda axes, last: plots.setting(axes, values, axis if last else "")


def batch(points: Points) -> Figure:
    """Throughput of the timed steps over the global batch, on one node, and its limits."""
    fig, (axes,) = plots.canvas(height_mm=72)
    plots.draw(axes, plots.local_lines(points.local, over="global_batch"))
    plots.doubling(axes, points.local["global_batch"], "global batch [images]")
    axes.set_ylim(0)
    limits.draw(axes, points.local, "global_batch")
    axes.set_ylabel("throughput [images/s]")
    return plots.legend(fig, plots.provenance(points.local))


def division(points: Points) -> Figure:
    """Throughput of the timed steps over the ranks that share one node, threads per rank such that they fill it.

    And the limits.
    """
    fig, (axes,) = plots.canvas(height_mm=72)
    plots.draw(axes, plots.local_lines(points.local, over="ranks_per_node"))
    plots.doubling(axes, points.local["ranks_per_node"], "ranks per node x threads per rank")
    named = points.local.drop_duplicates("ranks_per_node").sort_values("ranks_per_node")
    ticks = [f"{r} x {t}" for r, t in zip(named["ranks_per_node"], named["threads_per_rank"], strict=True)]
    axes.set_xticks(named["ranks_per_node"].tolist(), ticks)
    axes.set_ylim(0)
    limits.draw(axes, points.local, "ranks_per_node")
    axes.set_ylabel("throughput [images/s]")
    return plots.legend(fig, plots.provenance(points.local))


def side_by_side(points: Points) -> Figure:
    """Throughput of the timed steps of each series: mean over repeats with its interval; dots: the repeats;
    bars: the limits.
    """
    runs = speedups.rates(points.local)
    series = list(runs.groupby(["model", "series"], sort=False))
    fig, (axes,) = plots.canvas(height_mm=34 + 9 * len(series))
    labels = []
    for y, ((model, _), rows) in enumerate(series):
        mean = repeats.harmonic_mean([rows["rate"].tolist()])
        axes.plot(rows["rate"], [y - 0.22] * len(rows), ".", color=plots.GREY, markersize=3)
        axes.plot([mean.low, mean.high], [y, y], color=plots.colour(model))
        face = "white" if rows["cores_shared"].any() else plots.colour(model)
        axes.plot(mean.value, y, plots.MARKERS[0], color=plots.colour(model), mfc=face)
        limits.mark(axes, limits.of_point(points.local, rows), y)
        labels.append("\n".join([f"{plots.name(model)}, n={mean.n}", *plots.told_apart(rows, runs)]))
    axes.set_yticks(range(len(labels)), labels, fontsize=5.5)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.set_xlim(0)
    axes.set_xlabel("throughput [images/s]")
    return plots.legend(fig, plots.provenance(points.local))
