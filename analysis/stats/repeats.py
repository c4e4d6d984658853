"""Numbers from repeated measurements, with intervals that assume no distribution.

Values come by launch: one value for each of its rounds, or a single one. Intervals are order statistics
(`record.intervals`). They cover other launches, from two launches in rounds or MIN_VALUES launches of one value
on, and else other rounds of the same launch. Fewer than MIN_VALUES values have no interval.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from analysis.stats import LEVEL, NO_ENDS, Ends, Number, unknown
from record import intervals

MIN_VALUES = intervals.MIN_VALUES
Launches = intervals.Launches
Spread = intervals.Spread


def singles(values: Sequence[float]) -> list[list[float]]:
    """Return launches of one value each."""
    return [[value] for value in values]


def median(launches: Launches, level: float = LEVEL, spread: Spread | None = None) -> Number:
    """Return the median of all values; for several launches in rounds, the mean of their medians; NaN for no value.

    Use it for ratios of paired values. level: at which the interval is shown. spread: between launches, if it is known
    from curves that were measured alike.
    """
    if not any(launches):
        return unknown(n=0)
    interval = intervals.launches_interval(launches, spread=spread)
    value = interval.value if interval else statistics.median(_values(launches))
    another = (interval and interval.another) or NO_ENDS
    return replace(around(value, launches, spread), level=level, another=another if level == LEVEL else NO_ENDS)


def around(value: float, launches: Launches, spread: Spread | None = None) -> Number:
    """Return a value with the interval of the median of the launches, widened to contain it."""

    def ends(level: float) -> Ends:
        interval = intervals.launches_interval(launches, level, spread)
        return (min(interval.low, value), max(interval.high, value)) if interval else NO_ENDS

    interval = intervals.launches_interval(launches, spread=spread)
    return Number(value, ends, len(_values(launches)), interval.variation if interval else "")


def harmonic_mean(launches: Launches) -> Number:
    """Return the harmonic mean of rates at which equal work was done, and an interval that contains the median too."""
    return around(statistics.harmonic_mean(_values(launches)), launches)


def arithmetic_mean(launches: Launches) -> Number:
    """Return the arithmetic mean of costs, with an interval that also contains the median.

    The means of parts add up to the mean of the whole. Raises ValueError if there is no value, or one is not finite.
    """
    values = _values(launches)
    if not values or not all(map(math.isfinite, values)):
        raise ValueError(f"a mean needs finite values; given: {values}")
    return around(statistics.fmean(values), launches)


def proportion(held: int, cases: int) -> Number:
    """Return the share of cases in which something held, with the interval of Clopper and Pearson (1934)."""

    def ends(level: float) -> Ends:
        from scipy.special import betaincinv  # its import takes longer than most commands

        tail = (1 - level) / 2
        low = float(betaincinv(held, cases - held + 1, tail)) if held else 0.0
        high = float(betaincinv(held + 1, cases - held, 1 - tail)) if held < cases else 1.0
        return low, high

    return Number(held / cases if cases else math.nan, ends, cases, "between cases")


def _values(launches: Launches) -> list[float]:
    return [value for values in launches for value in values]
