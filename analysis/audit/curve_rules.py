"""Rules over scaling curves: impossible speedups, points that did other work, times that do not fit."""

from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean

import pandas as pd

from analysis import metrics
from analysis.audit.audited_table import AuditedTable
from analysis.audit.findings import (
    TABLE_RULES,
    finding,
    graded,
    outside,
    point_location,
    rows_rule,
    rule,
    severity_and_reason,
    speedup,
)
from analysis.curves import (
    RATES,
    SETTING,
    SIZE,
    TIMES,
    Lookup,
    Noises,
    Row,
    bases,
    curves,
    keeps_global_batch,
    lookup,
    measured,
    measured_in_rounds,
    other_points_noise,
    over_smallest,
    rate_curves,
    row_dicts,
)
from analysis.derived import stated_number
from analysis.finding import Finding
from analysis.stats import Number, combined
from analysis.stats.student import with_noise
from analysis.stats.verdict import Bounds
from analysis.thresholds import limit
from common.terminal import counted

_NO_MORE, _NO_LESS = Bounds(high=1.0), Bounds(low=1.0)


@rule(TABLE_RULES)
def beyond_ideal(audited: AuditedTable) -> Iterator[Finding]:
    """Report a speedup above the number of ranks: N workers do not do more than N times the work.

    The base is too slow, or the point too fast, or they did other work. The 95 % interval of the efficiency lies above
    1, of all points of the curve together. If each point was measured once, the scatter of the other points may give an
    interval; else it is a note, unless it is further above than noise can be. One finding a curve, on its worst point.
    """
    table, noisy = audited.rows, audited.noises
    for curve in [*rate_curves(table), *_equal_epochs(table)]:
        base, *points = row_dicts(curve)
        ideals = [row["ranks"] / base["ranks"] for row in points]
        speedups = _speedups(curve, table, noisy)
        shares = _with_scatter(curve, [value.over(ideal) for value, ideal in zip(speedups, ideals, strict=True)])
        rows = zip(shares, points, ideals, _alleged(shares, base, _NO_MORE), strict=True)
        beyond = [(share, row, ideal) for share, row, ideal, is_outside in rows if is_outside]
        if worst := max(beyond, key=lambda point: point[0].value, default=None):
            yield _beyond(*worst)
    rates = lookup(measured(table, "images_per_s"))
    on_curves = {point_location(row) for curve in curves(table, *RATES) for row in row_dicts(curve)}
    stated = table[table["kind"].eq("stated") & table["quantity"].str.startswith("speedup_") & table["ranks"].notna()]
    for row in row_dicts(stated):
        ideal = _ideal(row, stated)
        share = with_noise(stated_number(row), noisy.measurements(row)).over(ideal)
        if not any(point_location(rate) in on_curves for rate in rates(row)) and outside([share], _NO_MORE)[0]:
            yield _beyond(share, row, ideal)


def _equal_epochs(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    planned = lookup(table[table["quantity"].eq("epochs_planned")])
    for curve in curves(table, *TIMES):
        epochs = [{row["value"] for row in planned(point)} for point in row_dicts(curve)]
        if len(epochs[0]) == 1 and all(values == epochs[0] for values in epochs):
            yield curve


def _ideal(row: Row, stated: pd.DataFrame) -> float:
    """Return the ideal speedup of a point: its nodes or ranks.

    The base of a user's table may be another program or setting. There it is relative to the speedup that the smallest
    point of the setting states.
    """
    ranks = float(row["nodes"] if not pd.isna(row["nodes"]) and row["nodes"] > 1 else row["ranks"])
    if row["report"]:
        return ranks
    same = stated[stated["quantity"].eq(row["quantity"])]
    smallest = min(lookup(same, SETTING)(row), key=lambda point: point["ranks"])
    return float(smallest["value"]) * row["ranks"] / smallest["ranks"]


def _alleged(numbers: list[Number], row: Row, bounds: Bounds) -> list[bool]:
    """Return whether each number of a curve is outside the bounds; `no_interval` names those in rounds without one."""
    return [
        is_outside and (number.has_interval or not measured_in_rounds(row))
        for number, is_outside in zip(numbers, outside(numbers, bounds), strict=True)
    ]


def _with_scatter(curve: pd.DataFrame, shares: list[Number]) -> list[Number]:
    """Return the efficiencies of a curve; one without an interval gets that of the other points' scatter.

    The scatter is that of all other points except the first. It is used if the interval then lies above 1.
    """
    base, *points = row_dicts(curve)
    if measured_in_rounds(base) or all(share.has_interval for share in shares):
        return shares
    scattered = []
    for row in points:
        noise = other_points_noise(curve, row["ranks"], base["ranks"])
        scattered.append(speedup(row, base, noise, noise).over(row["ranks"] / base["ranks"]))
    return [
        other if not share.has_interval and other.has_interval and is_above else share
        for share, other, is_above in zip(shares, scattered, outside(scattered, _NO_MORE), strict=True)
    ]


def _speedups(curve: pd.DataFrame, table: pd.DataFrame, noisy: Noises) -> list[Number]:
    """Return the speedup of each point of a curve over the first one, with its interval."""
    base, *points = row_dicts(curve)
    if measured_in_rounds(base):
        paired = {point.size: point.speedup for point in over_smallest(curve, table)}
        return [paired[float(row["ranks"])] for row in points]
    return [speedup(row, base, noisy.at(row), noisy.at(base)) for row in points]


def _beyond(share: Number, row: Row, ideal: float) -> Finding:
    off = share.value - 1
    severity, why = severity_and_reason(share, off, "its 95 % interval lies above 1")
    meaning = f"Efficiency {share}: {why}. Check the smallest point first: it is the base of all others."
    by = row["quantity"] if row["quantity"] != "images_per_s" or row["unit"] == "images/s" else row["unit"]
    stated = f"{share.value * ideal:.3g}x by {by}"
    return finding(row, severity, stated, f"at most {ideal:g}x", off, meaning)


@rows_rule
def unequal_work(table: pd.DataFrame) -> Iterator[Finding]:
    """Report points of one curve that did unequal work: images in all if a fixed work is divided, else per rank.

    A ratio of times is a speedup for equal work only. Steps divided by the ranks and rounded down lose some. A curve
    keeps the one of the two that varies less over its points. It is a note if each point ran for about the same time
    and states the speed that its images and its wall time give: then speeds can be compared.
    """
    walls, speeds = lookup(measured(table, "wall_s")), lookup(measured(table, "images_per_s"))
    for curve in _curves_of_steps(table):
        (off, images), per = max(((_shortfall(images), images), per) for per, images in _work(curve).items())
        if off < 0:
            least = row_dicts(curve)[images.index(min(images))]
            stated, follows = f"{min(images):g} images {per}", f"{max(images):g} images {per}, as at other points"
            meaning = "A ratio of times would count work that this point did not do; divide images by time instead."
            grade = graded(off)
            batches, in_all = curve["global_batch"].tolist(), _work(curve)["in all"]
            if all(max(in_all) - count < batch for count, batch in zip(in_all, batches, strict=True)):
                grade = "note"
                meaning = "Steps were divided by the ranks and rounded down: less than one step of the job is missing."
            if _equal_times(curve, walls, speeds):
                grade = "note"
                meaning = "Each point ran for about as long, at the speed that it states: compare speeds, not times."
            yield finding(least, grade, stated, follows, off, meaning)


def _equal_times(curve: pd.DataFrame, walls: Lookup, speeds: Lookup) -> bool:
    """Return whether the points of a curve of steps ran for about as long, each at the speed that is stated for it.

    walls, speeds: the rows of wall times and of rates that have a point's configuration.
    """
    times = []
    for row in row_dicts(curve):
        if not walls(row) or not speeds(row):
            return False
        time_s, speed = (fmean(match["value"] for match in rows) for rows in (walls(row), speeds(row)))
        implied = metrics.rate(row["value"] * row["global_batch"], time_s)
        if abs(metrics.change_fraction(implied, speed)) > limit("same"):
            return False
        times.append(time_s)
    return metrics.change_fraction(min(times), max(times)) <= limit("single_runs")


def _curves_of_steps(table: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the steps per rank along each curve, as planned or as done.

    Points at which several works were measured on purpose are left out.
    """
    steps = table[table["quantity"].isin(["steps_per_rank_planned", "steps_per_rank"])]
    same = steps.groupby([*SETTING, *SIZE, "experiment", "quantity"], dropna=False)["value"]
    steps = steps[~(steps["source"].eq("published") & same.transform("nunique").gt(1))]
    steps = steps.assign(kind=steps["kind"].replace("planned", "measured"))
    return [*curves(steps, "steps_per_rank_planned", "steps_per_rank")]


def _work(curve: pd.DataFrame) -> dict[str, list[float]]:
    """Return the images at each point of a curve of steps: in all, and per rank."""
    batches = {"in all": "global_batch", "per rank": "batch_per_rank"}
    return {per: (curve["value"] * curve[batch].astype(float)).tolist() for per, batch in batches.items()}


def _shortfall(images: list[float]) -> float:
    """Return how much less the point with the fewest images did than that with the most: 0 or negative."""
    return metrics.change_fraction(max(images), min(images))


@rule(TABLE_RULES)
def more_ranks_no_faster(audited: AuditedTable) -> Iterator[Finding]:
    """Report more ranks that take longer for the same work, or do less work per second, than fewer did.

    The 95 % interval of their ratio lies below 1. If there is none, because each was measured once, it is a note unless
    they are further apart than noise can make them.
    """
    table, noisy = audited.rows, audited.noises
    for curve in [*curves(table, "images_per_s"), *_equal_work(table)]:
        pairs = [*pairwise(row_dicts(curve))]
        steps = [curve[curve["ranks"].isin([before["ranks"], after["ranks"]])] for before, after in pairs]
        ratios = [_speedups(rows, table, noisy)[0] for rows in steps]
        alleged = _alleged(ratios, pairs[0][0], _NO_LESS)
        for (before, after), ratio, slower in zip(pairs, ratios, alleged, strict=True):
            if slower:
                lost = metrics.change_fraction(ratio.value, 1.0)
                severity, why = severity_and_reason(ratio, lost, _differ(ratio), "warning")
                meaning = (
                    f"{after['ranks'] / before['ranks']:g} times the ranks gain nothing here: a cost that does not "
                    f"shrink with the ranks, or grows with them, dominates; {why}."
                )
                stated = f"{after['quantity']} {after['value']:g} {after['unit']}"
                follows = f"better than {before['value']:g} {before['unit']} on {counted(before['ranks'], 'rank')}"
                off = metrics.change_fraction(before["value"], after["value"])
                yield finding(after, severity, stated, follows, off, meaning)


def _differ(ratio: Number) -> str:
    return f"their ratio is {ratio}, whose 95 % interval leaves out 1"


def _equal_work(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield curves of times whose points divide the same work: training times, job times, or of the same epochs."""
    steps = [curve for curve in _curves_of_steps(table) if _shortfall(_work(curve)["in all"]) >= -limit("same")]
    divided = lookup(pd.concat([table.iloc[:0], *steps]))
    for quantity in ("wall_s", "job_s"):
        yield from (c for c in curves(table, quantity) if all(divided(row) for row in row_dicts(c)))
    yield from _equal_epochs(table)


@rule(TABLE_RULES)
def strong_beats_weak(audited: AuditedTable) -> Iterator[Finding]:
    """Report strong scaling that scales better than weak scaling of the same model on the same machine.

    With the global batch kept, each rank computes less between two exchanges of the same gradients: it should lose.
    """
    table = audited.rows
    rows = table[table["kind"].isin(["stated", "measured"]) & table["quantity"].eq("speedup_throughput")]
    based = bases(table)
    strong = pd.Series([keeps_global_batch(row, based(row)) for row in row_dicts(rows)], rows.index, dtype=bool)
    key = ["source", "report", "model", "dataset", "device", "gpu", "machine", "ranks"]
    if not strong.any():
        return
    weak_rows, noisy = lookup(rows[~strong], key), audited.noises
    for row in row_dicts(rows[strong]):
        for weak in weak_rows(row):
            # Each of the two is made from two throughputs, in any runs.
            ratio = combined(metrics.speedup, {"rate": stated_number(row), "base_rate": stated_number(weak)})
            weak_noise = [(noise, -power) for noise, power in noisy.measurements(weak)]
            ratio = with_noise(ratio, [*noisy.measurements(row), *weak_noise])
            if outside([ratio], _NO_MORE)[0]:
                off = ratio.value - 1
                stated = f"{row['value']:g}x with the global batch kept"
                follows = f"no more than {weak['value']:g}x, with the batch per rank kept ({weak['place']})"
                severity, why = severity_and_reason(ratio, off, _differ(ratio), "warning")
                meaning = f"Less work between the same exchanges should not scale better; {why}."
                yield finding(row, severity, stated, follows, off, meaning)
