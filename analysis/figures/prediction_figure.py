"""The figure of predictions: points, curve, interval, bound and targets, one panel a curve."""

import math
import textwrap
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from msgspec import UNSET

from analysis import labels, metrics
from analysis.figures import plots
from analysis.predict import LEVEL, Curve, highest_rate, predict
from analysis.predict.predicted_targets import Answer, PredictedTarget

PANELS = 12  # that are drawn: more do not fit a page
_STEPS = 40


def draw(answers: Sequence[Answer], learned: Callable[[Curve], float]) -> Figure:
    """Return a figure of images/s of one rank over the ranks, of the first twelve curves with a target.

    Filled: measured, with their interval where it is known. Line and band: the last doubling and the 90 % interval,
    which widens with each doubling beyond the points. Hollow: the targets. Crosses: points that were left out.
    `learned`: the calibration for a curve.
    """
    drawn = [answer for answer in answers if any(target.supported for target in answer.targets)][:PANELS]
    figure, panels = plots.grid(len(drawn), 2, 24, 44)
    for axes, answer in zip(panels, drawn, strict=True):
        _panel(axes, answer, learned(answer.curve))
    units = [answer.curve.unit.replace("1/s", "rate") for answer in drawn]
    for axes, unit in [*zip(panels, units, strict=True)][:: 2 if len({*units}) == 1 else 1]:
        axes.set_ylabel(f"{unit} of a rank")
    for axes in panels[-2:]:
        axes.set_xlabel("ranks")
    return plots.legend(figure)


def _panel(axes: Axes, answer: Answer, learned: float) -> None:
    curve = answer.curve
    targets = [target for target in answer.targets if target.supported]
    ranks = np.array([target.ranks for target in targets], float)
    base = metrics.per_rank(float(curve.images_per_s[curve.base]), float(curve.ranks[curve.base]))
    highest = _draw_prediction(axes, answer, ranks, learned)
    axes.axhline(base, color=plots.GREY, linestyle=":", label="ideal")
    _draw_bound(axes, answer, ranks)
    _draw_points(axes, curve)
    _draw_targets(axes, targets, ranks, plots.colour(curve.model))
    plots.doubling(axes, [*curve.ranks, *ranks], "")
    axes.set_ylim(0, 1.15 * max(base, highest))
    axes.set_title("\n".join(textwrap.wrap(f"{labels.name(curve.model)}, {curve.name}".strip(", "), 28)), fontsize=6)


def _along(curve: Curve, ranks: np.ndarray) -> np.ndarray:
    """Return the ranks along which a curve is drawn, up to its targets: whole, as new nodes make steps."""
    even = np.geomspace(curve.ranks.min(), max(ranks.max(), curve.largest), _STEPS)
    return np.unique(np.concatenate([np.round(even), curve.ranks, ranks]))


def _draw_prediction(axes: Axes, answer: Answer, ranks: np.ndarray, learned: float) -> float:
    """Draw the prediction and its interval; return the highest end of the interval."""
    curve, colour = answer.curve, plots.colour(answer.curve.model)
    along = _along(curve, ranks)
    along = along[along >= curve.largest]
    predicted = predict(curve, along, learned)
    low, high = predicted.low / along, predicted.high / along
    axes.fill_between(along, low, high, color=colour, alpha=0.2, linewidth=0, label=f"{100 * LEVEL:.0f} % interval")
    axes.plot(along, predicted.images_per_s / along, color=colour, label="predicted")
    return float(high.max())


def _draw_bound(axes: Axes, answer: Answer, ranks: np.ndarray) -> None:
    along = _along(answer.curve, ranks)
    bound = highest_rate(answer.curve, along) / along
    if (bounded := np.isfinite(bound)).any():
        axes.plot(along[bounded], bound[bounded], color=plots.BLACK, linestyle="-.", label="limit")


def _draw_points(axes: Axes, curve: Curve) -> None:
    error = np.nan_to_num(1.96 * curve.spread * curve.images_per_s / curve.ranks)
    y, colour = curve.images_per_s / curve.ranks, plots.colour(curve.model)
    axes.errorbar(curve.ranks, y, error, fmt="o", color=colour, label="measured", elinewidth=0.8)


def _draw_targets(axes: Axes, targets: Sequence[PredictedTarget], ranks: np.ndarray, colour: str) -> None:
    """Draw the predictions at the targets, and measured values there that were left out."""
    predicted = np.array([target.images_per_s.value for target in targets]) / ranks
    axes.plot(ranks, predicted, "o", mfc="white", mec=colour, label="target")
    measured = np.array([math.nan if target.measured is UNSET else target.measured for target in targets]) / ranks
    is_left_out = np.isfinite(measured)
    label = "left out" if is_left_out.any() else None
    axes.plot(ranks[is_left_out], measured[is_left_out], "x", color=plots.BLACK, label=label)
