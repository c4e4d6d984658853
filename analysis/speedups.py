"""Speedups: the rates of runs and rounds, by turn, and scaling curves.

Pure: tables in and out, by the formulas of `record.intervals`.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, get_args

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.stats import LEVEL, Number, repeats, unknown
from record import intervals
from record.intervals import Rates, Turn

By = Literal["throughput", "wall time", "job time"]
BY: tuple[By, ...] = get_args(By)
TIMES = {"wall time": "wall_s", "job time": "job_s"}
_THROUGHPUTS = ("images_per_s", "images_per_s_per_rank")


def without_single_points(table: pd.DataFrame) -> pd.DataFrame:
    """Return a tidy table without throughputs of single points of series in rounds.

    Launches of single points serve to measure the fixed overhead of a job.
    """
    if "round" not in table or table["round"].isna().all():
        return table
    in_rounds = table["series"].isin(table.loc[table["round"].notna(), "series"])
    return table[~(in_rounds & table["round"].isna() & table["quantity"].isin(_THROUGHPUTS))]


def rates(local: pd.DataFrame, by: str = "throughput") -> pd.DataFrame:
    """Return one row per run of the local table, or per round, with its identity and `rate` in images/s.

    `by` is "throughput" (of the timed steps; for a series in rounds only of its rounds), "wall time" (all images
    from the first step on / wall_s) or "job time" (the same images / job_s); a user's program has neither.

    Runs of two points are paired if they agree in `launch` (the record of a launch in rounds, else "": launches of
    single points take turns), in the seed and in `turn`, the round or repeat.
    """
    if by == "throughput":
        rows = without_single_points(local)
        rows = rows[rows["quantity"] == "images_per_s"]
        runs = rows.assign(rate=rows["value"])
    else:
        images = local.loc[local["quantity"] == "images", ["record", "value"]].set_index("record")["value"]
        rows = local[(local["quantity"] == TIMES[by]) & local["record"].isin(images.index)]
        runs = rows.assign(rate=metrics.rate(rows["record"].map(images), rows["value"]))
    in_rounds = runs["round"].notna()
    return runs.assign(launch=runs["record"].where(in_rounds, ""), turn=runs["round"].where(in_rounds, runs["repeat"]))


def rows_of_point(local: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the local table of the point of these runs. runs: as from `rates`."""
    first = runs.iloc[0]
    here = local["record"].isin(runs["record"])
    for name in ("series", "ranks", "batch_per_rank"):
        here &= local[name].eq(first[name])
    return local[here & (local["axis_value"].eq(first["axis_value"]) | local["axis_value"].isna())]


_PAIR = ["launch", "seed", "turn"]


def points(sizes: Sequence[float], rates: Sequence[float]) -> pd.DataFrame:
    """Return runs for `curve` over the column `size`, from plain numbers: nth rates of two sizes are paired."""
    runs = pd.DataFrame({"size": [float(size) for size in sizes], "rate": [*rates]})
    return runs.assign(record="", launch="", seed=0, turn=runs.groupby("size").cumcount())


def by_turn(runs: pd.DataFrame, column: str = "rate") -> dict[Turn, float]:
    """Return the rates of runs of one point, as from `rates`, by their turn; the mean if a turn has several."""
    values: dict[Turn, list[float]] = defaultdict(list)
    for launch, *numbers in zip(*(runs[name].tolist() for name in (*_PAIR, column)), strict=True):
        if not any(map(pd.isna, numbers)):
            seed, turn, value = numbers
            values[Turn(launch, int(seed), int(turn))].append(value)
    return {turn: fmean(values[turn]) for turn in sorted(values)}


def _by_size(runs: pd.DataFrame, over: str) -> dict[float, Rates]:
    """Return the rates of each size, ascending, by turn. Raises ValueError where a rate is not positive."""
    rates = {float(size): by_turn(rows) for size, rows in runs[[*_PAIR, "rate"]].groupby(runs[over].astype(float))}
    if not all(rate > 0 for by_turn in rates.values() for rate in by_turn.values()):
        raise ValueError(f"a curve needs positive rates; given: {runs['rate'].tolist()}")
    return {size: by_turn for size, by_turn in rates.items() if by_turn}


def paired(runs: pd.DataFrame, over: str, base: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row per size and turn: rate, and speedup and efficiency over the smallest size in the same turn.

    `runs`: as from `rates`, of one curve; `over`: the column of the sizes (ranks, nodes, or another swept value).
    `base`: the runs of the smallest size, if they are of another curve. Speedup and efficiency are NaN where the base
    has no such turn. Efficiency is meaningful where the size is a number of ranks or nodes.
    """
    sizes = _by_size(runs, over)
    bases = sizes if base is None else _by_size(base, over)
    first = min(bases, default=math.nan)
    rows = [
        (size, rate, rate / bases[first][turn] if turn in bases[first] else math.nan)
        for size, rates in sizes.items()
        for turn, rate in rates.items()
    ]
    pairs = pd.DataFrame(rows, columns=["size", "rate", "speedup"])
    efficiency = pairs["speedup"] / (pairs["size"] / first)
    return pairs.assign(efficiency=efficiency if first > 0 else math.nan)


@dataclass(frozen=True, eq=False)
class ScalingPoint:
    """One size of a scaling curve; speedup and efficiency are over the smallest size."""

    size: float
    launches: int
    rate: Number
    speedup: Number
    efficiency: Number

    @property
    def n(self) -> int:
        """Return the number of rounds or repeats."""
        return self.rate.n


def curve(runs: pd.DataFrame, over: str, base: pd.DataFrame | None = None) -> list[ScalingPoint]:
    """Return a scaling curve, ascending by size. Arguments: `paired`.

    The intervals are those of `record.intervals`; without a common turn a speedup is the ratio of the rates, and has no
    interval. Speedup and efficiency of the smallest size are 1 by definition; its scatter is in those of the others.
    """
    launches = runs.groupby(runs[over].astype(float))["record"].nunique()
    sizes = _by_size(runs, over)
    bases = sizes if base is None else _by_size(base, over)
    first, points = min(bases, default=math.nan), []
    for size, rates in sizes.items():
        rate, speedup = repeats.shown(intervals.rate(rates)), repeats.shown(intervals.speedup(rates, bases[first]))
        if size == first and base is None:
            speedup = unknown(1.0, rate.n)
        elif not speedup.n:
            base_rate = repeats.shown(intervals.rate(bases[first]))
            speedup = unknown(metrics.speedup(rate.value, base_rate.value), min(rate.n, base_rate.n))
        efficiency = speedup.over(size / first) if first > 0 else unknown()
        points.append(ScalingPoint(size, int(launches[size]), rate, speedup, efficiency))
    return points


def rate_of(runs: pd.DataFrame) -> Number:
    """Return the rate of the runs or rounds of one point, as from `rates`."""
    return repeats.shown(intervals.rate(by_turn(runs)))


def ratio(over: pd.DataFrame, under: pd.DataFrame, level: float = LEVEL) -> Number:
    """Return the ratio of the rates of two sets of runs, as from `rates`, of one point each, shown at a level."""
    return repeats.shown(intervals.speedup(by_turn(over), by_turn(under)), level)


def paired_ratios(over: pd.DataFrame, under: pd.DataFrame) -> dict[Turn, float]:
    """Return the ratio of the rates of two sets of runs in each turn that has both; arguments as of `ratio`."""
    return intervals.paired(by_turn(over), by_turn(under))


def paired_differences(a: pd.DataFrame, b: pd.DataFrame, column: str) -> list[list[float]]:
    """Return a - b of a column in each turn that both have, by launch; arguments as of `ratio`."""
    first, second = by_turn(a, column), by_turn(b, column)
    differences = {turn: first[turn] - second[turn] for turn in sorted(first) if turn in second}
    launches = intervals.by_launch(differences)
    return [*repeats.singles(launches.pop("", [])), *launches.values()]


def by_record(rows: pd.DataFrame, column: str) -> list[list[float]]:
    """Return the values of a column by the record that they are from, as of its rounds."""
    return [values.tolist() for _, values in rows.groupby("record", sort=False)[column]]


def base_of(curve: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame | None:
    """Return the runs of another curve that are the base of this one's speedups; None if its own smallest size is.

    The base of a control in rounds are the runs of its launches with allreduce; that of an arm, the one arm on fewer
    ranks.
    """
    if (curve["round"].notna() & curve["kind"].eq("control")).any():
        return runs[runs["launch"].isin(curve["launch"]) & runs["kind"].eq("measured")]
    alike = (runs["arms"] == curve["arms"].iloc[0]) & (runs["model"] == curve["model"].iloc[0])
    fewer = runs[alike & runs["kind"].eq("measured") & (runs["ranks"] < curve["ranks"].min())]
    return fewer if fewer["series"].nunique() == 1 else None


def per_doubling(runs: pd.DataFrame, over: str) -> Number:
    """Return the share of its efficiency that a curve keeps at each doubling: `metrics.per_doubling` of typical rates.

    That is linear in the logarithms of the rates. Arguments: `paired`; two sizes or more.
    """
    sizes = _by_size(runs, over)
    doublings = np.log2([*sizes])
    powers = (doublings - doublings.mean()) / ((doublings - doublings.mean()) ** 2).sum()
    share = intervals.power_product([*zip(powers.tolist(), sizes.values(), strict=True)])
    return repeats.shown(share).over(2.0)
