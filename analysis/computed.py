"""Numbers that follow from those of a report, as rows of the tidy table: speedups, efficiencies, times to accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from analysis import metrics
from analysis.curves import PER_RANK, Row, curves, lookup, measured, row_dicts
from analysis.table.stated import half_unit


def computed(table: pd.DataFrame) -> pd.DataFrame:
    """Returns rows of kind "computed": what follows from the measured numbers of a report, point by point.

    speedup_ and efficiency_ by throughput, wall time (images / wall_s, or equal work) and job time; job_s and epoch_s
    over those at half as many ranks (`…_per_doubling`, a fraction); time_to_stable_s = job_s x epochs_to_stable /
    epochs_planned. Each carries how far the rounding of what it is made from can move it (`half_unit`, to first order).
    """
    rows = [*_speedups(table), *_doublings(table), *_times_to_stable(table)]
    if not rows:
        return table.iloc[:0]
    return pd.DataFrame(rows, columns=[*table.columns]).assign(kind="computed").astype(table.dtypes)


def _speedups(table: pd.DataFrame) -> Iterator[dict]:
    steps = lookup(table[table["quantity"].eq("steps_per_rank_planned")])
    for quantity, name in (
        ("images_per_s", "throughput"),
        ("images_per_s_per_rank", "throughput"),
        ("wall_s", "wall_time"),
        ("job_s", "job_time"),
    ):
        for curve in curves(table, quantity):
            points = row_dicts(curve)
            rates = []
            for point in points:
                work = steps(point)[0]["value"] * point["global_batch"] if steps(point) else 1.0
                ranks = point["ranks"] if quantity in PER_RANK else 1
                in_time = point["unit"] == "s"
                value = point["value"]
                rates.append(metrics.rate(work, value) if in_time else metrics.whole_job(value, ranks))
            for point, rate in zip(points, rates, strict=True):
                speedup = metrics.speedup(rate, rates[0])
                share = metrics.efficiency(speedup, point["ranks"], points[0]["ranks"])
                off = _rounding(point, points[0]) if rate is not rates[0] else 0.0
                for what, ratio, unit in (("speedup", speedup, "x"), ("efficiency", share, "fraction")):
                    numbers = {"quantity": f"{what}_{name}", "value": ratio, "unit": unit}
                    yield {**point, **numbers, "half_unit": off * ratio}


def _rounding(*rows: Row) -> float:
    """How far rounding can move a product or quotient of printed numbers, as a fraction of it, to first order."""
    return sum(half_unit(row) / row["value"] for row in rows)


def _doublings(table: pd.DataFrame) -> Iterator[dict]:
    for curve in curves(table, "job_s", "epoch_s"):
        for before, after in pairwise(row_dicts(curve)):
            if after["ranks"] == 2 * before["ranks"]:
                name = f"{after['quantity']}_per_doubling"
                value = after["value"] / before["value"]
                numbers = {"quantity": name, "value": value, "unit": "fraction"}
                yield {**after, **numbers, "half_unit": _rounding(after, before) * value}


def _times_to_stable(table: pd.DataFrame) -> Iterator[dict]:
    jobs, planned = lookup(measured(table, "job_s")), lookup(table[table["quantity"].eq("epochs_planned")])
    for row in measured(table, "epochs_to_stable").to_dict("records"):
        if jobs(row) and planned(row):
            value = metrics.time_to_stable_s(jobs(row)[0]["value"], row["value"], planned(row)[0]["value"])
            numbers = {"quantity": "time_to_stable_s", "value": value, "unit": "s"}
            yield {**row, **numbers, "half_unit": _rounding(jobs(row)[0], row) * value}
