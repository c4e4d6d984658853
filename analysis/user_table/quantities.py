"""The numbers of a table: its decimal mark, and the cells of each column in s, 1/s and fractions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from analysis.user_table import meanings, numbers, units
from analysis.user_table.answers import Choices, Question, offers
from analysis.user_table.headers import KIND, NUMERIC, UNIT_KINDS, Column
from analysis.user_table.numbers import Cell, CellNumber
from analysis.user_table.table_files import Grid, GridRow

_LEAST, _MOST = 1e-9, 1e15
_FRACTION, _PER_CENT = 2.5, 20.0  # plain efficiencies up to this are fractions, from that on per cent


def read_quantities(
    columns: Sequence[Column], grid: Grid, rows: Sequence[GridRow], choices: Choices
) -> tuple[list[Column], list[str]]:
    """Return the columns, those of numbers with their values, and a note for each cell that is none.

    Raises Question on what a decimal mark or a unit means, or if rates count several units.
    """
    numeric = [column for column in columns if column.name in NUMERIC]
    mark = choices.directives.get("decimal") or _mark(numeric, columns, grid.decimal)
    result, notes = [*columns], []
    for at, column in ((at, column) for at, column in enumerate(columns) if column in numeric):
        read = _in_units(column, [numbers.parse(cell, mark) for cell in column.cells])
        bad = [(row, cell) for row, cell in zip(rows, read.values, strict=True) if cell and isinstance(cell, str)]
        notes += [f"{row.place}, column '{column.text}': {reason}" for row, reason in bad]
        if any(isinstance(cell, CellNumber) for cell in read.values) or column.name in ("ranks", "nodes"):
            result[at] = read
    rated = [column for column in result if column.values and KIND.get(column.name) == "rate"]
    works = {column.unit.work for column in rated}
    if len(works - {""}) > 1 or len({work.endswith("FLOP") for work in works}) > 1:
        raise meanings.which("rate", rated)
    return result, notes


def _mark(numeric: Sequence[Column], columns: Sequence[Column], usual: str) -> str:
    """Return the decimal mark of a table: as its cells show, else that of its format, "." if none matters.

    numeric: the columns that are read. Raises Question if a cell is not clear, and the format has no mark, other
    columns have another one, or three digits stand above and below it, as "320" and "1.180".
    """
    shown: set[str] = set()
    unclear: list[tuple[str, str]] = []
    for column in numeric:
        marks, cells = numbers.decimal_marks(column.cells)
        shown |= marks
        unclear += [(column.text, cell) for cell in cells]
        if any(re.fullmatch(r"\d{3}", cell) for cell in column.cells) and any("." in cell for cell in cells):
            usual = ""
    if len(shown) == 1:
        return next(iter(shown))
    others = (numbers.decimal_marks(column.cells)[0] for column in columns if column.numeric)
    if unclear and (not usual or any(marks - {usual} for marks in others)):
        header, cell = unclear[0]
        text = f"column '{header}': is the mark in {cell} before decimals, or between thousands?"
        raise Question(text, ["decimal=.", "decimal=,"])
    return usual or "."


def _in_units(column: Column, cells: Sequence[Cell]) -> Column:
    """Return a column with values in its unit, and why a cell has none. Raises Question for "43:05" without a unit."""
    name, unit, kind = column.name, column.unit, KIND.get(column.name, "count")
    cells = [_checked(name, kind, cell, text) for cell, text in zip(cells, column.cells, strict=True)]
    parsed = [cell for cell in cells if isinstance(cell, CellNumber)]
    plain = [cell.value for cell in parsed if cell.unit.kind in ("", "count")]
    described, scale = next((cell.unit.text for cell in parsed if cell.unit.text), ""), 1.0
    if any(cell.unit.text == "0:00" for cell in parsed) and unit.text.lower() not in units.CLOCKS:
        text = f"'{column.text}' has times as {column.cells[0]}: minutes and seconds, or hours and minutes?"
        raise Question(text, offers([column.key], (f"{name} m:ss", f"{name} h:mm")))
    if unit.text and unit.kind in UNIT_KINDS[kind]:
        scale, described = unit.factor, unit.text
    elif name == "efficiency" and plain and _FRACTION < max(plain) < _PER_CENT:
        text = f"'{column.text}' is up to {max(plain):.3g}: a fraction, or per cent?"
        raise Question(text, offers([column.key], ("efficiency x", "efficiency %")))
    elif name == "efficiency" and plain and max(plain) >= _PER_CENT:
        scale, described = 0.01, "%, by its values"
    elif kind == "time" and plain and not re.search(r"(?:^|[_ ])s(?:ec\w*)?$", column.text.lower()):
        described = "taken as seconds"
    if scale != 1:
        cells = [cell.times(scale) if isinstance(cell, CellNumber) and _has_no_unit(cell) else cell for cell in cells]
    works = {cell.unit.work for cell in parsed} - {""}
    works = works if not unit.work or {work.lower() for work in works} == {unit.work} else {unit.work}
    if len(works) > 1:
        raise Question(f"'{column.text}' counts {' and '.join(sorted(works))}: make a column of each")
    return replace(column, values=tuple(cells), unit=units.Unit(unit.kind, work="".join(works), text=described))


def _has_no_unit(cell: CellNumber) -> bool:
    return cell.unit.kind in ("", "count") or cell.unit.text == "0:00"


def _checked(name: str, kind: str, cell: Cell, text: str) -> Cell:
    """Return a cell that can be of this quantity, or why it cannot."""
    if isinstance(cell, str):
        return cell
    if cell.unit.kind not in UNIT_KINDS[kind]:
        return f"'{text[:40]}' is not a {kind}"
    if cell.value <= 0 and (cell.value < 0 or name not in ("repeat", "init_s")):
        return f"{text} given, must be more than 0"
    if cell.value and not _LEAST <= cell.value <= _MOST:
        return f"{text} given, must be between {_LEAST:g} and {_MOST:g}"
    if kind == "count" and name != "images" and cell.value % 1:
        return f"{text} given, must be a whole number"
    return cell
