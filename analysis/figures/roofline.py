"""The bounds of throughput in figures: what processors and links could do at most, as measured in the same jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.figures import plots
from analysis.table.hardware import COMPUTE, LINK

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# What they are named for: other algorithms could pass them.
_WORDS = {
    COMPUTE: "compute limit: direct convolution at the measured peak",
    LINK: "link limit: ring allreduce at the measured bandwidth",
}
_STYLES = {COMPUTE: "-", LINK: (0, (7, 1.5, 1, 1.5, 1, 1.5))}  # neither is that of a series, nor of the ideal
_WIDTH = 0.5
_ABOVE = 3.0  # times all else that is drawn: so high a line of limits may stretch an axis


def draw(axes: Axes, local: pd.DataFrame, over: str, colour: str | None = None, whose: str = "") -> None:
    """Draw the limits of each series as lines without markers, in the colour of its model, over a column.

    A limit is the mean over launches. Arms have one in common, which bounds all of them: the highest of theirs. One far
    above the points is not in the figure, and the legend says so: it would press the points together. Call it when all
    else is drawn.

    colour: of all lines instead. whose: "local" beside points that these do not limit.
    """
    highest = _ABOVE * max(_heights(axes), default=0.0)
    lowest, top = axes.get_ylim()
    axes.set_ylim(lowest, top)  # from now on no line stretches it
    measured = local[local["kind"].eq("measured")]
    for quantity, words in _WORDS.items():
        found = list(_lines(measured, quantity, over))
        for limit, own in found:
            x, y = limit.index.tolist(), limit.tolist()
            x, y = (x, y) if len(x) > 1 else ([0.9 * x[0], 1.1 * x[0]], [*y, *y])
            axes.plot(x, y, linestyle=_STYLES[quantity], color=colour or own, linewidth=_WIDTH)
        if found:
            beyond = any((limit > highest).any() for limit, _ in found)
            label = f"{whose} {words}{' (off scale)' if beyond else ''}".strip()
            axes.plot([], [], linestyle=_STYLES[quantity], color=colour or plots.GREY, linewidth=_WIDTH, label=label)
    axes.set_ylim(lowest, max([top, *(1.05 * y for y in _heights(axes) if y <= highest)]))


def _lines(measured: pd.DataFrame, quantity: str, over: str) -> Iterator[tuple[pd.Series, str]]:
    """The limits [images/s] of one kind by the column `over`, each with its colour; a single one for all arms."""
    colours = plots.colours(measured)
    rows = measured[measured["quantity"].eq(quantity)]
    for (model, _, _), alike in rows.groupby(["model", "arms", "precision"], sort=False):
        names = alike["series"].unique()
        colour = plots.GREY if plots.of_arms(measured) else plots.colour(model)
        means = alike.groupby(["series", over])["value"].mean()
        yield means.groupby(level=over).max(), colours[str(model), names[0]] if len(names) == 1 else colour


def one_label(panels: Sequence[Axes]) -> None:
    """Give a limit one label in all panels of a figure: where it is off scale in some, it says so."""
    for words in _WORDS.values():
        lines = [line for axes in panels for line in axes.get_lines() if words in str(line.get_label())]
        labels = sorted({str(line.get_label()) for line in lines}, key=len)
        for line in lines if len(labels) > 1 else ():
            line.set_label(f"{labels[0]} (partly off scale)")


def _heights(axes: Axes) -> list[float]:
    """The y of all that lines show; an upright line across the figure shows none."""
    lines = [line for line in axes.get_lines() if line.get_transform().contains_branch_seperately(axes.transData)[1]]
    drawn = [y for line in lines for y in np.asarray(line.get_ydata(), float).tolist()]
    return [y for y in drawn if math.isfinite(y)]


def mark(axes: Axes, of_point: dict[str, float], y: float) -> None:
    """Mark the limits of a point along the x axis of images/s, at this height."""
    for quantity, limit in of_point.items():
        known = axes.get_legend_handles_labels()[1]
        label = None if _WORDS[quantity] in known else _WORDS[quantity]
        axes.plot([limit, limit], [y - 0.3, y + 0.3], linestyle=_STYLES[quantity], color=plots.GREY, label=label)
