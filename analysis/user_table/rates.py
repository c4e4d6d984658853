"""The rate of each run of a user's table, whatever the table has of it: a rate, a time of equal work, a speedup."""

from __future__ import annotations

import math

import pandas as pd

from analysis import metrics
from analysis.user_table.headers import TEXT

# What a rate is made from, in the order of preference; times are those of equal work.
_TIMES = {"epoch_s": "epochs", "wall_s": "runs", "job_s": "runs"}


def rates(runs: pd.DataFrame) -> pd.DataFrame:
    """The columns `rate`, of the whole job, and `work`, what it counts, for `UserTable.runs`.

    Every curve (rows alike in TEXT) has its rate from one source: measured rates; images over wall time, where steps
    and batch are known; 1 / the time of an epoch, or of a run, where all points do equal work; speedups, or
    efficiencies x ranks, whose `work` is "" for no unit. NaN where there is none.
    """
    columns = pd.DataFrame({"rate": math.nan, "work": ""}, index=runs.index)
    columns["work"] = columns["work"].astype(object)
    key = [name for name in TEXT if name in runs]
    for _, curve in runs.groupby(key, dropna=False, sort=False) if key else [((), runs)]:
        rate, work = _curve_rates(curve)
        columns.loc[curve.index, "rate"] = rate
        columns.loc[curve.index, "work"] = work
    return columns


def _curve_rates(curve: pd.DataFrame) -> tuple[pd.Series, str]:
    measured = curve.get("images_per_s", pd.Series(math.nan, curve.index))
    if measured.notna().any():
        return measured, next((unit for unit in curve["work"] if unit), "images")
    if {"steps_per_rank", "global_batch", "wall_s"} <= {*curve} and curve["steps_per_rank"].notna().any():
        return metrics.rate(curve["global_batch"] * curve["steps_per_rank"], curve["wall_s"]), "images"
    for name, work in _TIMES.items():
        if name in curve and curve[name].notna().any():
            return metrics.rate(1.0, curve[name]), work
    if "speedup" in curve and curve["speedup"].notna().any():
        return curve["speedup"], ""
    if "efficiency" in curve:
        return curve["efficiency"] * curve["ranks"], ""
    return measured, ""
