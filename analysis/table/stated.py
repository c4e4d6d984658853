"""The number of a row as its source states it: rounded, exact, about or a bound; and whether it follows from others."""

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
    """Return how the report states the number: "at least", "at most", "about", or "" for a plain number."""
    return next((form for form in READINGS if note.startswith(form)), "about" if note.startswith("approx") else "")


def half_unit(row: Row) -> float:
    """Return how far rounding can have moved the value of a row; 0 if it is not known to be rounded.

    For a stated number without its text this is half a unit of the last digit needed to write it.
    """
    half = row.get("half_unit", math.nan)
    if half is not None and not math.isnan(half):
        return float(half)
    return schema.half_unit(f"{row['value']:.10g}", row["unit"]) if row.get("kind") in ("stated", "predicted") else 0.0


def number(row: Row) -> Number:
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


def bounds(row: Row) -> Bounds:
    """Return the values that a row allows: a bound, 5 % around an "about", else all that rounds to it."""
    return Bounds(*number(row).interval)


def follows(row: Row, computed: Number) -> Verdict:
    """Return whether a stated number follows from others, from which `computed` was computed.

    Outside: nothing that the others allow rounds to it. Inside: something does, and all that they allow is within 5 %
    of it; otherwise a wrong number would follow as well.
    """
    value = float(row["value"])
    if math.isnan(computed.value) or math.isnan(value):
        return Verdict("undecided", "no interval")
    if reading(row["note"]) in ("at least", "at most"):
        return verdict.judge(computed, bounds(row))
    half = max(half_unit(row), MARGIN * abs(value))
    return verdict.judge(computed, bounds(row), Bounds(value - half, value + half))
