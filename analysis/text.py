"""Text that several outputs share: counts in words, Markdown tables, and CSV that is safe in a spreadsheet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd  # the command line starts without it

_FORMULA = re.compile(r"[=+\-@\t\r]")  # the first character of what a spreadsheet computes


def counted(number: float, noun: str) -> str:
    """Return a number with its noun: "1 rank", "2 launches"."""
    plural = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:g} {noun}{plural}"


def tally(values: Sequence[str], names: Sequence[str]) -> str:
    """Return how often each of these names is among the values: "1 serious, 0 notes"."""
    return ", ".join(f"{values.count(name)} {name}" for name in names)


def markdown_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return rows as a Markdown table, one space beside each cell: a wide cell does not widen all others."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [[*rows[0]], ["---"] * len(rows[0]), *cells])


def csv_text(rows: pd.DataFrame, **options: Any) -> str:
    """Return the rows as CSV with a header, with ' before each text that a spreadsheet would take for a formula."""
    texts = rows.select_dtypes(["object", "str"]).columns
    return rows.assign(**{name: rows[name].map(_cell) for name in texts}).to_csv(
        index=False, lineterminator="\n", **options
    )


def _cell(value: object) -> object:
    if not isinstance(value, str) or not _FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
