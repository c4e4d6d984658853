"""Ratios that follow from the throughputs of a report, and whether a number that it states follows from others.

A report states a number rounded, exact, about or as a bound.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis import metrics
from analysis.curves import SETTING, SIZE, Row, measured, row_dicts
from analysis.stats import Number, between, rounded, student, unknown
from analysis.stats.verdict import Bounds, Verdict, judge
from analysis.table import tidy_columns
from analysis.thresholds import limit

# Numbers that differ by less count as the same: a fraction of the number.
MARGIN = limit("same")
# How a report states a number, as its note begins: the criterion of agreement depends on it.
READINGS = ("at least", "at most", "about")


def reading(note: str) -> str:
    """Return how the report states the number: "at least", "at most", "about", or "" for a plain number."""
    return next((form for form in READINGS if note.startswith(form)), "about" if note.startswith("approx") else "")


def half_unit(row: Row) -> float:
    """Return how far rounding can have moved the value of a row; 0 if it is not known to be rounded.

    For a stated number without its text this is half a unit of the last digit needed to write it.
    """
    half = row.get("half_unit", math.nan)
    if half is not None and not math.isnan(half):
        return float(half)
    is_stated = row.get("kind") in ("stated", "predicted")
    return tidy_columns.half_unit(f"{row['value']:.10g}", row["unit"]) if is_stated else 0.0


def stated_number(row: Row) -> Number:
    """Return the number of a row with its rounding interval; a bound is open on one side."""
    value = float(row["value"])
    match reading(row["note"]):
        case "at least":
            return between(value, value, math.inf)
        case "at most":
            return between(value, -math.inf, value)
        case "about":
            return rounded(value, max(half_unit(row), MARGIN * abs(value)))
    return rounded(value, half_unit(row))


def follows(row: Row, computed: Number) -> Verdict:
    """Return whether a stated number follows from others, from which `computed` was computed.

    Outside: nothing that the others allow rounds to it. Inside: something does, and all that they allow is within 5 %
    of it; otherwise a wrong number would follow as well.
    """
    value = float(row["value"])
    if math.isnan(computed.value) or math.isnan(value):
        return Verdict("undecided", "no interval")
    bounds = Bounds(*stated_number(row).interval)
    if reading(row["note"]) in ("at least", "at most"):
        return judge(computed, bounds)
    half = max(half_unit(row), MARGIN * abs(value))
    return judge(computed, bounds, Bounds(value - half, value + half))


# How the two sides of a printed ratio differ: column, upper side, lower side.
RATIOS = {
    "ratio_synthetic_to_real": ("dataset", "synthetic", "imagenet"),
    "ratio_batch_64_to_32": ("batch_per_rank", 64, 32),
    "ratio_p100_to_k80": ("gpu", "P100", "K80"),
    "ratio_resnet50_to_inceptionv3": ("model", "resnet50", "inceptionv3"),
}
# Columns that change with it: a machine has one GPU type, the global batch follows from the batch per rank.
_WITH = {"gpu": ("machine",), "batch_per_rank": ("global_batch",)}


def pairs(table: pd.DataFrame, ratio: str, normalised: bool = False) -> pd.DataFrame:
    """Return both sides of every cell of a printed ratio, from the throughputs of the same table.

    Columns: those of the tidy table but value, `upper`, `lower` [images/s, or x where `normalised`, each over its own
    fewest ranks], `follows` = upper / lower, `off`: how far rounding can move it, a fraction of it.
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
    upper = rows[rows[column] == over].rename(columns={"value": "upper"})
    lower = rows[rows[column] == under].rename(columns={"value": "lower"})[[*key, "lower", "off"]]
    both = upper.merge(lower, on=key, suffixes=("", "_lower"))
    return both.assign(follows=metrics.speedup(both["upper"], both["lower"]), off=both["off"] + both["off_lower"])


KEY = ["batch_per_rank", "dataset", "model", "gpu", "ranks"]


def ratios_of_settings(rows: pd.DataFrame, ratio: str, speedups: bool) -> pd.DataFrame:
    """Return one of RATIOS of throughputs, or of speedups; columns: the rest of KEY, ratio, low, high, n."""
    column, over, under = RATIOS[ratio]
    cells = {key: student.mean(group.tolist()) for key, group in rows.groupby(KEY)["value"]}
    if speedups:
        on_one_rank = {key[:-1]: cell for key, cell in cells.items() if key[-1] == 1}
        cells = {
            key: unknown(1.0, cell.n) if key[-1] == 1 else student.ratio(cell, on_one_rank[key[:-1]])
            for key, cell in cells.items()
            if key[:-1] in on_one_rank
        }
    index, rows_of_ratios = KEY.index(column), []
    for key, cell in cells.items():
        lower = cells.get((*key[:index], under, *key[index + 1 :]))
        if key[index] == over and lower:
            r = student.ratio(cell, lower)
            rows_of_ratios.append((*key, r.value, r.low, r.high, r.n))
    return pd.DataFrame(rows_of_ratios, columns=[*KEY, "ratio", "low", "high", "n"]).drop(columns=column)


@dataclass(frozen=True, eq=False)
class Derived:
    """A number computed from the primary numbers of a report; `row`: as the report states it, NaN if only plotted."""

    row: Row
    computed: Number
    formula: str
    base: Row | None = None  # the denominator of a ratio

    @property
    def verdict(self) -> Verdict:
        """Return whether the stated number follows."""
        return follows(self.row, self.computed)


def stated(table: pd.DataFrame, *quantities: str) -> Sequence[Row]:
    """Return the rows of these quantities that a report derives, claims or predicts."""
    rows = table[table["kind"].isin(["stated", "predicted"]) & table["quantity"].isin(quantities)]
    return row_dicts(rows)
