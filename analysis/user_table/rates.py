"""The rate of each run of a user's table, and what shows whether it, or a batch, is of one rank or of the job."""

from __future__ import annotations

import math

import pandas as pd

from analysis import metrics
from analysis.user_table.headers import TEXT

# The times of equal work from which rates follow, in order of preference, and the work of the rates.
TIMES = {"epoch_s": "epochs", "wall_s": "runs", "job_s": "runs", "step_s": "steps"}
_FLAT = 1.25  # the time of equal work of each rank changes by less than this factor


def rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the columns `rate`, of the whole job, and `work`, the unit it counts, for `UserTable.runs`.

    Every curve (rows alike in TEXT) has its rate from one source: measured rates; images over wall time, if steps and
    batch are known; 1 / the time of an epoch, or of a run, of equal work (`scaling`); speedups, or efficiencies x
    ranks, whose `work` is "" for no unit. NaN if there is none.
    """
    parts = []
    for curve in curves(runs):
        rate, work = _curve_rates(curve)
        parts.append(pd.DataFrame({"rate": rate, "work": work}))
    return pd.concat(parts).loc[runs.index]


def curves(runs: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the rows of each curve: alike in TEXT."""
    key = [name for name in TEXT if name in runs]
    return [rows for _, rows in runs.groupby(key, dropna=False, sort=False)] if key else [runs]


def _curve_rates(curve: pd.DataFrame) -> tuple[pd.Series, str]:
    measured = curve.get("images_per_s", pd.Series(math.nan, curve.index))
    if measured.notna().any():
        return measured, next((unit for unit in curve["work"] if unit), "images")
    if {"steps_per_rank", "global_batch", "wall_s"} <= {*curve} and curve["steps_per_rank"].notna().any():
        return metrics.rate(curve["global_batch"] * curve["steps_per_rank"], curve["wall_s"]), "images"
    for name, work in TIMES.items():
        if name in curve and curve[name].notna().any():
            done = (curve["ranks"] / curve["ranks"].min()).where(curve["scaling"].eq("weak"), 1.0)
            return metrics.rate(done.where(curve["scaling"].ne("")), curve[name]), work
    if "speedup" in curve and curve["speedup"].notna().any():
        return curve["speedup"], ""
    if "efficiency" in curve:
        return curve["efficiency"] * curve["ranks"], ""
    return measured, ""


def batch_scope(runs: pd.DataFrame) -> tuple[str, str]:
    """Return the name of the column `batch`, and what shows it; "" if nothing does."""
    runs = runs[runs["batch"].notna()]
    if runs["ranks"].nunique() > 1 and (runs["batch"] / runs["ranks"]).nunique() == 1:
        return "global_batch", "it grows as the ranks do"
    if runs["ranks"].nunique() > 1 and (runs["batch"] * runs["ranks"]).nunique() == 1:
        return "batch_per_rank", "it shrinks as the ranks grow"
    return "", ""


def grows(runs: pd.DataFrame, name: str) -> bool:
    """Return whether a column grows in each curve at least as the square root of the ranks; that of a rank does not."""
    growths = _growths(runs, name)
    return bool(growths) and all(growth >= math.sqrt(more) for growth, more in growths)


def falls(runs: pd.DataFrame, name: str) -> bool:
    """Return whether a time falls in a curve by more than noise or chance: that of equal work of each rank does not."""
    return any(growth < 1 / _FLAT for growth, _ in _growths(runs, name))


def rises(runs: pd.DataFrame, name: str) -> bool:
    """Return whether a time grows in a curve by more than noise, as with the size of a problem."""
    return any(growth > _FLAT for growth, _ in _growths(runs, name))


def _growths(runs: pd.DataFrame, name: str) -> list[tuple[float, float]]:
    """Return how many times as large a column is on the most ranks of a curve as on the fewest, and how many more."""
    means = [rows.dropna(subset=name).groupby("ranks")[name].mean() for rows in curves(runs)]
    ends = [(mean.iloc[[0, -1]], mean.index[-1] / mean.index[0]) for mean in means if len(mean) > 1]
    return [(float(values.iloc[1] / values.iloc[0]), float(more)) for values, more in ends]
