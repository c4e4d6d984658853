"""Intervals over rounds and over launches, and the rule that ends a curve once its launches are precise enough.

Over rounds they assume no distribution; over launches, of which there are few, they are Student's t. The launcher uses
them to stop, and the analysis shows them: this is their only definition. `benchmarks/coverage.py` simulates how often
they hold the truth; docs/validation.md has the table.
"""

import bisect
import functools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Literal

LEVEL = 0.95
MIN_VALUES = 6  # with fewer values not even the smallest and the largest enclose the median 95 times in 100
_SPLIT_FRACTION = 0.8  # of the variance, which a split must explain so that values form two groups
_MIN_SPLIT = 24  # values
_INTERPOLATED = 12  # with fewer values the ends are the outermost ones, and between these interpolation knows little
_LARGEST_EXPONENT = 700.0  # of a double: few launches have ends beyond it at high levels

# Curves may differ in how far their launches do: what they have in common says as much as so many launches more of one,
# as the prior of a moderated t does (Smyth 2004, doi 10.2202/1544-6115.1027). Simulated in benchmarks/coverage.py.
_PRIOR_DEGREES = 2

Launches = Sequence[Sequence[float]]  # the values of each launch, in the order of their measurement
Variation = Literal["between rounds", "between launches"]  # that an interval allows for: the latter is wider


@dataclass(frozen=True)
class Interval:
    """A value from n values with its interval at `level`, in their unit, and the variation that it allows for."""

    value: float
    low: float
    high: float
    level: float
    n: int
    variation: Variation = "between rounds"
    another: tuple[float, float] | None = None  # where the value of another launch is expected
    degrees: int = 0  # of freedom of the variance between launches

    @property
    def half_width_fraction(self) -> float:
        """Return half the width of the interval, as a fraction of the value."""
        return (self.high - self.low) / 2 / self.value

    def text(self) -> str:
        """Return the value as a ratio with its interval, and where another launch is expected."""
        ends = f"{self.low:.3g} to {self.high:.3g} {self.variation}"
        further = f"; another launch {self.another[0]:.3g} to {self.another[1]:.3g}" if self.another else ""
        return f"{self.value:.3g}x ({ends}{further})"


@functools.cache
def _order(n: int, level: float) -> float:
    """Return the position of the interval's ends, counted from either end of n ordered values; 0 if there is none.

    The k-th smallest and k-th largest value miss the median with the probability 2 P(B < k), B binomial with n trials
    of 1/2 (Hoefler and Belli, SC'15, 3.1.3); k is the largest with which that is at most 1 - level. Orders are whole:
    24 values would have 97.7 % instead of 95 %. From 12 values on the position lies between k and k + 1, as
    Hettmansperger and Sheather (1986, doi 10.1016/0167-7152(86)90021-0) interpolate.
    """
    missed, missed_next, k, allowed = 0.0, 0.0, 0, 1 - level
    while (missed_next := missed + math.comb(n, k) / 2 ** (n - 1)) <= allowed:
        missed, k = missed_next, k + 1
    if n < _INTERPOLATED or k == 0:
        return k
    share = (allowed - missed) / (missed_next - missed)
    return k + (n - k) * share / (k + (n - 2 * k) * share)


def _at(ordered: Sequence[float], position: float) -> float:
    """Return the value at a position, from 1, of ordered values; between two of them by linear interpolation."""
    below = math.floor(position)
    share = position - below
    return ordered[below - 1] if share == 0 else (1 - share) * ordered[below - 1] + share * ordered[below]


def dependence(values: Sequence[float]) -> float:
    """Return the variance of a count of values below the median, as a multiple of that of independent values.

    1 for independent values. It follows from the autocorrelation r of their ranks in the order of measurement; in a
    short series r is too small by (1 + 3 r) / n (Kendall 1954). The larger of two: the sum over the first sqrt(n) lags,
    with Bartlett's weights (Newey and West 1987), and the multiple for an autoregression of the first order.
    """
    n, ordered = len(values), sorted(values)
    # Twice the mean rank of equal values, from the middle.
    ranks = [bisect.bisect_left(ordered, value) + bisect.bisect_right(ordered, value) - n for value in values]
    power = sum(rank * rank for rank in ranks)
    if power == 0:
        return 1.0
    lags = max(1, round(math.sqrt(n)))
    correlations = [sum(a * b for a, b in zip(ranks, ranks[lag:], strict=False)) / power for lag in range(1, lags + 1)]
    correlations = [r + (1 + 3 * max(r, 0)) / n for r in correlations]
    summed = 1 + 2 * sum((1 - lag / (lags + 1)) * r for lag, r in enumerate(correlations, 1))
    return max(1.0, summed, (1 + correlations[0]) / max(1 - correlations[0], 0.05))


def two_groups(values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """Return the values below and above a gap that parts them, each in their order; None if they form one group.

    They form two if the best split, with at least a quarter of the values on either side, explains more than
    _SPLIT_FRACTION of their variance (Otsu 1979, doi 10.1109/TSMC.1979.4310076). For many normal values it explains
    0.64, of uniform ones 0.75. Fewer than _MIN_SPLIT values are never split: by chance they often look like two.
    """
    n, ordered = len(values), sorted(values)
    if n < _MIN_SPLIT:
        return None
    mean = sum(ordered) / n
    total = sum((value - mean) ** 2 for value in ordered)
    below, best, at = 0.0, _SPLIT_FRACTION * total, 0
    for count, value in enumerate(ordered[:-1], 1):
        below += value - mean
        between = below**2 * n / (count * (n - count))
        if between > best and value < ordered[count] and min(count, n - count) >= n / 4:
            best, at = between, count
    if at == 0:
        return None
    return [v for v in values if v < ordered[at]], [v for v in values if v >= ordered[at]]


def median_interval(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Return the interval of the median of values in the order of their measurement; None for fewer than MIN_VALUES.

    None too at a level at which not even the smallest and the largest of so few values enclose the median.

    Order statistics, exact for independent values of any distribution up to the interpolation between neighbours. If
    neighbours are alike (a disturbance that lasts), it is wider, as the count of values below the median is then more
    uncertain. If the values form two groups, one of which is disturbed, it is not known which one: the interval
    reaches over those of both.
    """
    whole = _group_interval(values, level)
    groups = two_groups(values)
    if whole is None or groups is None:
        return whole
    (low, _), (_, high) = (_ends(group, level) for group in groups)
    return replace(whole, low=min(whole.low, low), high=max(whole.high, high))


def _ends(group: Sequence[float], level: float) -> tuple[float, float]:
    """Return the ends of the interval of a group; of too few values the outermost ones."""
    interval = _group_interval(group, level)
    return (interval.low, interval.high) if interval else (min(group), max(group))


def _group_interval(values: Sequence[float], level: float) -> Interval | None:
    """Return the interval of the median of values that form one group."""
    n = len(values)
    if n < MIN_VALUES or _order(n, level) == 0:
        return None
    half = (n / 2 - _order(n, level)) * math.sqrt(dependence(values))
    position = max(1.0, n / 2 - half)
    if n < _INTERPOLATED:
        position = math.floor(position)
    ordered = sorted(values)
    return Interval(median(values), _at(ordered, position), _at(ordered[::-1], position), level, n)


@dataclass(frozen=True)
class Spread:
    """The variance of what launches give, beyond that of their rounds, on the scale of `_scale`."""

    variance: float
    degrees: int  # of freedom; 0: the variance is not known


def launch_spread(curves: Sequence[Launches]) -> Spread:
    """Return the variance between the launches of curves, pooled over the curves: what they have in common.

    The variance of the medians of launches about the mean of their curve, minus that which their rounds explain. It has
    as many degrees of freedom as there are launches but one for each curve. Launches of one value do not count.
    """
    squares = explained = 0.0
    degrees = 0
    for launches in map(_repeated, curves):
        if len(launches) > 1:
            to, _ = _scale(launches)
            squares += statistics.variance([to(median(values)) for values in launches]) * (len(launches) - 1)
            explained += _rounds_variance(launches) * (len(launches) - 1)
            degrees += len(launches) - 1
    return Spread(max(0.0, squares - explained) / degrees if degrees else 0.0, degrees)


def _repeated(launches: Launches) -> list[Sequence[float]]:
    """Return the launches of two values or more, which separate the variance of rounds from that of launches."""
    return [values for values in launches if len(values) > 1]


def _rounds_variance(launches: Launches) -> float:
    """Return the variance of the median of a launch that comes from its rounds; the mean over these launches.

    From the mean distance of the values from the median of their launch: their standard deviation if they are
    normal, and less sensitive to single disturbed rounds. The variance of a median of n normal values is nearly pi / 2n
    of theirs.
    """
    to, _ = _scale(launches)
    distance = sum(abs(to(value) - to(median(values))) for values in launches for value in values)
    deviation = math.sqrt(math.pi / 2) * distance / sum(len(values) - 1 for values in launches)
    return fmean(math.pi / 2 * deviation**2 / len(values) for values in launches)


def _scale(launches: Launches) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Return the logarithm and its inverse, if all values are positive; else twice the identity."""
    if all(value > 0 for values in launches for value in values):
        return math.log, lambda x: math.exp(max(-_LARGEST_EXPONENT, min(x, _LARGEST_EXPONENT)))
    return float, float


def student_quantile(level: float, degrees: float) -> float:
    """Return the t beyond which Student's t is on neither side with the probability `level`."""
    from scipy.special import stdtrit  # a tenth of a second that ranks do not need

    return float(stdtrit(degrees, (1 + level) / 2))


def launches_interval(launches: Launches, level: float = LEVEL, spread: Spread | None = None) -> Interval | None:
    """Return the interval over launches, each the values of its rounds in the order of their measurement.

    Two launches or more, or one and the spread between others, show what other launches give. The value is then the
    mean, on a logarithmic scale, of the launches' medians; the interval is Student's t with the variance between
    launches and that of their rounds, or with their own variance if that is larger. It is never narrower than that of
    the rounds alone, which is returned for one launch without a spread: it allows for the variation between rounds.

    Launches of one value each, MIN_VALUES or more, have the interval of their median by order statistics.
    None for fewer than MIN_VALUES values.

    spread: from `launch_spread` over all curves that are measured alike, this one among them.
    """
    filled, measured = [values for values in launches if values], _repeated(launches)
    whole = median_interval([value for values in filled for value in values], level)
    if whole is None or not measured:
        return whole and replace(whole, variation="between launches")
    spread = spread or launch_spread([measured])
    if spread.degrees == 0:
        return whole
    to, back = _scale(measured)
    medians = [to(median(values)) for values in measured]
    centre = fmean(medians)
    own_degrees = len(measured) - 1
    variance, degrees = spread.variance + _rounds_variance(measured), min(spread.degrees, own_degrees + _PRIOR_DEGREES)
    # That of one curve may be larger than what all have in common; then it has only the degrees of its own launches.
    if own_degrees and (own := statistics.variance(medians)) > variance:
        variance, degrees = own, own_degrees
    times = student_quantile(level, degrees)
    half = times * math.sqrt(variance / len(measured))
    other_half = times * math.sqrt(variance * (1 + 1 / len(measured)))
    low, high = min(whole.low, back(centre - half)), max(whole.high, back(centre + half))
    another = (min(low, back(centre - other_half)), max(high, back(centre + other_half)))
    return Interval(back(centre), low, high, level, whole.n, "between launches", another, degrees)


def is_precise(launches: Launches, fraction: float, spread: Spread | None = None) -> bool:
    """Return whether half the width of the interval of `launches_interval` is at most this fraction of the value.

    With no more degrees of freedom than the launches have: who stops as soon as an interval looks good claims more than
    was measured.
    """
    own = spread and replace(spread, degrees=min(spread.degrees, max(1, len(_repeated(launches)) - 1)))
    interval = launches_interval(launches, spread=own)
    return interval is not None and interval.half_width_fraction <= fraction
