"""Intervals of medians that assume no distribution, and the rule that ends a measurement once they are narrow enough.

The ranks stop by it and the analysis shows it: this is the only definition. `benchmarks/coverage.py` simulates how
often these intervals hold the truth; docs/statistics.md has the table.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

LEVEL = 0.95
MIN_VALUES = 6  # with fewer values not even the smallest and the largest enclose the median 95 times in 100
_FIRST_LOOK = 12
_PARTED = 0.8  # of the variance: so much is explained by which of two groups a value is in, where there are two
_MIN_PARTED = 24  # values
_INTERPOLATED = 12  # with fewer values the ends are the outermost ones, and between these interpolation knows little


@dataclass(frozen=True)
class Interval:
    """A median of n values with its interval at `level`, in the unit of the values."""

    value: float
    low: float
    high: float
    level: float
    n: int

    @property
    def half_width_fraction(self) -> float:
        """Half the width of the interval, as a fraction of the value."""
        return (self.high - self.low) / 2 / self.value


@functools.cache
def _order(n: int, level: float) -> float:
    """The place, counted from either end of n ordered values, of the interval's ends; 0 where there is none.

    The k-th smallest and k-th largest value miss the median with the probability 2 P(B < k), B binomial with n trials
    of 1/2 (Hoefler and Belli, SC'15, 3.1.3); k is the largest with which that is at most 1 - level. Orders are whole:
    24 values would have 97.7 % where 95 % are asked for. From 12 values on the place lies between k and k + 1, as
    Hettmansperger and Sheather (1986, doi 10.1016/0167-7152(86)90021-0) interpolate.
    """
    missed, k, allowed = 0.0, 0, 1 - level
    while (further := missed + math.comb(n, k) / 2 ** (n - 1)) <= allowed:
        missed, k = further, k + 1
    if n < _INTERPOLATED or k == 0:
        return k
    share = (allowed - missed) / (further - missed)
    return k + (n - k) * share / (k + (n - 2 * k) * share)


def _at(ordered: Sequence[float], place: float) -> float:
    """The value at a place, counted from 1, of ordered values; between two of them by linear interpolation."""
    below = math.floor(place)
    share = place - below
    return ordered[below - 1] if share == 0 else (1 - share) * ordered[below - 1] + share * ordered[below]


def _dependence(values: Sequence[float]) -> float:
    """How many times larger the variance of a count of values below the median is than if they were independent.

    1 for independent values. From the autocorrelation r of their ranks in the order of measurement, which in a short
    series is too small by (1 + 3 r) / n (Kendall 1954): the larger of the sum over the first sqrt(n) lags, with
    Bartlett's weights (Newey and West 1987), and what an autoregression of the first order has.
    """
    n, ordered = len(values), sorted(values)
    # Twice the mean rank of equal values, from the middle.
    ranks = [bisect.bisect_left(ordered, value) + bisect.bisect_right(ordered, value) - n for value in values]
    power = sum(rank * rank for rank in ranks)
    if power == 0:
        return 1.0
    lags = max(1, round(math.sqrt(n)))
    found = [sum(a * b for a, b in zip(ranks, ranks[lag:], strict=False)) / power for lag in range(1, lags + 1)]
    found = [r + (1 + 3 * max(r, 0)) / n for r in found]
    summed = 1 + 2 * sum((1 - lag / (lags + 1)) * r for lag, r in enumerate(found, 1))
    return max(1.0, summed, (1 + found[0]) / max(1 - found[0], 0.05))


def two_groups(values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """The values below and above a gap that parts them, each in their order; None where they form one group.

    They form two where the best split, with at least a quarter of the values on either side, explains more than _PARTED
    of their variance (Otsu 1979, doi 10.1109/TSMC.1979.4310076). Of many normal values it explains 0.64, of uniform
    ones 0.75. Fewer than _MIN_PARTED values are never split: by chance they often look as if they formed two groups.
    """
    n, ordered = len(values), sorted(values)
    if n < _MIN_PARTED:
        return None
    mean = sum(ordered) / n
    total = sum((value - mean) ** 2 for value in ordered)
    below, best, at = 0.0, _PARTED * total, 0
    for count, value in enumerate(ordered[:-1], 1):
        below += value - mean
        between = below**2 * n / (count * (n - count))
        if between > best and value < ordered[count] and min(count, n - count) >= n / 4:
            best, at = between, count
    if at == 0:
        return None
    return [v for v in values if v < ordered[at]], [v for v in values if v >= ordered[at]]


def of_median(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The interval of the median of values in the order of their measurement; None for fewer than MIN_VALUES.

    None too at a level at which not even the smallest and the largest of so few values enclose the median.

    Order statistics, exact for independent values of any distribution up to the interpolation between neighbours. Where
    neighbours are alike (a disturbance that lasts), it is widened as the count of values below the median is then more
    uncertain. Where the values form two groups, one of which is disturbed, nothing says which one it is: the interval
    reaches over those of both.
    """
    whole = _of_one_group(values, level)
    groups = two_groups(values)
    if whole is None or groups is None:
        return whole
    (low, _), (_, high) = (_reach(group, level) for group in groups)
    return replace(whole, low=min(whole.low, low), high=max(whole.high, high))


def _reach(group: Sequence[float], level: float) -> tuple[float, float]:
    """The ends of the interval of a group; of too few values the outermost ones."""
    interval = _of_one_group(group, level)
    return (interval.low, interval.high) if interval else (min(group), max(group))


def _of_one_group(values: Sequence[float], level: float) -> Interval | None:
    """The interval of the median of values that form one group."""
    n = len(values)
    if n < MIN_VALUES or _order(n, level) == 0:
        return None
    half = (n / 2 - _order(n, level)) * math.sqrt(_dependence(values))
    place = max(1.0, n / 2 - half)
    if n < _INTERPOLATED:
        place = math.floor(place)
    ordered = sorted(values)
    return Interval(median(values), _at(ordered, place), _at(ordered[::-1], place), level, n)


def over_launches(launches: Sequence[Sequence[float]], level: float = LEVEL) -> Interval | None:
    """The interval of the median over the values of several launches, each in the order of their measurement.

    With MIN_VALUES launches or more it covers other launches too: the interval of the median of their medians. Fewer
    launches cannot tell that; it then covers rounds within these launches, and is widened to reach beyond the medians
    of those of MIN_VALUES rounds or more, on either side by half of what these differ by. None for fewer than
    MIN_VALUES values.
    """
    filled = [values for values in launches if values]
    if len(filled) >= MIN_VALUES:
        return of_median([median(values) for values in filled], level)
    whole = of_median([value for values in filled for value in values], level)
    medians = [median(values) for values in filled if len(values) >= MIN_VALUES]
    if whole is None or len(medians) < 2:
        return whole
    beyond = (max(medians) - min(medians)) / 2
    low, high = min(whole.low, min(medians) - beyond), max(whole.high, max(medians) + beyond)
    return Interval(whole.value, low, high, level, whole.n)


def looks(n: int) -> list[int]:
    """The numbers of values, up to n, after which an interval is looked at: 12, 17, 24, 34, 48, ..., each sqrt 2 more.

    Looking after every value, and stopping when it looks good, would narrow what the interval claims.
    """
    found: list[int] = []
    while (look := round(_FIRST_LOOK * 2 ** (len(found) / 2))) <= n:
        found.append(look)
    return found


def precise(values: Sequence[float], fraction: float) -> bool:
    """Whether at the last two looks half the width of the interval was at most this fraction of the median."""
    last = looks(len(values))[-2:]
    intervals = [of_median(values[:look]) for look in last]
    return len(last) == 2 and all(i is not None and i.half_width_fraction <= fraction for i in intervals)
