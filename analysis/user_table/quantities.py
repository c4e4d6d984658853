"""The measured columns of a table: which of several, their decimal mark, and their cells in s, 1/s and fractions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from analysis.user_table import headers, numbers, rates, units
from analysis.user_table.columns import MEASURED, Column, NotATable, Question, assignable, pattern_of
from analysis.user_table.files import Grid, Row
from analysis.user_table.headers import TEXT, Choices
from analysis.user_table.numbers import Cell, Missing, Number

_COUNTS = (*headers.SIZES, *headers.COUNTS, "batch", "threads")
_RATES = ("rate", "images_per_s", "images_per_s_per_rank")
_KIND = dict.fromkeys(_RATES, "rate") | dict.fromkeys(("low", "high"), "rate")
_KIND |= dict.fromkeys(("init_s", "wall_s", "job_s", "epoch_s", "step_s"), "time")
_KIND |= {"speedup": "ratio", "efficiency": "ratio", "scaling": "ratio"}
_ALLOWED = {"rate": {"", "rate"}, "time": {"", "time"}, "ratio": {"", "ratio", "share"}, "count": {"", "count"}}
_FITTING = {  # names that a column with such units may have
    "time": ("wall_s", "step_s", "epoch_s"), "ratio": ("speedup",), "share": ("efficiency",),
    "rate": ("images_per_s", "images_per_s_per_rank"),
    "": ("images_per_s", "images_per_s_per_rank", "wall_s", "speedup"),
}  # fmt: skip
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
    rated = [c for c in columns if c.name in _RATES]
    flops = [c for c in rated if c.header.unit and c.header.unit.work.endswith("FLOP") and not c.header.by_user]
    if len(flops) < len(rated):
        columns = [column.named("", "another rate is there") if column in flops else column for column in columns]
    columns = [_total(column, columns, place, choices) if column.name == "total" else column for column in columns]
    for name in dict.fromkeys(column.name for column in columns):
        same = [column for column in columns if column.name == name]
        if name in (*MEASURED, *headers.SIZES, "batch") and name != "time" and len(same) > 1:
            if len({column.cells for column in same}) > 1 or len({column.header.unit for column in same}) > 1:
                raise Question(place, *_which(name, same, columns), choices)
            columns = [column for column in columns if column not in same[1:]]
    measured = [column for column in columns if column.name in MEASURED and column.name != "time"]
    if not measured:
        raise _unmeasured(columns, place, choices)
    return columns


def _by_cells(column: Column) -> Column:
    """Return a column under the name that the units in its cells give: "1.9x" below "Throughput" is a speedup."""
    kinds = {unit.kind for unit in numbers.units_in(column.cells)}
    if column.name == "cells":
        names = {"ratio": "speedup", "share": "efficiency", "rate": "rate", "time": "wall_s"}
        return column.named(names.get(next(iter(kinds)), "cells"), "its cells") if len(kinds) == 1 else column
    if column.name == "rate" and kinds == {"ratio"}:
        return column.named("speedup", "its cells are ratios")
    if column.name == "rate" and any(unit.per == "rank" for unit in numbers.units_in(column.cells)):
        return column.named("images_per_s_per_rank", "its cells")
    if kinds == {"rate"} and column.name in ("wall_s", "job_s", "time") and not column.header.by_user:
        return column.named("rate", "its cells")
    if column.name in ("batch", "repeat") and not column.numeric:
        return column.named("condition")
    unknown = column.name == "" and not column.header.why and column.numeric
    return column.named("time") if unknown and kinds == {"time"} else column


def _total(column: Column, columns: Sequence[Column], place: str, choices: Choices) -> Column:
    """Return a column "total" as a time if its unit or its fall says so. Raises Question otherwise."""
    values = numbers.finite([numbers.parse(cell) for cell in column.cells])
    time = "job_s" if any(other.name == "wall_s" for other in columns) else "wall_s"
    if "rate" in column.kinds:
        return column.named("images_per_s")
    if "time" in column.kinds or all(later < first for first, later in pairwise(values)):
        return column.named(time)
    key = column.key(columns)
    answers = [("a time in seconds", f"{key}={time}"), ("a rate", f"{key}=images_per_s")]
    raise Question(place, f"is '{column.text}' a time or a rate?", answers, choices)


def _which(name: str, same: Sequence[Column], columns: Sequence[Column]) -> tuple[str, list[tuple[str, str]]]:
    """Return the question which of several columns is the quantity, and the answers: a curve for each, or one of them.

    Rates that do not grow down the rows are offered as those of one rank too.
    """
    values = [value for value in numbers.finite([numbers.parse(cell) for cell in same[0].cells]) if value > 0]
    flat = name == "rate" and values and values[-1] <= rates.GROWN * values[0]
    pattern, labels = pattern_of(same)
    answers = []
    for plain in [assignable(name), *(["images_per_s_per_rank"] if flat else [])]:
        if pattern:
            parts = [f"{pattern}={plain}"]
            for other in ("scaling", "efficiency", "speedup"):  # stated for each of the same curves
                of, of_labels = pattern_of([column for column in columns if column.name == other])
                if name in (*_RATES, "wall_s") and {*map(str.lower, labels)} == {*map(str.lower, of_labels)}:
                    parts.append(f"{of}={assignable(other)}")
            answers.append((f"a curve for each, {plain}", ",".join(parts)))
        for column in same:
            others = [f"{other.key(columns)}={headers.UNUSED}" for other in same if other is not column]
            answers.append((f"'{column.text}'", ",".join([f"{column.key(columns)}={plain}", *others])))
    listed = ", ".join(f"'{column.text}'" for column in same)
    return f"several columns are {assignable(name)}: {listed}", answers[:7]


def _unmeasured(columns: Sequence[Column], place: str, choices: Choices) -> Question | NotATable:
    """Return what to raise for a table in which no known column is measured."""
    across = [column for column in columns if column.name == "cells"]
    unknown = [c for c in columns if (c.name == "" or c.name == "time") and not c.header.why and c.numeric]
    names = _FITTING[""]
    if across and not across[0].numeric:
        return NotATable(f"{place}: cells below numbers of ranks that are not numbers")
    if len({c.cells for c in columns if c.name in ("ranks", "nodes") and len({*c.cells}) > 1}) == 0:
        unknown = []
    if across:
        return Question(
            place, "what do the cells below the ranks say?", [(name, f"cells={name}") for name in names], choices
        )
    times = [column for column in unknown if column.name == "time"]
    answers = []
    for column in times or unknown:
        options = _FITTING.get(next(iter(column.kinds), ""), ()) if len(column.kinds) < 2 else ()
        answers += [(f"'{column.text}', {name}", f"{column.key(columns)}={name}") for name in options]
    if len(times or unknown) > 1:
        several = [
            ("each a curve", f"{pattern_of(times or unknown)[0] or '*'}={name}") for name in ("images_per_s", "wall_s")
        ]
        answers = [*(several[1:] if times else several), *answers[:4]]
    text = "no column of a rate, a time, a speedup or an efficiency"
    if answers:
        return Question(place, f"{text} that is known: is it one of these?", answers, choices)
    texts = ", ".join(f"'{column.text}'" for column in columns if column.text)
    return NotATable(f"{place}: {text}; its headers are {texts[:300]}")


def read(
    columns: Sequence[Column], grid: Grid, rows: Sequence[Row], choices: Choices
) -> tuple[list[Quantity], list[str]]:
    """Return the columns of numbers, and a note for each cell that is none. Raises Question on what a mark means."""
    numeric = [c for c in columns if c.name in (*MEASURED, *_COUNTS) and c.name != "time" and c.name not in TEXT]
    marks = _marks(numeric, grid, choices)
    quantities, notes = [], []
    for column in numeric:
        mark = marks[column.number]
        quantity = _in_units(column, [numbers.parse(cell, mark) for cell in column.cells], grid.place, columns, choices)
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
        marks = allowed[column.number]
        result[column.number] = next(iter(marks)) if len(marks) == 1 else usual or "."
        unclear = numbers.ambiguous(column.cells)
        whole = [cell for cell in column.cells if re.fullmatch(r"\d{3}", cell.strip())]  # "320" above "1.180"
        if len(marks) == 2 and unclear and (not usual or (whole and "." in unclear[0] and shown != {"."})):
            cell, point = unclear[0], "." in unclear[0]
            text = f"column '{column.text}': is {cell} {re.sub('[.,]', '', cell)}, or {cell.replace(',', '.')}?"
            answers = [
                ("thousands", f"decimal={',' if point else '.'}"),
                ("decimals", f"decimal={'.' if point else ','}"),
            ]
            raise Question(grid.place, text, answers, choices)
    return result


def _in_units(
    column: Column, cells: Sequence[Cell], place: str, columns: Sequence[Column], choices: Choices
) -> Quantity:
    """Return a column in its unit, and why a cell cannot be used. Raises Question for "43:05" without a unit."""
    name, unit = column.name, column.header.unit
    kind = _KIND.get(name, "count")
    cells = [_checked(name, kind, cell, text) for cell, text in zip(cells, column.cells, strict=True)]
    numbers = [cell for cell in cells if isinstance(cell, Number)]
    plain = [cell.value for cell in numbers if cell.unit.kind in ("", "count")]
    described, key = next((cell.unit.text for cell in numbers if cell.unit.text), ""), column.key(columns)
    if unit is not None and unit.text.lower() in units.CLOCKS:
        cells = [
            cell.times(unit.factor) if isinstance(cell, Number) and cell.unit.text == "0:00" else cell for cell in cells
        ]
    elif unit is not None and (unit.kind == kind or (unit.kind == "share" and kind == "ratio") or unit.kind == ""):
        scale = unit.factor
        cells = [c.times(scale) if isinstance(c, Number) and c.unit.kind in ("", "count") else c for c in cells]
        described = unit.text or described
    elif name == "efficiency" and plain and max(plain) > _PER_CENT:
        cells = [c.times(0.01) if isinstance(c, Number) and c.unit.kind == "" else c for c in cells]
        described = "%, by its values"
    elif kind == "time" and plain and not re.search(r"(?:^|[_ ])s(?:ec\w*)?$", column.text.lower()):
        described = "taken as seconds"
    if {cell.unit.text for cell in numbers} == {"0:00"} and not (unit and unit.kind == "time"):
        text = f"'{column.text}' has times as {column.cells[0]}: minutes and seconds, or hours and minutes?"
        answers = [("minutes and seconds", f"{key}={name} m:ss"), ("hours and minutes", f"{key}={name} h:mm")]
        raise Question(place, text, answers, choices)
    most = max((cell.value for cell in cells if isinstance(cell, Number)), default=0.0)
    if name == "efficiency" and most > _BEYOND and not column.header.by_user:
        answers = [("a speedup", f"{key}=speedup"), ("an efficiency", f"{key}=efficiency")]
        raise Question(place, f"'{column.text}' is {most:.3g}: a speedup, or an efficiency?", answers, choices)
    if name == "scaling" and most > _BEYOND:
        column = column.named("speedup", f"{most:.3g} is beyond an efficiency")
    elif name == "scaling":
        answers = [("an efficiency", f"{key}=efficiency"), ("a speedup", f"{key}=speedup")]
        raise Question(place, f"is '{column.text}' an efficiency or a speedup?", answers, choices)
    work = (
        unit.work if unit and unit.kind == "rate" else next((c.unit.work for c in numbers if c.unit.kind == "rate"), "")
    )
    return Quantity(column, tuple(cells), described, work)


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
