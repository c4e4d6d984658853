"""The columns of a table as numbers under their names: decimal marks, units, and faulty cells."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis import TableError
from analysis.user_table import headers, numbers, units
from analysis.user_table.headers import Header
from analysis.user_table.numbers import Cell, Missing, PrintedNumber
from analysis.user_table.shape import Column, Long

_COUNTS = ("nodes", "ranks_per_node", "ranks", "repeat", "n")
_WHOLE = ("batch_per_rank", "global_batch", "batch", "steps_per_rank", "images")  # as good as always
_RATIOS = ("speedup", "efficiency", "scaling")
_LEAST, _MOST = 1e-9, 1e12
_SECONDS = re.compile(r"(?:^|[_\W])s(?:ec|econd)?s?$", re.I)
_KINDS = {
    "rate": ("rate", "number", "count"), "time": ("time", "number"), "share": ("share", "ratio", "number"),
    "count": ("count", "number", "ratio"), "steps": ("rate", "number"),
}  # fmt: skip


@dataclass(frozen=True)
class Quantity:
    """One column under its name: a cell of numbers a row, or of text. guess: what the file does not say."""

    name: str
    header: Header
    cells: tuple[Cell, ...]
    text: tuple[str, ...]
    at: tuple[str, ...]
    guess: str = ""


def read(table: Long, overrides: Mapping[str, str]) -> tuple[list[Quantity], list[str], dict[str, str]]:
    """Return the known columns of a table, notes on them, and why each unknown header is not used.

    Raises TableError where two columns are both the number of ranks, and differ.
    """
    columns = [_as_ranks(column, table) for column in table.columns]
    columns, notes = _one_each(columns, table)
    columns, quantities = _with_sizes(columns)
    file_mark = _file_mark(columns, table, overrides)
    read_columns = []
    for column in columns:
        if column.header.name in headers.TEXT:
            read_columns.append(Quantity(column.header.name, column.header, (), column.cells, column.at))
        elif column.header.name:
            mark, guess = _mark(column, columns, table, overrides.get("decimal", ""), file_mark)
            cells = numbers.column(column.cells, mark or ".")
            if not mark:
                cells = [_without_ambiguous(cell, text) for cell, text in zip(cells, column.cells, strict=True)]
            read_columns.append(_in_units(column, cells, guess))
    unused = {one.header.text: one.header.why for one in columns if not one.header.name and one.header.text}
    return [*read_columns, *quantities], notes, unused


def _without_ambiguous(cell: Cell, text: str) -> Cell:
    """Return a cell of a column without a decimal mark: none, where its value depends on the mark."""
    if isinstance(cell, Missing) or not numbers.depends_on_mark([text]):
        return cell
    return Missing(f'\'{text}\': of thousands, or decimals? Say COLUMNS="decimal=," or COLUMNS="decimal=."')


def _as_ranks(column: Column, table: Long) -> Column:
    """Return a column "GPU" or "device" whose cells count them as one of ranks; lists of devices as their number."""
    header = column.header
    others = [one for one in table.columns if one is not column]
    counted = all(re.fullmatch(r"\d+", cell) for cell in column.cells)
    if header.name == "gpu" and counted and not any(one.header.name == "ranks" for one in others):
        return replace(column, header=replace(header, name="ranks"))
    if header.name == "ranks" and not header.overridden and (listed := units.device_counts(list(column.cells))):
        if any(one.header.name == "ranks" for one in others):
            return replace(column, header=replace(header, name="", why="numbers of devices"))
        return replace(column, cells=tuple(map(str, listed)))
    return column


def _one_each(columns: Sequence[Column], table: Long) -> tuple[list[Column], list[str]]:
    """Return the columns with each name used once: by the first of two that are equal."""
    unique, notes = [], []
    first: dict[str, Column] = {}
    for column in columns:
        name = column.header.name
        if not name or name == "setting" or name not in first:
            unique.append(column)
            if name:
                first[name] = column
            continue
        both = f"'{first[name].header.text}' and '{column.header.text}'"
        if name in headers.TEXT:
            unique.append(replace(column, header=replace(column.header, name="setting")))
        elif column.cells == first[name].cells:
            notes.append(f"columns {both} are equal: the first is used")
        elif name in ("ranks", "nodes"):
            raise TableError(
                f"{table.grid.where}: columns {both} are both {name}, and differ; say which is not: "
                f'COLUMNS="{column.header.text}=unused"'
            )
        else:
            notes.append(
                f"columns {both} are both {name}, and differ: the first is used; to use the other say "
                f'COLUMNS="{first[name].header.text}=unused"'
            )
    return unique, notes


def _with_sizes(columns: Sequence[Column]) -> tuple[list[Column], list[Quantity]]:
    """Return the columns, with ranks in words ("2 nodes x 4") as numbers; and the other sizes in such words."""
    sized, more = [], []
    named = {column.header.name for column in columns}
    for column in columns:
        read = _sizes_in(column, named)
        if read is None:
            sized.append(column)
            continue
        pairs = zip(read, column.cells, strict=True)
        cells = tuple(str(one.ranks or one.nodes) if one else cell for one, cell in pairs)
        sized.append(Column(replace(column.header, name="ranks"), cells, column.at))
        for name in {"nodes", "ranks_per_node"} - named:
            values = [getattr(one, name) if one else 0 for one in read]
            if any(values):
                numbers_of = tuple(PrintedNumber(value) if value else Missing("", False) for value in values)
                more.append(Quantity(name, Header(column.header.text, name), numbers_of, column.cells, column.at))
        gpus = {one.gpu for one in read if one and one.gpu}
        if len(gpus) == 1 and "gpu" not in named:
            text = (gpus.pop(),) * len(cells)
            more.append(Quantity("gpu", Header(column.header.text, "gpu"), (), text, column.at))
    if not {column.header.name for column in sized} & {"ranks", "nodes"}:
        sized = _numbered(sized)
    return sized, more


def _sizes_in(column: Column, named: set[str]) -> list[units.Sizes | None] | None:
    """Return the sizes in the cells of a column that has them in words; None for another column."""
    name = column.header.name
    if name not in ("ranks", "nodes", "", *headers.TEXT) or "ranks" in named - {name} or _plain(column):
        return None
    read = [units.sizes_in(cell) for cell in column.cells]
    if name in ("ranks", "nodes"):
        has_ranks = any(one and (one.ranks or name == "ranks") for one in read)
        return read if has_ranks else None
    in_words = [
        one and re.search(r"\d\s*[x×]|\d\s*-?[a-z]", cell, re.I) for one, cell in zip(read, column.cells, strict=True)
    ]
    return read if all(in_words) and "nodes" not in named else None


def _numbered(columns: Sequence[Column]) -> list[Column]:
    """Return the columns of a table without numbers of ranks, with those in a column of words, as "Parallel 4"."""
    for position, column in enumerate(columns):
        digits = [re.findall(r"(?<![\w.])\d+(?![\w.%])", cell) for cell in column.cells]
        in_words = column.header.name in ("", *headers.TEXT) and not _plain(column)
        if in_words and all(len(one) == 1 for one in digits) and len({one[0] for one in digits}) == len(digits) > 1:
            ranks = Column(replace(column.header, name="ranks"), tuple(one[0] for one in digits), column.at)
            return [*columns[:position], ranks, *columns[position + 1 :]]
    return list(columns)


def _plain(column: Column) -> bool:
    """Return whether the cells of a column are numbers alone."""
    return all(re.fullmatch(r"[\d.,'\s]*", cell) for cell in column.cells)


def _file_mark(columns: Sequence[Column], table: Long, overrides: Mapping[str, str]) -> str:
    """Return the decimal mark of a file: as COLUMNS says, as its separator leaves, or of all columns that show one."""
    shown = {mark for column in columns if len(marks := numbers.marks(column.cells)) == 1 for mark in marks}
    return overrides.get("decimal") or table.grid.decimal or (shown.pop() if len(shown) == 1 else "")


def _mark(column: Column, columns: Sequence[Column], table: Long, override: str, file_mark: str) -> tuple[str, str]:
    """Return the decimal mark of a column, "" where it cannot be determined; and what was guessed."""
    marks = numbers.marks(column.cells)
    if override or len(marks) == 1:
        return override or next(iter(marks)), ""
    if not (ambiguous := [cell for cell in column.cells if numbers.depends_on_mark([cell])]):
        return file_mark or ".", ""
    fitting = numbers.decide(column.cells, _fitting(column, columns, table))
    mark = fitting or file_mark or ("" if "';'" in table.grid.format else ".")
    if not mark:
        return "", ""
    kind = "a decimal" if any(mark in cell for cell in ambiguous) else "a thousands"
    reason = f'a guess; if not, say COLUMNS="decimal={"," if mark == "." else "."}"'
    if fitting or file_mark:
        reason = "the rest of its column, or what it is of, says so" if fitting else "as in other columns"
    return mark, f"'{ambiguous[0]}' is read with {kind} mark: {reason}"


def _fitting(column: Column, columns: Sequence[Column], table: Long) -> Callable[[list[Cell]], bool]:
    """Return a test whether numbers have a plausible size for the quantity of a column."""
    name = column.header.name
    sized = next((one for one in columns if one.header.name in ("ranks", "nodes")), None)
    ranks = (
        [cell.value for cell in numbers.column(sized.cells, ".") if isinstance(cell, PrintedNumber)] if sized else []
    )
    spread = max(ranks) / min(ranks) if ranks and min(ranks) > 0 else 1.0
    expected = (
        _expected(columns, len(table.lines)) if name in ("rate", "images_per_s", "images_per_s_per_rank") else None
    )

    def fits(cells: list[Cell]) -> bool:
        values = [cell.value for cell in cells if isinstance(cell, PrintedNumber) and cell.value > 0]
        if not values:
            return False
        if name in _COUNTS + _WHOLE:
            return all(value % 1 == 0 for value in values)
        if name in ("speedup", "scaling"):
            return max(values) <= 3 * max([*ranks, 1.0])
        if expected is not None and len(values) == len(expected):
            ratio = float(np.median(np.log(np.array(values) / expected)))
            return -math.log(30) < ratio < math.log(30) * 2
        return max(values) / min(values) <= 30 * spread

    return fits


def _expected(columns: Sequence[Column], rows: int) -> np.ndarray | None:
    """Return the images per second of a rank by steps, batch and wall time; None where one is missing."""
    product = np.ones(rows)
    for names, power in ((("steps_per_rank",), 1), (("batch_per_rank", "batch"), 1), (("wall_s",), -1)):
        column = next((one for one in columns if one.header.name in names), None)
        if column is None or numbers.depends_on_mark(column.cells) or len(column.cells) != rows:
            return None
        mark = next(iter(numbers.marks(column.cells)), ".")
        values = [
            cell.value if isinstance(cell, PrintedNumber) else math.nan for cell in numbers.column(column.cells, mark)
        ]
        product = product * np.array(values) ** power
    return product if np.isfinite(product).all() else None


def _kind(name: str) -> str:
    if name in _COUNTS + _WHOLE + ("epochs",):
        return "count"
    if name in _RATIOS:
        return "share"
    if name in ("steps_per_s", "epochs_per_s"):
        return "steps"
    return "rate" if name in ("rate", "images_per_s", "images_per_s_per_rank", "low", "high") else "time"


def _in_units(column: Column, texts: Sequence[Cell], guess: str) -> Quantity:
    """Return a column in its unit: s, images/s, fractions; with the fault of each cell that cannot be."""
    name, unit, kind = column.header.name, column.header.unit, _kind(column.header.name)
    cells = [_checked(name, kind, cell, text) for cell, text in zip(texts, column.cells, strict=True)]
    values = [cell for cell in cells if isinstance(cell, PrintedNumber)]
    plain = [cell for cell in values if cell.unit.kind in ("number", "count")]
    if unit is not None and unit.kind == kind:
        cells = _scaled(cells, unit.factor, ("number", "count"))
    elif unit is not None and unit.kind == "number" and kind == "rate":
        cells = [cell.times(unit.factor) if isinstance(cell, PrintedNumber) else cell for cell in cells]
    elif name == "efficiency" and plain and max(cell.value for cell in plain) > 2.5:
        cells = _scaled(cells, 0.01, ("number",))
        guess = guess or "in per cent: values above 2.5"
    elif (
        kind == "time"
        and plain
        and unit is None
        and not column.header.overridden
        and not _SECONDS.search(column.header.text)
    ):
        guess = "; ".join(filter(None, (guess, "no unit is given: taken as seconds")))
    per_rank = any(cell.unit.per == "rank" for cell in values)
    if per_rank and name in ("images_per_s", "rate"):
        name = "images_per_s_per_rank"
    elif per_rank and name == "batch":
        name = "batch_per_rank"
    elif name == "rate" and not plain and any(cell.unit.work == "steps" for cell in values):
        name = "steps_per_s"
    elif name == "scaling":
        share = max((cell.value for cell in values), default=0) <= 1.25
        name, guess = ("efficiency", "its values are shares") if share else ("speedup", "its values are above 1")
    return Quantity(name, column.header, tuple(cells), column.cells, column.at, guess)


def _scaled(cells: Sequence[Cell], factor: float, kinds: Sequence[str]) -> list[Cell]:
    """Return the cells, with numbers whose units are of these kinds multiplied."""
    return [
        cell.times(factor) if isinstance(cell, PrintedNumber) and cell.unit.kind in kinds else cell for cell in cells
    ]


def _checked(name: str, kind: str, cell: Cell, text: str) -> Cell:
    """Return a cell that can be of this quantity, or why it cannot."""
    if isinstance(cell, Missing):
        return cell
    if cell.unit.kind not in _KINDS[kind]:
        return Missing(f"'{text}' is no {'number of its kind' if kind == 'count' else kind}")
    if cell.value < 0 or (
        cell.value == 0 and name not in ("repeat", "images_per_s", "images_per_s_per_rank", "rate", "init_s")
    ):
        return Missing(f"{text} given, must be more than 0")
    if cell.value and not _LEAST <= cell.value <= _MOST:
        return Missing(f"{text} given, must be between {_LEAST:g} and {_MOST:g}")
    if name in _COUNTS and cell.value % 1:
        return Missing(f"{text} given, must be a whole number")
    return cell
