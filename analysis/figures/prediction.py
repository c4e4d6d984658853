"""The figure of predictions: points, curve, interval, limits and targets, one panel a curve."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis import labels, metrics
from analysis.figures import plots
from analysis.predict.answers import Answer, sizes
from analysis.predict.points import Curve
from analysis.predict.prediction import LEVEL, Learned, predict, shortest_step_s

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PANELS = 12  # that are drawn: more do not fit a page
_STEPS = 40


def draw(answers: Sequence[Answer], learned: Callable[[Curve], Learned]) -> Figure:
    """Images/s of one rank over the ranks: level where scaling is ideal. The first twelve curves with a target.

    Filled: measured, with their interval where it is known. Line and band: the prediction and its 90 % interval, which
    widens with each doubling beyond the points. Hollow: the targets. Crosses: points that were left out. Thin: what
    each form says. `learned`: what may be used for a curve.
    """
    shown = [found for found in answers if any(target.supported for target in found.targets)][:PANELS]
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    figure, panels = plots.canvas(rows, columns, 24 + 44 * rows)
    for axes, found in zip(panels, shown, strict=False):
        _panel(axes, found, learned(found.curve))
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    for axes in panels[::columns]:
        axes.set_ylabel("images/s of a rank")
    for axes in panels[max(len(shown) - columns, 0) : len(shown)]:
        axes.set_xlabel("ranks")
    return plots.legend(figure)


def _panel(axes: Axes, found: Answer, learned: Learned) -> None:
    """One curve with its prediction."""
    curve, colour = found.curve, plots.colour(found.curve.model)
    targets = [target for target in found.targets if target.supported]
    asked = np.array([target.ranks for target in targets], float)
    along = np.geomspace(curve.ranks.min(), max(asked.max(), curve.largest), _STEPS)
    # Between the points asked for the exchange has steps, at each new node: they are drawn at whole ranks.
    along = np.unique(np.concatenate([np.round(along), curve.ranks, asked]))
    at = sizes(curve, along, found.global_batch)
    predicted = predict(curve, at, learned)
    for rates in predicted.by_form.values():
        axes.plot(along, rates / along, color=plots.GREY, linewidth=0.4, label="each form")
    band = (predicted.low / along, predicted.high / along)
    axes.fill_between(along, *band, color=colour, alpha=0.2, linewidth=0, label=f"{100 * LEVEL:.0f} % interval")
    axes.plot(along, predicted.images_per_s / along, color=colour, label="predicted")
    base = metrics.per_rank(float(curve.images_per_s[curve.base]), float(curve.ranks[curve.base]))
    axes.axhline(base, color=plots.GREY, linestyle=":", label="ideal")
    least = shortest_step_s(curve, at)
    if (bounds := least > 0).any():
        axes.plot(
            along[bounds],
            metrics.rate(at.batch[bounds], least[bounds]),
            color=plots.BLACK,
            linestyle="-.",
            label="limit",
        )
    error = 1.96 * curve.spread * curve.images_per_s / curve.ranks
    axes.errorbar(curve.ranks, curve.images_per_s / curve.ranks, np.nan_to_num(error), fmt="o", color=colour,
                  label="measured", elinewidth=0.8)  # fmt: skip
    at_targets = np.array([target.numbers["images_per_s"].value for target in targets]) / asked
    axes.plot(asked, at_targets, "o", mfc="white", mec=colour, label="target")
    left_out = np.array([target.measured for target in targets]) / asked
    axes.plot(
        asked[np.isfinite(left_out)],
        left_out[np.isfinite(left_out)],
        "x",
        color=plots.BLACK,
        label="left out" if np.isfinite(left_out).any() else None,
    )
    plots.doubling(axes, [*curve.ranks, *asked], "")
    axes.set_ylim(0, 1.15 * max(base, float(band[1].max())))
    axes.set_title("\n".join(textwrap.wrap(f"{labels.name(curve.model)}, {curve.name}".strip(", "), 28)), fontsize=6)
