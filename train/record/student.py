"""Student's t, for integer degrees of freedom: SciPy is not installed where only the launcher runs."""

from __future__ import annotations

import functools
import math


def within(t: float, degrees: int) -> float:
    """Return the probability that Student's t is between -t and t, by Abramowitz and Stegun 1964, 26.7.3 and 26.7.4."""
    angle = math.atan2(t, math.sqrt(degrees))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = degrees % 2
    term = total = (math.cos(angle) if odd else 1.0) if degrees > 1 else 0.0
    for n in range(2 + odd, degrees - 1, 2):
        term *= (n - 1) / n * square
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


@functools.cache
def two_sided(level: float, degrees: int) -> float:
    """Return the t that Student's t exceeds on neither side with the probability `level`, below 1, by bisection."""
    low, high = 0.0, 1.0
    while within(high, degrees) < level and high < 1e12:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, degrees) < level else (low, middle)
    return high
