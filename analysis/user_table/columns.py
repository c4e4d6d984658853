"""The columns of a table as numbers under their names: decimal marks, units, and cells that cannot be used."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis import TableError
from analysis.user_table import headers, numbers, sizes
from analysis.user_table.headers import Header
from analysis.user_table.numbers import Cell, Missing, Number
from analysis.user_table.shape import Column, Long

_COUNTS = ("nodes", "ranks_per_node", "ranks", "repeat", "n")
_WHOLE = ("batch_per_rank", "global_batch", "batch", "steps_per_rank", "images")  # as good as always
_RATIOS = ("speedup", "efficiency", "scaling")
_LEAST, _MOST = 1e-9, 1e12
_KINDS = {
    "rate": ("rate", "number", "count"), "time": ("time", "number"), "share": ("share", "ratio", "number"),
    "count": ("count", "number", "ratio"), "steps": ("rate", "number"),
}  # fmt: skip


@dataclass(frozen=True)
class Quantity:
    """One column under its name: a cell of numbers a row, or of text. guess: what was not told by the file."""

    name: str
    header: Header
    cells: tuple[Cell, ...]
    text: tuple[str, ...]
    at: tuple[str, ...]
    guess: str = ""


def read(table: Long, told: Mapping[str, str]) -> tuple[list[Quantity], list[str]]:
    """The columns of a table that are known, and what is to note of those that are not.

    Raises TableError where two columns are both the number of ranks, and differ.
    """
    columns = [_of_devices(column, table) for column in table.columns]
    columns, notes = _one_each(columns, table)
    columns, size_columns = _with_sizes(columns)
    marks, guesses = _marks(columns, table, told)
    found = []
    for column in columns:
        name = column.header.name
        if name in headers.TEXT:
            found.append(Quantity(name, column.header, (), column.cells, column.at))
        elif name:
            cells = numbers.column(column.cells, marks[id(column)] or ".")
            if not marks[id(column)]:
                cells = [_asked(cell, text) for cell, text in zip(cells, column.cells, strict=True)]
            found.append(_in_units(column, cells, guesses.get(id(column), "")))
    return [*found, *size_columns], [*notes, *_unused(columns)]


def _asked(cell: Cell, text: str) -> Cell:
    """A cell whose decimal mark nothing tells: nothing, where that matters."""
    if isinstance(cell, Missing) or not numbers.tells([text]):
        return cell
    return Missing(f'\'{text}\': of thousands, or decimals? Say COLUMNS="decimal=," or COLUMNS="decimal=."')


def _of_devices(column: Column, table: Long) -> Column:
    """A column called "GPU" or "device" whose cells count them, as one of ranks; a list of devices as their number."""
    header = column.header
    others = [one for one in table.columns if one is not column]
    counted = all(re.fullmatch(r"\d+", cell) for cell in column.cells)
    if header.name == "gpu" and counted and not any(one.header.name == "ranks" for one in others):
        return replace(column, header=replace(header, name="ranks"))
    if header.name == "ranks" and not header.told and (listed := sizes.ids(list(column.cells))):
        if any(one.header.name == "ranks" for one in others):
            return replace(column, header=replace(header, name="", why="numbers of devices"))
        return replace(column, cells=tuple(map(str, listed)))
    return column


def _one_each(columns: Sequence[Column], table: Long) -> tuple[list[Column], list[str]]:
    """The columns, of which each name is used once: of two that are equal, or of text, the first."""
    kept, notes = [], []
    first: dict[str, Column] = {}
    for column in columns:
        name = column.header.name
        if not name or name == "setting" or name not in first:
            kept.append(column)
            if name:
                first[name] = column
            continue
        both = f"'{first[name].header.text}' and '{column.header.text}'"
        if name in headers.TEXT:
            kept.append(replace(column, header=replace(column.header, name="setting")))
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
    return kept, notes


def _with_sizes(columns: Sequence[Column]) -> tuple[list[Column], list[Quantity]]:
    """The columns, those of ranks in words ("2 nodes x 4") as numbers; and the sizes that such words hold beside."""
    kept, more = [], []
    named = {column.header.name for column in columns}
    for column in columns:
        read = _sizes_in(column, named)
        if read is None:
            kept.append(column)
            continue
        found = zip(read, column.cells, strict=True)
        cells = tuple(str(one.ranks or one.nodes) if one else cell for one, cell in found)
        kept.append(Column(replace(column.header, name="ranks"), cells, column.at))
        for name in {"nodes", "ranks_per_node"} - named:
            values = [getattr(one, name) if one else 0 for one in read]
            if any(values):
                numbers_of = tuple(Number(value) if value else Missing("", False) for value in values)
                more.append(Quantity(name, Header(column.header.text, name), numbers_of, column.cells, column.at))
        gpus = {one.gpu for one in read if one and one.gpu}
        if len(gpus) == 1 and "gpu" not in named:
            text = (gpus.pop(),) * len(cells)
            more.append(Quantity("gpu", Header(column.header.text, "gpu"), (), text, column.at))
    if not {column.header.name for column in kept} & {"ranks", "nodes"}:
        kept = _numbered(kept)
    return kept, more


def _sizes_in(column: Column, named: set[str]) -> list[sizes.Sizes | None] | None:
    """The sizes in the cells of a column that has them in words; None for another column."""
    name = column.header.name
    if name not in ("ranks", "nodes", "", *headers.TEXT) or "ranks" in named - {name} or _plain(column):
        return None
    read = [sizes.read(cell) for cell in column.cells]
    if name in ("ranks", "nodes"):
        known = any(one and (one.ranks or name == "ranks") for one in read)
        return read if known else None
    in_words = [
        one and re.search(r"\d\s*[x×]|\d\s*-?[a-z]", cell, re.I) for one, cell in zip(read, column.cells, strict=True)
    ]
    return read if all(in_words) and "nodes" not in named else None


def _numbered(columns: Sequence[Column]) -> list[Column]:
    """The columns of a table without numbers of ranks; those in a column of words, as "Parallel 4", are taken."""
    for place, column in enumerate(columns):
        found = [re.findall(r"(?<![\w.])\d+(?![\w.%])", cell) for cell in column.cells]
        in_words = column.header.name in ("", *headers.TEXT) and not _plain(column)
        if in_words and all(len(one) == 1 for one in found) and len({one[0] for one in found}) == len(found) > 1:
            ranks = Column(replace(column.header, name="ranks"), tuple(one[0] for one in found), column.at)
            return [*columns[:place], ranks, *columns[place + 1 :]]
    return list(columns)


def _plain(column: Column) -> bool:
    """Whether the cells of a column are numbers alone."""
    return all(re.fullmatch(r"[\d.,'\s]*", cell) for cell in column.cells)


def _marks(columns: Sequence[Column], table: Long, told: Mapping[str, str]) -> tuple[dict[int, str], dict[int, str]]:
    """The decimal mark of each column, "" where nothing tells; and what was guessed."""
    allowed = {id(column): numbers.marks(column.cells) for column in columns}
    certain = [next(iter(allowed[id(column)])) for column in columns if len(allowed[id(column)]) == 1]
    of_file = (
        told.get("decimal")
        or table.grid.decimal
        or (Counter(certain).most_common(1)[0][0] if len({*certain}) == 1 else "")
    )
    found, guesses = {}, {}
    for column in columns:
        marks = allowed[id(column)]
        if told.get("decimal"):
            found[id(column)] = told["decimal"]
        elif len(marks) == 1:
            found[id(column)] = next(iter(marks))
        elif not numbers.tells(column.cells):
            found[id(column)] = of_file or "."
        else:
            mark = numbers.decide(column.cells, _fitting(column, columns, table))
            english = "" if "';'" in table.grid.format else "."
            found[id(column)] = mark or of_file or english
            which = "a decimal" if _is_decimal(column.cells, found[id(column)]) else "a thousands"
            other = next((cell for cell in column.cells if numbers.tells([cell])), "")
            said = (
                (
                    f"'{other}' is read with {which} mark: "
                    + (
                        "the rest of its column, or what it is of, says so"
                        if mark
                        else "as in other columns"
                        if of_file
                        else f'nothing tells; if not, say COLUMNS="decimal={"," if found[id(column)] == "." else "."}"'
                    )
                )
                if found[id(column)]
                else ""
            )
            guesses[id(column)] = said
    return found, guesses


def _is_decimal(cells: Sequence[str], mark: str) -> bool:
    return any(mark and numbers.tells([cell]) and mark in cell for cell in cells)


def _fitting(column: Column, columns: Sequence[Column], table: Long) -> Callable[[list[Cell]], bool]:
    """A test whether the numbers of a column can be what the column is of."""
    name = column.header.name
    sized = next((one for one in columns if one.header.name in ("ranks", "nodes")), None)
    ranks = [cell.value for cell in numbers.column(sized.cells, ".") if isinstance(cell, Number)] if sized else []
    spread = max(ranks) / min(ranks) if ranks and min(ranks) > 0 else 1.0
    expected = (
        _expected(columns, len(table.lines)) if name in ("rate", "images_per_s", "images_per_s_per_rank") else None
    )

    def fits(cells: list[Cell]) -> bool:
        values = [cell.value for cell in cells if isinstance(cell, Number) and cell.value > 0]
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
    """The images per second of a rank that steps, batch and wall time tell; None where one is not there."""
    product = np.ones(rows)
    for names, power in ((("steps_per_rank",), 1), (("batch_per_rank", "batch"), 1), (("wall_s",), -1)):
        column = next((one for one in columns if one.header.name in names), None)
        if column is None or numbers.tells(column.cells) or len(column.cells) != rows:
            return None
        mark = next(iter(numbers.marks(column.cells)), ".")
        values = [cell.value if isinstance(cell, Number) else math.nan for cell in numbers.column(column.cells, mark)]
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


def _in_units(column: Column, cells: Sequence[Cell], guess: str) -> Quantity:
    """A column in its unit: s, images/s, fractions; with what is wrong with each cell that cannot be."""
    name, unit = column.header.name, column.header.unit
    kind = _kind(name)
    found = [_checked(name, kind, cell, text) for cell, text in zip(cells, column.cells, strict=True)]
    plain = [cell for cell in found if isinstance(cell, Number) and cell.unit.kind in ("number", "count")]
    if unit is not None and unit.kind in (kind, "share" if kind == "share" else kind) and unit.factor != 1:
        scaled = [
            cell.times(unit.factor) if isinstance(cell, Number) and cell.unit.kind in ("number", "count") else cell
            for cell in found
        ]
        found = scaled
    elif unit is not None and unit.kind == "number" and unit.factor != 1 and kind == "rate":
        found = [cell.times(unit.factor) if isinstance(cell, Number) else cell for cell in found]
    elif name == "efficiency" and plain and max(cell.value for cell in plain) > 2.5:
        found = [
            cell.times(0.01) if isinstance(cell, Number) and cell.unit.kind == "number" else cell for cell in found
        ]
        guess = guess or "in per cent: values above 2.5"
    elif (
        kind == "time"
        and plain
        and unit is None
        and not column.header.told
        and not re.search(r"(?:^|[_\W])s(?:ec|econd)?s?$", column.header.text, re.I)
    ):
        guess = "; ".join(filter(None, (guess, "no unit is given: taken as seconds")))
    if name in ("images_per_s", "rate") and any(isinstance(cell, Number) and cell.unit.of == "rank" for cell in found):
        name = "images_per_s_per_rank"
    if name == "batch" and any(isinstance(cell, Number) and cell.unit.of == "rank" for cell in found):
        name = "batch_per_rank"
    if name == "rate" and plain == [] and any(isinstance(cell, Number) and cell.unit.work == "steps" for cell in found):
        name = "steps_per_s"
    if name == "scaling":
        name, guess = _scaling(found)
    return Quantity(name, column.header, tuple(found), column.cells, column.at, guess)


def _scaling(cells: Sequence[Cell]) -> tuple[str, str]:
    """Whether a column called scaling has speedups, or efficiencies."""
    values = [cell for cell in cells if isinstance(cell, Number)]
    share = max((cell.value for cell in values), default=0) <= 1.25
    return ("efficiency", "its values are shares") if share else ("speedup", "its values are above 1")


def _checked(name: str, kind: str, cell: Cell, text: str) -> Cell:
    """A cell that can be of this quantity, or why it cannot."""
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


def _unused(columns: Sequence[Column]) -> list[str]:
    unused = {
        column.header.text: column.header.why for column in columns if not column.header.name and column.header.text
    }
    return [f"columns not used: {', '.join(f'{text!r} ({why})' for text, why in unused.items())}"] if unused else []
