"""A number with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

LEVEL = 0.95
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
    range in which another launch is expected at a level; None if launches do not show it. `scatter`: the standard
    deviation of single rounds, as a fraction; `rounds_share`: of the variance of the value, the part of rounds, not of
    launches. `no_interval`: why there is none although the values are enough, for a user.
    """

    value: float
    ends: Callable[[float], Ends]
    n: int = 1
    variation: Variation = ""
    level: float = LEVEL
    standard_error: float = math.nan
    degrees: float = math.nan
    another: Callable[[float], Ends] | None = None
    scatter: float = math.nan
    rounds_share: float = 1.0
    no_interval: str = ""

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

    def half_width_fraction(self, level: float = LEVEL) -> float:
        """Return half the width of the interval, as a fraction of the value; infinite without an interval."""
        low, high = self.ends(level)
        return math.inf if math.isnan(low) else (high - low) / 2 / self.value

    def over(self, divisor: float) -> Number:
        """Return the number divided by an exact divisor above 0."""
        return self._rising(lambda x: x / divisor, self.standard_error / divisor)

    def scaled(self, factor: float) -> Number:
        """Return the number times an exact factor."""
        product = self._rising(lambda x: x * factor, self.standard_error * abs(factor))
        return product if factor >= 0 else replace(product, ends=lambda level: product.ends(level)[::-1], another=None)

    def through(self, function: Callable[[float], float]) -> Number:
        """Return the value of a rising function of the number."""
        return self._rising(function, math.nan)

    def _rising(self, function: Callable[[float], float], standard_error: float) -> Number:
        def both(ends: Callable[[float], Ends]) -> Callable[[float], Ends]:
            return lambda level: (function(ends(level)[0]), function(ends(level)[1]))

        another = both(self.another) if self.another else None
        value, ends = function(self.value), both(self.ends)
        return replace(self, value=value, ends=ends, standard_error=standard_error, another=another)

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
