"""Means and slopes with Student's t interval; their ratios and exponentials; pooled noise.

Errors are propagated to first order (JCGM 100:2008, 5.1.2), degrees of freedom by Welch and Satterthwaite (the same,
G.4.1).
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.stats import NO_ENDS, Ends, Number, Variation, common_variation, unknown
from record.intervals import student_quantile

_LARGEST_EXPONENT = 700.0  # of a double


def student(
    value: float, standard_error: float, degrees: float, n: int, variation: Variation = "between launches"
) -> Number:
    """Return a number with Student's t interval; without one if its standard error is NaN."""

    def ends(level: float) -> Ends:
        half = student_quantile(level, degrees) * standard_error if standard_error else 0.0
        return value - half, value + half

    if math.isnan(standard_error):
        return Number(value, lambda _: NO_ENDS, n)
    return Number(value, ends, n, variation, standard_error=standard_error, degrees=degrees)


def mean(values: Sequence[float]) -> Number:
    """Return the mean of independent values, with n - 1 degrees of freedom; one value has no interval.

    Raises ValueError if there is no value, or one is not finite.
    """
    x = np.asarray(values, dtype=float)
    if x.size == 0 or not np.isfinite(x).all():
        raise ValueError(f"a mean needs finite values; given: {list(values)}")
    error = float(x.std(ddof=1) / math.sqrt(x.size)) if x.size > 1 else math.nan
    return student(float(x.mean()), error, float(x.size - 1), int(x.size))


def ratio(a: Number, b: Number) -> Number:
    """Return a / b of independent numbers with standard errors: relative errors add in quadrature.

    Raises ValueError if a or b is not positive.
    """
    if not (a.value > 0 and b.value > 0):
        raise ValueError(f"a ratio needs positive values; given: {a.value:g} / {b.value:g}")
    value = a.value / b.value
    error, degrees = _in_quadrature((a.standard_error / a.value, a.degrees), (b.standard_error / b.value, b.degrees))
    return student(value, value * error, degrees, min(a.n, b.n), common_variation([a, b]))


def _in_quadrature(*errors: tuple[float, float]) -> tuple[float, float]:
    """Return the sum in quadrature of independent standard errors and its degrees of freedom; NaN if one is NaN."""
    variance = sum(error**2 for error, _ in errors)
    if math.isnan(variance):
        return math.nan, math.nan
    if variance == 0:
        return 0.0, math.inf
    return math.sqrt(variance), variance**2 / sum(error**4 / degrees for error, degrees in errors)


def exponential(logarithm: Number) -> Number:
    """Return the number with this logarithm."""
    return logarithm.through(lambda x: math.exp(min(x, _LARGEST_EXPONENT)))


def geometric_mean(values: Sequence[float]) -> Number:
    """Return the geometric mean of independent positive values: `mean` of their logarithms."""
    return exponential(mean([math.log(value) for value in values]))


def ratio_of_geometric_means(
    a: Sequence[float], b: Sequence[float], others: Sequence[Sequence[float]] = (), value: float = math.nan
) -> Number:
    """Return the geometric mean of b over that of a, two sets of independent positive values, with its interval.

    Welch's, on the logarithms, if both sets have two values or more and no other has. Otherwise the scatter of single
    values is pooled about the mean of each set, with those of `others`, which only estimate it; without an interval if
    no set has two values. value: of the ratio itself, if more is known of it than these values.
    """
    groups = [[math.log(x) for x in group] for group in (a, b, *others) if group]
    first, second = mean(groups[0]), mean(groups[1])
    n, centre = min(len(a), len(b)), second.value - first.value if math.isnan(value) else math.log(value)
    if n > 1 and not any(len(group) > 1 for group in others):
        error, degrees = _in_quadrature(*((number.standard_error, number.degrees) for number in (first, second)))
        return exponential(student(centre, error, degrees, n))
    noise = pooled(map(square_about_mean, groups))
    if noise is None:
        return unknown(math.exp(centre), n)
    return exponential(student(centre, noise.deviation * math.sqrt(1 / len(a) + 1 / len(b)), noise.degrees, n))


@dataclass(frozen=True)
class Noise:
    """The standard deviation of the logarithm of one measurement, from so many degrees of freedom.

    Measurements of one `group` share one estimate of their noise.
    """

    deviation: float
    degrees: int
    group: Hashable = ()


def pooled(squares: Iterable[tuple[float, int]], repeats: int = 1, group: Hashable = ()) -> Noise | None:
    """Return the noise of a mean over `repeats`, from sums of squares of logarithms, each with its degrees of freedom.

    None without a degree of freedom.
    """
    parts = [*squares]
    degrees = sum(freedom for _, freedom in parts)
    if not degrees:
        return None
    return Noise(math.sqrt(sum(square for square, _ in parts) / degrees / repeats), degrees, group)


def with_noise(number: Number, runs: Sequence[tuple[Noise | None, float]]) -> Number:
    """Return a number made from measurements, with its interval widened by their noise to cover other runs.

    `runs` has the noise of each measurement and the power with which it enters the number: 1 and -1 for a quotient. The
    variances of the logarithms add; Student's t, over the groups. Without an interval if the noise of one measurement
    is not known.
    """
    groups: dict[Hashable, list[tuple[float, int]]] = defaultdict(list)
    for noise, power in runs:
        if noise is None:
            return unknown(number.value, number.n)
        groups[noise.group].append(((power * noise.deviation) ** 2, noise.degrees))
    errors = [(math.sqrt(sum(v for v, _ in group)), min(degrees for _, degrees in group)) for group in groups.values()]
    factor = exponential(student(0.0, *_in_quadrature(*errors), number.n))

    def ends(level: float) -> Ends:
        (low, high), (_, times) = number.ends(level), factor.ends(level)
        return low / times, high * times

    return Number(number.value, ends, number.n, "between launches")


Pairs = Sequence[tuple[float, float]]  # x and value


@dataclass(frozen=True)
class Trend:
    """A common slope of several curves with different levels (analysis of covariance)."""

    slope: Number  # in the unit of the values, for each 1 of x
    centres: tuple[tuple[float, float], ...]  # mean x and mean value of each curve, in their order
    spread: float  # sum of squares of x about the means
    deviation: float  # standard deviation of a value about the lines; NaN without a degree of freedom

    def at(self, curve: int, x: float, points: int) -> Number:
        """Return the expected value of a new point at `x` on one of the curves, which has so many points."""
        centre, level = self.centres[curve]
        distance = x - centre
        error = self.deviation * math.sqrt(1 + 1 / points + distance**2 / self.spread)
        return student(level + self.slope.value * distance, error, self.slope.degrees, self.slope.n, "about the fit")


def trend(curves: Sequence[Pairs]) -> Trend:
    """Return the slope that several curves have in common, by least squares.

    For one curve it is the line of ordinary regression. Student's t, with points - curves - 1 degrees; without any the
    slope has no interval. Raises ValueError if no curve has two values of x.
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
    number = student(slope, deviation / math.sqrt(spread), degrees, n, "about the fit")
    return Trend(number, tuple((float(x.mean()), float(y.mean())) for x, y in arrays), spread, deviation)


def square_about_mean(values: Sequence[float]) -> tuple[float, int]:
    """Return the sum of squares of some values about their mean, and its degrees of freedom."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values), len(values) - 1


def square_about_line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, int]:
    """Return the sum of squares of some values about their straight line over x, and its degrees of freedom."""
    return float(((y - np.polyval(np.polyfit(x, y, 1), x)) ** 2).sum()), len(x) - 2
