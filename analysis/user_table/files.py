"""Foreign files as grids of text cells, within bounds: CSV, TSV, XLSX, JSON records, Markdown tables, known logs."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import TableError
from train.record import bounded, logs

_BYTES = 32 * 2**20  # of one file, and of the files in a folder
_FILES = 1000  # in a folder
_UNPACKED = 4 * _BYTES  # of a workbook
_ROWS, _COLUMNS, _CELLS = 50_000, 500, 500_000  # of one table
_MOST_TITLES = 2  # lines above a table separated by spaces
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "'|'", " ": "spaces"}
_KINDS = {
    b"\x89PNG": "a picture", b"\xff\xd8\xff": "a picture", b"%PDF": "a PDF file", b"\x1f\x8b": "a compressed file",
    b"PK\x03\x04": "a ZIP archive", b"\xd0\xcf\x11\xe0": "an old Office file",
}  # fmt: skip
_ALLOWED = "save the table as CSV, XLSX, JSON or Markdown"


@dataclass(frozen=True)
class Row:
    """The cells of one row, with the name of its file and the line on which it begins."""

    cells: tuple[str, ...]
    source: str
    line: int


@dataclass(frozen=True)
class Grid:
    """One table. title: the title above it. decimal: the mark before decimals, "" if its format has none.

    log: whether its headers are names of the kit, from a known log.
    """

    rows: tuple[Row, ...]
    format: str
    title: str = ""
    decimal: str = ""
    log: bool = False

    @property
    def place(self) -> str:
        """Return its file and first line."""
        return f"{self.rows[0].source}, line {self.rows[0].line}"


def read(path: Path) -> tuple[list[Grid], list[str]]:
    """Return the tables in a file, in the files of a folder at any depth, or on standard input for "-"; and problems.

    A problem is one line that names a file that cannot be read, and why. Files of a folder whose headers are alike are
    one table.
    """
    grids: list[Grid] = []
    problems: list[str] = []
    folder = path.is_dir()
    left = _BYTES
    for file in _files(path) if folder else [path]:
        try:
            data = _bytes(file, left, link=not folder)
            left -= len(data)
            grids += _grids(data, "standard input" if str(file) == "-" else str(file))
        except TableError as error:
            problems.append(str(error))
        except (ValueError, RecursionError, MemoryError, OverflowError, csv.Error) as error:
            problems.append(f"{file}: cannot be read: {error}: {_ALLOWED}")
    return (_joined(grids) if folder else grids), problems


def _files(folder: Path) -> list[Path]:
    """Return the files in a folder at any depth, by name; it follows no link to a folder, and skips hidden names."""
    files: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(place, name) for name in sorted(names) if not name.startswith(".")]
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
    kind, runs = logs.rows(text, source)
    if runs:
        names = [*dict.fromkeys(name for row in runs for name in row if name != "line")]
        cells = ((row["line"], [str(row.get(name, "")) for name in names]) for row in runs)
        return [_grid(source, kind, [(0, names), *cells], decimal=".", log=True)]
    text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", "\ufffd", re.sub(r"\r\n?", "\n", text))
    if not text.strip():
        raise TableError(f"{source}: it is empty")
    if text.lstrip()[0] in "[{" and (rows := _json_rows(text, source)):
        return [_grid(source, "JSON", rows, decimal=".")]
    return list(_markdown(text, source)) or [_separated(text, source)]


def _grid(
    source: str, kind: str, rows: Iterable[tuple[int, Iterable[str]]], title: str = "", decimal: str = "",
    log: bool = False,
) -> Grid:  # fmt: skip
    """Return rows, each with its line, as a grid. Raises TableError for one with too many cells."""
    table: list[Row] = []
    for line, cells in rows:
        row = Row(tuple(cells), source, line)
        if len(table) > _ROWS or len(row.cells) > _COLUMNS or len(table) * len(row.cells) > _CELLS:
            raise TableError(
                f"{source}, line {line}: more than {_ROWS} rows, {_COLUMNS} columns or {_CELLS} cells: not a table of "
                "measurements"
            )
        table.append(row)
    return Grid(tuple(table), kind, title, decimal, log)


def _joined(grids: Sequence[Grid]) -> list[Grid]:
    """Return the tables with those joined whose headers and titles are alike."""
    joined: dict[Any, list[Grid]] = {}
    for number, grid in enumerate(grids):
        joined.setdefault(number if grid.log else (grid.rows[0].cells, grid.title, grid.format), []).append(grid)
    return [
        Grid((*same[0].rows, *(row for grid in same[1:] for row in grid.rows[1:])), same[0].format, same[0].title,
             same[0].decimal, same[0].log)
        for same in joined.values()
    ]  # fmt: skip


def _decoded(data: bytes, source: str) -> str:
    """Return bytes as text: UTF-16 if every other byte is 0, else UTF-8, else Windows-1252."""
    if kind := next((kind for magic, kind in _KINDS.items() if data.startswith(magic)), ""):
        raise TableError(f"{source}: {kind}: {_ALLOWED}")
    head, encodings = data[:4000], ["utf-8-sig", "cp1252", "latin-1"]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ["utf-16"]
    elif head.count(0) > len(head) // 4:
        encodings = ["utf-16-be" if head[::2].count(0) > head[1::2].count(0) else "utf-16-le"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise TableError(f"{source}: not a text file: {_ALLOWED}")


def _sheets(data: bytes, source: str) -> Iterator[Grid]:
    """Yield the sheets of a workbook that have cells."""
    import openpyxl  # takes 0.2 s

    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        if sum(part.file_size for part in archive.infolist()) > _UNPACKED:
            raise TableError(f"{source}: larger than {_UNPACKED >> 20} MiB unpacked: not a table of measurements")
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and (place := _beyond(archive.read(name))):
                raise TableError(f"{source}: a cell at {place}, beyond row {_ROWS} or column {_COLUMNS}: delete it")
        workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        for sheet in workbook.worksheets:
            sheet.reset_dimensions()  # what the file states of them may be wrong
            rows = [
                (number, cells)
                for number, row in enumerate(sheet.iter_rows(max_row=_ROWS, max_col=_COLUMNS), 1)
                if (cells := _trimmed(map(_sheet_cell, row)))
            ]
            width = max((len(cells) for _, cells in rows), default=0)
            if rows:
                several = f", sheet '{sheet.title}'" if len(workbook.worksheets) > 1 else ""
                padded = ((number, [*cells, *[""] * (width - len(cells))]) for number, cells in rows)
                yield _grid(source + several, "a workbook", padded, sheet.title if several else "", decimal=".")
    except TableError:
        raise
    except Exception as error:  # a broken workbook can raise anything
        raise TableError(f"{source}: a workbook that cannot be read ({error}): save the sheet as CSV") from error


def _beyond(xml: bytes) -> str:
    """Return the place of a cell with content beyond the allowed rows and columns in the XML of a sheet, else ""."""
    for column, row in re.findall(rb'<c [^<>]*?\br="([A-Z]{1,3})(\d{1,9})"[^<>]*(?<!/)><(?:v|is|f)\b', xml):
        number = sum((letter - 64) * 26**power for power, letter in enumerate(reversed(column)))
        if number > _COLUMNS or int(row) > _ROWS:
            return f"{column.decode()}{row.decode()}"
    return ""


def _trimmed(cells: Iterable[str]) -> list[str]:
    """Return cells without the blank ones at the end."""
    row = list(cells)
    while row and not row[-1]:
        row.pop()
    return row


def _sheet_cell(cell: Any) -> str:
    """Return a cell of a sheet as displayed, if its number format is a percentage or fixed decimals; else its value."""
    number_format = re.fullmatch(r"[#,]*0(?:\.(0+))?(%?)", getattr(cell, "number_format", None) or "")
    if number_format and isinstance(cell.value, float | int) and not isinstance(cell.value, bool):
        return f"{cell.value:.{len(number_format[1] or '')}{'%' if number_format[2] else 'f'}}"
    return _cell(cell.value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def _json_rows(text: str, source: str) -> list[tuple[int, list[str]]]:
    """Return the headers and rows of JSON records, a list of them, one a line, or lists of one length; [] for others.

    Objects in a record are joined to it, with their name before those of their values.
    """
    if text.count(",") + text.count("[") + text.count("{") > _CELLS:
        raise TableError(f"{source}: more than {_CELLS} values: not a table of measurements")
    try:
        content = json.loads(text)
    except json.JSONDecodeError:
        try:
            content = [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            return []
    while isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        objects = any(isinstance(value, dict) for values in lists for value in values)
        if lists and len(lists) == len(content) and len({*map(len, lists)}) == 1 and not objects:
            content = [dict(zip(content, values, strict=True)) for values in zip(*lists, strict=True)]
        elif len(lists) == 1 and lists[0] and isinstance(lists[0][0], dict):
            content = lists[0]
        else:
            content = [content]
    if not content or not all(isinstance(item, dict) for item in content):
        raise TableError(f"{source}: JSON without records: give a list of objects, or one object a line")
    frame = pd.json_normalize(content, sep=" ").astype(object)
    frame = frame.where(frame.notna(), None)
    if frame.size > _CELLS:
        raise TableError(f"{source}: more than {_CELLS} values: not a table of measurements")
    rows = [list(map(str, frame)), *([_cell(cell) for cell in row] for row in frame.to_numpy().tolist())]
    return list(enumerate(rows))


_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)[\s#]*|\s*(\*\*[^*|]+\*\*[^|*.]{0,60}):?\s*|\s*(?:\*\*)?(Table \d.*)")
_DASHES = re.compile(r"[|\s:+-]*-[|\s:+-]*")


def _markdown(text: str, source: str) -> Iterator[Grid]:
    """Yield the pipe tables of Markdown, each with the title above it."""
    lines = text.split("\n")
    if text.count("|") > _CELLS:
        raise TableError(f"{source}: more than {_CELLS} cells: not a table of measurements")
    headings: dict[int, str] = {}
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate([*lines, ""], 1):
        if "|" in line and (rows or (number < len(lines) and _is_rule(lines[number], line))):
            if not _DASHES.fullmatch(line):
                rows.append((number, _cells(line)))
            continue
        if len(rows) > 1:
            yield _grid(source, "Markdown", rows, ", ".join([*headings.values()][-2:]), decimal=".")
        rows = []
        if len(line) < 500 and (heading := _HEADING.fullmatch(line)):
            level = len(heading[1] or " " * 7)
            headings = {above: title for above, title in headings.items() if 2 < above < level}
            headings[level] = _without_markup(heading[2] or heading[3] or heading[4] or "")


def _is_rule(line: str, above: str) -> bool:
    """Return whether a line is the rule below the headers of a Markdown table."""
    return "|" in line and bool(_DASHES.fullmatch(line)) and len(_cells(line)) <= len(_cells(above))


def _cells(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", re.sub(r"^\||(?<!\\)\|$", "", line.strip()))
    return [_without_markup(cell.replace("\\|", "|")) for cell in cells]


def _without_markup(text: str) -> str:
    """Return a cell without the markup of Markdown."""
    text = re.sub(r"<sup>[^<]*</sup>|\[\^\w+\]", "", text)
    text = re.sub(r"<[^<>]{1,80}>|&\w{2,6};", " ", re.sub(r"!?\[([^\[\]]*)\]\([^()]*\)", r"\1", text))
    text = re.sub(r"\*\*|__|``?|~~", "", re.sub(r"\\([~*_<>#])", r"\1", text))
    return re.sub(r"\s+", " ", re.sub(r"^\s*([*_])(.*)\1\s*$", r"\2", text)).strip()


def _separated(text: str, source: str) -> Grid:
    """Return separated values. Raises TableError if no separator splits the lines alike."""
    declared = re.match(r"sep=([,;|\t])\n", text)
    lines = [line for line in text.split("\n") if line.strip()][:200]
    separator = declared[1] if declared else _separator(lines)
    if not separator:
        raise TableError(f"{source}: no table that is known: {_ALLOWED}")
    if text.count(separator) > _CELLS and separator != " ":
        raise TableError(f"{source}: more than {_CELLS} cells: not a table of measurements")
    rows, before = [], 0
    if separator == " ":
        width = len(lines[-1].split())
        words = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1)]
        rows = [(number, cells) for number, cells in words if len(cells) == width]
    else:
        reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=separator != "\t", strict=True)
        try:
            for row in reader:
                if any(cell.strip() for cell in row) and not (declared and before == 0):
                    rows.append((before + 1, [cell.strip() for cell in row]))
                before = reader.line_num
        except csv.Error as error:
            raise TableError(f"{source}, line {before + 1}: not readable as CSV: {error}") from error
    if separator == "|":
        rows = [(line, row[1:-1] if not (row[0] or row[-1]) else row) for line, row in rows if len(row) > 1]
    return _grid(source, f"separated by {_SEPARATORS[separator]}", rows, decimal="." if separator == "," else "")


def _separator(lines: Sequence[str]) -> str:
    """Return the separator that most lines share, as many in each; spaces if all have as many words; "" for none."""
    scores: Mapping[str, float] = {mark: _regularity(mark, lines) for mark in ",;\t|"}
    best = max(scores, key=lambda mark: scores[mark])
    if scores[best] >= 0.3:
        return best
    words = [len(line.split()) for line in lines]
    return " " if words[-1] > 1 and all(count == words[-1] for count in words[_MOST_TITLES:]) else ""


def _regularity(mark: str, lines: Sequence[str]) -> float:
    """Return the share of lines with the most frequent number of separators, a little more for many of them."""
    counts = [len(next(csv.reader([line], delimiter=mark), [])) - 1 for line in lines if len(line) < 100_000]
    several = [count for count in counts if count > 0]
    usual = max(several, key=several.count, default=0)
    return counts.count(usual) / len(counts) * (1 + min(usual, 20) / 100) * (0.9 if mark == "," else 1) if usual else 0
