"""The rate of each run of a user's table, and what shows whether rates and batches are of one rank or of the job."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.user_table.headers import TEXT

# The times of equal work from which rates follow, in order of preference, and the work of the rates.
TIMES = {"epoch_s": "epochs", "wall_s": "runs", "job_s": "runs"}
_NEAR, _FAR = 0.04, 0.25  # the largest distance, as a logarithm, of a rate from a stated ratio; of the other reading
GROWN = 1.25  # a rate of one rank does not grow by this factor, and the time of equal work of each does not fall by it


def rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the columns `rate`, of the whole job, and `work`, the unit it counts, for `UserTable.runs`.

    Every curve (rows alike in TEXT) has its rate from one source: measured rates; images over wall time, if steps and
    batch are known; 1 / the time of an epoch, or of a run, of equal work (`scaling`); speedups, or efficiencies x
    ranks, whose `work` is "" for no unit. NaN if there is none.
    """
    columns = pd.DataFrame({"rate": math.nan, "work": pd.Series("", runs.index, dtype=object)}, runs.index)
    for curve in curves(runs):
        rate, work = _curve_rates(curve)
        columns.loc[curve.index, "rate"] = rate
        columns.loc[curve.index, "work"] = work
    return columns


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


def rate_scope(runs: pd.DataFrame) -> tuple[str, str]:
    """Return the name of the column `rate`, of one rank or of the whole job, and what shows it; "" if nothing does.

    runs: with ranks, rate, and if known speedup, efficiency, step_s, batch_per_rank, global_batch.
    """
    whole, single = "images_per_s", "images_per_s_per_rank"
    for stated in ("speedup", "efficiency"):
        if stated in runs and (name := by_stated(runs, stated)):
            return name, f"its {stated} shows it"
    for batch in {"batch_per_rank", "global_batch"} & {*runs} if "step_s" in runs else ():
        total = runs[batch] * (runs["ranks"] if batch == "batch_per_rank" else 1)
        errors = [abs(np.log((runs["rate"] * n * runs["step_s"] / total).median())) for n in (1, runs["ranks"])]
        if min(errors) < 0.1 < max(errors):
            return (whole, single)[errors.index(min(errors))], "rate x step time is the batch"
    return (
        (whole, "it grows with the ranks")
        if _grows(runs, "rate") or runs["ranks"][runs["rate"].notna()].max() == 1
        else ("", "")
    )


def batch_scope(runs: pd.DataFrame) -> tuple[str, str]:
    """Return the name of the column `batch`, and what shows it; "" if nothing does."""
    if {"step_s", "images_per_s"} <= {*runs}:
        errors = [abs(np.log((runs["images_per_s"] * runs["step_s"] / runs["batch"] / n).median()))
                  for n in (1, runs["ranks"])]  # fmt: skip
        if min(errors) < 0.1 < max(errors):
            return ("global_batch", "batch_per_rank")[errors.index(min(errors))], "rate x step time is the batch"
    runs = runs[runs["batch"].notna()]
    several = runs["ranks"].nunique() > 1
    if several and (runs["batch"] / runs["ranks"]).nunique() == 1:
        return "global_batch", "it grows as the ranks do"
    if several and (runs["batch"] * runs["ranks"]).nunique() == 1:
        return "batch_per_rank", "it shrinks as the ranks grow"
    return "", ""


def scaling(runs: pd.DataFrame, time: str) -> tuple[str, str]:
    """Return "strong" or "weak", for what the times of each number of ranks are of, and what shows it; "" for nothing.

    Strong: equal work in all. Weak: equal work of each rank.
    """
    runs = runs.assign(rate=1 / runs[time])
    for stated in ("speedup", "efficiency"):
        if stated in runs and (name := by_stated(runs, stated)):
            return ("strong" if name == "images_per_s" else "weak"), f"the {stated} shows it"
    return ("strong", "times fall with the ranks") if _grows(runs, "rate") else ("", "")


def by_stated(runs: pd.DataFrame, stated: str) -> str:
    """Return the scope by which a stated speedup or efficiency follows from the rates; "" for both, or neither."""
    errors: dict[str, list[float]] = {"images_per_s": [], "images_per_s_per_rank": []}
    for curve in _batch_curves(runs):
        rows = curve[curve[stated].gt(0) & curve["rate"].gt(0)].sort_values("ranks", kind="stable")
        if rows["ranks"].nunique() < 2:
            continue
        first = rows.iloc[0]
        more = rows["ranks"] / first["ranks"]
        shares = rows[stated] / first[stated]
        gain = (shares if stated == "speedup" else shares * more)[more > 1]
        faster = (rows["rate"] / first["rate"])[more > 1]
        errors["images_per_s"] += np.abs(np.log(faster / gain)).tolist()
        errors["images_per_s_per_rank"] += np.abs(np.log(faster * more[more > 1] / gain)).tolist()
    medians = {name: float(np.median(values)) for name, values in errors.items() if values}
    nearest, *others = sorted(medians, key=lambda name: medians[name]) or [""]
    far = medians[others[0]] if others else 0.0
    return nearest if far > _NEAR and medians[nearest] < min(_FAR, max(_NEAR, far / 3)) else ""


def _grows(runs: pd.DataFrame, name: str) -> bool:
    """Return whether a column grows in a curve from the fewest ranks to the most by more than noise or chance."""
    means = [rows.dropna(subset=name).groupby("ranks")[name].mean() for rows in _batch_curves(runs)]
    return any(len(mean) > 1 and mean.iloc[-1] > GROWN * mean.iloc[0] for mean in means)


def _batch_curves(runs: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows of each curve, alike in the batch too unless it changes with the ranks."""
    for rows in curves(runs):
        batch = next((name for name in ("batch_per_rank", "batch") if name in runs), "")
        if batch and rows.groupby(batch)["ranks"].nunique().max() > 1:
            yield from (curve for _, curve in rows.groupby(batch, dropna=False, sort=False))
        else:
            yield rows
