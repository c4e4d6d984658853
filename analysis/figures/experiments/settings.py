"""Figures of throughput over a setting, of series side by side, and of arms over their counterparts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from analysis import labels, speedups
from analysis.experiments.arms import ratios
from analysis.experiments.points import point_limits
from analysis.figures import plots, roofline
from analysis.figures.entry import Points
from analysis.stats import repeats
from analysis.table.identity import SCALING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def throughput(points: Points) -> Figure:
    """Throughput of the timed steps over the values of the swept key, with its interval, and the limits."""
    fig, (axes,) = plots.canvas(height_mm=72)
    local, values = placed(points.local)
    plots.draw(axes, plots.local_lines(local, over="place"))
    plots.setting(axes, values, str(local["axis"].iloc[0]))
    axes.set_ylim(0)
    roofline.draw(axes, local, "place")
    axes.set_ylabel("throughput [images/s]")
    return plots.legend(fig, labels.provenance(local))


def placed(local: pd.DataFrame) -> tuple[pd.DataFrame, list[float]]:
    """The local table with the column `place`, where each value of its axis stands, and the values in order."""
    values = labels.ordered_values(local["axis_value"])
    places, _ = labels.positions(values)
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
    roofline.draw(axes, points.local, "global_batch")
    axes.set_ylabel("throughput [images/s]")
    return plots.legend(fig, labels.provenance(points.local))


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
    roofline.draw(axes, points.local, "ranks_per_node")
    axes.set_ylabel("throughput [images/s]")
    return plots.legend(fig, labels.provenance(points.local))


def side_by_side(points: Points) -> Figure:
    """Throughput of the timed steps of each series: mean over repeats with its interval; dots: the repeats;
    bars: the limits.
    """
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
        roofline.mark(axes, point_limits(points.local, rows), y)
        ticks.append("\n".join([f"{labels.name(model)}, n={mean.n}", *labels.told_apart(rows, runs)]))
    axes.set_yticks(range(len(ticks)), ticks, fontsize=5.5)
    axes.set_ylim(max(len(ticks), 1) - 0.5, -0.5)
    axes.set_xlim(0)
    axes.set_xlabel("throughput [images/s]")
    return plots.legend(fig, labels.provenance(points.local))


if TYPE_CHECKING:
    from matplotlib.figure import Figure


def overhead(points: Points) -> Figure:
    """Throughput of one arm over that of another on as many ranks: with Horovod, or allreduce, over without it.

    A dot is the ratio within one round, or of the two runs of one repeat; the marker is their median with its 95 %
    interval. 1: no cost.
    """
    found = list(ratios(points.local))
    fig, (axes,) = plots.canvas(height_mm=34 + 10 * len(found))
    ticks: list[str] = []
    for y, ratio in enumerate(found):
        e = repeats.median(ratio.launches)
        dots = [value for of in ratio.launches for value in of]
        axes.plot(dots, [y - 0.22] * len(dots), ".", color=plots.GREY, markersize=3)
        axes.plot([e.low, e.high], [y, y], color=plots.colour(ratio.model))
        axes.plot(e.value, y, plots.MARKERS[0], color=plots.colour(ratio.model), markersize=4)
        interval = "" if math.isnan(e.low) else f" ({e.low:.3f} to {e.high:.3f})"
        numbers = f"median {e.value:.3f}{interval}, n={e.n} {ratio.what}{'s' * (e.n > 1)}"
        ticks.append("\n".join(line for line in (*ratio.words, numbers) if line))
    axes.axvline(1, color=plots.GREY, linestyle=":")
    axes.set_yticks(range(len(ticks)), ticks, fontsize=5.5)
    axes.set_ylim(max(len(ticks), 1) - 0.4, -0.5)
    axes.set_xlabel("ratio of throughputs")
    return plots.legend(fig, labels.provenance(points.local))
