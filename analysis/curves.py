"""Groups of rows of the tidy table: configurations, scaling curves, the bases of speedups, and the noise of a point.

The noise is how far apart two measurements of the same point are, on one device and at one scale.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import metrics, speedups
from analysis.stats.student import Noise, pooled, square_about_line, square_about_mean
from analysis.table.swept_axis import SCALING
from common.grouping import grouped

# `run` of the rows that a report copied from; they are compared with, not audited themselves.
SOURCE_RUN = "primary source"

# The columns that all points of a scaling curve share, and those that may differ. Local points also share `series`.
SETTING = ["source", "report", "model", "dataset", "device", "gpu", "machine", "threads_per_rank"]
SIZE = ["nodes", "ranks_per_node", "ranks", "batch_per_rank", "global_batch"]

# Work done per second is 1 / value for a time (of equal work), value itself for a rate.
RATES = ("images_per_s",)
PER_RANK = ("images_per_s_per_rank",)
TIMES = ("epoch_s", "job_s")

Row = Mapping[Hashable, Any]
Lookup = Callable[[Row], list[Row]]


def row_dicts(table: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """Return the rows of a table as dictionaries, with None for missing whole numbers.

    It does what `to_dict("records")` does, in a third of the time.
    """
    names = list(table)
    return [
        {name: None if value is pd.NA else value for name, value in zip(names, row, strict=True)}
        for row in table.to_numpy(object)
    ]


def measured(table: pd.DataFrame, *quantities: str) -> pd.DataFrame:
    """Return the measured rows of these quantities, without those of a primary source.

    A series in rounds has one row per launch and point: the harmonic mean of its rates over the rounds.
    """
    if not table["quantity"].isin(quantities).any():  # as for most rules
        return table.iloc[:0]
    rows = speedups.without_single_points(table)
    rows = rows[rows["kind"].eq("measured") & rows["quantity"].isin(quantities) & rows["run"].ne(SOURCE_RUN)]
    if "round" not in rows or rows["round"].isna().all():
        return rows
    in_rounds = rows[rows["round"].notna()]
    launch = metrics.rate(1.0, in_rounds["value"]).groupby(
        [in_rounds[name] for name in ("record", "series", "axis_value", "quantity")], dropna=False
    )  # fmt: skip
    rows = rows.assign(value=metrics.rate(1.0, launch.transform("mean")).combine_first(rows["value"]))
    return rows.drop(index=in_rounds.index[launch.cumcount() > 0])


def measured_in_rounds(row: Row) -> bool:
    """Return whether a row from `measured` is of a launch in rounds."""
    return not pd.isna(row.get("round"))


def over_smallest(points: pd.DataFrame, table: pd.DataFrame) -> list[speedups.ScalingPoint]:
    """Return the curve of these points of one curve in rounds of `table`."""
    runs = speedups.rates(table[table["series"].eq(points["series"].iloc[0]) & table["kind"].eq("measured")])
    return speedups.curve(runs[runs["ranks"].isin(points["ranks"])], "ranks")


def lookup(rows: pd.DataFrame, names: Sequence[str] = (*SETTING, *SIZE)) -> Lookup:
    """Return a function from a row to those of `rows` with the same `names`; by default of one configuration."""

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(None if pd.isna(row[name]) else row[name] for name in names)

    @functools.cache
    def by_key() -> dict[tuple[Any, ...], list[Row]]:
        return grouped(row_dicts(rows), key)

    def find(row: Row) -> list[Row]:
        return by_key().get(key(row), []) if len(rows) else []  # the index is built on first use; most are never used

    return find


def configuration(table: Container[Hashable]) -> list[str]:
    """Return the columns that identify a configuration, with those of local records if the table has them."""
    return [*SETTING, *SIZE, *(name for name in ("series", "axis_value") if name in table)]


def configurations(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows of each configuration of a table: same machine, model, data, batch and ranks."""
    for _, rows in table.groupby(configuration(table), dropna=False, sort=False):
        yield rows


def curves(table: pd.DataFrame, *quantities: str) -> Iterator[pd.DataFrame]:
    """Yield the rows of each scaling curve, by ranks: its points differ in ranks, and in what follows from them.

    Repeats are averaged; a curve has two points or more. Published points of one curve share the experiment and the
    batch per rank, or the global batch where all of them have one; local points share `series`.
    """
    rows = measured(table, *quantities)
    if len(rows) > 1:
        rows = rows[rows["ranks"].notna() & rows["value"].gt(0)]
    if len(rows) < 2:
        return
    key = [*SETTING, "experiment", "quantity"]
    if "series" in rows:
        key += ["series", "other_axis"]
        rows = rows.assign(other_axis=rows["axis_value"].mask(rows["axis"].isin(SCALING)))
    rows = rows.assign(curve=curve_numbers(rows, key))
    rows["value"] = rows.groupby(["curve", "ranks"])["value"].transform("mean")
    rows = rows.drop_duplicates(["curve", "ranks"]).sort_values("ranks", kind="stable")
    rows = rows[rows["curve"].duplicated(keep=False)]
    numbers = rows.pop("curve").to_numpy()
    rows.index = rows.groupby(numbers).cumcount()  # all at once: each curve counts from 0
    for _, curve in rows.groupby(numbers, sort=False):
        yield curve


def curve_numbers(rows: pd.DataFrame, key: Sequence[str]) -> pd.Series:
    """Return the number of the curve of each row: alike in `key`, and in the batch; in the order of key and batch.

    It is the batch per rank, or the global one if that is the same on all ranks.
    """
    setting = rows.groupby([*key], dropna=False, sort=False).ngroup()
    sizes = rows.groupby(setting)[["ranks", "global_batch"]].agg(list)
    shared = {number: metrics.shared_batch(*columns) for number, *columns in sizes.itertuples()}
    strong = setting.map(shared).eq("global_batch")
    batch = rows["batch_per_rank"].astype("Float64").mask(strong, rows["global_batch"].astype("Float64"))
    return rows.groupby([setting, batch.fillna(0.0)]).ngroup()  # 0: none is known


def bases(table: pd.DataFrame) -> Lookup:
    """Return a function from a row to the throughputs of its setting on the fewest ranks: bases of its speedup.

    They have its batch per rank or, where none has it, its global batch; those of its experiment go first.
    """
    rates = measured(table, *RATES)
    weak, strong = (lookup(rates, [*SETTING, batch]) for batch in ("batch_per_rank", "global_batch"))

    def find(row: Row) -> list[Row]:
        for candidates in (weak(row), strong(row)):
            rows = [candidate for candidate in candidates if candidate["ranks"] < row["ranks"]]
            rows = [candidate for candidate in rows if candidate["experiment"] == row["experiment"]] or rows
            if rows:
                fewest = min(candidate["ranks"] for candidate in rows)
                return [candidate for candidate in rows if candidate["ranks"] == fewest]
        return []

    return find


def keeps_global_batch(row: Row, base: list[Row]) -> bool:
    """Return whether the base of a speedup has its global batch, and another batch per rank."""
    return bool(base) and all(base_row["batch_per_rank"] != row["batch_per_rank"] for base_row in base)


def rates(curve: pd.DataFrame) -> pd.Series:
    """Return the work per second of all ranks at each point of a curve, in any unit; times are of equal work."""
    return work_per_s(curve["quantity"].iloc[0], curve["value"], curve["ranks"].astype(float))


def work_per_s(quantity: str, value: metrics.Value, ranks: metrics.Value) -> metrics.Value:
    """Return the work per second of all ranks, in any unit, from a rate, a rate per rank or a time of equal work."""
    if quantity in PER_RANK:
        return metrics.job_total(value, ranks)
    return metrics.rate(1.0, value) if quantity in (*TIMES, "wall_s") else value


def times_as_fast(row: Row, base: Row, value: float, base_value: float) -> float:
    """Return the ratio of work per second of all ranks at two points, from the values of their quantity."""
    quantity = row["quantity"]
    return metrics.speedup(work_per_s(quantity, value, row["ranks"]), work_per_s(quantity, base_value, base["ranks"]))


def rate_curves(table: pd.DataFrame) -> list[pd.DataFrame]:
    """Return curves of throughput, or of throughput per rank if only that is known."""
    whole = lookup(measured(table, *RATES))
    per_rank = (curve for curve in curves(table, *PER_RANK) if not whole(row_dicts(curve.head(1))[0]))
    return [*curves(table, *RATES), *per_rank]


_Scale = tuple[str, ...]  # source, report, device, GPU, what is measured, ranks
_Point = tuple[str, ...]
MIN_POINTS = 3  # two points have no residual about a line
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


def noises(table: pd.DataFrame) -> Noises:
    """Return the noise of each measurement in a tidy table."""
    parts: dict[_Scale, list[_Part]] = defaultdict(list)
    counts: dict[_Point, int] = {}
    rows = measured(table, *RATES, *PER_RANK, *TIMES, "wall_s")
    rows = rows[rows["value"].gt(0) & rows["ranks"].notna()]
    repeats = rows[rows.duplicated([*configuration(rows), "quantity"], keep=False)]
    for point, same in grouped(row_dicts(repeats), _point).items():
        # A rate per rank next to that of the job is the same measurement.
        alike = [row for row in same if row["quantity"] not in PER_RANK] or same
        counts[point] = len(alike)
        parts[_scale(same[0])].append(_Part(*square_about_mean([math.log(row["value"]) for row in alike])))
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
    return Noises(dict(parts), counts, lambda row: first.get(_point(row)) or next(iter(based(row)), None))


def other_points_noise(curve: pd.DataFrame, *ranks: float) -> Noise | None:
    """Return the noise from the scatter of the points of a curve that are not on these ranks; None if too few are."""
    others = curve[~curve["ranks"].isin(ranks)]
    if len(others) < MIN_POINTS + 1:  # with one degree of freedom the interval is useless
        return None
    return pooled([_about_line(others)])


def _about_line(curve: pd.DataFrame) -> tuple[float, int]:
    """Return the sum of squares about a straight line of ln(rate) over log2(ranks), and its degrees of freedom."""
    return square_about_line(np.log2(curve["ranks"].to_numpy(float)), np.log(rates(curve).to_numpy(float)))


def _measured_quantity(quantity: str) -> str:
    """Return the measured quantity: a rate for all rates, speedups and efficiencies, else the quantity."""
    rates_behind = (*RATES, *PER_RANK, "speedup_throughput", "efficiency_throughput")
    return _RATE if quantity in rates_behind else quantity


def _scale(row: Row) -> _Scale:
    setting = (str(row[name]) for name in ("source", "report", "device", "gpu"))
    return (*setting, _measured_quantity(row["quantity"]), "" if pd.isna(row["ranks"]) else f"{row['ranks']:g}")


def _point(row: Row) -> _Point:
    return (*(str(row.get(name)) for name in configuration(row)), _measured_quantity(row["quantity"]))
