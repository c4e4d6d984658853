"""What the points of a curve cannot carry: the reasons why a prediction is not given."""

from __future__ import annotations

import math

import numpy as np

from analysis.predict import forms
from analysis.predict.points import Curve, Sizes
from analysis.thresholds import limit

MIN_POINTS = 3  # a level and a slope take two; a third says how well they fit
MAX_DOUBLINGS = limit("doublings")
BEND_LEVEL = limit("bend_level")
LATE_LEVEL = limit("late_level")
BEND_EXPONENT = limit("bend_exponent")


def why_not(curve: Curve, at: Sizes, noise: float) -> list[str]:
    """For each size why the curve cannot carry a prediction there, in words; "" where it can."""
    general = _of_curve(curve, noise)
    return [general or _of_size(curve, ranks, batch) for ranks, batch in zip(at.ranks, at.batch, strict=True)]


def _of_curve(curve: Curve, noise: float) -> str:
    """Why the points carry no prediction at all."""
    different = len(np.unique(curve.ranks))
    if curve.doubts:
        return "; ".join(map(str, curve.doubts))
    if different < MIN_POINTS:
        have = f"{different or 'no'} number{'s' * (different != 1)} of ranks measured"
        return f"{have}, at least {MIN_POINTS} are needed"
    return bend(curve, noise)


def _of_size(curve: Curve, ranks: float, batch: float) -> str:
    """Why the points carry no prediction at one size."""
    if batch not in curve.batch and not curve.strong:
        return "the batch of a rank changes: points at two batches per rank or more are needed"
    if batch < 1 and curve.batch.max() > 1:
        return f"a global batch of {batch * ranks:g} leaves some of {ranks:g} ranks without an image"
    if ranks < curve.ranks.min():
        return f"fewer ranks than the smallest point ({curve.ranks.min():g})"
    if float(curve.nodes(np.array([ranks]))[0]) > 1 and curve.nodes(curve.ranks).max() == 1:
        return f"no point on two nodes or more: all are on one node of {curve.ranks_per_node:g} ranks"
    doublings = math.log2(ranks / curve.largest)
    if doublings > MAX_DOUBLINGS:
        return f"{doublings:.3g} doublings beyond {curve.largest:g} ranks, at most {MAX_DOUBLINGS:g} can be carried"
    return ""


def bend(curve: Curve, noise: float) -> str:
    """How the curve already bends, in words; "" where no bend can be seen, or there are too few points to see one.

    Two tests stand beside the rule for the last step. With a term in n (one server that all send to) beside
    a + b log2 n, are the residuals smaller than chance makes them (F of one degree, one-sided)? Is the last point
    slower than a + b log2 n through the others says (externally studentized residual)? Both count the noise of a
    typical point as one more residual, and allow for the exchange that sets in at the second node.
    """
    if len(curve.ranks) <= MIN_POINTS or curve.strong:
        return ""
    before, last = np.argsort(curve.ranks)[-2:]
    gained = math.log(curve.images_per_s[last] / curve.images_per_s[before])
    if gained < BEND_EXPONENT * math.log(curve.ranks[last] / curve.ranks[before]):
        grew = f"from {curve.ranks[before]:g} to {curve.ranks[last]:g} ranks"
        return f"the curve already bends: {grew} the rate grew only {math.exp(gained):.2f} times"
    if _linear_cost_p(curve, noise) < BEND_LEVEL:
        return "the curve already bends: a cost that grows with the ranks themselves is seen, as of one server"
    nodes = curve.nodes(curve.ranks)
    crosses = nodes[before] == 1 < nodes[last] and curve.ranks_per_node > 1
    if not crosses and _late_p(curve, noise) < LATE_LEVEL:
        return f"the curve already bends: {curve.ranks[last]:g} ranks are slower than the points below say"
    return ""


def _used(curve: Curve) -> int:
    """The coefficients of a curve that goes on evenly."""
    return 3 if curve.ranks_per_node > 1 and curve.nodes(curve.ranks).max() > 1 else 2


def _linear_cost_p(curve: Curve, noise: float) -> float:
    """How likely chance alone makes the residuals so much smaller with a term in n."""
    from scipy.special import stdtr

    error = curve.relative_error(noise)
    fits = (forms.fit(name, curve, error) for name in (forms.EVEN, forms.BENT))
    without, with_it = (_residual(curve, fit, error) for fit in fits)
    degrees = 1 + max(len(curve.ranks) - _used(curve) - 1, 0)
    scatter = (noise**2 + with_it) / degrees
    return float(1 - stdtr(degrees, math.sqrt(max(without - with_it, 0) / scatter)))


def _late_p(curve: Curve, noise: float) -> float:
    """How likely chance alone makes the last point so much slower than the others say."""
    from scipy.special import stdtr

    others, last = curve.only(curve.ranks < curve.largest), curve.only(curve.ranks == curve.largest)
    error = others.relative_error(noise)
    fit = forms.fit(forms.EVEN, others, error)
    degrees = 1 + max(len(others.ranks) - _used(others), 0)
    scatter = (noise**2 + _residual(others, fit, error)) / degrees
    at = Sizes(last.ranks, last.batch)
    off = (np.log(last.step_s) - fit.ln_s(at)) / np.sqrt(scatter * (1 + fit.variance(at)))
    return float(1 - stdtr(degrees, off.max()))


def _residual(curve: Curve, fit: forms.Fitted, error: np.ndarray) -> float:
    """The sum of squares of what a form leaves of the points, relative to their error."""
    off = np.log(curve.step_s) - fit.ln_s(Sizes(curve.ranks, curve.batch))
    return float(np.sum((off / error) ** 2))
