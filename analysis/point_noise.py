"""How far apart two measurements of the same point are: the noise of a study, on one device and at one scale."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.curves import (
    PER_RANK,
    RATES,
    TIMES,
    Row,
    bases,
    cached_by_table,
    configuration,
    measured,
    rate_curves,
    rates,
    row_dicts,
)
from analysis.stats.student import Noise, pooled, square_about_line

_Scale = tuple[str, ...]  # source, report, device, GPU, what is measured, ranks
_Point = tuple[str, ...]
MIN_POINTS = 3  # a straight line leaves something over
_RATE = "rate"


@dataclass(frozen=True)
class _Part:
    """A sum of squares of logarithms with its degrees of freedom; `curve`: the points that scatter about one line."""

    square: float
    degrees: int
    curve: frozenset[_Point] = frozenset()


@dataclass(frozen=True, eq=False)
class Noises:
    """The noise of the measurements of a table, pooled at each scale, and how often each point was measured.

    It is pooled from points that were measured more than once, and for rates from the scatter of the points of each
    curve of three points or more about a straight line of ln(rate) over log2(ranks). No curve is straight, so the
    latter is rather too large. A curve is not used for its own points: a wrong one would hide itself.
    """

    parts: dict[_Scale, list[_Part]]
    counts: dict[_Point, int]
    base: Callable[[Row], Row | None]

    def at(self, row: Row) -> Noise | None:
        """Return the noise of the mean over the repeats of a point; for a speedup or an efficiency that of its rate.

        None if it is not known at the scale of the point.
        """
        scale, point = _scale(row), _point(row)
        squares = [(part.square, part.degrees) for part in self.parts.get(scale, ()) if point not in part.curve]
        return pooled(squares, self.counts.get(point, 1), scale)

    def measurements(self, row: Row) -> list[tuple[Noise | None, float]]:
        """Return the noise of each measurement that a row is made from, and its power: a speedup is made from two."""
        if not str(row["quantity"]).endswith("_throughput"):
            return [(self.at(row), 1.0)]
        base = self.base(row)
        return [(self.at(row), 1.0), (None if base is None else self.at(base), -1.0)]


@cached_by_table
def noises(table: pd.DataFrame) -> Noises:
    """Return the noise of each measurement in a tidy table."""
    parts: dict[_Scale, list[_Part]] = defaultdict(list)
    repeated = _repeated(table)
    for row in repeated.drop_duplicates("at").to_dict("records"):
        parts[row["scale"]].append(_Part(row["sum"], row["size"] - 1))
    first: dict[_Point, Row] = {}
    for curve in rate_curves(table):
        points = row_dicts(curve)
        keys = [_point(row) for row in points]
        first |= dict.fromkeys(keys, points[0])
        if len(points) >= MIN_POINTS:
            part = _Part(*_about_line(curve), frozenset(keys))
            for row in points:
                parts[_scale(row)].append(part)
    based = bases(table)
    return Noises(
        dict(parts),
        dict(zip(repeated["at"], repeated["size"], strict=True)),
        lambda row: first.get(_point(row)) or next(iter(based(row)), None),
    )


def other_points_noise(curve: pd.DataFrame, *ranks: float) -> Noise | None:
    """Return the noise from the scatter of the points of a curve that are not on these ranks; None if too few are."""
    others = curve[~curve["ranks"].isin(ranks)]
    if len(others) < MIN_POINTS + 1:  # with one degree of freedom the interval is useless
        return None
    return pooled([_about_line(others)])


def _about_line(curve: pd.DataFrame) -> tuple[float, int]:
    """Return the sum of squares about a straight line of ln(rate) over log2(ranks), and its degrees of freedom."""
    return square_about_line(np.log2(curve["ranks"].to_numpy(float)), np.log(rates(curve).to_numpy(float)))


def _repeated(table: pd.DataFrame) -> pd.DataFrame:
    """Return the measurements of points that were measured more than once, with columns scale, at, size, sum.

    `at` is the point, `size` how often it was measured, `sum` of the squares of the logarithms about their mean.
    """
    rows = measured(table, *RATES, *PER_RANK, *TIMES, "wall_s")
    rows = rows[rows["value"].gt(0) & rows["ranks"].notna()]
    # A rate per rank that stands beside that of the job is the same measurement.
    point = configuration(rows)
    whole = rows["quantity"].isin(RATES).groupby([rows[name] for name in point], dropna=False).transform("any")
    rows = rows[~(rows["quantity"].isin(PER_RANK) & whole)]
    rows = rows.assign(logarithm=np.log(rows["value"].to_numpy(float)))
    same = rows.groupby([*point, "quantity"], dropna=False)["logarithm"]
    rows = rows.assign(size=same.transform("size"), away=(rows["logarithm"] - same.transform("mean")) ** 2)
    rows = rows.assign(sum=rows.groupby([*point, "quantity"], dropna=False)["away"].transform("sum"))
    rows = rows[rows["size"] > 1]
    keys = [(_scale(row), _point(row)) for row in rows.to_dict("records")]
    scale, at = (pd.Series([key[which] for key in keys], rows.index, dtype=object) for which in (0, 1))
    return rows.assign(scale=scale, at=at)


def _measured_quantity(quantity: str) -> str:
    """Return what is measured: a rate, also one per rank or behind a speedup; else the quantity."""
    rates_behind = (*RATES, *PER_RANK, "speedup_throughput", "efficiency_throughput")
    return _RATE if quantity in rates_behind else quantity


def _scale(row: Row) -> _Scale:
    ranks: float = row["ranks"]
    at = "" if pd.isna(ranks) else f"{ranks:g}"
    return (
        *(str(row[name]) for name in ("source", "report", "device", "gpu")),
        _measured_quantity(row["quantity"]),
        at,
    )


def _point(row: Row) -> _Point:
    return (*(str(row.get(name)) for name in configuration(row)), _measured_quantity(row["quantity"]))
