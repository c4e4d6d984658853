"""Safe text for terminals and CSV files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pandas as pd  # the command line starts without it

# Control characters, which a terminal obeys, without tabs and ends of lines; and those that reverse how text runs.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_FORMULA = re.compile(r"[=+\-@\t\r]")  # the first character of what a spreadsheet computes


class Printable:
    """A stream that writes each control character as an escape, as \\x1b."""

    def __init__(self, stream: TextIO) -> None:
        """Take the stream that is written to."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text and return its length."""
        shown = _CONTROL.sub(lambda character: ascii(character[0])[1:-1], text)
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the stream."""
        return getattr(self._stream, name)


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
