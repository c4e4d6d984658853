"""The noise of measurements: pooled from sums of squares, and added to the intervals of numbers made from them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from analysis.stats.number import Ends, Number, unknown
from analysis.stats.student import t_quantile


@dataclass(frozen=True)
class Noise:
    """The standard deviation of the logarithm of one measurement, from so many degrees of freedom.

    Measurements of one `group` share one estimate of their noise.
    """

    deviation: float
    degrees: int
    group: Hashable = ()


def pooled(squares: Iterable[tuple[float, int]], repeats: int = 1, group: Hashable = ()) -> Noise | None:
    """Return the noise of a mean over `repeats`, from sums of squares of logarithms, each with its degrees of freedom.

    None without a degree of freedom.
    """
    parts = [*squares]
    degrees = sum(freedom for _, freedom in parts)
    if not degrees:
        return None
    return Noise(math.sqrt(sum(square for square, _ in parts) / degrees / repeats), degrees, group)


def with_noise(number: Number, runs: Sequence[tuple[Noise | None, float]]) -> Number:
    """Return a number made from measurements with its interval widened by their noise: as it can be in other runs.

    `runs` has the noise of each measurement and the power with which it enters the number: 1 and -1 for a quotient. The
    variances of the logarithms add; Student's t, with the degrees of Welch and Satterthwaite (JCGM 100:2008, G.4.1)
    over the groups. Unknown where the noise of one is.
    """
    groups: dict[Hashable, list[tuple[float, int]]] = defaultdict(list)
    for noise, power in runs:
        if noise is None:
            return unknown(number.value, number.n)
        groups[noise.group].append(((power * noise.deviation) ** 2, noise.degrees))
    parts = [(sum(v for v, _ in group), min(degrees for _, degrees in group)) for group in groups.values()]
    variance = sum(v for v, _ in parts)
    degrees = variance**2 / sum(v**2 / freedom for v, freedom in parts) if variance else math.inf

    def ends(level: float) -> Ends:
        low, high = number.ends(level)
        half = t_quantile(degrees, 0.5 + level / 2) * math.sqrt(variance) if variance else 0.0
        factor = math.exp(min(half, 700.0))
        return low / factor, high * factor

    return Number(number.value, ends, number.n, "launches")
