"""Statistics without terms of the domain: a number with its interval, and the variation that it allows for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from record import intervals

LEVEL = intervals.LEVEL

# The variation that an interval allows for, the narrowest first; "": there is no interval. `between cases`: as many
# would hold on average. `about the fit`: scatter of the points. `between machines`: as calibrated on several.
Variation = Literal[
    "", "between cases", "between steps", "between rounds", "about the fit", "between launches", "between days",
    "between machines", "rounding",
]  # fmt: skip

Ends = tuple[float, float]
NO_ENDS: Ends = (math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class Number:
    """A value with its interval: `ends` returns the ends at a level, NaN if there are none.

    `n`: the number of values it is made from. `level`: at which the interval is shown. `standard_error`, in the unit of
    the value, and `degrees` of freedom: of a mean whose interval is Student's t, else NaN. `another`: the ends of the
    range in which another launch is expected at the level, NaN if launches do not show it.
    """

    value: float
    ends: Callable[[float], Ends]
    n: int = 1
    variation: Variation = ""
    level: float = LEVEL
    standard_error: float = math.nan
    degrees: float = math.nan
    another: Ends = NO_ENDS

    @cached_property
    def interval(self) -> Ends:
        """Return the ends at the level of the number."""
        return self.ends(self.level)

    @property
    def low(self) -> float:
        """Return the lower end of the interval; NaN if there is none."""
        return self.interval[0]

    @property
    def high(self) -> float:
        """Return the upper end of the interval; NaN if there is none."""
        return self.interval[1]

    @property
    def has_interval(self) -> bool:
        """Return whether there is an interval."""
        return not math.isnan(self.low)

    def contains(self, value: float) -> bool:
        """Return whether a value is within the interval."""
        return self.low <= value <= self.high

    def over(self, divisor: float) -> Number:
        """Return the number divided by an exact divisor above 0."""
        return self._rising(lambda x: x / divisor, self.standard_error / divisor)

    def scaled(self, factor: float) -> Number:
        """Return the number times an exact factor."""
        product = self._rising(lambda x: x * factor, self.standard_error * abs(factor))
        if factor >= 0:
            return product
        another = (product.another[1], product.another[0])
        return replace(product, ends=lambda level: (product.ends(level)[1], product.ends(level)[0]), another=another)

    def through(self, function: Callable[[float], float]) -> Number:
        """Return the value of a rising function of the number."""
        return self._rising(function, math.nan)

    def _rising(self, function: Callable[[float], float], standard_error: float) -> Number:
        def ends(level: float) -> Ends:
            low, high = self.ends(level)
            return function(low), function(high)

        another = (function(self.another[0]), function(self.another[1]))
        return replace(self, value=function(self.value), ends=ends, standard_error=standard_error, another=another)

    def text(self, form: str = ".4g", unit: str = "") -> str:
        """Return the number with its interval as text: "1.54 (1.49 to 1.58)"; form: as of the format function."""
        low, high = self.interval
        value = f"{significant(self.value, form)}{' ' * bool(unit)}{unit}"
        if math.isnan(low) or (low == high and self.variation == "rounding"):
            return value
        least, most = significant(low, form), significant(high, form)
        if math.isinf(low) or math.isinf(high):
            return f"{least} or more" if math.isinf(high) else f"{most} or less"
        return f"{value} ({least} or more)" if math.isnan(high) else f"{value} ({least} to {most})"

    def __str__(self) -> str:
        """Return the text with four digits."""
        return self.text()


def significant(value: float, form: str = ".4g") -> str:
    """Return a number as text, up to ten millions without an exponent: 3770 of 3771.2 in three digits."""
    text = format(value, form)
    return f"{float(text):.0f}" if "e+0" in text and abs(value) < 1e7 else text


def unknown(value: float = math.nan, n: int = 1) -> Number:
    """Return a number without an interval."""
    return Number(value, lambda _: NO_ENDS, n)


def between(value: float, low: float, high: float, n: int = 1) -> Number:
    """Return a number that is between two ends for certain, as one that was rounded."""
    return Number(value, lambda _: (low, high), n, "rounding", 1.0)


def rounded(value: float, half_unit: float) -> Number:
    """Return a number that was rounded to a multiple of two half units."""
    return between(value, value - half_unit, value + half_unit)


def exact(value: float) -> Number:
    """Return a number that is known for certain."""
    return between(value, value, value)


def from_ends(value: float, low: float, high: float, variation: Variation, n: int = 1, level: float = LEVEL) -> Number:
    """Return a number whose interval is known at one level, as from simulation; at a higher level it has none."""
    return Number(value, lambda at: (low, high) if at <= level else NO_ENDS, n, variation, level)


def common_variation(numbers: Sequence[Number]) -> Variation:
    """Return the narrowest variation that the intervals of numbers allow for: that of a number made from them."""
    return min((number.variation for number in numbers), key=get_args(Variation).index, default="")


def combined(formula: Callable[..., float], numbers: Mapping[str, Number]) -> Number:
    """Return a formula of rounded numbers, between its smallest and largest value at the ends of all of them.

    The formula rises or falls with each number alone, as sums, products and quotients of positive numbers do. It has no
    interval if the range of one number is not known.
    """
    value = formula(**{name: number.value for name, number in numbers.items()})
    ends = [number.interval for number in numbers.values()]
    if any(math.isnan(end) for interval in ends for end in interval):
        return unknown(value)
    corners = [formula(**dict(zip(numbers, corner, strict=True))) for corner in itertools.product(*ends)]
    n = min((number.n for number in numbers.values()), default=1)
    return between(value, min(corners), max(corners), n)
