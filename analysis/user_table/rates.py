"""The rate of each run of a user's table, and whether rates and batches are those of one rank or of the whole job."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.user_table.headers import TEXT

# The times of equal work from which rates follow, in order of preference, and the work of the rates.
_TIMES = {"epoch_s": "epochs", "wall_s": "runs", "job_s": "runs"}


def rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the columns `rate`, of the whole job, and `work`, the unit it counts, for `UserTable.runs`.

    Every curve (rows alike in TEXT) has its rate from one source: measured rates; images over wall time, if steps and
    batch are known; 1 / the time of an epoch, or of a run, if all points do equal work; speedups, or efficiencies x
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
    for name, work in _TIMES.items():
        if name in curve and curve[name].notna().any():
            return metrics.rate(1.0, curve[name]), work
    if "speedup" in curve and curve["speedup"].notna().any():
        return curve["speedup"], ""
    if "efficiency" in curve:
        return curve["efficiency"] * curve["ranks"], ""
    return measured, ""


_PRODUCT = 0.1  # the largest distance, as a logarithm, of rate x time from the work
# The largest distance, as a logarithm, of a rate from a stated speedup; _FAR if the other scope is three times as far.
_NEAR, _FAR = 0.04, 0.25
_GROWS, _FLAT = 0.25, 0.12  # powers of the ranks with which a rate grows
_GROWN = 1.25  # if a rate of one rank grew by this factor, it would be beyond the ideal


def rate_scope(runs: pd.DataFrame) -> tuple[str, str, bool]:
    """Return the name of the column `rate`, of one rank or of the whole job; why; and whether that is certain.

    The name is "" if the user must be asked. runs: with ranks, rate, and if known speedup, efficiency, step_s,
    batch_per_rank, global_batch.
    """
    whole, single = "images_per_s", "images_per_s_per_rank"
    for stated in ("speedup", "efficiency"):
        if stated in runs and (name := _by_stated(runs, stated)):
            return name, f"its {stated} says so", True
    for time, work, text in (("step_s", "batch_per_rank", "batch"), ("wall_s", "images", "work")):
        if {time, work} <= {*runs}:
            product = runs["rate"] * runs[time] / runs[work] * (runs["ranks"] if time == "wall_s" else 1)
            error_one, error_all = (abs(np.log(ratio.median())) for ratio in (product, product / runs["ranks"]))
            if error_one < _PRODUCT < error_all:
                return single, f"rate x time is the {text} of a rank", True
            if error_all < _PRODUCT < error_one:
                return whole, f"rate x time is the {text} of all ranks", True
    power = _power(runs)
    if power < _FLAT and not _any_grows(runs):
        return "", "it does not grow with the ranks", False
    return whole, "it grows with the ranks" if power > _GROWS else "the table does not show it", False


def batch_scope(runs: pd.DataFrame) -> tuple[str, str, bool]:
    """Return the name of the column `batch`, why, and whether that is certain."""
    if {"step_s", "images_per_s"} <= {*runs}:
        total = (runs["images_per_s"] * runs["step_s"] / runs["batch"]).median()
        if abs(np.log(total)) < 0.1:
            return "global_batch", "it is rate x step time", True
    steps = runs["steps_per_s"] if "steps_per_s" in runs else 1 / runs["step_s"] if "step_s" in runs else None
    for stated in ("speedup", "efficiency") if steps is not None else ():
        if stated in runs and (name := _by_stated(runs.assign(rate=steps), stated)):
            return ("global_batch" if name == "images_per_s" else "batch_per_rank"), f"its {stated} says so", True
    if steps is not None and _power(runs.assign(rate=steps)) > _NEAR:
        why = "steps take less time on more ranks: of one rank, they would do more than their share"
        return "global_batch", why, False
    power = _power(runs.drop(columns="batch").assign(rate=runs["batch"]))
    if abs(power - 1) < _NEAR:
        return "global_batch", "it grows as the ranks do", False
    return "batch_per_rank", "it shrinks as the ranks grow" if power < -_GROWS else "the table does not show it", False


def _by_stated(runs: pd.DataFrame, stated: str) -> str:
    """Return the scope by which a stated speedup or efficiency follows from the rates; "" for both, or neither."""
    errors: dict[str, list[float]] = {"images_per_s": [], "images_per_s_per_rank": []}
    for curve in _batch_curves(runs):
        rows = curve[curve[stated].gt(0) & curve["rate"].gt(0)]
        if rows["ranks"].nunique() < 2:
            continue
        first = rows.sort_values("ranks", kind="stable").iloc[0]
        if first["ranks"] == 1 and abs(np.log(first[stated])) > _FAR:  # not a ratio over fewer ranks
            continue
        ranks = rows["ranks"] / first["ranks"]
        shares = rows[stated] / first[stated]
        gain = shares if stated == "speedup" else shares * ranks
        rates = rows["rate"] / first["rate"]
        larger = ranks > 1
        errors["images_per_s"] += np.abs(np.log(rates / gain))[larger].tolist()
        errors["images_per_s_per_rank"] += np.abs(np.log(rates * ranks / gain))[larger].tolist()
    medians = {name: float(np.median(values)) for name, values in errors.items() if values}
    nearest, *others = sorted(medians, key=lambda name: medians[name]) or [""]
    far = medians[others[0]] if others else 0.0
    return nearest if far > _NEAR and medians[nearest] < min(_FAR, max(_NEAR, far / 3)) else ""


def _power(runs: pd.DataFrame) -> float:
    """Return the median power of the ranks with which the rates of curves grow; NaN without a curve."""
    powers = []
    for curve in _batch_curves(runs):
        rows = curve[curve["rate"].gt(0) & curve["ranks"].gt(0)]
        if rows["ranks"].nunique() > 1:
            powers.append(np.polyfit(np.log(rows["ranks"].astype(float)), np.log(rows["rate"]), 1)[0])
    return float(np.median(powers)) if powers else np.nan


def _any_grows(runs: pd.DataFrame) -> bool:
    """Return whether the rate of a curve grows with the ranks by more than single runs scatter."""
    ends = [rows.sort_values("ranks", kind="stable")["rate"].dropna() for rows in _batch_curves(runs)]
    return any(len(rate) > 1 and rate.iloc[-1] > _GROWN * rate.iloc[0] for rate in ends)


def _batch_curves(runs: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows of each curve, alike in the batch too unless they share one global batch."""
    batches = [name for name in ("batch_per_rank", "batch") if name in runs]
    for rows in curves(runs):
        strong = len(batches) == 1 and (rows[batches[0]] * rows["ranks"]).nunique() == 1
        if strong or not batches:
            yield rows
        else:
            yield from (curve for _, curve in rows.groupby(batches, dropna=False, sort=False))
