"""What is known of one number where several kinds of noise are possible: a mixture of what each kind says of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.metrics import Statistic

Array = np.ndarray
# The p value of the ends of an interval of one kind beyond which the interval of the mixture never reaches.
_FARTHEST = 0.02
_PRECISION = 1e-9  # of an end of an interval, over the distance between the ends of the kinds


@dataclass(frozen=True)
class Marginal:
    """What is known of one number: for each kind of noise its centre, standard error and weight; `n` times."""

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

        ends = self.centres + self.errors * _student(self.degrees, probability)
        low, high = float(ends.min()), float(ends.max())
        if self.below(low) >= probability or self.below(high) <= probability:  # all of them alike
            return (low + high) / 2
        return float(brentq(lambda value: self.below(value) - probability, low, high, xtol=_PRECISION * (high - low)))

    def p(self, within: float = 0.0, of: float = 0.0) -> float:
        """How likely the number would be found so far from `of`, on either side, if it were `within` of it.

        NaN without a degree of freedom.
        """
        if self.degrees < 1:
            return math.nan
        return min(1.0, 2 * min(self.below(of + within), 1 - self.below(of - within)))

    @property
    def value(self) -> float:
        """The median; without a degree of freedom the mean of the kinds."""
        return float(self.centres @ self.weights) if self.degrees < 1 else self.quantile(0.5)

    @property
    def statistic(self) -> Statistic:
        """The number with its 95 % interval, which is not known without a degree of freedom."""
        if self.degrees < 1:
            return Statistic(self.value, n=self.n)
        tail = self.level() / 2
        farthest = self.errors * _student(self.degrees, 1 - _FARTHEST / 2)
        low = max(self.quantile(tail), float((self.centres - farthest).min()))
        high = min(self.quantile(1 - tail), float((self.centres + farthest).max()))
        return Statistic(self.value, low, high, self.n)


def _student(degrees: int, probability: float) -> float:
    """The quantile of Student's t."""
    from scipy.special import stdtrit  # it takes longer to import than most commands to run

    return float(stdtrit(degrees, probability))


def below(value: Array | float, centres: Array, errors: Array, weights: Array, degrees: int) -> Array:
    """The probability that a number is below `value` (...), of a mixture of Student's t: the others (..., kinds)."""
    from scipy.special import stdtr  # it takes longer to import than most commands to run

    of_each = stdtr(degrees, (np.asarray(value)[..., None] - centres) / errors)
    return np.einsum("...k,...k->...", weights, of_each)
