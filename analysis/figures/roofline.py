"""The bounds of throughput in figures: what processors and links could do at most, as measured in the same jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.figures import plots
from analysis.table.hardware import COMPUTE, LINK

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Labels name the algorithm: others could pass the bound.
_LABELS = {
    COMPUTE: "compute limit: direct convolution at the measured peak",
    LINK: "link limit: ring allreduce at the measured bandwidth",
}
_LINE_STYLES = {COMPUTE: "-", LINK: (0, (7, 1.5, 1, 1.5, 1, 1.5))}  # no series and no ideal has one of these
_LINE_WIDTH = 0.5
_HIGHEST = 3.0  # times the highest point: an axis does not stretch to a bound above


def draw(axes: Axes, local: pd.DataFrame, over: str, colour: str | None = None, prefix: str = "") -> None:
    """Draw the bounds of each series over a column, as lines without markers in the colour of its model.

    A bound is the mean over launches. Arms share the highest of theirs. The axis does not stretch to a bound far above
    the points; its label says that it is off scale. Call this after all else is drawn.

    colour: of all lines instead. prefix: of the labels, "local" beside points that these do not bound.
    """
    highest = _HIGHEST * max(_heights(axes), default=0.0)
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top)  # from here on no line changes it
    measured = local[local["kind"].eq("measured")]
    for quantity, name in _LABELS.items():
        look: dict[str, Any] = {"linestyle": _LINE_STYLES[quantity], "linewidth": _LINE_WIDTH}
        bounds = list(_bounds(measured, quantity, over))
        for bound, own_colour in bounds:
            axes.plot(*_ends(bound), color=colour or own_colour, **look)
        if bounds:
            off_scale = any((bound > highest).any() for bound, _ in bounds)
            label = f"{prefix} {name}{' (off scale)' * off_scale}".strip()
            axes.plot([], [], color=colour or plots.GREY, label=label, **look)
    axes.set_ylim(bottom, max([top, *(1.05 * y for y in _heights(axes) if y <= highest)]))


def _bounds(measured: pd.DataFrame, quantity: str, over: str) -> Iterator[tuple[pd.Series, str]]:
    """Yield the bounds [images/s] of one kind by the column `over`, each with its colour; arms have one in common."""
    colours = plots.colours(measured)
    rows = measured[measured["quantity"].eq(quantity)]
    for (model, _, _), alike in rows.groupby(["model", "arms", "precision"], sort=False):
        series = alike["series"].unique()
        common = plots.GREY if plots.are_arms(measured) else plots.colour(model)
        means = alike.groupby(["series", over])["value"].mean()
        highest = means.groupby(level=over).max()
        yield highest, colours[str(model), series[0]] if len(series) == 1 else common


def _ends(bound: pd.Series) -> tuple[list[float], list[float]]:
    """Return the x and y of a line; about a single point a short one."""
    x, y = bound.index.tolist(), bound.tolist()
    return (x, y) if len(x) > 1 else ([0.9 * x[0], 1.1 * x[0]], [*y, *y])


def _heights(axes: Axes) -> list[float]:
    """Return the y of all that lines show, without upright lines across the figure."""
    lines = [line for line in axes.get_lines() if line.get_transform().contains_branch_seperately(axes.transData)[1]]
    heights = [y for line in lines for y in np.asarray(line.get_ydata(), float).tolist()]
    return [y for y in heights if math.isfinite(y)]


def one_label(panels: Sequence[Axes]) -> None:
    """Give each bound one label in all panels of a figure, which says so if it is off scale in some."""
    for name in _LABELS.values():
        lines = [line for axes in panels for line in axes.get_lines() if name in str(line.get_label())]
        labels = sorted({str(line.get_label()) for line in lines}, key=len)
        for line in lines if len(labels) > 1 else ():
            line.set_label(f"{labels[0]} (partly off scale)")


def mark(axes: Axes, bounds: Mapping[str, float], y: float) -> None:
    """Mark the bounds of a point along an x axis of images/s, at this height."""
    for quantity, bound in bounds.items():
        present = axes.get_legend_handles_labels()[1]
        label = None if _LABELS[quantity] in present else _LABELS[quantity]
        axes.plot([bound, bound], [y - 0.3, y + 0.3], linestyle=_LINE_STYLES[quantity], color=plots.GREY, label=label)
