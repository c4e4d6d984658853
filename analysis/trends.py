"""Trends: the slope that one curve has, or that several have in common, each with a level of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.metrics import Estimate

Points = Sequence[tuple[float, float]]  # x and value; log2 of a size for a slope per doubling


@dataclass(frozen=True)
class Trend:
    """A common slope of several curves, each with a level of its own (analysis of covariance)."""

    slope: Estimate  # in the unit of the values, for each 1 of x
    centres: tuple[tuple[float, float], ...]  # mean x and mean value of each curve, in their order
    spread: float  # sum of squares of x about the means
    deviation: float  # standard deviation of a value about the lines; NaN where no point is left over

    def at(self, curve: int, x: float, points: int) -> Estimate:
        """What a new measurement at `x` on one of the curves, which has so many points, is expected to be."""
        centre, level = self.centres[curve]
        away = x - centre
        error = self.deviation * math.sqrt(1 + 1 / points + away**2 / self.spread)
        return Estimate(level + self.slope.value * away, error, self.slope.degrees, self.slope.n)

    def rounding(self, curves: Sequence[Points]) -> float:
        """How far rounding can move the slope; `curves` are as given to `fit`, with half units for values."""
        both = zip(self.centres, curves, strict=True)
        return sum(abs(x - centre) * half for (centre, _), of in both for x, half in of) / self.spread


def fit(curves: Sequence[Points]) -> Trend:
    """The slope that several curves have in common, by least squares.

    Of one curve it is the line of ordinary regression. Student's t, with points - curves - 1 degrees; without any left
    over the slope has no error. Raises ValueError where no curve has two values of x.
    """
    points_of = [(np.array([x for x, _ in of], float), np.array([y for _, y in of], float)) for of in curves]
    centred = [(x - x.mean(), y - y.mean()) for x, y in points_of]
    spread = float(sum((x**2).sum() for x, _ in centred))
    if spread == 0:
        raise ValueError("a trend needs a curve with two values of x")
    slope = float(sum((x * y).sum() for x, y in centred)) / spread
    points = sum(len(x) for x, _ in centred)
    degrees = points - len(centred) - 1
    left = float(sum(((y - slope * x) ** 2).sum() for x, y in centred))
    deviation = math.sqrt(left / degrees) if degrees > 0 else math.nan
    estimate = Estimate(slope, deviation / math.sqrt(spread), degrees if degrees > 0 else math.nan, points)
    return Trend(estimate, tuple((float(x.mean()), float(y.mean())) for x, y in points_of), spread, deviation)
