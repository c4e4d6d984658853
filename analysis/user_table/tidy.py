"""A user's table as rows of the tidy table (analysis.table.tidy_columns), which the rules of the audit read."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from analysis.table import tidy_columns
from analysis.user_table.headers import TEXT

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
        if name not in runs or (values := runs[name].dropna()).empty:
            continue
        rows = identity.loc[values.index].assign(quantity=quantity, value=values, kind=kind)
        unit = tidy_columns.QUANTITIES[quantity].unit
        rows["unit"] = runs["work"].replace("", "images") + "/s" if unit == "images/s" else unit  # what its rates count
        rounded = name in rounding and kind != "planned"
        parts.append(rows.assign(half_unit=rounding[name] if rounded else float("nan")))
    rows = pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)
    return tidy_columns.check(rows.reindex(columns=[column.name for column in tidy_columns.COLUMNS]), path)


def settings(runs: pd.DataFrame) -> pd.Series:
    """Return the setting of each run without model, data and machine: framework, precision, other settings."""
    return _joined(runs, "framework", "precision", "setting")


def _joined(runs: pd.DataFrame, *names: str) -> pd.Series:
    """Return the texts of these columns of each run, with blanks between them."""
    rows = runs[[name for name in names if name in runs]].astype(object).fillna("").to_numpy()
    return pd.Series([" ".join(filter(None, map(str, row))) for row in rows], runs.index, dtype=object)


def _identity(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of a tidy row that identify its run; the setting is part of the model."""
    key = [name for name in (*TEXT, "nodes", "ranks_per_node", "ranks", "batch_per_rank") if name in runs]
    same = runs.groupby(key, dropna=False)["line"]
    sizes = runs.reindex(columns=_SIZES)
    return sizes.where(sizes % 1 == 0).assign(
        **{name: _joined(runs, name) for name in ("dataset", "gpu", "machine")},
        model=_joined(runs, "model", "framework", "precision", "setting"),
        source="published",
        place=runs["place"],
        repeat=same.cumcount().where(same.transform("size") > 1),
    )
