"""Numbers from repeated measurements, with their intervals.

Values come by launch: one value for each of its rounds, or a single one. A typical value has the
interval of `record.intervals`. A mean has one of its own, as the mean of skewed values is far from the typical one:

- one or two launches in rounds: Hall's, over the rounds, from MIN_ROUNDS on. It covers other rounds of these launches.
  Three rounds count as one, and it reaches no further than three times the outermost ones, as for typical values.
- three launches or more, with MIN_ROUNDS_OF_LAUNCHES rounds together: Student's t over the means of launches, never
  narrower than that over the rounds. It covers other launches.
- launches of one value, itself a mean over steps: Student's t over the launches, from MIN_VALUES on, with one degree of
  freedom less, as few values of a skewed distribution often scatter too little.

`benchmarks/means.py` simulates how often they hold the truth.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from analysis.stats import LEVEL, Ends, Number, unknown
from record import intervals

MIN_VALUES = intervals.MIN_VALUES
# Of fewer rounds, more than 5 times in 100, none may have what disturbs one round in eight: 0.88^24 = 0.047.
MIN_ROUNDS = 24
MIN_LAUNCHES, MIN_ROUNDS_OF_LAUNCHES = 3, 12
Launches = intervals.Launches


def singles(values: Sequence[float]) -> list[list[float]]:
    """Return launches of one value each."""
    return [[value] for value in values]


def shown(number: Number | None, level: float = LEVEL) -> Number:
    """Return a number that is shown at a level; NaN for None."""
    return unknown(n=0) if number is None else replace(number, level=level)


def typical(launches: Launches, level: float = LEVEL) -> Number:
    """Return the typical value of launches (`record.intervals`), shown at a level; NaN for no value."""
    return shown(intervals.typical(launches), level)


def harmonic_mean(launches: Launches) -> Number:
    """Return the harmonic mean of rates at which equal work was done: the inverse of the mean time of this work."""
    time = arithmetic_mean([[1 / rate for rate in rates] for rates in launches])

    def ends(level: float) -> Ends:
        low, high = time.ends(level)
        return 1 / high, math.inf if low <= 0 else 1 / low

    return Number(1 / time.value, ends, time.n, time.variation)


def arithmetic_mean(launches: Launches) -> Number:
    """Return the arithmetic mean of costs: the means of parts add up to the mean of the whole.

    Raises ValueError if there is no value, or one is not finite.
    """
    values, filled = _values(launches), [values for values in launches if values]
    if not values or not all(map(math.isfinite, values)):
        raise ValueError(f"a mean needs finite values; given: {values}")
    mean, n = statistics.fmean(values), len(values)
    single = n == len(filled)
    if n < MIN_ROUNDS and (n < MIN_VALUES if single else len(filled) < MIN_LAUNCHES or n < MIN_ROUNDS_OF_LAUNCHES):
        return unknown(mean, n)
    if not single and len(filled) < MIN_LAUNCHES:
        return Number(mean, _skewed(values), n, "between rounds")
    errors = [(_error_of_launches(mean, filled), len(filled) - (2 if single else 1))]
    errors += [] if single else [(_error_of_rounds(values), n - 1)]

    def ends(level: float) -> Ends:
        half = max(intervals.student_quantile(level, degrees) * error for error, degrees in errors)
        return mean - half, mean + half

    return Number(mean, ends, n, "between launches")


def _error_of_rounds(values: Sequence[float]) -> float:
    """Return the standard error of a mean; larger if neighbours in the order of measurement are alike."""
    return statistics.stdev(values) * math.sqrt(intervals.dependence(values) / len(values))


def _error_of_launches(mean: float, launches: Launches) -> float:
    """Return the standard error of the mean of all values, from the means of their launches as independent values."""
    k, n = len(launches), len(_values(launches))
    squares = (len(values) / n * (statistics.fmean(values) - mean) for values in launches)
    return math.sqrt(k / (k - 1) * sum(square**2 for square in squares))


def _skewed(values: Sequence[float]) -> Callable[[float], Ends]:
    """Return the ends of the interval of the mean of values of a skewed distribution, by level.

    Student's t, transformed by its skewness (Hall 1992, doi 10.1111/j.2517-6161.1992.tb01873.x), and widened: three
    rounds count as one.
    """
    x, n, error = np.asarray(values, dtype=float), len(values), _error_of_rounds(values)
    mean, as_one = float(x.mean()), intervals.ROUNDS_AS_ONE
    if error <= 1e-12 * abs(mean):  # equal, but for rounding
        return lambda _: (mean, mean)
    skewness = float(np.mean((x - mean) ** 3) / np.mean((x - mean) ** 2) ** 1.5)
    scale, independent = skewness / math.sqrt(n), n / intervals.dependence(values) / as_one

    def original(t: float) -> float:
        """Return the error, in standard errors, whose transformed value is t."""
        if abs(scale) < 1e-6:
            return t
        return 3 / scale * (math.cbrt(1 + scale * (t - scale / 6)) - 1)

    def ends(level: float) -> Ends:
        t = intervals.student_quantile(level, n - 1)
        wider = math.sqrt(as_one) * intervals.student_quantile(level, max(1.0, independent - 1)) / t
        below, above = wider * error * original(t), -wider * error * original(-t)
        return mean - min(below, as_one * (mean - min(values))), mean + min(above, as_one * (max(values) - mean))

    return ends


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
