"""The measured columns of a table: which of several, their decimal mark, and their cells in s, 1/s and fractions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from analysis.user_table import headers, numbers, units
from analysis.user_table.columns import MEASURED, Column, NotATable, Question, assignable, pattern_of
from analysis.user_table.files import Grid, Row
from analysis.user_table.headers import UNUSED, Choices
from analysis.user_table.numbers import Cell, Missing, Number

_COUNTS = (*headers.SIZES, *headers.COUNTS, "batch", "threads")
_RATES = ("rate", *headers.RATES)
_KIND = dict.fromkeys((*_RATES, "low", "high"), "rate") | dict.fromkeys(headers.TIMES, "time")
_KIND |= dict.fromkeys(("speedup", "efficiency", "scaling"), "ratio")
_ALLOWED = {"rate": {"", "rate"}, "time": {"", "time"}, "ratio": {"", "ratio", "share"}, "count": {"", "count"}}
_FITTING = {  # names that an unknown column with such units may have
    "time": ("wall_s", "step_s", "epoch_s"), "ratio": ("speedup",), "share": ("efficiency",),
    "rate": ("images_per_s", "images_per_s_per_rank"),
    "": ("images_per_s", "images_per_s_per_rank", "wall_s", "speedup"),
}  # fmt: skip
_ANSWERS = 7  # at most, to one question
_LEAST, _MOST = 1e-9, 1e15
_PER_CENT, _BEYOND = 2.5, 1.5  # plain efficiencies above are per cent; a fraction above is hardly an efficiency


@dataclass(frozen=True)
class Quantity:
    """A column of numbers in s, 1/s or fractions. work: what a rate counts."""

    column: Column
    cells: tuple[Cell, ...]
    unit: str = ""
    work: str = ""

    @property
    def name(self) -> str:
        """Return its name."""
        return self.column.name


def chosen(columns: Sequence[Column], place: str, choices: Choices) -> list[Column]:
    """Return the columns with every measured name once.

    Raises Question if several columns are the same quantity, or only unknown ones could be measured; NotATable if
    nothing is measured.
    """
    columns = [_by_cells(column) for column in columns]
    rated = [column for column in columns if column.name in _RATES]
    if _mixed(rated):
        raise Question(place, *_which("rate", rated, columns), choices)
    for name in dict.fromkeys(column.name for column in columns):
        same = [column for column in columns if column.name == name]
        if name in (*MEASURED, *headers.SIZES, "batch") and len(same) > 1:
            if len({(column.cells, column.header.unit) for column in same}) > 1:
                raise Question(place, *_which(name, same, columns), choices)
            columns = [column for column in columns if column not in same[1:]]
    if not any(column.name in MEASURED and column.name != "cells" for column in columns):
        raise _unmeasured(columns, place, choices)
    return columns


def _mixed(rated: Sequence[Column]) -> bool:
    """Return whether rates count several units, by their headers; one without a unit does not count FLOP."""
    works = {column.header.unit.work if column.header.unit else "" for column in rated}
    return len(works - {""}) > 1 or len({work.endswith("FLOP") for work in works}) > 1


def _by_cells(column: Column) -> Column:
    """Return a column under the name that its cells show, if its header does not."""
    kinds = numbers.kinds(column.cells)
    if column.name == "cells" and len(kinds) == 1:
        names = {"ratio": "speedup", "share": "efficiency", "rate": "rate", "time": "wall_s"}
        return column.named(names.get(next(iter(kinds)), "cells"), "its cells")
    if column.name == "total":  # a time falls, or has its unit
        values = numbers.finite([numbers.parse(cell) for cell in column.cells])
        falls = kinds == {"time"} or all(later < first for first, later in pairwise(values))
        return column.named("wall_s" if falls else "", "it falls" if falls else "")
    if column.name in ("batch", "repeat") and not column.numeric:
        return column.named("condition")
    if column.header.by_user or column.name not in _KIND or not kinds - _ALLOWED[_KIND[column.name]]:
        return column
    return column.named("")  # "1.9x" below "Throughput"


def _which(name: str, same: Sequence[Column], columns: Sequence[Column]) -> tuple[str, list[tuple[str, str]]]:
    """Return the question which of several columns is the quantity, and the answers: a curve for each, or one of them.

    What else the same curves have, as speedups, is part of the answer.
    """
    pattern, labels = ("", []) if name == "rate" and _mixed(same) else pattern_of(same)
    others = []
    for other in dict.fromkeys(column.name for column in columns if column.name in MEASURED and column.name != name):
        other_pattern, other_labels = pattern_of([column for column in columns if column.name == other])
        if {*map(str.lower, labels)} == {*map(str.lower, other_labels)}:
            others.append(f"{other_pattern}={assignable(other)}")
    names = headers.RATES[::-1] if name == "rate" else [assignable(name)]
    answers = [(f"a curve for each, {each}", ",".join([f"{pattern}={each}", *others])) for each in names if pattern]
    for column in same:
        unused = [f"{other.key(columns)}={UNUSED}" for other in same if other is not column]
        answers.append((f"'{column.text}'", ",".join(unused)))
    listed = ", ".join(f"'{column.text}'" for column in same)
    return f"several columns are {assignable(name)}: {listed}", answers[:_ANSWERS]


def _unmeasured(columns: Sequence[Column], place: str, choices: Choices) -> Question | NotATable:
    """Return what to raise for a table in which no known column is measured."""
    if across := [column for column in columns if column.name == "cells" and column.numeric]:
        answers = [(name, f"cells={name}") for name in _FITTING[""]]
        return Question(place, "what do the cells below the ranks say?", answers, choices)
    text = "no column of a rate, a time, a speedup or an efficiency"
    varied = any(column.name in ("ranks", "nodes") and len({*column.cells}) > 1 for column in columns)
    unknown = [
        c for c in columns if c.name in ("", "time") and c.numeric and len(c.kinds) < 2 and varied and not across
    ]
    unknown = [column for column in unknown if len({*column.cells}) > 1]
    unknown = [column for column in unknown if column.name == "time" or "time" in column.kinds] or unknown
    fitting = [(c, _FITTING.get(next(iter(c.kinds), ""), ())) for c in unknown]
    answers = [(f"'{c.text}', {name}", f"{c.key(columns)}={name}") for c, names in fitting for name in names]
    if len(unknown) > 1:
        pattern = pattern_of(unknown)[0] or "*"
        answers = [*((f"a curve for each, {name}", f"{pattern}={name}") for name in fitting[0][1]), *answers]
    if answers:
        return Question(place, f"{text} that is known: is it one of these?", answers[:_ANSWERS], choices)
    texts = ", ".join(f"'{column.text}'" for column in columns if column.text)
    return NotATable(f"{place}: {text}; its headers are {texts[:300]}")


def read(
    columns: Sequence[Column], grid: Grid, rows: Sequence[Row], choices: Choices
) -> tuple[list[Quantity], list[str]]:
    """Return the columns of numbers, and a note for each cell that is none. Raises Question on what a mark means."""
    numeric = [column for column in columns if column.name in (*MEASURED, *_COUNTS)]
    marks = _marks(numeric, grid, choices)
    quantities, notes = [], []
    for column in numeric:
        mark = marks[column.number]
        quantity = _in_units(column, [numbers.parse(cell, mark) for cell in column.cells], grid.place, columns, choices)
        if any(isinstance(cell, Number) for cell in quantity.cells) or column.name == "ranks":
            quantities.append(quantity)
        bad = [(row, cell.reason) for row, cell in zip(rows, quantity.cells, strict=True) if isinstance(cell, Missing)]
        notes += [f"{row.source}, line {row.line}, column '{column.text}': {reason}" for row, reason in bad if reason]
    return quantities, notes


def _marks(columns: Sequence[Column], grid: Grid, choices: Choices) -> dict[int, str]:
    """Return the decimal mark of each column: as its cells show, as those of others do, else as its format has it."""
    if mark := choices.directives.get("decimal"):
        return {column.number: mark for column in columns}
    allowed = {column.number: numbers.decimal_marks(column.cells) for column in columns}
    shown = {next(iter(marks)) for marks in allowed.values() if len(marks) == 1}
    usual = next(iter(shown)) if len(shown) == 1 else grid.decimal
    result = {}
    for column in columns:
        marks, unclear = allowed[column.number], numbers.ambiguous(column.cells)
        result[column.number] = next(iter(marks)) if len(marks) == 1 else usual or "."
        whole = any(re.fullmatch(r"\d{3}", cell.strip()) for cell in column.cells)  # "320" above "1.180"
        if len(marks) == 2 and unclear and (not usual or (whole and "." in unclear[0] and shown != {"."})):
            cell, point = unclear[0], "." in unclear[0]
            text = f"column '{column.text}': is {cell} {re.sub('[.,]', '', cell)}, or {cell.replace(',', '.')}?"
            thousands, decimals = ("decimal=,", "decimal=.") if point else ("decimal=.", "decimal=,")
            raise Question(grid.place, text, [("thousands", thousands), ("decimals", decimals)], choices)
    return result


def _in_units(
    column: Column, cells: Sequence[Cell], place: str, columns: Sequence[Column], choices: Choices
) -> Quantity:
    """Return a column in its unit, and why a cell cannot be used. Raises Question for "43:05" without a unit."""
    name, unit, key = column.name, column.header.unit, column.key(columns)
    kind = _KIND.get(name, "count")
    cells = [_checked(name, kind, cell, text) for cell, text in zip(cells, column.cells, strict=True)]
    parsed = [cell for cell in cells if isinstance(cell, Number)]
    plain = [cell.value for cell in parsed if cell.unit.kind in ("", "count")]
    described, scale = next((cell.unit.text for cell in parsed if cell.unit.text), ""), 1.0
    clock = unit is not None and unit.text.lower() in units.CLOCKS
    if any(cell.unit.text == "0:00" for cell in parsed) and not clock:
        text = f"'{column.text}' has times as {column.cells[0]}: minutes and seconds, or hours and minutes?"
        answers = [("minutes and seconds", f"{key}={name} m:ss"), ("hours and minutes", f"{key}={name} h:mm")]
        raise Question(place, text, answers, choices)
    if unit is not None and unit.kind in ({kind, "", "share"} if kind == "ratio" else {kind, ""}):
        scale, described = unit.factor, unit.text or described
    elif name == "efficiency" and plain and max(plain) > _PER_CENT:
        scale, described = 0.01, "%, by its values"
    elif kind == "time" and plain and not re.search(r"(?:^|[_ ])s(?:ec\w*)?$", column.text.lower()):
        described = "taken as seconds"
    scaled = ("0:00",) if clock else ("", "count")
    cells = [
        c.times(scale) if isinstance(c, Number) and (c.unit.text if clock else c.unit.kind) in scaled else c
        for c in cells
    ]
    most = max((cell.value for cell in cells if isinstance(cell, Number)), default=0.0)
    if name in ("efficiency", "scaling") and not column.header.by_user and (most > _BEYOND or name == "scaling"):
        answers = [("a speedup", f"{key}=speedup"), ("an efficiency", f"{key}=efficiency")]
        text = f"'{column.text}' is up to {most:.3g}: a speedup, or an efficiency?"
        raise Question(place, text, answers, choices)
    works = {unit.work} if unit and unit.kind == "rate" else {cell.unit.work for cell in parsed} - {""}
    if len(works) > 1:
        raise NotATable(f"{place}: '{column.text}' counts {' and '.join(sorted(works))}: make a column of each")
    return Quantity(column, tuple(cells), described, "".join(works))


def _checked(name: str, kind: str, cell: Cell, text: str) -> Cell:
    """Return a cell that can be of this quantity, or why it cannot."""
    if isinstance(cell, Missing):
        return cell
    if cell.unit.kind not in _ALLOWED[kind]:
        return Missing(f"'{text[:40]}' is not a {kind}")
    if cell.value < 0 or (cell.value == 0 and name not in ("repeat", "init_s", *_RATES)):
        return Missing(f"{text} given, must be more than 0")
    if cell.value and not _LEAST <= cell.value <= _MOST:
        return Missing(f"{text} given, must be between {_LEAST:g} and {_MOST:g}")
    if kind == "count" and name != "images" and cell.value % 1:
        return Missing(f"{text} given, must be a whole number")
    return replace(cell, value=float(cell.value)) if math.isfinite(cell.value) else Missing(f"{text} is not finite")
