"""A number of which several models say something, each with Student's t: a mixture of what they say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.stats.number import Number, from_ends, unknown
from analysis.stats.student import t_quantile

Array = np.ndarray
# The p value of the ends of an interval of one component beyond which the interval of the mixture never reaches.
_FARTHEST = 0.02
_PRECISION = 1e-9  # of an end of an interval, over the distance between the ends of the components


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
        """The probability that the number is below `value`."""
        return float(below(value, self.centres, self.errors, self.weights, self.degrees))

    def quantile(self, probability: float) -> float:
        """The value that the number is below with this probability."""
        from scipy.optimize import brentq  # it takes longer to import than most commands to run

        ends = self.centres + self.errors * t_quantile(self.degrees, probability)
        low, high = float(ends.min()), float(ends.max())
        if self.below(low) >= probability or self.below(high) <= probability:  # all of them alike
            return (low + high) / 2
        return float(brentq(lambda value: self.below(value) - probability, low, high, xtol=_PRECISION * (high - low)))

    def p(self, truth: float = 0.0, within: float = 0.0) -> float:
        """How likely the number would be so far from `truth`, on either side, if it were `within` of it.

        NaN without a degree of freedom.
        """
        if self.degrees < 1:
            return math.nan
        return min(1.0, 2 * min(self.below(truth + within), 1 - self.below(truth - within)))

    @property
    def value(self) -> float:
        """The median; without a degree of freedom the mean of the components."""
        return float(self.centres @ self.weights) if self.degrees < 1 else self.quantile(0.5)

    def number(self) -> Number:
        """The number with its 95 % interval, which it does not have without a degree of freedom."""
        if self.degrees < 1:
            return unknown(self.value, self.n)
        tail = self.level() / 2
        farthest = self.errors * t_quantile(self.degrees, 1 - _FARTHEST / 2)
        low = max(self.quantile(tail), float((self.centres - farthest).min()))
        high = min(self.quantile(1 - tail), float((self.centres + farthest).max()))
        return from_ends(self.value, low, high, "fit", self.n)


def below(value: Array | float, centres: Array, errors: Array, weights: Array, degrees: int) -> Array:
    """The probability that a number is below `value` (...); the others (..., components) are those of a mixture."""
    from scipy.special import stdtr  # it takes longer to import than most commands to run

    each = stdtr(degrees, (np.asarray(value)[..., None] - centres) / errors)
    return np.einsum("...k,...k->...", weights, each)
