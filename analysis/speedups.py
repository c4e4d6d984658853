"""Speedups: the rates of runs and rounds, paired by turn, and scaling curves.

Pure: tables in and out, by the formulas of `analysis.metrics`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import pandas as pd

from analysis import metrics
from analysis.stats import Number, repeats, unknown
from analysis.stats.repeats import Launches, Spread, singles
from record import intervals

By = Literal["throughput", "wall time", "job time"]
BY: tuple[By, ...] = ("throughput", "wall time", "job time")
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
        images = local[local["quantity"] == "images"].set_index("record")["value"]
        rows = local[(local["quantity"] == TIMES[by]) & local["record"].isin(images.index)]
        runs = rows.assign(rate=metrics.rate(rows["record"].map(images), rows["value"]))
    in_rounds = runs["round"].notna()
    return runs.assign(launch=runs["record"].where(in_rounds, ""), turn=runs["round"].where(in_rounds, runs["repeat"]))


def rows_of_point(local: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the local table of the point of these runs. runs: as from `rates`."""
    first = runs.iloc[0]
    at = local[local["record"].isin(runs["record"]) & local["series"].eq(first["series"])]
    at = at[at["ranks"].eq(first["ranks"]) & at["batch_per_rank"].eq(first["batch_per_rank"])]
    return at[at["axis_value"].eq(first["axis_value"]) | at["axis_value"].isna()]


# The rates of two sizes are paired by the round of one launch, else by the repeat and its seed.
PAIR = ["launch", "seed", "turn"]
_VALUES = ["size", *PAIR, "rate", "speedup", "efficiency"]
Pair = tuple[str, int, int]  # launch, seed, turn


def points(sizes: Sequence[float], rates: Sequence[float], pairs: Sequence[Pair] = ()) -> pd.DataFrame:
    """Return runs for `curve` and `paired` over the column `size`, from plain numbers.

    Without `pairs` the nth rate of one size is paired with the nth of another.
    """
    runs = pd.DataFrame({"size": [float(size) for size in sizes], "rate": [*rates]})
    if pairs:
        runs[PAIR] = [*pairs]
    else:
        runs = runs.assign(launch="", seed=0, turn=runs.groupby("size").cumcount())
    return runs.assign(record=runs["launch"])


def paired(runs: pd.DataFrame, over: str, base: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row per size and pair: rate, speedup and efficiency over the smallest size in the pair.

    `runs`: as from `rates`, of one curve; `over`: the column of the sizes (ranks, nodes, or another swept
    value). A pair is what ran in turn: the arms of one round, or the runs of one repeat. `base`: the runs of the
    smallest size, if they are of another curve. Columns: size, launch, seed, turn, rate, speedup, efficiency; the
    last two are NaN where the base has no such pair. Efficiency is meaningful where the size is a number of ranks or
    nodes. Raises ValueError where a rate is not positive.
    """
    pairs = _by_pair(runs, over)
    if not (pairs["rate"] > 0).all():
        raise ValueError(f"a curve needs positive rates; given: {pairs['rate'].tolist()}")
    base_pairs = pairs if base is None else _by_pair(base, over)
    base_pairs = base_pairs[base_pairs["size"] == base_pairs["size"].min()].rename(
        columns={"rate": "base", "size": "first"}
    )
    pairs = pairs.merge(base_pairs, on=PAIR, how="left")
    pairs["speedup"] = metrics.speedup(pairs["rate"], pairs["base"])
    ratio = pairs["size"] / pairs["first"]
    pairs["efficiency"] = (pairs["speedup"] / ratio).where(pairs["first"] > 0)
    return pairs[_VALUES]


def _by_pair(runs: pd.DataFrame, over: str) -> pd.DataFrame:
    """Return the rate of each size and pair in order, a mean if a pair has several."""
    rows = runs[[*PAIR, "rate"]].assign(size=runs[over].astype(float))
    return rows.groupby(["size", *PAIR], dropna=False)["rate"].mean().reset_index()


def spread_between_launches(points: pd.DataFrame, among: pd.DataFrame, over: str) -> Spread:
    """Return how much launches in rounds differ in the speedup of a curve, pooled over the curves measured alike.

    These are the scaling curves of `among` of the same experiment and machine as `points`, each at its largest size:
    speedups of one launch at several sizes are not independent. Arguments: as from `rates`.
    """
    curves = []
    for rows, alike in _measured_alike(points, among):
        values = paired(rows, over, base_of(rows, alike))
        curves.append(by_launch(values[values["size"].eq(values["size"].max())], "speedup"))
    return intervals.launch_spread(curves)


def spread_per_doubling(points: pd.DataFrame, among: pd.DataFrame, over: str) -> Spread:
    """Return the same of `shares_per_doubling`."""
    return intervals.launch_spread([shares_per_doubling(rows, over) for rows, _ in _measured_alike(points, among)])


def _measured_alike(points: pd.DataFrame, among: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield each scaling curve in rounds of the same experiment and machine, and the rows of all of them."""
    alike = among[among["round"].notna() & among["kind"].eq("measured")]
    for name in ("experiment", "machine"):
        alike = alike[alike[name].eq(points[name].iloc[0])]
    for _, rows in alike.groupby(["model", "series"], sort=False):
        yield rows, alike


def curve(
    runs: pd.DataFrame, over: str, base: pd.DataFrame | None = None, spread: Spread | None = None
) -> pd.DataFrame:
    """Return a scaling curve, one row per size, with speedups over the smallest size. Arguments: `paired`.

    spread: as `spread_between_launches` returns it; without it that of this curve alone.

    Columns: size, n (rounds, or repeats), launches, and rate, speedup, efficiency with the ends of their 95 % intervals
    (`_low`, `_high`, NaN with fewer than 6 values); numbers has the three by name. A rate is the harmonic mean, a
    speedup the median of the ratios within the pairs; without any pair it is the ratio of the rates, and has no
    interval. Speedup and efficiency of the smallest size are 1 by definition; its scatter is in those of the others.
    """
    values = paired(runs, over, base)
    if values.empty:
        return pd.DataFrame(columns=_CURVE)
    launches = runs.groupby(runs[over].astype(float))["record"].nunique()
    base_pairs = values if base is None else paired(base, over)
    first = base_pairs["size"].min()
    base_rate = repeats.harmonic_mean(by_launch(base_pairs[base_pairs["size"] == first], "rate"))
    rows = []
    for size, pairs in values.groupby("size"):
        rate = repeats.harmonic_mean(by_launch(pairs, "rate"))
        if size == first and base is None:
            speedup = unknown(1.0, rate.n)
        elif ratios := by_launch(pairs, "speedup"):
            speedup = repeats.median(ratios, spread=spread)
        else:
            speedup = unknown(metrics.speedup(rate.value, base_rate.value), min(rate.n, base_rate.n))
        efficiency = speedup.over(float(str(size)) / first) if first > 0 else unknown()
        numbers = {"rate": rate, "speedup": speedup, "efficiency": efficiency}
        ends = [x for number in numbers.values() for x in (number.value, number.low, number.high)]
        rows.append([size, rate.n, launches[size], *ends, numbers])
    return pd.DataFrame(rows, columns=_CURVE)


def numbers(runs: pd.DataFrame, over: str, spread: Spread | None = None) -> dict[float, dict[str, Number]]:
    """Return rate, speedup and efficiency at each size of a curve. Arguments: as of `curve`."""
    points = curve(runs, over, spread=spread)
    return {float(size): named for size, named in zip(points["size"], points["numbers"], strict=True)}


def rate_of(runs: pd.DataFrame) -> Number:
    """Return the rate of the runs or rounds of one point, as from `rates`."""
    return repeats.harmonic_mean(by_launch(runs.sort_values(PAIR), "rate"))


def paired_ratios(over: pd.DataFrame, under: pd.DataFrame) -> list[list[float]]:
    """Return the ratio of the rates of two sets of runs in each pair that has both, by launch.

    `over`, `under`: as from `rates`, of one point each.
    """
    return _paired_values(over, under, "rate", metrics.speedup)


def paired_differences(a: pd.DataFrame, b: pd.DataFrame, column: str) -> list[list[float]]:
    """Return a - b of a column in each pair of runs that has both, by launch; arguments as of `paired_ratios`."""
    return _paired_values(a, b, column, lambda x, y: x - y)


def _paired_values(
    a: pd.DataFrame, b: pd.DataFrame, column: str, formula: Callable[[pd.Series, pd.Series], pd.Series]
) -> list[list[float]]:
    first, second = (runs.groupby(PAIR, sort=False)[column].mean() for runs in (a, b))
    results = formula(first, second).dropna().rename("value").reset_index().sort_values(PAIR)
    return by_launch(results, "value")


def by_launch(values: pd.DataFrame, column: str) -> list[list[float]]:
    """Return the values of a column that are not NaN, by launch; each launch of a single point is a separate list."""
    launches: dict[str, list[float]] = {}
    for launch, value in zip(values["launch"], values[column].tolist(), strict=True):
        if not math.isnan(value):
            launches.setdefault(launch, []).append(value)
    single = singles(launches.pop("", []))
    return [*single, *launches.values()]


def by_record(rows: pd.DataFrame, column: str) -> list[list[float]]:
    """Return the values of a column by the record that they are from, as of its rounds."""
    return [values.tolist() for _, values in rows.groupby("record", sort=False)[column]]


_CURVE = ["size", "n", "launches"]
_CURVE += [name + end for name in ("rate", "speedup", "efficiency") for end in ("", "_low", "_high")]
_CURVE += ["numbers"]


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


def shares_per_doubling(runs: pd.DataFrame, over: str) -> Launches:
    """Return `metrics.per_doubling` of a curve in rounds, by launch and round. Arguments: `paired`."""
    shares = _by_pair(runs, over).groupby(PAIR, sort=False)[["size", "rate"]].apply(_per_doubling).dropna()
    return [values.tolist() for _, values in shares.groupby(level="launch", sort=False)]


def _per_doubling(pair: pd.DataFrame) -> float:
    """Return the share of its efficiency that a curve keeps at each doubling, in one round; NaN for one size."""
    if len(pair) < 2:
        return math.nan
    return metrics.per_doubling(pair["size"].tolist(), pair["rate"].tolist()).value
