"""A user's table as rows of the tidy table (analysis.table.schema), which the rules of the audit read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd

from analysis.table import schema
from analysis.user_table.headers import TEXT
from analysis.user_table.rates import curves

# Quantities of the tidy table that a user's table may have.
_MEASURED = ("init_s", "wall_s", "job_s", "epoch_s", "images_per_s_per_rank", "images_per_s", "steps_per_rank")
_SIZES = ("nodes", "ranks_per_node", "ranks", "batch_per_rank", "global_batch")
# Stated speedups are ratios of the first of these that the table has.
_SPEEDUP_OF = {"images_per_s": "throughput", "wall_s": "wall_time", "job_s": "job_time"}


def tidy(runs: pd.DataFrame, rounding: pd.DataFrame, stated: Collection[str], path: str) -> pd.DataFrame:
    """Return `UserTable.runs` with one row a number, checked; repeats of one configuration are numbered.

    stated: the columns that the file has. The rate of a rank is left out if it only follows from that of the job.
    """
    suffix = next((quantity for name, quantity in _SPEEDUP_OF.items() if name in runs), "throughput")
    quantities = {name: (name, "measured") for name in _MEASURED}
    quantities |= {name: (f"{name}_{suffix}", "stated") for name in ("speedup", "efficiency")}
    if "images_per_s" in stated and "images_per_s_per_rank" not in stated:
        del quantities["images_per_s_per_rank"]
    quantities["epochs"] = ("epochs_planned", "planned")
    identity = _identity(runs)
    parts = [pd.DataFrame()]
    for name, (quantity, kind) in quantities.items():
        if name in runs and (values := _own_base(runs, name).dropna().astype(float)).size:
            half = rounding[name].reindex(values.index) if name in rounding and kind != "planned" else float("nan")
            described = schema.quantity(quantity)
            unit: Any = described.unit if described else "epochs"
            if unit == "images/s":  # of what its rates count
                unit = runs["work"].loc[values.index].replace("", "images") + "/s"
            rows = identity.loc[values.index].assign(quantity=quantity, value=values, unit=unit, half_unit=half)
            parts.append(rows.assign(kind=kind))
    rows = pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)
    return schema.check(rows.reindex(columns=[column.name for column in schema.COLUMNS]).astype(object), path)


def _own_base(runs: pd.DataFrame, name: str) -> pd.Series:
    """Return a column; for stated ratios, without curves whose run on fewest ranks does not state 1."""
    if name not in ("speedup", "efficiency"):
        return runs[name]
    stated = runs[name]
    for curve in curves(runs):
        base = curve.loc[curve["ranks"].eq(curve["ranks"].min()), name]
        if (base - 1).abs().min() > 0.01:
            stated = stated.drop(curve.index)
    return stated


def settings(runs: pd.DataFrame) -> pd.Series:
    """Return the setting of each run without model, data and machine: framework, precision, other settings."""
    texts = [runs[name].astype(str) for name in ("framework", "precision", "setting") if name in runs]
    joined = [" ".join(filter(None, row)) for row in zip(*texts, strict=True)] if texts else ""
    return pd.Series(joined, runs.index, dtype=object)


def _identity(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of a tidy row that identify its run; the setting is part of the model."""
    text = {name: runs[name].fillna("").astype(str) if name in runs else "" for name in ("dataset", "gpu", "machine")}
    model = runs.get("model", pd.Series("", runs.index)).fillna("").astype(str)
    sizes = {name: runs[name].where(runs[name] % 1 == 0) for name in _SIZES if name in runs}
    key = [name for name in (*TEXT, "nodes", "ranks_per_node", "ranks", "batch_per_rank") if name in runs]
    same = runs.groupby(key, dropna=False)["line"]
    frame = pd.DataFrame("", runs.index, [column.name for column in schema.COLUMNS], dtype=object)
    frame = frame.assign(
        source="published", place=runs["place"], model=(model + " " + settings(runs)).str.strip(), **text,
        repeat=same.cumcount().where(same.transform("size") > 1), **dict.fromkeys([*_SIZES, "threads_per_rank"]),
    )  # fmt: skip
    whole = [*sizes, "repeat"]
    frame = frame.assign(**sizes)
    frame[whole] = frame[whole].astype("Int64").astype(object).where(frame[whole].notna(), None)
    return frame
