"""Ratios of throughputs, or speedups, of two settings, all else the same."""

from dataclasses import dataclass

import pandas as pd

from analysis import metrics
from analysis.curves import SETTING, SIZE, measured
from analysis.stats import student
from analysis.stats.number import unknown
from analysis.table.stated import half_unit

# What the two sides of a printed ratio differ in: column, upper side, lower side.
RATIOS = {
    "ratio_synthetic_to_real": ("dataset", "synthetic", "imagenet"),
    "ratio_batch_64_to_32": ("batch_per_rank", 64, 32),
    "ratio_p100_to_k80": ("gpu", "P100", "K80"),
    "ratio_resnet50_to_inceptionv3": ("model", "resnet50", "inceptionv3"),
}
# What else changes with it: one machine has one GPU type, the global batch follows from the batch per rank.
_WITH = {"gpu": ("machine",), "batch_per_rank": ("global_batch",)}


def pairs(table: pd.DataFrame, ratio: str, normalised: bool = False) -> pd.DataFrame:
    """Returns both sides of every cell of a printed ratio, from the throughputs of the same table.

    Columns: those of the tidy table (of the upper side), `upper`, `lower` [images/s, or x where `normalised`, each
    over its own fewest ranks], `follows` = upper / lower, `off`: how far rounding can move it, a fraction of it.
    """
    column, over, under = RATIOS[ratio]
    rows = measured(table, "images_per_s")
    rows = rows[rows["report"].isin(table.loc[table["quantity"].eq(ratio), "report"])]
    rows = rows.assign(off=[half_unit(row) / row["value"] for row in rows.to_dict("records")])
    if normalised:
        columns = rows.sort_values("ranks").groupby([*SETTING, "batch_per_rank"], dropna=False)
        first = columns[["value", "off"]].transform("first").loc[rows.index]
        off = (rows["off"] + first["off"]).where(rows["value"].ne(first["value"]), 0.0)
        rows = rows.assign(value=metrics.speedup(rows["value"], first["value"]), off=off)
    key = [name for name in [*SETTING, *SIZE] if name != column and name not in _WITH.get(column, ())]
    upper, lower = rows[rows[column] == over], rows[rows[column] == under][[*key, "value", "off"]]
    found = upper.merge(lower, on=key, suffixes=("", "_lower"))
    found["upper"], found["lower"] = found["value"], found["value_lower"]
    found["off"] += found["off_lower"]
    return found.assign(follows=metrics.speedup(found["upper"], found["lower"]))


KEY = ["batch_per_rank", "dataset", "model", "gpu", "ranks"]


@dataclass(frozen=True)
class Setting:
    """What differs between the two sides of a ratio, all else the same: the rows where a column is `over` / `under`."""

    column: str
    over: object
    under: object


def ratios_of_settings(rows: pd.DataFrame, setting: Setting, speedups: bool) -> pd.DataFrame:
    """Throughput, or speedup, over that of the other setting; columns: the others of KEY, ratio, low, high, n."""
    cells = {key: student.mean(group.tolist()) for key, group in rows.groupby(KEY)["value"]}
    if speedups:
        one = {key[:-1]: cell for key, cell in cells.items() if key[-1] == 1}
        cells = {
            key: unknown(1.0, cell.n) if key[-1] == 1 else student.ratio(cell, one[key[:-1]])
            for key, cell in cells.items()
            if key[:-1] in one
        }
    at, found = KEY.index(setting.column), []
    for key, cell in cells.items():
        other = cells.get((*key[:at], setting.under, *key[at + 1 :]))
        if key[at] == setting.over and other:
            r = student.ratio(cell, other)
            found.append((*key, r.value, r.low, r.high, r.n))
    return pd.DataFrame(found, columns=[*KEY, "ratio", "low", "high", "n"]).drop(columns=setting.column)
