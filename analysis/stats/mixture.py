"""A number that several models estimate, each with Student's t: the mixture of their distributions.

Nobody knows which model is right, and how often an interval of the mixture covers the truth depends on it. So data are
drawn from each model. The p value that the mixture gives to the truth has another distribution under each model. It is
replaced by the probability of a smaller one: the mean over the models, by their weights in these data. The p values of
the drawn data are replaced in the same way, by the weights of each draw. This is repeated, because no weights identify
the model for certain (iterated prepivoting: Beran 1988, doi 10.1080/01621459.1988.10478649). The draws are always the
same: the same data give the same interval to the last digit.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.stats import Number, from_ends, unknown
from train.record.intervals import student_quantile

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
# The interval of the mixture never extends beyond the intervals of its components at this p value.
_FARTHEST = 0.02
_PRECISION = 1e-9  # of an end of an interval, over the distance between the ends of the components
# Less than 0.05: the draws do not include the choice of the model, the test of each point and the uncertainty of the
# noise. By simulation, these cost some designs two or three in a hundred.
_MISSED = 0.04
_DRAWS = 9600  # of all models together
# Each step brings the coverages under the models closer together, by less than the step before, and makes the ends
# depend more on the draws: with 24, other draws change the widths of the intervals of report 000 by about 5 %.
_STEPS = 24
# The grid of p values for interpolation, evenly spaced by their logarithms: its smallest value and its size.
_LEAST_P, _LEVELS = 1e-7, 200


@dataclass(frozen=True)
class Mixture:
    """The distribution of one number: the centre, standard error and weight of each component; from `n` values."""

    centres: Array
    errors: Array
    weights: Array
    degrees: int
    n: int
    level: Callable[[], float]  # the p value of the ends of its 95 % interval

    def below(self, value: float) -> float:
        """Return the probability that the number is below `value`."""
        return float(below(value, self.centres, self.errors, self.weights, self.degrees))

    def quantile(self, probability: float) -> float:
        """Return the quantile of the number at this probability."""
        from scipy.optimize import brentq  # it takes longer to import than most commands to run

        ends = self.centres + self.errors * student_quantile(2 * probability - 1, self.degrees)
        low, high = float(ends.min()), float(ends.max())
        if low == high or self.below(low) >= probability or self.below(high) <= probability:  # all of them alike
            return (low + high) / 2
        return float(brentq(lambda value: self.below(value) - probability, low, high, xtol=_PRECISION * (high - low)))

    def p(self, truth: float = 0.0, within: float = 0.0) -> float:
        """Return the two-sided p value of the number if the truth is within `within` of `truth`.

        NaN without a degree of freedom.
        """
        if self.degrees < 1:
            return math.nan
        return min(1.0, 2 * min(self.below(truth + within), 1 - self.below(truth - within)))

    @property
    def value(self) -> float:
        """Return the median; without a degree of freedom the mean of the components."""
        return float(self.centres @ self.weights) if self.degrees < 1 else self.quantile(0.5)

    def number(self) -> Number:
        """Return the number with its 95 % interval, which it does not have without a degree of freedom."""
        if self.degrees < 1:
            return unknown(self.value, self.n)
        tail = self.level() / 2
        farthest = self.errors * student_quantile(1 - _FARTHEST, self.degrees)
        low = max(self.quantile(tail), float((self.centres - farthest).min()))
        high = min(self.quantile(1 - tail), float((self.centres + farthest).max()))
        return from_ends(self.value, low, high, "about the fit", self.n)


def below(value: Array | float, centres: Array, errors: Array, weights: Array, degrees: int) -> Array:
    """Return the probability that a number is below `value` (...); centres, errors, weights: (..., components)."""
    from scipy.special import stdtr  # it takes longer to import than most commands to run

    each = stdtr(degrees, (np.asarray(value)[..., None] - centres) / errors)
    return np.asarray(np.einsum("...k,...k->...", weights, each))


@functools.cache
def normal_errors(sources: int, models: int, n: int) -> Array:
    """Return standard normal errors of n values from each source: (sources, models, draws of each, n)."""
    return np.random.default_rng(0).normal(size=(sources, models, _DRAWS // models, n))


def calibrated_level(p: Array, draw_weights: Array, weights: Array) -> float:
    """Return the p value below which a value lies outside of the 95 % interval.

    p: of the truth in the draws from each model, (models, draws); a draw with NaN has no interval and does not count.
    draw_weights: the weights of the models in the mixture of each draw, (models, draws, models).
    weights: those in the mixture of the data, (models,).
    """
    counts = ~np.isnan(p)
    if not counts.any(axis=1).all():
        return _MISSED
    drawn_from, draw_weights, p = np.nonzero(counts)[0], draw_weights[counts].T.copy(), p[counts]
    grid = levels = np.geomspace(_LEAST_P, 1, _LEVELS)
    for _ in range(_STEPS):
        position = _position(p)
        shares = _shares(position[0], drawn_from, len(weights))
        p = np.einsum("kd,kd->d", draw_weights, _at(shares, *position))
        levels = weights @ _at(shares, *_position(levels))
    return float(np.interp(_MISSED, levels, grid))


def _position(p: Array) -> tuple[Indices, Array]:
    """Return the index of the level before each p value (n,), and how far it is from there to the next: 0 to 1."""
    position = (1 - np.log(np.maximum(p, _LEAST_P)) / np.log(_LEAST_P)) * (_LEVELS - 1)
    before = np.minimum(position.astype(np.intp), _LEVELS - 2)
    return before, position - before


def _shares(before: Indices, drawn_from: Indices, models: int) -> Array:
    """Return the share of each model's p values that is below each level, (models, levels); `before` as `_position`."""
    counts = np.bincount(drawn_from * _LEVELS + before + 1, minlength=models * _LEVELS).reshape(models, _LEVELS)
    return np.asarray(counts.cumsum(axis=1) / counts.sum(axis=1, keepdims=True))


def _at(shares: Array, before: Indices, beyond: Array) -> Array:
    """Return the share that is below each p value, between two levels by interpolation: (models, n)."""
    lower = shares.take(before, axis=1)
    return np.asarray(lower + beyond * (shares.take(before + 1, axis=1) - lower))
