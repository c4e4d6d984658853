"""Safe text for CSV files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd  # the command line starts without it

_FORMULA = re.compile(r"[=+\-@\t\r]")  # the first character of what a spreadsheet computes


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
