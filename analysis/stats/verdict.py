"""Verdicts: whether a number is within bounds. The only place in which the analysis decides by an interval.

A number is inside if its 90 % interval is within the bounds (two one-sided tests at 5 %: Schuirmann 1987, doi
10.1007/BF01068419), outside if its whole 95 % interval is beyond them, and else undecided. A number without an
interval decides nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from analysis.stats import Ends, Number

# The probability that any of the verdicts made together is wrong (Holm 1979), as most fields choose it.
ALPHA = 0.05
_SMALLEST_P, _LARGEST_P = 1e-12, 0.49

Outcome = Literal["inside", "outside", "undecided"]
# Why nothing is decided. "too many numbers": it would be decided alone, but not among all that are judged together.
Why = Literal["", "no interval", "across a bound", "too many numbers"]


# The verdict on a ratio of what is measured now to what it is compared with.
RatioVerdict = Literal["worse", "not decidable", "alike", "better"]


@dataclass(frozen=True)
class Bounds:
    """The allowed values: from `low` to `high`, and both ends unless `strict`."""

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False

    def allow(self, value: float) -> bool:
        """Return whether a number without uncertainty is allowed; floating point may be off by a part in 10^9."""
        if self.strict:
            return self.low < value < self.high
        small = 1e-9 * max(1.0, abs(value)) if math.isfinite(value) else 0.0
        return self.low - small <= value <= self.high + small

    def include(self, ends: Ends) -> bool:
        """Return whether every value of an interval is allowed."""
        return all(self.allow(end) for end in ends)  # not NaN

    def exclude(self, ends: Ends) -> bool:
        """Return whether no value of an interval is allowed."""
        low, high = ends
        if any(map(math.isnan, ends)) or self.allow(low) or self.allow(high):
            return False
        return high <= self.low or low >= self.high


@dataclass(frozen=True)
class Verdict:
    """Whether a number is within bounds, or why that is undecided.

    `above`: whether a number outside is above the bounds, not below. `p`: how often the outcome would come from chance;
    NaN if it was not computed.
    """

    outcome: Outcome
    why: Why = ""
    above: bool = False
    p: float = math.nan


def judge(number: Number, bounds: Bounds, with_margin: Bounds | None = None) -> Verdict:
    """Return whether a number is within `bounds`. `with_margin`: wider bounds that count as within them.

    Outside `bounds` comes first: a margin does not excuse a number that is certainly off.
    """
    if bounds.exclude(number.ends(1 - ALPHA)):
        return _outside(number, bounds)
    if (with_margin or bounds).include(number.ends(1 - 2 * ALPHA)):
        return Verdict("inside")
    return _undecided(number)


def judge_at(number: Number, bounds: Bounds) -> Verdict:
    """Return whether the interval of a number, at the level at which it is known, is within bounds or beyond them."""
    if bounds.exclude(number.interval):
        return _outside(number, bounds)
    return Verdict("inside") if bounds.include(number.interval) else _undecided(number)


def judge_all(numbers: Sequence[Number], bounds: Bounds) -> list[Verdict]:
    """Return the verdict on each of several numbers, all of which together are wrong at most 5 times in 100 (Holm)."""
    return holm([leaning(number, bounds) for number in numbers])


def leaning(number: Number, bounds: Bounds) -> Verdict:
    """Return the likelier of inside and outside, and how often it would come from chance.

    `p` is the smallest a at which the interval at 1 - a is outside, or that at 1 - 2a within: 0 if it is certain, 1 if
    nothing supports either. It is not compared with a level: `holm` does that.
    """
    outside = _smallest(lambda a: bounds.exclude(number.ends(1 - a)))
    inside = _smallest(lambda a: bounds.include(number.ends(1 - 2 * a)))
    if outside < 1 and outside <= inside:
        return replace(_outside(number, bounds), p=outside)
    return Verdict("inside", p=inside) if inside < 1 else replace(_undecided(number), p=1.0)


def ratio_verdict(verdict: Verdict, is_cost: bool = False) -> RatioVerdict:
    """Return the verdict on a ratio of rates; `is_cost`: of times, which are larger if something is worse."""
    if verdict.outcome == "outside":
        return "worse" if verdict.above == is_cost else "better"
    return "alike" if verdict.outcome == "inside" else "not decidable"


def is_above(number: Number, bound: float = 0.0) -> bool:
    """Return whether the whole 95 % interval of a number is above a bound."""
    return Bounds(high=bound).exclude(number.ends(1 - ALPHA))


def apart(a: Number, b: Number) -> bool:
    """Return whether the intervals of two numbers do not overlap."""
    return a.high < b.low or b.high < a.low


def _outside(number: Number, bounds: Bounds) -> Verdict:
    return Verdict("outside", above=number.value >= bounds.high)


def _undecided(number: Number) -> Verdict:
    return Verdict("undecided", "across a bound" if number.has_interval else "no interval")


def _smallest(holds: Callable[[float], bool]) -> float:
    """Return the smallest a from which on a condition holds, by bisection; 1 if it does not hold at _LARGEST_P."""
    low, high = math.log(_SMALLEST_P), math.log(_LARGEST_P)
    if not holds(math.exp(high)):
        return 1.0
    if holds(math.exp(low)):
        return 0.0
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(math.exp(middle)) else (middle, high)
    return math.exp(high)


def holm(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts of `leaning` that stay when so many are made at once, with their adjusted p.

    Holm's step-down procedure (Holm 1979): the k-th smallest of m p values is compared with 5 % / (m + 1 - k).
    """
    adjusted = adjust([verdict.p for verdict in verdicts])
    return [_corrected(verdict, p) for verdict, p in zip(verdicts, adjusted, strict=True)]


def _corrected(verdict: Verdict, p: float) -> Verdict:
    if p <= ALPHA or verdict.outcome == "undecided":
        return replace(verdict, p=p)
    return Verdict("undecided", "too many numbers" if verdict.p <= ALPHA else "across a bound", p=p)


def adjust(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p values, in the order of `p_values`."""
    order = sorted(range(len(p_values)), key=lambda nth: p_values[nth])
    adjusted, largest = [1.0] * len(p_values), 0.0
    for position, nth in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - position) * p_values[nth]))
        adjusted[nth] = largest
    return adjusted


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a sentence about several numbers: that all of them are inside."""
    outcomes = [verdict.outcome for verdict in verdicts]
    if outcomes.count("inside") == len(outcomes):
        return Verdict("inside")
    if "outside" in outcomes:
        return Verdict("outside")
    return next(verdict for verdict in verdicts if verdict.outcome == "undecided")
