"""The measured columns of a table: which of several, their decimal mark, and their cells in s, 1/s and fractions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from analysis.user_table import headers, numbers, units
from analysis.user_table.columns import ANSWERS, MEASURED, NotATable, Question, key, one_of, pattern_of, which
from analysis.user_table.files import Grid, Row
from analysis.user_table.headers import Choices, Column
from analysis.user_table.numbers import Cell, Number

_COUNTS = (*headers.SIZES, *headers.COUNTS, "batch", "threads")
_RATES = ("rate", *headers.RATES)
_KIND = dict.fromkeys((*_RATES, "low", "high"), "rate") | dict.fromkeys(headers.TIMES, "time")
_KIND |= dict.fromkeys(("speedup", "efficiency"), "ratio")
_ALLOWED = {"rate": {"", "rate"}, "time": {"", "time"}, "ratio": {"", "ratio", "share"}, "count": {"", "count"}}
_FITTING = {  # names that an unknown column with such units may have
    "time": ("wall_s", "step_s", "epoch_s"), "ratio": ("speedup",), "share": ("efficiency",),
    "rate": ("images_per_s", "images_per_s_per_rank"),
    "": ("images_per_s", "images_per_s_per_rank", "wall_s", "speedup"),
}  # fmt: skip
_LEAST, _MOST = 1e-9, 1e15
_PER_CENT = 2.5  # plain efficiencies above are per cent


def chosen(columns: Sequence[Column], place: str, choices: Choices) -> list[Column]:
    """Return the columns with every measured name once.

    Raises Question if several columns are the same quantity, or only unknown ones could be measured; NotATable if
    nothing is measured.
    """
    columns = [_by_cells(column) for column in columns]
    rated = [column for column in columns if column.name in _RATES]
    works = {column.unit.work if column.unit else "" for column in rated}
    if len(works - {""}) > 1 or len({work.endswith("FLOP") for work in works}) > 1:
        raise which("rate", rated, columns, place, choices, curves=False)
    for name in dict.fromkeys(column.name for column in columns):
        if name in (*MEASURED, *headers.SIZES, "batch"):
            columns = one_of(columns, name, place, choices)
    if not any(column.name in MEASURED and column.name != "cells" for column in columns):
        raise _unmeasured(columns, place, choices)
    return columns


def _by_cells(column: Column) -> Column:
    """Return a column under the name that its cells show, if its header does not."""
    kinds = numbers.kinds(column.cells)
    if column.name == "cells" and len(kinds) == 1:
        names = {"ratio": "speedup", "share": "efficiency", "rate": "rate", "time": "wall_s"}
        return column.named(names.get(next(iter(kinds)), "cells"), "its cells")
    if column.name == "total":  # of a time, if it falls
        values = [cell.value for cell in map(numbers.parse, column.cells) if isinstance(cell, Number)]
        falls = kinds == {"time"} or all(later < first for first, later in pairwise(values))
        return column.named("wall_s" if falls else "", "it falls" if falls else "")
    unfit = column.name in _KIND and kinds - _ALLOWED[_KIND[column.name]]  # "1.9x" below "Throughput"
    return column.named("") if unfit and not column.by_user else column


def _unmeasured(columns: Sequence[Column], place: str, choices: Choices) -> Question | NotATable:
    """Return what to raise for a table in which no known column is measured."""
    if across := [column for column in columns if column.name == "cells" and column.numeric]:
        answers = [(name, f"cells={name}") for name in _FITTING[""]]
        return Question(place, "what do the cells below the ranks say?", answers, choices)
    text = "no column of a rate, a time, a speedup or an efficiency"
    varied = any(column.name in ("ranks", "nodes") and len({*column.cells}) > 1 for column in columns)
    kinds = {c: numbers.kinds(c.cells) | ({c.unit.kind} if c.unit else set()) for c in columns}
    unknown = [
        c for c in columns
        if c.name in ("", "time") and c.numeric and len(kinds[c]) < 2 and len({*c.cells}) > 1 and varied and not across
    ]  # fmt: skip
    unknown = [column for column in unknown if column.name == "time" or "time" in kinds[column]] or unknown
    fitting = [(column, _FITTING.get(next(iter(kinds[column]), ""), ())) for column in unknown]
    answers = [(f"'{c.text}', {name}", f"{key(c, columns)}={name}") for c, names in fitting for name in names]
    if len(unknown) > 1:
        pattern = pattern_of(unknown)[0] or "cells"
        answers = [*((f"a curve for each, {name}", f"{pattern}={name}") for name in fitting[0][1]), *answers]
    if answers:
        return Question(place, f"{text} that is known: is it one of these?", answers[:ANSWERS], choices)
    texts = ", ".join(f"'{column.text}'" for column in columns if column.text)
    return NotATable(f"{place}: {text}; its headers are {texts[:300]}")


def read(
    columns: Sequence[Column], grid: Grid, rows: Sequence[Row], choices: Choices
) -> tuple[list[Column], list[str]]:
    """Return the columns of numbers with their values, and a note for each cell that is none.

    Raises Question on what a decimal mark or a unit means.
    """
    numeric = [column for column in columns if column.name in (*MEASURED, *_COUNTS)]
    mark = _mark(numeric, columns, grid, choices)
    result, notes = [], []
    for column in numeric:
        column = _in_units(column, [numbers.parse(cell, mark) for cell in column.cells], grid.place, columns, choices)
        if any(isinstance(cell, Number) for cell in column.values) or column.name == "ranks":
            result.append(column)
        bad = [(row, cell) for row, cell in zip(rows, column.values, strict=True) if cell and isinstance(cell, str)]
        notes += [f"{row.source}, line {row.line}, column '{column.text}': {reason}" for row, reason in bad]
    return result, notes


def _mark(numeric: Sequence[Column], columns: Sequence[Column], grid: Grid, choices: Choices) -> str:
    """Return the decimal mark of a table: as COLUMNS or its cells say, else that of its format, "." if none matters.

    numeric: the columns that are read. Raises Question if a cell is not clear, and other columns have another mark.
    """
    if mark := choices.directives.get("decimal"):
        return mark
    shown: set[str] = set()
    unclear: list[tuple[str, str]] = []
    doubtful: list[tuple[str, str]] = []
    for column in numeric:
        marks, cells = numbers.decimal_marks(column.cells)
        shown |= marks
        unclear += [(column.text, cell) for cell in cells]
        if any(re.fullmatch(r"\d{3}", cell.strip()) for cell in column.cells):  # "320" above "1.180"
            doubtful += [(column.text, cell) for cell in cells if "." in cell]
    usual = next(iter(shown)) if len(shown) == 1 else grid.decimal
    others = {mark for column in columns if column.numeric for mark in numbers.decimal_marks(column.cells)[0]}
    if (unclear and len(shown) != 1 and (not usual or others - {usual})) or (doubtful and not shown):
        header, cell = (doubtful or unclear)[0]
        text = f"column '{header}': is {cell} {re.sub('[.,]', '', cell)}, or {cell.replace(',', '.')}?"
        point = "." in cell
        answers = [("thousands", f"decimal={'.,'[point]}"), ("decimals", f"decimal={',.'[point]}")]
        raise Question(grid.place, text, answers, choices)
    return usual or "."


def _in_units(column: Column, cells: Sequence[Cell], place: str, columns: Sequence[Column], choices: Choices) -> Column:
    """Return a column with values in its unit, and why a cell has none. Raises Question for "43:05" without a unit."""
    name, unit, kind = column.name, column.unit, _KIND.get(column.name, "count")
    cells = [_checked(name, kind, cell, text) for cell, text in zip(cells, column.cells, strict=True)]
    parsed = [cell for cell in cells if isinstance(cell, Number)]
    plain = [cell.value for cell in parsed if cell.unit.kind in ("", "count")]
    described, scale = next((cell.unit.text for cell in parsed if cell.unit.text), ""), 1.0
    clock = unit is not None and unit.text.lower() in units.CLOCKS
    if any(cell.unit.text == "0:00" for cell in parsed) and not clock:
        text = f"'{column.text}' has times as {column.cells[0]}: minutes and seconds, or hours and minutes?"
        named = f"{key(column, columns)}={name}"
        answers = [("minutes and seconds", f"{named} m:ss"), ("hours and minutes", f"{named} h:mm")]
        raise Question(place, text, answers, choices)
    if unit is not None and unit.kind in ({kind, "", "share"} if kind == "ratio" else {kind, ""}):
        scale, described = unit.factor, unit.text or described
    elif name == "efficiency" and plain and max(plain) > _PER_CENT:
        scale, described = 0.01, "%, by its values"
    elif kind == "time" and plain and not re.search(r"(?:^|[_ ])s(?:ec\w*)?$", column.text.lower()):
        described = "taken as seconds"
    scaled = ("0:00",) if clock else ("", "count")
    values = tuple(
        c.times(scale) if isinstance(c, Number) and (c.unit.text if clock else c.unit.kind) in scaled else c
        for c in cells
    )
    works = {unit.work} if unit and unit.kind == "rate" else {cell.unit.work for cell in parsed} - {""}
    if len(works) > 1:
        raise NotATable(f"{place}: '{column.text}' counts {' and '.join(sorted(works))}: make a column of each")
    return replace(column, values=values, unit_text=described, work="".join(works))


def _checked(name: str, kind: str, cell: Cell, text: str) -> Cell:
    """Return a cell that can be of this quantity, or why it cannot."""
    if isinstance(cell, str):
        return cell
    if cell.unit.kind not in _ALLOWED[kind]:
        return f"'{text[:40]}' is not a {kind}"
    if cell.value < 0 or (cell.value == 0 and name not in ("repeat", "init_s", *_RATES)):
        return f"{text} given, must be more than 0"
    if cell.value and not _LEAST <= cell.value <= _MOST:
        return f"{text} given, must be between {_LEAST:g} and {_MOST:g}"
    if kind == "count" and name != "images" and cell.value % 1:
        return f"{text} given, must be a whole number"
    return cell
