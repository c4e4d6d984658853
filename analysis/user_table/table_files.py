"""Files of users as grids of text cells, within bounds: separated values, XLSX, JSON, tables in text, known logs."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis import TableError
from analysis.user_table import answers, markup
from common import bounded_files as bounded
from common import logs
from common.grouping import grouped

_BYTES = 32 * 2**20  # of one file, and of the files in a folder
_FILES = 1000  # in a folder
_UNPACKED = 4 * _BYTES  # of a workbook
_COLUMNS, _CELLS = 500, 500_000  # of one table, blank ones too
_ALLOWED = "save the table as CSV, XLSX, JSON or Markdown"
_TOO_LARGE = f"more than {_COLUMNS} columns or {_CELLS} cells, blank ones too: not a table of measurements"


@dataclass(frozen=True)
class GridRow:
    """The cells of one row, with the name of its file and the line on which it begins; its number if unit is "row"."""

    cells: tuple[str, ...]
    source: str
    line: int
    unit: str = "line"

    @property
    def place(self) -> str:
        """Return its file and line."""
        return f"{self.source}, {self.unit} {self.line}"


@dataclass(frozen=True)
class Grid:
    """One table. title: the title above it. decimal: the mark before decimals, "" if its format has none.

    log: whether its headers are names of the kit, from a known log. columns: the text of COLUMNS beside its file.
    """

    rows: tuple[GridRow, ...]
    title: str = ""
    decimal: str = ""
    log: bool = False
    columns: str = ""

    @property
    def place(self) -> str:
        """Return its file and first line."""
        return self.rows[0].place


def trimmed(cells: Sequence[str]) -> list[str]:
    """Return cells without the blank ones at their end."""
    return list(cells[: next((at for at in range(len(cells), 0, -1) if cells[at - 1]), 0)])


def read_grids(path: Path, answered: bool = True) -> tuple[list[Grid], list[str]]:
    """Return the tables in a file, in the files of a folder at any depth, or on standard input for "-"; and problems.

    answered: whether what is kept beside a file says what its columns mean. A problem is one line that names a file
    that cannot be read, and why. Files of a folder whose headers are alike are one table.
    """
    grids: list[Grid] = []
    problems: list[str] = []
    left = _BYTES
    for file in _files(path) if path.is_dir() else [path]:
        try:
            data = _bytes(file, left, link=file == path)
            left -= len(data)
            columns = answers.stored(file, data) if answered and str(file) != "-" else ""
            tables = _grids(data, "standard input" if str(file) == "-" else str(file))
            grids += [replace(grid, columns=columns) for grid in tables]
        except TableError as error:
            problems.append(str(error))
        except (ValueError, RecursionError, MemoryError, OverflowError, csv.Error) as error:
            problems.append(f"{file}: cannot be read: {error}: {_ALLOWED}")
    if not path.is_dir():
        return grids, problems
    joined = grouped(
        grids, lambda grid: id(grid) if grid.log else (grid.rows[0].cells, grid.title, grid.decimal, grid.columns)
    )
    return [
        replace(same[0], rows=(*same[0].rows, *(row for grid in same[1:] for row in grid.rows[1:])))
        for same in joined.values()
    ], problems


def _files(folder: Path) -> list[Path]:
    """Return the files in a folder at any depth, by name; it follows no link to a folder, and skips hidden names."""
    names = (path for path in folder.rglob("*") if answers.SUFFIX not in path.name and not path.is_dir())
    shown = (path for path in names if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    files = sorted(itertools.islice(shown, _FILES + 1))
    if len(files) > _FILES:
        raise TableError(f"{folder}: more than {_FILES} files: name the file, or a smaller folder")
    if not files:
        raise TableError(f"{folder}: an empty folder")
    return files


def _bytes(path: Path, most: int, link: bool) -> bytes:
    """Return the bytes of a regular file. `link`: whether it may be a link; in a folder it may lead out of it."""
    if str(path) == "-":
        data = sys.stdin.buffer.read(most + 1)
        if len(data) > most:
            raise TableError(f"{path}: more than {_BYTES / 1e6:.0f} MB: not a table of measurements")
        return data
    try:
        return bounded.read(path, most, links=link)
    except OSError as error:
        reason = "a link, which is not followed" if path.is_symlink() and not link else error.strerror
        raise TableError(f"{path}: cannot be read: {reason}") from error


def _grids(data: bytes, source: str) -> list[Grid]:
    """Return the tables in the bytes of one file. Raises TableError naming it if it has none."""
    if data.startswith(b"PK\x03\x04") and b"xl/workbook.xml" in data:
        return list(_sheets(data, source))
    text = _decoded(data, source)
    if runs := logs.read_log(text, source).runs:
        return [replace(_record_grid(source, [(run.pop("line"), run) for run in runs]), log=True)]
    text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", "\ufffd", re.sub(r"\r\n?", "\n", text))
    if not text.strip():
        raise TableError(f"{source}: it is empty")
    if max(map(text.count, ",;\t|[{&<")) > _CELLS:
        raise TableError(f"{source}: {_TOO_LARGE}")
    if records := _json_records(text, source):
        return [_record_grid(source, enumerate(records, 1), unit="row")]
    if tables := markup.read_markup(text):
        if markup.rows_share_lines(text):
            numbered = ((title, enumerate((cells for _, cells in rows), 1)) for title, rows in tables)
            return [_grid(source, rows, title, decimal=".", unit="row") for title, rows in numbered]
        return [_grid(source, rows, title, decimal=".") for title, rows in tables]
    if separated := _separated(text, source):
        return [_grid(source, separated[1], decimal="." if separated[0] == "," else "")]
    if blanks := markup.blanks(text):
        return [_grid(source, blanks)]
    raise TableError(f"{source}: no table that is known: {_ALLOWED}")


def _grid(
    source: str, rows: Iterable[tuple[int, Sequence[str]]], title: str = "", decimal: str = "", unit: str = "line"
) -> Grid:
    """Return the rows that are not blank, each with its line, as a grid. Raises TableError for too many cells."""
    table: list[GridRow] = []
    count = 0
    for line, cells in rows:
        count += max(1, len(cells))
        if count > _CELLS or len(trimmed(cells)) > _COLUMNS:
            raise TableError(f"{source}, {unit} {line}: {_TOO_LARGE}")
        table += [GridRow(tuple(cells), source, line, unit)] if any(cells) else []
    return Grid(tuple(table), title, decimal)


def _decoded(data: bytes, source: str) -> str:
    """Return bytes as text: UTF-16 if marked so, else UTF-8, else Windows-1252."""
    for encoding in ("utf-16",) if data.startswith((b"\xff\xfe", b"\xfe\xff")) else ("utf-8-sig", "cp1252"):
        with contextlib.suppress(UnicodeDecodeError):
            if "\0" not in (text := data.decode(encoding)):
                return text
    raise TableError(f"{source}: not a text file: {_ALLOWED}")


def _sheets(data: bytes, source: str) -> Iterator[Grid]:
    """Yield the sheets of a workbook that have cells."""
    import openpyxl  # takes 0.2 s

    try:
        if sum(part.file_size for part in zipfile.ZipFile(io.BytesIO(data)).infolist()) > _UNPACKED:
            raise TableError(f"{source}: larger than {_UNPACKED >> 20} MiB unpacked: not a table of measurements")
        workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        several = len(workbook.worksheets) > 1
        for sheet in workbook.worksheets:
            sheet.reset_dimensions()  # what the file states of them may be wrong
            rows = enumerate((list(map(_cell, values)) for values in sheet.iter_rows(values_only=True)), 1)
            name = f"{source}, sheet '{sheet.title}'" if several else source
            grid = _grid(name, rows, sheet.title if several else "", decimal=".", unit="row")
            yield from [grid] if grid.rows else []
    except TableError:
        raise
    except Exception as error:  # a broken workbook can raise anything
        raise TableError(f"{source}: a workbook that cannot be read ({error}): save the sheet as CSV") from error


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


def _record_grid(source: str, records: Iterable[tuple[int, Mapping[str, Any]]], unit: str = "line") -> Grid:
    """Return records, each behind its line, as a grid with a column for each name."""
    records = [*records]
    names = [*dict.fromkeys(name for _, record in records for name in record)]
    rows = ((line, [_cell(record.get(name)) for name in names]) for line, record in records)
    return _grid(source, itertools.chain([(0, names)], rows), decimal=".", unit=unit)


def _json_records(text: str, source: str) -> list[dict[str, Any]]:
    """Return the records of JSON: in a list, alone or under one key, or one a line; or columns of pandas' forms.

    Objects in a record are joined to it, with their name before those of their values. [] if the text is no JSON.
    """
    content = None
    for lines in ([text], text.splitlines()) if text.lstrip()[0] in "[{" else ():
        with contextlib.suppress(json.JSONDecodeError):
            content = content or [json.loads(line) for line in lines if line.strip()]
    if not content:
        return []
    with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError):
        records = [_flat(record) for record in _records(content[0] if len(content) == 1 else content)]
        if any(records):
            return records
    raise TableError(f"{source}: JSON without records: give a list of objects, or one object a line")


def _records(content: Any) -> list[Any]:
    """Return the records of a JSON value; what is no object as it is. Raises ValueError or the like if it has none."""
    if not isinstance(content, dict):
        return content
    values = [*content.values()]
    records = [value for value in values if isinstance(value, list) and value and isinstance(value[0], dict)]
    if len(records) == 1:
        return records[0]
    if all(isinstance(value, list) for value in values):
        split = {"columns", "data"} <= {*content}
        names, rows = (content["columns"], content["data"]) if split else (content, zip(*values, strict=True))
        return [dict(zip(names, row, strict=True)) for row in rows]
    if all(isinstance(value, dict) for value in values):
        by_index = all(map(str.isdigit, values[0]))  # columns of rows, not rows of columns
        return [{name: content[name][at] for name in content} for at in values[0]] if by_index else values
    return [content]


def _flat(record: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return a record with the values of the objects in it, behind these words."""
    pairs: dict[str, Any] = {}
    for name, value in record.items():
        pairs |= _flat(value, f"{before}{name} ") if isinstance(value, dict) else {f"{before}{name}": value}
    return pairs


def _separated(text: str, source: str) -> tuple[str, list[tuple[int, list[str]]]] | None:
    """Return the mark between values, and their rows; None if fewer than 3 of 10 lines have as many of a mark.

    Raises TableError for broken quotes, with their line.
    """
    lines = [line for line in text.split("\n")[:200] if line.strip() and len(line) < 100_000]
    votes = {mark: Counter(len(row) for row in csv.reader(lines, delimiter=mark) if row[1:]) for mark in ";\t|,"}
    most = {mark: max(((count, width) for width, count in votes[mark].items()), default=(0, 0)) for mark in votes}
    mark = max(most, key=lambda mark: most[mark])
    if most[mark][0] < 0.3 * len(lines):
        return None
    rows, before = [], 0
    reader = csv.reader(io.StringIO(text), delimiter=mark, skipinitialspace=mark != "\t", strict=True)
    try:
        for row in reader:
            rows.append((before + 1, [cell.strip() for cell in row]))
            before = reader.line_num
    except csv.Error as error:
        raise TableError(f"{source}, line {before + 1}: not readable as CSV: {error}") from error
    return mark, rows
