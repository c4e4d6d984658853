"""A plain CSV file of points: separator, headers and cells. What cannot be read is named by line and column."""

from __future__ import annotations

import csv
import difflib
import functools
import io
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis import TableError
from analysis.table import headers

SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}

# Of a file with one row a run. A row without these is left out; with any other bad cell it is used without it.
NEEDED = ("ranks", "steps_per_rank", "batch_per_rank", "wall_s")
SPEED = "images_per_s_per_rank"
# Of the whole job; divided by the ranks they are these.
WHOLE_JOB = {"global_batch": "batch_per_rank", "images_per_s": SPEED}
TEXT = ("model",)
NUMBERS = (*NEEDED, SPEED, *WHOLE_JOB, "repeat")
COLUMNS = (*TEXT, *NUMBERS)
_WHOLE_NUMBERS = ("ranks", "repeat")
_COUNTS = ("ranks", "steps_per_rank", "batch_per_rank", "global_batch")
_LEAST, _MOST = 1e-9, 1e9  # of any of these numbers: a thousand times what there is, and products that can be computed
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_THREE_DIGITS = re.compile(r"[-+]?\d{1,3}[.,]\d{3}")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}([.,' ]\d{3})+([.,]\d+)?")


@dataclass(frozen=True)
class Cells:
    """The text of a CSV file: headers, rows, and the line in the file on which each row ends."""

    path: Path
    separator: str
    headers: list[str]
    rows: list[list[str]]
    lines: list[int]

    @functools.cached_property
    def decimals(self) -> str:
        """What numbers may have before their decimals: of a file whose separator is ';' also a comma, if some have."""
        if self.separator != ";":
            return "."
        cells = [cell for row in self.rows for cell in row if re.fullmatch(r"[-+]?[\d.,]+", cell)]
        return "".join(mark for mark in ",." if any(mark in cell for cell in cells))

    def frame(self) -> pd.DataFrame:
        """The rows as text under their headers. Raises TableError for a row of another length."""
        wrong = [
            problem for row, line in zip(self.rows, self.lines, strict=True) if (problem := self.length(row, line))
        ]
        if wrong:
            raise TableError("\n".join(wrong))
        return pd.DataFrame(self.rows, columns=self.headers, dtype=str)

    def length(self, row: list[str], line: int) -> str:
        """What is wrong with the number of cells of a row; "" where it is that of the headers."""
        if len(row) == len(self.headers):
            return ""
        separated = SEPARATORS[self.separator]
        return f"{self.path}, line {line}: {len(row)} cells, and {len(self.headers)} headers; separated by {separated}"


def load(path: Path) -> Cells:
    """The text of the file `path`; the separator is the one of SEPARATORS that most headers stand between.

    Raises TableError where it cannot be read, or has no header.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: not a readable CSV file: not in UTF-8; save it as 'CSV UTF-8'") from error
    except OSError as error:
        raise TableError(f"{path}: not a readable CSV file: {error.strerror}") from error
    header = next((line for line in text.splitlines() if line.strip()), "")
    if not header:
        raise TableError(f"{path}: not a readable CSV file: it is empty")
    separator = max(SEPARATORS, key=header.count)
    reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    try:
        found = [(row, reader.line_num) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise TableError(f"{path}, line {reader.line_num}: not a readable CSV file: {error}") from error
    rows, lines = zip(*found, strict=True)
    stripped = [[cell.strip() for cell in row] for row in rows]
    return Cells(path, separator, stripped[0], stripped[1:], list(lines[1:]))


def points(cells: Cells) -> tuple[pd.DataFrame, list[str]]:
    """The rows that can be used, with their `line`, and what could not be: cell by cell, and columns.

    Raises TableError where a needed column is absent or given twice, or no row can be used.
    """
    named = _columns(cells)
    notes = _unused(cells, named)
    found = []
    for row, line in zip(cells.rows, cells.lines, strict=True):
        if wrong := cells.length(row, line):
            notes.append(f"{wrong}; the row is left out")
            continue
        values, problems = _row(cells, named, row, line)
        notes += problems
        if values is not None:
            found.append({**values, "line": line})
    if not found:
        below = "" if cells.rows else ": there is none below the headers"
        raise TableError("\n".join([f"{cells.path}: no row can be used{below}", *notes[:20]]))
    return pd.DataFrame(found), notes


def _columns(cells: Cells) -> dict[str, int]:
    """Where each known column stands. Raises TableError for one given twice, or a needed one that is absent."""
    names = [name if (name := headers.name(header)) in COLUMNS else "" for header in cells.headers]
    twice = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    for name in twice:
        both = " and ".join(f"'{header}'" for header, of in zip(cells.headers, names, strict=True) if of == name)
        raise TableError(f"{cells.path}: columns {both} are both {name}: rename or remove one")
    named = {name: place for place, name in enumerate(names) if name}
    missing = [name for name in NEEDED if name not in named]
    missing = [name for name in missing if not any(WHOLE_JOB[of] == name for of in WHOLE_JOB if of in named)]
    if missing:
        raise TableError(
            "\n".join([f"{cells.path}: columns that are needed are missing: {len(missing)}", *_help(cells, missing)])
        )
    return named


def _help(cells: Cells, missing: list[str]) -> list[str]:
    unknown = {headers.normal(header): header for header in cells.headers if not headers.name(header)}
    lines = [f"'{header}' is not in seconds: convert it" for header in cells.headers if headers.not_in_seconds(header)]
    unknown = {name: header for name, header in unknown.items() if not headers.not_in_seconds(header)}
    for name in missing:
        close = difflib.get_close_matches(name, unknown, n=1, cutoff=0.7)
        like = f"; is it '{unknown[close[0]]}'?" if close else ""
        lines.append(f"column '{name}' is missing{like} (also read as it: {', '.join(headers.EXAMPLES[name])})")
    given = ", ".join(f"'{header}'" for header in cells.headers)
    read = f"the first line, read as separated by {SEPARATORS[cells.separator]}, has the headers {given}"
    return [*lines, *_asked(cells), read]


def _asked(cells: Cells) -> list[str]:
    """What the reader is asked of headers that may mean two columns: neither is used."""
    return [
        f"'{header}': of one rank or of the whole job? Call it {' or '.join(meant)}"
        for header in cells.headers
        if (meant := headers.meanings(header))
    ]


def _unused(cells: Cells, named: dict[str, int]) -> list[str]:
    unused = [header for place, header in enumerate(cells.headers) if header and place not in named.values()]
    notes = [f"columns not used: {', '.join(unused)}"] if unused else []
    notes += _asked(cells)
    for whole, name in WHOLE_JOB.items():
        if whole in named and name not in named:
            notes.append(f"'{cells.headers[named[whole]]}' is taken as of the whole job, and divided by the ranks")
    return notes


def _row(cells: Cells, named: dict[str, int], row: list[str], line: int) -> tuple[dict[str, object] | None, list[str]]:
    """The values of a row, None where a needed one is bad; and a line for each bad cell."""
    values: dict[str, object] = {}
    problems, lost = [], False
    for name, place in named.items():
        if name in TEXT:
            values[name] = row[place]
            continue
        values[name], wrong = _number(name, row[place], cells)
        at_issue = WHOLE_JOB.get(name, name) if WHOLE_JOB.get(name, name) not in named else name
        lost |= bool(wrong) and at_issue in NEEDED
        if wrong:
            left = "the row is left out" if at_issue in NEEDED else "the row is used without it"
            problems.append(f"{cells.path}, line {line}, column '{cells.headers[place]}': {wrong}; {left}")
    return (None if lost else values), problems


def _number(name: str, cell: str, cells: Cells) -> tuple[float, str]:
    """The number in a cell of a column, NaN where it cannot be used, and why not."""
    decimals = cells.decimals
    if len(decimals) > 1 and _THREE_DIGITS.fullmatch(cell):
        return math.nan, f"'{cell}': of thousands, or decimals? Both ',' and '.' are in the file: use one, for decimals"
    if cells.separator == ";" and name in _COUNTS and _THREE_DIGITS.fullmatch(cell):
        return math.nan, f"'{cell}': of thousands, or decimals? Write it without a separator of thousands"
    if not cell:
        return math.nan, "empty"
    try:
        value = float(cell.replace(",", ".") if "," in decimals and _DECIMAL_COMMA.fullmatch(cell) else cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        return math.nan, f"'{cell}' is no number{_how_to_write(cell)}"
    if value < 0 or (value == 0 and name != "repeat"):
        return math.nan, f"{cell} given, must be more than 0"
    if value and not _LEAST <= value <= _MOST:
        return math.nan, f"{cell} given, must be between {_LEAST:g} and {_MOST:g}"
    if name in _WHOLE_NUMBERS and value % 1:
        return math.nan, f"{cell} given, must be a whole number"
    return value, ""


def _how_to_write(cell: str) -> str:
    if _THOUSANDS.fullmatch(cell):
        return "; write it without separators of thousands"
    return "; write a decimal point, or separate the cells by ';'" if _DECIMAL_COMMA.fullmatch(cell) else ""
