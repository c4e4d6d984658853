"""The forms averaged: a predicted time of a step with its interval, and why a curve supports no prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis import metrics
from analysis.predict import forms
from analysis.predict.points import Curve, Sizes
from analysis.thresholds import limit

LEVEL = 0.90
# Each form predicts the logarithm of a time with two coefficients, a level and a slope.
_COEFFICIENTS = 2


@dataclass(frozen=True)
class Learned:
    """The calibration from other curves. `weights`: of each form; `noise`: relative error of a typical point.

    `faster`, `slower`: the standard deviation by which the logarithm of a time is off to either side, for each doubling
    beyond the points. Curves get worse more often than better.
    """

    weights: dict[str, float]
    noise: float
    faster: float
    slower: float


@dataclass(frozen=True, eq=False)
class Averaged:
    """The logarithm of the time of a step by each form: a distribution for each form and size.

    It consists of two halves of normal distributions, as wide as the error may grow to either side.
    """

    names: tuple[str, ...]
    weights: np.ndarray  # forms
    ln_s: np.ndarray  # forms x sizes
    deviation: np.ndarray  # forms x sizes: from the scatter of the points alone
    doublings: np.ndarray  # sizes: beyond the largest point; 0 among them

    @property
    def value(self) -> np.ndarray:
        """The mean over the forms, at each size."""
        return self.weights @ self.ln_s

    def probability(self, ln_s: np.ndarray, faster: float, slower: float) -> np.ndarray:
        """Return how likely the logarithm of the time is below `ln_s`, at each size."""
        from scipy.special import ndtr  # it takes longer to import than most commands to run

        off = ln_s - self.ln_s
        growth = np.where(off > 0, slower, faster) * self.doublings
        return self.weights @ ndtr(off / np.hypot(self.deviation, growth))

    def quantile(self, probability: float, faster: float, slower: float) -> np.ndarray:
        """Return the logarithm of the time that is not exceeded with this probability, at each size; by bisection."""
        reach = 8 * np.hypot(self.deviation, max(faster, slower) * self.doublings).max(axis=0)
        low, high = self.ln_s.min(axis=0) - reach, self.ln_s.max(axis=0) + reach
        for _ in range(40):
            middle = (low + high) / 2
            below = self.probability(middle, faster, slower) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2


def average(curve: Curve, at: Sizes, weights: dict[str, float], noise: float) -> Averaged:
    """Return the forms fitted to a curve and averaged with these weights. `noise`: relative error of a typical point.

    The noise of the curve itself is that of its residuals, with the typical one as one more value: three points leave
    hardly a residual. Student's t for so few values widens it, at the level of the interval. The deviation is that of
    another measurement, not of its mean.
    """
    from scipy.special import ndtri, stdtrit

    error = curve.relative_error(noise)
    fitted = forms.fits(curve, error)
    share = np.array([weights[name] for name in fitted])
    share = share / share.sum()
    measured = Sizes(curve.ranks, curve.batch)
    residuals = np.log(curve.step_s) - share @ np.array([fit.ln_s(measured) for fit in fitted.values()])
    degrees = 1 + max(len(residuals) - _COEFFICIENTS - curve.strong, 0)
    curve_noise = math.sqrt((noise**2 + float(np.sum((residuals / error) ** 2))) / degrees)
    tail = 0.5 + LEVEL / 2
    wider = float(stdtrit(degrees, tail) / ndtri(tail)) * curve_noise
    return Averaged(
        tuple(fitted),
        share,
        np.array([fit.ln_s(at) for fit in fitted.values()]),
        wider * np.sqrt([1 + fit.variance(at) for fit in fitted.values()]),
        np.maximum(np.log2(at.ranks / curve.largest), 0),
    )


@dataclass(frozen=True, eq=False)
class Prediction:
    """Images/s of the whole job at each size, with the interval, and that of each form alone."""

    at: Sizes
    images_per_s: np.ndarray
    low: np.ndarray
    high: np.ndarray
    by_form: dict[str, np.ndarray]


def shortest_step_s(curve: Curve, at: Sizes) -> np.ndarray:
    """Return the shortest time of a step that processors and links allow, as far as they are known; else 0.

    It is the longest of the single bounds: an exchange may be hidden behind computing. They are from the step without
    allreduce, the products of matrices and the streams between ranks that the jobs measured, and the rate of an
    emulated link.
    """
    compute = 0.0 if math.isnan(curve.compute_s) or curve.strong else curve.compute_s
    least = np.full(len(at.ranks), compute)
    if not math.isnan(curve.compute_limit_images_per_s):
        least = np.maximum(least, metrics.step_s(at.batch, np.full(len(least), curve.compute_limit_images_per_s)))
    if not math.isnan(curve.ring_s):
        least = np.maximum(least, metrics.hops(at.ranks) * curve.ring_s)
    if math.isnan(curve.link_mbit_per_s) or math.isnan(curve.parameters):
        return least
    nodes = curve.nodes(at.ranks).astype(int)
    links = [metrics.ring_allreduce_min_s(int(curve.parameters), int(n), curve.link_mbit_per_s) for n in nodes]
    return np.maximum(least, links)


def _saturated(curve: Curve, at: Sizes) -> np.ndarray:
    """Return the logarithm of the time of a step behind one server that is busy from the largest point on.

    From there it takes the gradients of as many ranks a second. Beyond the points no server of this curve is slower:
    at the largest of them it was not.
    """
    largest = curve.ranks == curve.largest
    return np.log(curve.step_s[largest].max() * np.maximum(at.ranks / curve.largest, 1.0))


def ideal(curve: Curve, at: Sizes) -> np.ndarray:
    """Return images/s if each rank were as fast as at the base of the speedups."""
    base = curve.base
    rate = metrics.per_rank(float(curve.images_per_s[base]), float(curve.ranks[base]))
    return metrics.whole_job(np.full(len(at.ranks), rate), at.ranks)


def predict(curve: Curve, at: Sizes, learned: Learned) -> Prediction:
    """Return images/s at each size, with the 90 % interval of a measurement there.

    No value is above the ideal, none beyond the bounds that are known. The upper end may be above the ideal by the
    noise of the point that the ideal is from. Where a server may saturate beyond the points, the lower end is the rate
    of the largest point, less the noise of both measurements.
    """
    from scipy.special import ndtri

    averaged = average(curve, at, learned.weights, learned.noise)
    ideal_s = metrics.step_s(at.batch, metrics.per_rank(ideal(curve, at), at.ranks))
    tail = (1 - LEVEL) / 2
    # The smallest deviation of all sizes is nearest to that of a point that was measured.
    noise = float(averaged.deviation.min())
    fastest = averaged.quantile(tail, learned.faster, learned.slower)
    fastest = np.maximum(fastest, np.log(ideal_s) + float(ndtri(tail)) * noise)
    slowest = averaged.quantile(1 - tail, learned.faster, learned.slower)
    if curve.may_saturate:
        slowest = np.maximum(slowest, _saturated(curve, at) - math.sqrt(2) * float(ndtri(tail)) * noise)
    value = np.maximum(averaged.value, np.log(ideal_s))

    def rate(ln_s: np.ndarray) -> np.ndarray:
        step_s = np.maximum(np.exp(ln_s), shortest_step_s(curve, at))
        return metrics.whole_job(metrics.rate(at.batch, step_s), at.ranks)

    return Prediction(
        at,
        rate(value),
        rate(np.maximum(slowest, value)),
        rate(np.minimum(fastest, value)),
        {
            name: rate(np.maximum(ln_s, np.log(ideal_s)))
            for name, ln_s in zip(averaged.names, averaged.ln_s, strict=True)
        },
    )


MIN_POINTS = 3  # a level and a slope take two; a third says how well they fit
MAX_DOUBLINGS = limit("doublings")
BEND_LEVEL = limit("bend_level")
LATE_LEVEL = limit("late_level")
BEND_EXPONENT = limit("bend_exponent")


def why_not(curve: Curve, at: Sizes, noise: float) -> list[str]:
    """Return for each size the reason why the curve supports no prediction there; "" where it does."""
    general = _curve_reason(curve, noise)
    return [general or _size_reason(curve, ranks, batch) for ranks, batch in zip(at.ranks, at.batch, strict=True)]


def _curve_reason(curve: Curve, noise: float) -> str:
    """Return why the points support no prediction at all."""
    different = len(np.unique(curve.ranks))
    if curve.doubts:
        return "; ".join(map(str, curve.doubts))
    if different < MIN_POINTS:
        have = f"{different or 'no'} number{'s' * (different != 1)} of ranks measured"
        return f"{have}, at least {MIN_POINTS} are needed"
    return bend(curve, noise)


def _size_reason(curve: Curve, ranks: float, batch: float) -> str:
    """Return why the points support no prediction at one size."""
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
    """Return how the curve already bends; "" where no bend is significant, or there are too few points to test.

    Two tests stand beside the rule for the last step. Does a term in n (one server that all send to) beside
    a + b log2 n make the residuals smaller than chance does (F of one degree, one-sided)? Is the last point slower than
    a + b log2 n through the others (externally studentized residual)? Both count the noise of a typical point as one
    more residual, and allow for the exchange that sets in at the second node.
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


def _even_coefficients(curve: Curve) -> int:
    """Return the number of coefficients of a curve that goes on evenly."""
    return 3 if curve.ranks_per_node > 1 and curve.nodes(curve.ranks).max() > 1 else 2


def _linear_cost_p(curve: Curve, noise: float) -> float:
    """Return how likely chance alone makes the residuals so much smaller with a term in n."""
    from scipy.special import stdtr

    error = curve.relative_error(noise)
    fits = (forms.fit(name, curve, error) for name in (forms.EVEN, forms.BENT))
    without, with_it = (_residual(curve, fit, error) for fit in fits)
    degrees = 1 + max(len(curve.ranks) - _even_coefficients(curve) - 1, 0)
    scatter = (noise**2 + with_it) / degrees
    return float(1 - stdtr(degrees, math.sqrt(max(without - with_it, 0) / scatter)))


def _late_p(curve: Curve, noise: float) -> float:
    """Return how likely chance alone makes the last point so much slower than the fit of the others."""
    from scipy.special import stdtr

    others, last = curve.only(curve.ranks < curve.largest), curve.only(curve.ranks == curve.largest)
    error = others.relative_error(noise)
    fit = forms.fit(forms.EVEN, others, error)
    degrees = 1 + max(len(others.ranks) - _even_coefficients(others), 0)
    scatter = (noise**2 + _residual(others, fit, error)) / degrees
    at = Sizes(last.ranks, last.batch)
    off = (np.log(last.step_s) - fit.ln_s(at)) / np.sqrt(scatter * (1 + fit.variance(at)))
    return float(1 - stdtr(degrees, off.max()))


def _residual(curve: Curve, fit: forms.Fitted, error: np.ndarray) -> float:
    """Return the sum of squared residuals of a form, relative to the error of the points."""
    off = np.log(curve.step_s) - fit.ln_s(Sizes(curve.ranks, curve.batch))
    return float(np.sum((off / error) ** 2))
