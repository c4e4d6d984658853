"""Statistics without terms of the domain: numbers with their intervals, and the variation that these allow for."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from common.number import LEVEL as LEVEL
from common.number import NO_ENDS as NO_ENDS
from common.number import Ends as Ends
from common.number import Number as Number
from common.number import Variation as Variation
from common.number import significant as significant


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
    return between(value, min(corners), max(corners), min(number.n for number in numbers.values()))
