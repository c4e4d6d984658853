"""Numbers as reports print them: rounded, exact or a bound; and whether a printed number follows from others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

from analysis import verdicts
from analysis.curves import Row
from analysis.table import schema
from analysis.verdicts import MARGIN, Limits, Uncertain, Verdict

# How a report states a number, as its note begins: it decides what counts as agreement.
READINGS = ("at least", "at most", "about")


def reading(note: str) -> str:
    """How the report states the number: "at least", "at most", "about", or "" where it gives it as it is."""
    return next((words for words in READINGS if note.startswith(words)), "about" if note.startswith("approx") else "")


def half_unit(row: Row) -> float:
    """How far rounding can have moved the value of a row; 0 where it is not known to be rounded.

    Of a number that a report states, without its text, half a unit of the last digit that it takes to write it.
    """
    found = row.get("half_unit", math.nan)
    if found is not None and not math.isnan(found):
        return float(found)
    return schema.half_unit(f"{row['value']:.10g}", row["unit"]) if row.get("kind") in ("stated", "predicted") else 0.0


def number(row: Row) -> Uncertain:
    """A printed number, with all that it may have been before it was rounded; a bound is open to one side."""
    value, half = float(row["value"]), half_unit(row)
    match reading(row["note"]):
        case "at least":
            return verdicts.between(value, value, math.inf)
        case "at most":
            return verdicts.between(value, -math.inf, value)
        case "about":
            half = max(half, MARGIN * abs(value))
    return verdicts.between(value, value - half, value + half)


def allowed(row: Row) -> Limits:
    """What a stated number says: a bound, 5 % around what is said to be about so, else what rounds to it."""
    value, half = float(row["value"]), half_unit(row)
    match reading(row["note"]):
        case "at least":
            return Limits(low=value)
        case "at most":
            return Limits(high=value)
        case "about":
            half = max(half, MARGIN * abs(value))
    return Limits(value - half, value + half)


def follows(row: Row, computed: Uncertain) -> Verdict:
    """Whether a stated number follows from others, of which `computed` was made.

    Contradicted where nothing that the others allow rounds to it. Supported where something does, and all that they
    allow is within 5 % of it: else a wrong number would follow as well.
    """
    if math.isnan(computed.value) or math.isnan(float(row["value"])):
        return "not decidable"
    limits, half = allowed(row), max(half_unit(row), MARGIN * abs(float(row["value"])))
    if reading(row["note"]) in ("at least", "at most"):
        return verdicts.judge(computed, limits)
    return verdicts.judge(computed, limits, Limits(row["value"] - half, row["value"] + half))


def combined(formula: Callable[..., float], numbers: Mapping[str, Uncertain]) -> Uncertain:
    """What a formula makes of rounded numbers: the smallest and the largest value at the ends of all of them.

    The formula rises or falls with each number alone, as sums, products and quotients of positive numbers do. NaN where
    the range of one is not known.
    """
    value = formula(**{name: found.value for name, found in numbers.items()})
    ends = [(found.low, found.high) for found in numbers.values()]
    if any(math.isnan(end) for both in ends for end in both):
        return verdicts.unknown(value)
    corners = [formula(**dict(zip(numbers, corner, strict=True))) for corner in itertools.product(*ends)]
    n = min((found.n for found in numbers.values()), default=1)
    return verdicts.between(value, min(corners), max(corners), n)
