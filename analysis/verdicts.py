"""Verdicts: where an uncertain number can be, and whether it is within limits.

The only place in which the analysis decides. A number is within limits where its 90 % interval is (two one-sided tests
at 5 %: Schuirmann 1987, doi 10.1007/BF01068419), outside where its whole 95 % interval is, and else not decidable. A
number without an interval decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.metrics import Estimate, Launches
from analysis.thresholds import limit
from train.record import intervals

Verdict = Literal["supported", "contradicted", "not decidable"]
VERDICTS: tuple[Verdict, ...] = ("contradicted", "not decidable", "supported")

ALPHA = limit("verdict_level")
MARGIN = limit("same")
_NONE = (math.nan, math.nan)
_SMALLEST = 1e-12


@dataclass(frozen=True, eq=False)
class Uncertain:
    """A number and where it can be: `ends` gives the ends of its interval at a level, NaN where it has none."""

    value: float
    ends: Callable[[float], tuple[float, float]]
    n: int = 1

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval; NaN where there is none."""
        return self.ends(1 - ALPHA)[0]

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval; NaN where there is none."""
        return self.ends(1 - ALPHA)[1]

    def as_json(self) -> dict[str, float | int | None]:
        """Value, ends, level and n, as of `metrics.Statistic`; an infinite end is null, as what is not known."""
        value, low, high = (x if math.isfinite(x) else None for x in (self.value, self.low, self.high))
        level = None if math.isnan(self.low) else 1 - ALPHA
        return {"value": value, "low": low, "high": high, "level": level, "n": self.n}

    def __str__(self) -> str:
        """The number with its interval, where it has one: "1.54 (1.49 to 1.58)"."""
        if math.isnan(self.low):
            return f"{self.value:.4g}"
        if math.isinf(self.high) or math.isinf(self.low):
            return f"{self.low:.4g} or more" if math.isinf(self.high) else f"{self.high:.4g} or less"
        return f"{self.value:.4g}" + (f" ({self.low:.4g} to {self.high:.4g})" if self.high > self.low else "")


def between(value: float, low: float, high: float, n: int = 1) -> Uncertain:
    """A number that is between two ends for certain, as one that was rounded."""
    return Uncertain(value, lambda _: (low, high), n)


def unknown(value: float = math.nan, n: int = 1) -> Uncertain:
    """A number whose uncertainty is not known."""
    return Uncertain(value, lambda _: _NONE, n)


def of_estimate(estimate: Estimate, log: bool = False, rounding: float = 0.0) -> Uncertain:
    """A number with Student's t interval; with `log` the estimate is of its logarithm. `rounding`: added to both ends.

    An estimate without a standard error has no interval.
    """
    from scipy.special import stdtrit  # quicker than scipy.stats, in import and in use

    back: Callable[[float], float] = math.exp if log else float

    def ends(level: float) -> tuple[float, float]:
        if math.isnan(estimate.standard_error):
            return _NONE
        half = float(stdtrit(estimate.degrees, 0.5 + level / 2)) * estimate.standard_error if level < 1 else math.inf
        half = rounding + (0.0 if estimate.standard_error == 0 else half)
        return back(estimate.value - half), back(min(estimate.value + half, 700.0 if log else math.inf))

    return Uncertain(back(estimate.value), ends, estimate.n)


def of_launches(value: float, launches: Launches) -> Uncertain:
    """A number with the interval of the median of the values of each launch, by order statistics, widened to hold it.

    NaN at a level that so few values cannot have.
    """
    values = sum(len(of) for of in launches)

    def ends(level: float) -> tuple[float, float]:
        found = intervals.over_launches(launches, level)
        return _NONE if found is None else (min(found.low, value), max(found.high, value))

    return Uncertain(value, ends, values)


@dataclass(frozen=True)
class Limits:
    """What is allowed: from `low` to `high`, both allowed too unless `strict`."""

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False

    def hold(self, value: float) -> bool:
        """Whether a number without uncertainty is allowed; floating point may be off by a part in 10^9."""
        if self.strict:
            return self.low < value < self.high
        small = 1e-9 * max(1.0, abs(value)) if math.isfinite(value) else 0.0
        return self.low - small <= value <= self.high + small

    def wider(self, fraction: float) -> Limits:
        """The same limits moved apart by a fraction of each."""
        if not fraction:
            return self
        return Limits(self.low - fraction * abs(self.low), self.high + fraction * abs(self.high), self.strict)

    def include(self, ends: tuple[float, float]) -> bool:
        """Whether all of an interval is allowed."""
        return all(self.hold(end) for end in ends)  # not NaN

    def exclude(self, ends: tuple[float, float]) -> bool:
        """Whether nothing of an interval is allowed."""
        low, high = ends
        if any(map(math.isnan, ends)) or self.hold(low) or self.hold(high):
            return False
        return high <= self.low or low >= self.high


def judge(number: Uncertain, limits: Limits, same: Limits | None = None) -> Verdict:
    """Whether a number is within `limits`. `same`: what counts as within them, where that is wider (a margin).

    Outside `limits` comes first: a margin does not excuse what is certainly off.
    """
    if limits.exclude(number.ends(1 - ALPHA)):
        return "contradicted"
    return "supported" if (same or limits).include(number.ends(1 - 2 * ALPHA)) else "not decidable"


def judge_all(numbers: Sequence[Uncertain], limits: Limits, same: Limits | None = None) -> list[Verdict]:
    """The verdict on each of several numbers, of which all together are wrong at most 5 times in 100 (Holm)."""
    return holm([p_value(number, limits, same) for number in numbers])


def holm(found: Sequence[tuple[Verdict, float]]) -> list[Verdict]:
    """The verdicts that stay when so many comparisons are made at once, from what `p_value` gives of each.

    Holm's step-down procedure (Holm 1979): the k-th smallest of m p values is compared with 5 % / (m + 1 - k).
    """
    adjusted = adjust([p for _, p in found])
    return [_verdict(verdict, p, ALPHA) for (verdict, _), p in zip(found, adjusted, strict=True)]


def adjust(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order of those given."""
    order = sorted(range(len(p_values)), key=lambda nth: p_values[nth])
    adjusted, largest = [1.0] * len(p_values), 0.0
    for place, nth in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[nth]))
        adjusted[nth] = largest
    return adjusted


def _verdict(verdict: Verdict, p: float, alpha: float) -> Verdict:
    return verdict if p <= alpha else "not decidable"


def p_value(number: Uncertain, limits: Limits, same: Limits | None = None) -> tuple[Verdict, float]:
    """What speaks more strongly, that a number is within limits or outside, and how often that would be by chance.

    The smallest a at which its interval at 1 - a is outside, or that at 1 - 2a within; 0 where it is certain, 1 where
    it has no interval.
    """
    outside = _smallest(lambda a: limits.exclude(number.ends(1 - a)))
    within = _smallest(lambda a: (same or limits).include(number.ends(1 - 2 * a)))
    if outside < 1 and (outside <= within or (same and outside <= ALPHA)):  # a margin overlaps what is outside
        return "contradicted", outside
    return ("supported", within) if within < 1 else ("not decidable", 1.0)


def _smallest(held: Callable[[float], bool]) -> float:
    """The smallest a from which on a condition holds, by bisection; 1 where it does not hold at 0.49."""
    low, high = math.log(_SMALLEST), math.log(0.49)
    if not held(math.exp(high)):
        return 1.0
    if held(math.exp(low)):
        return 0.0
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if held(math.exp(middle)) else (middle, high)
    return math.exp(high)


def together(verdicts: Sequence[Verdict], need: int | None = None) -> Verdict:
    """The verdict on a sentence about several numbers: that all of them are so, or `need` of them."""
    wanted = len(verdicts) if need is None else need
    if verdicts.count("supported") >= wanted:
        return "supported"
    return "contradicted" if len(verdicts) - verdicts.count("contradicted") < wanted else "not decidable"
