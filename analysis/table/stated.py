"""The number of a row as its source states it: rounded, exact, about or a bound; and whether it follows from others."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

from analysis.stats import verdict
from analysis.stats.number import Number, between, rounded
from analysis.stats.verdict import Bounds, Verdict
from analysis.table import schema
from analysis.thresholds import limit

Row = Mapping[Hashable, Any]

# What counts as the same: a fraction of the number.
MARGIN = limit("same")
# How a report states a number, as its note begins: it decides what counts as agreement.
READINGS = ("at least", "at most", "about")


def reading(note: str) -> str:
    """How the report states the number: "at least", "at most", "about", or "" where it gives it as it is."""
    return next((form for form in READINGS if note.startswith(form)), "about" if note.startswith("approx") else "")


def half_unit(row: Row) -> float:
    """How far rounding can have moved the value of a row; 0 where it is not known to be rounded.

    Of a number that a report states, without its text, half a unit of the last digit that it takes to write it.
    """
    half = row.get("half_unit", math.nan)
    if half is not None and not math.isnan(half):
        return float(half)
    return schema.half_unit(f"{row['value']:.10g}", row["unit"]) if row.get("kind") in ("stated", "predicted") else 0.0


def number(row: Row) -> Number:
    """The number of a row, with all that it may have been before it was rounded; a bound is open to one side."""
    value = float(row["value"])
    match reading(row["note"]):
        case "at least":
            return between(value, value, math.inf)
        case "at most":
            return between(value, -math.inf, value)
        case "about":
            return rounded(value, max(half_unit(row), MARGIN * abs(value)))
    return rounded(value, half_unit(row))


def bounds(row: Row) -> Bounds:
    """What a row says: a bound, 5 % around what is said to be about so, else what rounds to it."""
    return Bounds(*number(row).interval)


def follows(row: Row, computed: Number) -> Verdict:
    """Whether a stated number follows from others, of which `computed` was made.

    Outside where nothing that the others allow rounds to it. Inside where something does, and all that they allow is
    within 5 % of it: else a wrong number would follow as well.
    """
    value = float(row["value"])
    if math.isnan(computed.value) or math.isnan(value):
        return Verdict("undecided", "no interval")
    if reading(row["note"]) in ("at least", "at most"):
        return verdict.judge(computed, bounds(row))
    half = max(half_unit(row), MARGIN * abs(value))
    return verdict.judge(computed, bounds(row), Bounds(value - half, value + half))
