"""Whether two numbers of a table differ by more than repeated measurements do, at the same scale on the same device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.audit.finding import Severity
from analysis.curves import PER_RANK, RATES, SETTING, SIZE, TIMES, Row, bases, measured
from analysis.thresholds import limit

UNKNOWN = "each was measured once, and no repeat on this device at this scale tells how large the noise is"
_QUANTITIES = (*RATES, *PER_RANK, *TIMES, "wall_s")
_SCALE = ("source", "report", "device", "gpu", "quantity", "ranks")
_Scale = tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """That an interval of a ratio is known, and whether it leaves out 1."""

    apart: bool


@dataclass(frozen=True)
class _Noise:
    """The variance of the logarithm of one measurement, from so many degrees of freedom."""

    variance: float
    degrees: int


def unknown(difference: float, worst: Severity = "serious") -> Severity:
    """The severity of a relative difference of which no interval is known: noise alone may be so large, or never is."""
    if abs(difference) > limit("apart_serious"):
        return worst
    return "warning" if abs(difference) > limit("unrepeated") else "note"


def _scale(row: Row) -> _Scale:
    return tuple(str(row[name]) for name in _SCALE)


def _pooled(table: pd.DataFrame) -> tuple[dict[_Scale, _Noise], Callable[[Row], int]]:
    """The noise at each scale, pooled over all that was measured more than once there; and how often a point was."""
    rows = measured(table, *_QUANTITIES)
    rows = rows[rows["value"].gt(0) & rows["ranks"].notna()]
    point = [name for name in (*SETTING, *SIZE, "series", "axis_value", "quantity") if name in rows]
    logarithm = pd.Series(np.log(rows["value"].to_numpy(float)), rows.index)
    of_point = logarithm.groupby([rows[name] for name in point], dropna=False)
    counted = rows.assign(size=of_point.transform("size"), square=(logarithm - of_point.transform("mean")) ** 2)
    known: dict[_Scale, _Noise] = {}
    for scale, same in counted[counted["size"] > 1].groupby(list(_SCALE), dropna=False):
        degrees = len(same) - same.drop_duplicates(point).shape[0]
        known[_scale(dict(zip(_SCALE, scale, strict=True)))] = _Noise(float(same["square"].sum()) / degrees, degrees)
    counts = {_point(row): row["size"] for row in counted[counted["size"] > 1].to_dict("records")}
    return known, lambda row: counts.get(_point(row), 1)


def _point(row: Row) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in (*SETTING, *SIZE, "series", "axis_value", "quantity"))


def _apart(ratio: float, parts: list[tuple[_Noise, int]], comparisons: int) -> Known:
    """Whether a ratio of means, each of so many measurements, is not 1: Student's t of its logarithm at 95 %.

    The degrees are Welch and Satterthwaite's (JCGM 100:2008, G.4.1). Of several comparisons the largest is looked at:
    the level is divided by their number (Bonferroni).
    """
    from scipy.special import stdtrit  # quicker than scipy.stats, in import and in use

    variances = [noise.variance / count for noise, count in parts]
    if sum(variances) == 0:
        return Known(ratio != 1)
    degrees = sum(variances) ** 2 / sum(v**2 / noise.degrees for v, (noise, _) in zip(variances, parts, strict=True))
    quantile = float(stdtrit(degrees, 1 - (1 - metrics.LEVEL) / 2 / max(1, comparisons)))
    return Known(abs(math.log(ratio)) > quantile * math.sqrt(sum(variances)))


def ratios(table: pd.DataFrame) -> Callable[[float, Row, Row, int], Known | None]:
    """A function that tells whether a ratio made from two points of a curve, among so many, is not 1.

    None where no noise is known at the scale of one of them.
    """
    known, count = _pooled(table)

    def find(ratio: float, one: Row, other: Row, comparisons: int) -> Known | None:
        noises = [known.get(_scale(row)) for row in (one, other)]
        parts = [(noise, count(row)) for noise, row in zip(noises, (one, other), strict=True) if noise]
        return _apart(ratio, parts, comparisons) if len(parts) == 2 else None

    return find


def of_stated(table: pd.DataFrame) -> Callable[[Row, float], Known | None]:
    """A function that tells of two stated speedups at one scale, so far apart, whether they really differ.

    Each is made from two throughputs, and so the ratio of the two from four. None where the noise of one is not known.
    """
    known, _ = _pooled(table)
    based = bases(table)

    def find(row: Row, off: float) -> Known | None:
        base = based(row)
        rows = [row, *base[:1]]
        noises = [noise for one in rows if (noise := known.get(_scale({**one, "quantity": RATES[0]})))]
        return _apart(1 + off, [(noise, 1) for noise in noises * 2], 1) if len(noises) == 2 else None

    return find
