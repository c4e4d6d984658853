"""Intervals of medians that assume no distribution, and the rule that ends a measurement once they are narrow enough.

The ranks stop by it and the analysis shows it: this is the only definition. `benchmarks/coverage.py` simulates how
often these intervals hold the truth; docs/statistics.md has the table.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LEVEL = 0.95
MIN_VALUES = 6  # with fewer values not even the smallest and the largest enclose the median 95 times in 100
_FIRST_LOOK = 12


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
def _order(n: int, level: float) -> int:
    """The largest k for which the k-th smallest and k-th largest of n values enclose the median at this level.

    They miss it with the probability 2 P(B < k), B binomial with n trials of 1/2 (Hoefler and Belli, SC'15, 3.1.3).
    """
    missed, k = 0.0, 0
    while (missed := missed + math.comb(n, k) / 2 ** (n - 1)) <= 1 - level:
        k += 1
    return k


def _dependence(values: Sequence[float]) -> float:
    """How many times larger the variance of a count of values below the median is than if they were independent.

    1 for independent values. From the autocorrelation of their signs about the median, in the order of measurement: the
    larger of the sum over the first sqrt(n) lags with Bartlett's weights (Newey and West 1987) and what an
    autoregression of the first order has.
    """
    n, centre = len(values), median(values)
    signs = [1.0 if value < centre else -1.0 for value in values]
    mean = sum(signs) / n
    signs = [sign - mean for sign in signs]
    power = sum(sign * sign for sign in signs)
    if power == 0:
        return 1.0
    lags = max(1, round(math.sqrt(n)))
    found = [sum(a * b for a, b in zip(signs, signs[lag:], strict=False)) / power for lag in range(1, lags + 1)]
    summed = 1 + 2 * sum((1 - lag / (lags + 1)) * value for lag, value in enumerate(found, 1))
    return max(1.0, summed, (1 + found[0]) / max(1 - found[0], 0.05))


def of_median(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The interval of the median of values in the order of their measurement; None for fewer than MIN_VALUES.

    None too at a level at which not even the smallest and the largest of so few values enclose the median.

    Order statistics, exact for independent values of any distribution. Where neighbours are alike (a disturbance that
    lasts), it is widened as the count of values below the median is then more uncertain.
    """
    n = len(values)
    if n < MIN_VALUES or _order(n, level) == 0:
        return None
    half = (n / 2 - _order(n, level)) * math.sqrt(_dependence(values))
    k = max(1, math.floor(n / 2 - half))
    ordered = sorted(values)
    return Interval(median(values), ordered[k - 1], ordered[n - k], level, n)


def over_launches(launches: Sequence[Sequence[float]], level: float = LEVEL) -> Interval | None:
    """The interval of the median over the values of several launches, each in the order of their measurement.

    With MIN_VALUES launches or more it covers other launches too: the interval of the median of their medians. With
    fewer it covers rounds within these launches; where their own intervals do not overlap it is widened to span the
    median of each. None for fewer than MIN_VALUES values.
    """
    filled = [values for values in launches if values]
    if len(filled) >= MIN_VALUES:
        return of_median([median(values) for values in filled], level)
    whole = of_median([value for values in filled for value in values], level)
    own = [interval for values in filled if (interval := of_median(values, level))]
    if whole is None or not own or max(i.low for i in own) <= min(i.high for i in own):
        return whole
    low, high = min(i.value for i in own), max(i.value for i in own)
    return Interval(whole.value, min(whole.low, low), max(whole.high, high), level, whole.n)


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
