"""Whether rates and batches that do not say so are of one rank or of the whole job: what else the table has tells."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

# So near must a rate be to what a speedup says of it, as a fraction.
_NEAR = 0.04
_GROWS, _FLAT = 0.25, 0.12  # powers of the ranks with which a rate grows


def of_rate(runs: pd.DataFrame, key: list[str]) -> tuple[str, str, bool]:
    """The name of the column `rate`: of one rank, or of the whole job; why; and whether that is certain.

    runs: with ranks, rate, and where they are known speedup, efficiency, step_s, batch_per_rank, global_batch. key: the
    columns that tell curves apart.
    """
    whole, one = "images_per_s", "images_per_s_per_rank"
    for stated in ("speedup", "efficiency"):
        if stated in runs and (found := _by_stated(runs, key, stated)):
            return found, f"its {stated} says so", True
    if {"step_s", "batch_per_rank"} <= {*runs}:
        product = (runs["rate"] * runs["step_s"] / runs["batch_per_rank"]).median()
        total = (runs["rate"] * runs["step_s"] / runs["batch_per_rank"] / runs["ranks"]).median()
        if abs(np.log(product)) < 0.1 < abs(np.log(total)):
            return one, "rate x step time is the batch of a rank", True
        if abs(np.log(total)) < 0.1 < abs(np.log(product)):
            return whole, "rate x step time is the batch of all ranks", True
    power = _power(runs, key)
    if np.isnan(power):
        return whole, "nothing in the table tells", False
    if power < _FLAT:
        return one, "it does not grow with the ranks: of the whole job, more ranks would gain nothing", False
    return whole, "it grows with the ranks" if power > _GROWS else "nothing in the table tells", False


def of_batch(runs: pd.DataFrame, key: list[str]) -> tuple[str, str, bool]:
    """The name of the column `batch`, why, and whether that is certain."""
    if {"step_s", "images_per_s"} <= {*runs}:
        total = (runs["images_per_s"] * runs["step_s"] / runs["batch"]).median()
        if abs(np.log(total)) < 0.1:
            return "global_batch", "it is rate x step time", True
    steps = _of_steps(runs)
    if steps is not None and _power(runs.assign(rate=steps), key) > _NEAR:
        return (
            "global_batch",
            "steps take less time on more ranks: of one rank, they would do more than their share",
            False,
        )
    kept_per_rank, kept = [], []
    for _, curve in runs.groupby(key, dropna=False) if key else [((), runs)]:
        known = curve[curve["batch"].notna() & curve["ranks"].notna()]
        if known["ranks"].nunique() > 1 and known["batch"].nunique() > 1:
            kept_per_rank.append((known["batch"] / known["ranks"]).nunique() == 1)
            kept.append((known["batch"] * known["ranks"]).nunique() == 1)
    if kept_per_rank and all(kept_per_rank):
        return "global_batch", "it grows as the ranks do", False
    if kept and all(kept):
        return "batch_per_rank", "it shrinks as the ranks grow", False
    return "batch_per_rank", "nothing in the table tells", False


def _of_steps(runs: pd.DataFrame) -> pd.Series | None:
    """Steps per second, where the table has them or their time."""
    if "steps_per_s" in runs:
        return runs["steps_per_s"]
    return 1 / runs["step_s"] if "step_s" in runs else None


def _by_stated(runs: pd.DataFrame, key: list[str], stated: str) -> str:
    """What makes a stated speedup or efficiency follow from the rates; "" where both do, or neither."""
    errors: dict[str, list[float]] = {"images_per_s": [], "images_per_s_per_rank": []}
    for curve in _curves(runs, key):
        known = curve[curve[stated].gt(0) & curve["rate"].gt(0)]
        if known["ranks"].nunique() < 2:
            continue
        first = known.sort_values("ranks", kind="stable").iloc[0]
        ranks = known["ranks"] / first["ranks"]
        shares = known[stated] / first[stated]
        gain = shares if stated == "speedup" else shares * ranks
        rates = known["rate"] / first["rate"]
        more = ranks > 1
        errors["images_per_s"] += np.abs(np.log(rates / gain))[more].tolist()
        errors["images_per_s_per_rank"] += np.abs(np.log(rates * ranks / gain))[more].tolist()
    fits = [name for name, values in errors.items() if values and np.median(values) < _NEAR]
    return fits[0] if len(fits) == 1 else ""


def _power(runs: pd.DataFrame, key: list[str]) -> float:
    """The median power of the ranks with which the rates of curves grow; NaN without a curve."""
    powers = []
    for curve in _curves(runs, key):
        known = curve[curve["rate"].gt(0) & curve["ranks"].gt(0)]
        if known["ranks"].nunique() > 1:
            powers.append(np.polyfit(np.log(known["ranks"].astype(float)), np.log(known["rate"]), 1)[0])
    return float(np.median(powers)) if powers else np.nan


def _curves(runs: pd.DataFrame, key: list[str]) -> Iterator[pd.DataFrame]:
    """The rows of each curve: alike in the key and, unless they share one global batch, in the batch."""
    batches = [name for name in ("batch_per_rank", "batch") if name in runs]
    for _, rows in runs.groupby(key, dropna=False, sort=False) if key else [((), runs)]:
        strong = len(batches) == 1 and (rows[batches[0]] * rows["ranks"]).nunique() == 1
        if strong or not batches:
            yield rows
        else:
            yield from (curve for _, curve in rows.groupby(batches, dropna=False, sort=False))
