"""The columns of a table as numbers under their names: decimal marks, units, and faulty cells."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from analysis import TableError
from analysis.user_table import headers, numbers, shape, units
from analysis.user_table.headers import Header
from analysis.user_table.numbers import Cell, Missing, PrintedNumber
from analysis.user_table.shape import Column, Long

_COUNTS = ("nodes", "ranks_per_node", "ranks", "repeat", "n")
_WHOLE = ("batch_per_rank", "global_batch", "batch", "steps_per_rank", "images")  # nearly always whole numbers
_RATES = ("rate", "images_per_s", "images_per_s_per_rank")
_SMALLEST, _LARGEST = 1e-9, 1e12
_NEAR = 0.03  # as a logarithm: two ratios are equal up to rounding
_EXTENT = re.compile(r"resol|size|shape|dim|grid|image|input|matrix|kernel", re.I)  # as 128x128, which are no ranks
_SERIAL = re.compile(r"serial|sequential", re.I)
_SECONDS = re.compile(r"(?:^|[_\W])s(?:ec|econd)?s?$", re.I)
# The kinds of units that cells may have, for each kind of quantity.
_KINDS = {
    "rate": ("rate", "number", "count"), "time": ("time", "number"), "share": ("share", "ratio", "number"),
    "count": ("count", "number", "ratio"), "steps": ("rate", "number"),
}  # fmt: skip
_KIND_OF = {
    **dict.fromkeys([*_COUNTS, *_WHOLE, "epochs"], "count"),
    **dict.fromkeys(["speedup", "efficiency", "scaling"], "share"),
    **dict.fromkeys(["steps_per_s", "epochs_per_s"], "steps"),
    **dict.fromkeys([*_RATES, "low", "high"], "rate"),
}


@dataclass(frozen=True)
class Quantity:
    """One column under its name: for each row a cell of numbers, or of text. guess: a choice that the file leaves."""

    name: str
    header: Header
    cells: tuple[Cell, ...]
    text: tuple[str, ...]
    at: tuple[str, ...]
    guess: str = ""

    @property
    def numbers(self) -> list[PrintedNumber]:
        """Return its cells that are numbers."""
        return [cell for cell in self.cells if isinstance(cell, PrintedNumber)]


def read(table: Long, overrides: Mapping[str, str]) -> tuple[list[Quantity], list[str], dict[str, str]]:
    """Return the known columns of a table, notes on them, and why each unknown header is not used.

    Raises TableError if two columns are both the number of ranks, and differ.
    """
    columns, notes = _one_each([_as_ranks(column, table) for column in table.columns], table)
    columns, quantities = _with_sizes(columns, table)
    file_marks = {mark for column in columns if len(marks := numbers.marks(column.cells)) == 1 for mark in marks}
    elsewhere = file_marks.pop() if len(file_marks) == 1 else ""
    read_columns = []
    for column in columns:
        if column.header.name in headers.TEXT:
            read_columns.append(Quantity(column.header.name, column.header, (), column.cells, column.at))
        elif column.header.name:
            mark, guess = _mark(column, columns, table, overrides.get("decimal", ""), elsewhere)
            cells = [_number(cell, mark, column.header.name in _RATES) for cell in column.cells]
            read_columns.append(_in_units(column, cells, guess))
    read_headers = [column.header for column in columns]
    unused = {header.text: header.why for header in read_headers if not header.name and header.text}
    return [*read_columns, *quantities], notes, unused


def _number(text: str, mark: str, rate: bool) -> Cell:
    """Return a cell as a number with this decimal mark, else the other; "": not known, so it must not matter.

    rate: whether it may be "62.65*2", the rate of one rank times the number of ranks.
    """
    (cell,) = numbers.column([text], mark or ".")
    if mark and isinstance(cell, Missing):
        (cell,) = numbers.column([text], "," if mark == "." else ".")
    if rate and (factors := re.fullmatch(r"(.*\d)\s*[*×x]\s*(\d+)", text)):
        (number,) = numbers.column([factors[1]], mark or ".")
        cell = number.times(int(factors[2])) if isinstance(number, PrintedNumber) else cell
    if not mark and isinstance(cell, PrintedNumber) and numbers.depends_on_mark([text]):
        return Missing(f'\'{text}\': of thousands, or decimals? Say COLUMNS="decimal=," or COLUMNS="decimal=."')
    return cell


def _as_ranks(column: Column, table: Long) -> Column:
    """Return a column of counted GPUs as one of ranks, lists of devices as numbers; not for P of P x Q, or 0 alone."""
    name, text, different = column.header.name, column.header.text, {*column.cells}
    if column.header.overridden:
        return column
    if name == "n" and len(different) > 1 < min(map(column.cells.count, different)):  # a problem's size
        return column.named("", "not known")
    others = any(other.header.name == "ranks" for other in table.columns if other is not column)
    counted = all(re.fullmatch(r"\d+", cell) or _codes([cell]) for cell in column.cells)
    cores = re.search(r"(?:cpu|core|thread)s?[ _]per[ _](?:task|rank|process)", text, re.I)
    counts = [len({*other.cells}) for other in table.columns if other.header.name in _COUNTS]
    if (name == "gpu" and counted and not others) or (cores and len(different) > 1 == max(counts, default=1)):
        return column.named("ranks")
    if name != "ranks":
        return column
    if different == {"0"} or (text == "P" and any(other.header.text == "Q" for other in table.columns)):
        return column.named("", "no number of ranks")
    if not (listed := units.device_counts(column.cells)):
        return column
    return column.named("", "numbers of devices") if others else replace(column, cells=tuple(map(str, listed)))


def _codes(cells: Sequence[str]) -> bool:
    """Return whether cells have sizes in words or codes, as "8x V100" and "n2g8"; others have no digits: "serial"."""
    read = {cell: units.sizes_in(cell) for cell in cells}
    counted = [cell for cell, sizes in read.items() if sizes and (sizes.ranks or sizes.nodes)]
    others = [cell for cell in read if cell not in counted and not _SERIAL.search(units.translated(cell))]
    in_words = [cell for cell in counted if re.search(r"[^\W\d_]|\d ?[x×*] ?\d", cell.partition("(")[0])]
    return len(counted) > len(others) and not re.search(r"\d", " ".join(others)) and bool(in_words)


def _one_each(columns: Sequence[Column], table: Long) -> tuple[list[Column], list[str]]:
    """Return the columns with each name used once: by the first of two that are equal."""
    unique: list[Column] = []
    notes = []
    counted = _counting([column for column in columns if column.header.name == "ranks"], columns)
    for column in columns:
        name, text = column.header.name, column.header.text
        first = next((other for other in unique if other.header.name == name), None)
        if not name or name == "setting" or (first is None and (name != "ranks" or column in counted)):
            unique.append(column)
        elif name in headers.TEXT:
            unique.append(column.named("setting"))
        elif first and column.cells == first.cells:
            notes.append(f"columns '{first.header.text}' and '{text}' are equal: the first is used")
        elif column not in counted and name == "ranks":  # an unknown setting
            unique.append(column.named("", "not known"))
        elif first:
            both = f"columns '{first.header.text}' and '{text}' are both {name}, and differ"
            if name in ("ranks", "nodes"):
                raise TableError(f'{table.grid.source}: {both}; say which is not: COLUMNS="{text}=unused"')
            notes.append(f'{both}: the first is used; to use the other say COLUMNS="{first.header.text}=unused"')
    return unique, notes


def _counting(candidates: Sequence[Column], columns: Sequence[Column]) -> list[Column]:
    """Return the one of several columns of counts that is the number of ranks; several if nothing decides.

    The first of these decides: the user; speedup over efficiency; the product of two others; that it varies and is
    never 0; the counted unit.
    """
    if len(candidates) < 2:
        return list(candidates)
    by_ratios = _by_ratios(columns, candidates)
    values = [np.array(numbers.values(candidate.cells)) for candidate in candidates]
    strengths = [headers.strength(candidate.header.text) for candidate in candidates]
    least = max(min(strengths) + 1, headers.WEAK)

    def rank(at: int) -> tuple[bool, ...]:
        candidate, counts, others = candidates[at], values[at], [*values[:at], *values[at + 1 :]]
        pairs = combinations(others, 2)
        product = any((counts == a * b).all() and not ((counts == a).all() or (counts == b).all()) for a, b in pairs)
        constant = len({*counts}) == 1 < max(len({*other}) for other in others)
        return (
            not candidate.header.overridden, candidate is not by_ratios, not product, constant,
            bool((counts == 0).any()), strengths[at] >= least,
        )  # fmt: skip

    ranked = [rank(at) for at in range(len(candidates))]
    return [candidate for candidate, order in zip(candidates, ranked, strict=True) if order == min(ranked)]


def _with_sizes(columns: Sequence[Column], table: Long) -> tuple[list[Column], list[Quantity]]:
    """Return the columns, with ranks in words ("2 nodes x 4") as numbers, and the other sizes in such words."""
    named = {column.header.name for column in columns}
    sized, added = [], []
    for column in columns:
        if not _has_sizes(column, named):
            sized.append(column)
            continue
        stated = [units.sizes_in(cell) or units.Sizes() for cell in column.cells]
        if all(size.ranks != 1 for size in stated):  # else the base is another row
            serial = [_SERIAL.search(units.translated(cell)) for cell in column.cells]
            stated = [units.Sizes(1) if word else size for word, size in zip(serial, stated, strict=True)]
        read, guess = _with_ranks_per_node(stated)
        cells = tuple(str(size.ranks or size.nodes or cell) for size, cell in zip(read, column.cells, strict=True))
        sized.append(Column(replace(column.header, name="ranks"), cells, column.at))
        for name in {"nodes", "ranks_per_node"} - named:
            values = [getattr(size, name) for size in read]
            if any(values):
                counts = tuple(PrintedNumber(value) if value else Missing("", False) for value in values)
                added.append(Quantity(name, Header(column.header.text, name), counts, column.cells, column.at, guess))
        batches = [headers.batches_in(cell).get("batch", "") for cell in column.cells]
        if all(batches) and not any("batch" in name for name in named):
            sizes = tuple(PrintedNumber(int(batch)) for batch in batches)
            added.append(Quantity("batch", Header(column.header.text, "batch"), sizes, column.cells, column.at))
        elif len({*read}) < len({*column.cells}):  # the other words distinguish curves
            added.append(Quantity("setting", Header(column.header.text, "setting"), (), column.cells, column.at))
        if "gpu" not in named and all(size.gpu for size in read):
            gpus = tuple(size.gpu for size in read)
            added.append(Quantity("gpu", Header(column.header.text, "gpu"), (), gpus, column.at))
        named |= {"ranks", *(quantity.name for quantity in added)}
    return (sized if named & {"ranks", "nodes"} else _numbered(sized, table)), added


def _with_ranks_per_node(sizes: Sequence[units.Sizes]) -> tuple[list[units.Sizes], str]:
    """Return sizes, with ranks per node from the others for those that state nodes alone, and that guess.

    If the number of ranks is the same at several numbers of nodes, it is that of one node.
    """
    if all(size.nodes and size.ranks for size in sizes) and len({size.ranks for size in sizes}) == 1 < len({*sizes}):
        each_node = [replace(size, ranks=size.nodes * size.ranks, ranks_per_node=size.ranks) for size in sizes]
        return each_node, "as many at each number of nodes: of one node"
    each = {size.ranks_per_node for size in sizes if size.ranks}
    if len(each) != 1 or not all(size.nodes for size in sizes) or all(size.ranks for size in sizes) or 0 in each:
        return list(sizes), ""
    (ranks_per_node,) = each
    stated = [replace(size, ranks=size.nodes * ranks_per_node, ranks_per_node=ranks_per_node) for size in sizes]
    return stated, "as in the rows that state it"


def _has_sizes(column: Column, named: set[str]) -> bool:
    """Return whether all cells of a column have sizes in words or codes, so that it is the column of ranks."""
    name = column.header.name
    plain = all(re.fullmatch(r"[\d.,'\s]*", cell) for cell in column.cells)
    if name not in ("ranks", "nodes", "", *headers.TEXT) or "ranks" in named - {name} or plain:
        return False
    if name in ("ranks", "nodes"):
        return any(size and (size.ranks or name == "ranks") for size in map(units.sizes_in, column.cells))
    return _codes(column.cells) and "nodes" not in named and not _EXTENT.search(column.header.text)


def _numbered(columns: Sequence[Column], table: Long) -> list[Column]:
    """Return the columns of a table without numbers of ranks, with those of its ratios, or in its title."""
    unknown = [column for column in columns if column.header.name in ("", "n")]
    if by_ratios := _by_ratios(columns, unknown):
        return [column.named("ranks") if column is by_ratios else column for column in columns]
    ranks_of_rows = [_ranks_stated(texts) for texts in shape.titles(table)]
    stated = [shape.new_column("ranks in titles", "ranks", ranks_of_rows)] if all(ranks_of_rows) else []
    return [*columns, *stated]


def _by_ratios(columns: Sequence[Column], candidates: Sequence[Column]) -> Column | None:
    """Return the candidate of whole numbers that is speedup / efficiency, up to a factor; None if there is none."""
    stated = {column.header.name: np.array(numbers.values(column.cells)) for column in columns}
    if not {"speedup", "efficiency"} <= {*stated}:
        return None
    ranks = stated["speedup"] / stated["efficiency"]
    for candidate in candidates:
        if all(re.fullmatch(r"\d{1,6}", cell) for cell in candidate.cells) and len({*candidate.cells}) > 1:
            ratio = ranks / np.array([int(cell) for cell in candidate.cells])
            if np.isfinite(ratio).sum() > 1 and np.nanmax(np.abs(np.log(ratio / np.nanmedian(ratio)))) < _NEAR:
                return candidate
    return None


def _ranks_stated(texts: Sequence[str]) -> str:
    """Return the number of ranks that texts state, as "128 GPUs"; "" if none or several."""
    pattern = rf"(?<!up to )(?<![\w.])(?<!-> )(?<![→,/] )(\d+) {headers.RANK}\b(?! ?(?:per|/))"
    stated = {n for text in texts for n in re.findall(pattern, text, re.I)}
    return stated.pop() if len(stated) == 1 else ""


def _mark(column: Column, columns: Sequence[Column], table: Long, override: str, elsewhere: str) -> tuple[str, str]:
    """Return the decimal mark of a column, "" if not determined, and the guess; `elsewhere`: that of other columns."""
    marks = numbers.marks(column.cells)
    if override or len(marks) == 1:
        return override or next(iter(marks)), ""
    ambiguous = next((cell for cell in column.cells if numbers.depends_on_mark([cell])), "")
    if not ambiguous:
        return elsewhere or table.grid.decimal or ".", ""
    fit = [mark for mark in numbers.MARKS if _fits(numbers.values(column.cells, mark), column, columns)]
    fitting = fit[0] if len(fit) == 1 else ""
    mark = elsewhere or fitting or table.grid.decimal or ("" if "';'" in table.grid.format else ".")
    if mark == elsewhere:
        reason = "as in other columns"
    elif mark == fitting:
        reason = "the rest of its column, or its quantity, shows it"
    else:
        reason = f'a guess; if not, say COLUMNS="decimal={"," if mark == "." else "."}"'
    kind = "a decimal" if mark in ambiguous else "a thousands"
    return mark, f"'{ambiguous}' is read with {kind} mark: {reason}" if mark else ""


def _fits(values: Sequence[float], column: Column, columns: Sequence[Column]) -> bool:
    """Return whether numbers have a plausible size for the quantity of a column."""
    name, positive = column.header.name, np.array([value for value in values if value > 0])
    sized = next((other for other in columns if other.header.name in ("ranks", "nodes")), None)
    ranks = [value for value in numbers.values(sized.cells) if value > 0] if sized else []
    if not positive.size:
        return False
    if name in _COUNTS + _WHOLE:
        return bool((positive % 1 == 0).all())
    if name in ("speedup", "scaling"):
        return bool(positive.max() <= 3 * max([*ranks, 1.0]))
    expected = _expected(columns, len(values)) if name in _RATES else None
    if expected is not None and positive.size == expected.size:
        return bool(-math.log(30) < np.median(np.log(positive / expected)) < math.log(30) * 2)
    return bool(positive.max() / positive.min() <= 30 * max(ranks, default=1.0) / min(ranks, default=1.0))


def _expected(columns: Sequence[Column], rows: int) -> np.ndarray | None:
    """Return the images per second of a rank by steps, batch and wall time; None if one is missing."""
    product = np.ones(rows)
    for names, power in ((("steps_per_rank",), 1), (("batch_per_rank", "batch"), 1), (("wall_s",), -1)):
        column = next((candidate for candidate in columns if candidate.header.name in names), None)
        if column is None or numbers.depends_on_mark(column.cells):
            return None
        mark = next(iter(numbers.marks(column.cells)), ".")
        product = product * np.array(numbers.values(column.cells, mark)) ** power
    return product if np.isfinite(product).all() else None


def _in_units(column: Column, texts: Sequence[Cell], guess: str) -> Quantity:
    """Return a column in its unit: s, images/s, fractions; with the fault of each impossible cell."""
    name, unit = column.header.name, column.header.unit
    kind = _KIND_OF.get(name, "time")
    cells = [_checked(name, kind, cell, text) for cell, text in zip(texts, column.cells, strict=True)]
    values = [cell for cell in cells if isinstance(cell, PrintedNumber)]
    plain = [cell.value for cell in values if cell.unit.kind in ("number", "count")]
    seconds = column.header.overridden or _SECONDS.search(column.header.text)
    if unit is not None and unit.kind == kind:
        cells = _scaled(cells, unit.factor, ("number", "count"))
    elif unit is not None and unit.kind == "number" and kind == "rate":
        cells = _scaled(cells, unit.factor, _KINDS["rate"])
    elif name == "efficiency" and plain and (max(plain) > 20 or min(plain) > 2.5):
        cells = _scaled(cells, 0.01, ("number",))
        guess = guess or "in per cent, by its values"
    elif kind == "time" and plain and unit is None and not seconds:
        guess = "; ".join(filter(None, (guess, "no unit is given: taken as seconds")))
    per_rank = any(cell.unit.per == "rank" for cell in values)
    if per_rank and name in ("images_per_s", "rate"):
        name = "images_per_s_per_rank"
    elif per_rank and name == "batch":
        name = "batch_per_rank"
    elif name == "rate" and not plain and any(cell.unit.work == "steps" for cell in values):
        name = "steps_per_s"
    elif name == "scaling" or (name == "efficiency" and any(cell.unit.kind == "ratio" for cell in values)):
        share = max((cell.value for cell in values), default=0) <= 1.25
        name, guess = ("efficiency", "its values are shares") if share else ("speedup", "its values are above 1")
    return Quantity(name, column.header, tuple(cells), column.cells, column.at, guess)


def _scaled(cells: Sequence[Cell], factor: float, kinds: Sequence[str]) -> list[Cell]:
    """Return the cells, with numbers whose units are of these kinds multiplied."""
    return [c.times(factor) if isinstance(c, PrintedNumber) and c.unit.kind in kinds else c for c in cells]


def _checked(name: str, kind: str, cell: Cell, text: str) -> Cell:
    """Return a cell that can be of this quantity, or why it cannot."""
    if isinstance(cell, Missing):
        return cell
    if cell.unit.kind not in _KINDS[kind]:
        return Missing(f"'{text}' is no {'number of its kind' if kind == 'count' else kind}")
    if cell.value < 0 or (cell.value == 0 and name not in ("repeat", "init_s", *_RATES)):
        return Missing(f"{text} given, must be more than 0")
    if cell.value and not _SMALLEST <= cell.value <= _LARGEST:
        return Missing(f"{text} given, must be between {_SMALLEST:g} and {_LARGEST:g}")
    if name in _COUNTS and cell.value % 1:
        return Missing(f"{text} given, must be a whole number")
    return cell
