"""Trends: the slope of one curve, or the common slope of several curves with different levels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.stats.number import Number
from analysis.stats.student import student

Points = Sequence[tuple[float, float]]  # x and value


@dataclass(frozen=True)
class Trend:
    """A common slope of several curves with different levels (analysis of covariance)."""

    slope: Number  # in the unit of the values, for each 1 of x
    centres: tuple[tuple[float, float], ...]  # mean x and mean value of each curve, in their order
    spread: float  # sum of squares of x about the means
    deviation: float  # standard deviation of a value about the lines; NaN where no point is left over

    def at(self, curve: int, x: float, points: int) -> Number:
        """Return the expected value of a new point at `x` on one of the curves, which has so many points."""
        centre, level = self.centres[curve]
        distance = x - centre
        error = self.deviation * math.sqrt(1 + 1 / points + distance**2 / self.spread)
        return student(level + self.slope.value * distance, error, self.slope.degrees, self.slope.n, "fit")

    def rounding(self, curves: Sequence[Points]) -> float:
        """Return how far rounding can move the slope; `curves` as given to `fit`, with half units for values."""
        both = zip(self.centres, curves, strict=True)
        return sum(abs(x - centre) * half for (centre, _), points in both for x, half in points) / self.spread


def fit(curves: Sequence[Points]) -> Trend:
    """Return the slope that several curves have in common, by least squares.

    For one curve it is the line of ordinary regression. Student's t, with points - curves - 1 degrees; without any left
    over the slope has no interval. Raises ValueError where no curve has two values of x.
    """
    arrays = [(np.array([x for x, _ in points], float), np.array([y for _, y in points], float)) for points in curves]
    centred = [(x - x.mean(), y - y.mean()) for x, y in arrays]
    spread = float(sum((x**2).sum() for x, _ in centred))
    if spread == 0:
        raise ValueError("a trend needs a curve with two values of x")
    slope = float(sum((x * y).sum() for x, y in centred)) / spread
    n = sum(len(x) for x, _ in centred)
    degrees = n - len(centred) - 1
    square = float(sum(((y - slope * x) ** 2).sum() for x, y in centred))
    deviation = math.sqrt(square / degrees) if degrees > 0 else math.nan
    number = student(slope, deviation / math.sqrt(spread), degrees, n, "fit")
    return Trend(number, tuple((float(x.mean()), float(y.mean())) for x, y in arrays), spread, deviation)


def square_about_line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, int]:
    """Return the sum of squares of some values about their straight line over x, and its degrees of freedom."""
    return float(((y - np.polyval(np.polyfit(x, y, 1), x)) ** 2).sum()), len(x) - 2
