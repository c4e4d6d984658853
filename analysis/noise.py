"""How far apart two measurements of the same thing are: the noise of a report, on one device and at one scale."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import metrics, verdicts
from analysis.curves import RATES, Row, configurations, measured, rate_curves, rates
from analysis.verdicts import Uncertain

_Scale = tuple[Any, ...]  # report, device, GPU, ranks
MIN_POINTS = 3  # a straight line leaves something over


@dataclass(frozen=True)
class Noise:
    """The standard deviation of the logarithm of one throughput, from so many degrees of freedom."""

    deviation: float
    degrees: int


def noise(table: pd.DataFrame) -> Callable[[Row], Noise | None]:
    """A function from a row to the noise of its report on its device at its number of ranks; None where none can tell.

    Pooled from what tells it at this scale: configurations that were measured more than once; and the scatter of the
    points of each curve with three points or more about a straight line of ln(rate) over log2(ranks). No curve is
    straight, so the latter is rather too large. Noise on other devices and at other scales tells nothing.
    """
    squares: dict[_Scale, float] = defaultdict(float)
    degrees: dict[_Scale, int] = defaultdict(int)

    def add(scales: set[_Scale], square: float, free: int) -> None:
        for scale in scales:
            squares[scale] += square
            degrees[scale] += free

    for same in configurations(measured(table, *RATES)):
        if len(same) > 1 and same["value"].gt(0).all():
            away = np.log(same["value"].to_numpy(float))
            add(
                {_scale(row) for row in same.to_dict("records")},
                float(((away - away.mean()) ** 2).sum()),
                len(same) - 1,
            )
    for curve in rate_curves(table):
        if len(curve) >= MIN_POINTS:
            fitted = metrics.per_doubling(curve["ranks"].astype(float).tolist(), rates(curve).tolist())
            # The error of a slope is the residual deviation over the spread of the points.
            spread = float(((x := np.log2(curve["ranks"].astype(float))) - x.mean()).pow(2).sum())
            square = (fitted.standard_error / fitted.value) ** 2 * spread * fitted.degrees
            add({_scale(row) for row in curve.to_dict("records")}, square, int(fitted.degrees))

    def find(row: Row) -> Noise | None:
        scale = _scale(row)
        free = degrees.get(scale, 0)
        return Noise(math.sqrt(squares[scale] / free), free) if free else None

    return find


def of_other_runs(number: Uncertain, runs: Sequence[tuple[Noise | None, float]]) -> Uncertain:
    """What a number made from single measurements can be in other runs: its interval, widened by their noise.

    `runs` has the noise of each measurement and the power with which it enters the number: 1 and -1 for a quotient. The
    variances of the logarithms add; the smallest degrees of freedom count. Unknown where the noise of one is.
    """
    from scipy.special import stdtrit  # quicker than scipy.stats, in import and in use

    known = [(found, power) for found, power in runs if found is not None]
    if len(known) < len(runs):
        return verdicts.unknown(number.value, number.n)
    deviation = math.sqrt(sum((power * found.deviation) ** 2 for found, power in known))
    degrees = min(found.degrees for found, _ in known)

    def ends(level: float) -> tuple[float, float]:
        low, high = number.ends(level)
        factor = math.exp(min(float(stdtrit(degrees, 0.5 + level / 2)) * deviation, 700.0)) if deviation else 1.0
        return low / factor, high * factor

    return verdicts.Uncertain(number.value, ends, number.n)


def _scale(row: Row) -> _Scale:
    ranks = row["ranks"]
    return row["report"], row["device"], row["gpu"], None if pd.isna(ranks) else int(ranks)
