"""A grid as named columns, one row a point: its row of headers, units below it, ranks across, and patterns with "*"."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis import TableError
from analysis.user_table import headers, numbers, units
from analysis.user_table.files import Grid, Row
from analysis.user_table.headers import Choices, Header
from analysis.user_table.units import CORE, NODE, RANK

_MOST_ABOVE = 10  # lines above the headers
_ACROSS = re.compile(rf"(\d{{1,6}}) ?[x×]? ?-?({RANK}|({NODE})|{CORE})(?:\(s\))?", re.I)
_AWKWARD = re.compile(r"""[,;="'$`\\!*]""")  # in COLUMNS=, or in a shell
MEASURED = (*headers.MEASURED, "rate", "scaling", "total", "cells")


class NotATable(TableError):
    """A table without numbers of ranks, or in which nothing is measured: no question can make it one."""


class Question(TableError):
    """A table with several readings: the question, and the setting of COLUMNS for each."""

    def __init__(self, place: str, text: str, answers: Sequence[tuple[str, str]], choices: Choices) -> None:
        """Write the question about the table at `place`; answers: the meaning of each, and what it adds to COLUMNS."""
        lines = [f"  {meaning}: {choices.adding(answer)}" for meaning, answer in answers]
        super().__init__("\n".join([f"{place}: {text}", *lines]))


@dataclass(frozen=True)
class Column:
    """A column: its header, its number from 1 on, its cells, and what shows its name, if not its header."""

    header: Header
    number: int
    cells: tuple[str, ...]
    why: str = ""

    @property
    def name(self) -> str:
        """Return the name of its header."""
        return self.header.name

    @property
    def text(self) -> str:
        """Return its header."""
        return self.header.text

    @property
    def numeric(self) -> bool:
        """Return whether all its cells are numbers, or blank."""
        filled = [cell for cell in self.cells if cell.strip("-–— ")]
        return bool(filled) and all(map(numbers.is_number, filled))

    @property
    def kinds(self) -> set[str]:
        """Return the kinds of the units in its cells, and of its header."""
        return numbers.kinds(self.cells) | ({self.header.unit.kind} if self.header.unit else set())

    def named(self, name: str, why: str = "") -> Column:
        """Return the column under another name, with the reason."""
        return replace(self, header=replace(self.header, name=name), why=why or self.why)

    def key(self, columns: Sequence[Column]) -> str:
        """Return what COLUMNS= calls it: its header, or its number if that is not unique, or cannot be pasted."""
        alike = sum(headers.plain(other.text) == headers.plain(self.text) for other in columns)
        awkward = _AWKWARD.search(self.text) or re.fullmatch(r"\d*", self.text) or len(self.text) > 50
        return str(self.number) if awkward or alike > 1 else self.text


def pattern_of(same: Sequence[Column]) -> tuple[str, list[str]]:
    """Return the pattern whose "*" is what distinguishes headers, "Throughput - *", and these texts; "" without one."""
    texts = [re.sub(r"\s+", " ", column.text) for column in same]
    before = re.sub(r"\w+$", "", _common(texts))
    after = re.sub(r"^\w+", "", _common([text[len(before) :][::-1] for text in texts])[::-1])
    after = after if re.search(r"\w", after) else ""
    labels = [text[len(before) : len(text) - len(after)].strip() for text in texts]
    awkward = len(same) < 2 or len({*labels}) < len(same) or "" in labels or _AWKWARD.search(before + after)
    return ("", []) if awkward or not re.search(r"\w", before + after) else (f"{before}*{after}", labels)


def _common(texts: Sequence[str]) -> str:
    """Return the first characters that texts share."""
    same = itertools.takewhile(lambda letters: len({*letters}) == 1, zip(*texts, strict=False))
    return "".join(letters[0] for letters in same)


def assignable(name: str) -> str:
    """Return the name that COLUMNS= gives to a column of this meaning first."""
    return {"rate": "images_per_s", "scaling": "speedup", "batch": "batch_per_rank"}.get(name, name)


def read(grid: Grid, choices: Choices) -> tuple[list[Column], list[Row], list[str]]:
    """Return the columns of a table, the row of each of their cells, and notes on rows that are left out."""
    rows = [row for row in grid.rows if any(row.cells)]
    head, *body = _transposed(rows[_header_row(rows, choices) :])
    width = len(_trimmed(head.cells))
    below = [cell.strip("[](){} ") for cell in (body[0].cells[:width] if body else ())]
    if any(below) and all((unit := units.read(cell)) and (not cell or unit.kind) for cell in below):
        texts = (f"{text} [{unit}]" if unit else text for text, unit in zip(head.cells, below, strict=False))
        head, body = replace(head, cells=tuple(texts)), body[1:]
    body, notes = _body(body, head, width)
    if not body:
        raise NotATable(f"{grid.place}: no row below the headers")
    columns = [
        Column(headers.read(text, number, choices), number, tuple(row.cells[number - 1] for row in body))
        for number, text in enumerate(head.cells[:width], 1)
    ]
    if value := choices.names.get("*"):
        choices.used.add("*")
        columns = [
            replace(c, header=headers.named(c.text, value, c.header.unit, label=c.text))
            if c.name in ("", "time") and c.numeric and c.text else c for c in columns
        ]  # fmt: skip
    kit = grid.log or any("_" in column.text and column.text in headers.NAMES for column in columns)
    if not kit:  # a size of the problem, else the number of repeats
        columns = [
            c.named("condition") if c.name == c.text.lower() == "n" and not c.header.by_user else c for c in columns
        ]
    return (*_spread(_across(columns, grid.place, choices), body), notes)


def _name(text: str) -> str:
    return headers.read(text, 0, Choices()).name


def _trimmed(cells: Sequence[str]) -> list[str]:
    return list(cells)[: max((at for at, cell in enumerate(cells, 1) if cell), default=0)]


def _header_row(rows: Sequence[Row], choices: Choices) -> int:
    """Return the position of the row of headers: the first of several cells of which one is known, else the first."""
    wide = [at for at, row in enumerate(rows[:_MOST_ABOVE]) if len(_trimmed(row.cells)) > 1]
    for at in wide:
        words = [text for text in rows[at].cells if text and not numbers.is_number(text)]
        meanings = [headers.read(text, -1, choices) for text in words]
        if any(header.name or header.by_user for header in meanings) or _is_across(rows[at].cells):
            return at
    return wide[0] if wide else 0


def _is_across(cells: Sequence[str]) -> bool:
    """Return whether two or more headers count ranks or nodes."""
    return sum(bool(_ACROSS.fullmatch(cell)) for cell in cells) > 1


def _counted(texts: Sequence[str]) -> str:
    """Return "nodes" or "ranks", whichever headers across count."""
    return "nodes" if any((match := _ACROSS.fullmatch(text)) and match[3] for text in texts) else "ranks"


def _transposed(rows: list[Row]) -> list[Row]:
    """Return rows that are named after quantities, below ranks across, or below "GPUs", "1", "2", as columns."""
    head, *body = rows
    first, *others = [*_trimmed(head.cells)] or [""]
    bare = _name(first) in ("ranks", "nodes") and len(others) > 1 and all(cell.isdigit() for cell in others)
    if not bare and not (_is_across(head.cells) and any(_name(row.cells[0]) in MEASURED for row in body)):
        return rows
    width = max(len(row.cells) for row in rows)
    flipped = zip(*([*row.cells, *[""] * (width - len(row.cells))] for row in rows), strict=True)
    names, *points = [Row(cells, head.source, head.line) for cells in flipped]
    return [replace(names, cells=(first if bare else _counted(head.cells), *names.cells[1:])), *points]


def _body(rows: Sequence[Row], head: Row, width: int) -> tuple[list[Row], list[str]]:
    """Return the rows with as many cells as there are headers, and a note for each that is left out."""
    body, notes = [], []
    for row in rows:
        cells = _trimmed(row.cells)
        if len(cells) > width or (len(cells) < 2 <= width):
            reason = f"{len(cells)} cells, and {width} headers"
            notes.append(f"{row.source}, line {row.line}: {reason}; the row is left out")
        elif row.cells[:width] != head.cells[:width]:
            body.append(replace(row, cells=(*cells, *[""] * (width - len(cells)))))
    return body, notes


def _across(columns: list[Column], place: str, choices: Choices) -> list[Column]:
    """Return the columns with those below numbers of ranks labelled by these, and named as `cells=` says."""
    across = [column for column in columns if _ACROSS.fullmatch(column.text) and not column.header.by_user]
    if len(across) < 2:
        return columns
    for other in columns:
        if other.name in ("ranks", "nodes") and other not in across and not other.header.by_user:
            key, texts = other.key(columns), ", ".join(column.text for column in across)
            answers = [(f"'{texts}'", f"{key}=setting"), (f"'{other.text}'", f"{key}=ranks")]
            raise Question(place, f"which are the ranks: '{texts}', or '{other.text}'?", answers, choices)
    value, _ = choices.name("cells", -1)
    return [
        replace(c, header=headers.named(c.text, value or "cells", by_user=bool(value), label=match[1]))
        if c in across and (match := _ACROSS.fullmatch(c.text)) else c for c in columns
    ]  # fmt: skip


def _spread(columns: list[Column], rows: list[Row]) -> tuple[list[Column], list[Row]]:
    """Return the columns with those of each label below each other; the label is the number of ranks, or a setting.

    A measured column without a label is that of none of the curves: it is not used.
    """
    labelled = [column for column in columns if column.header.label]
    labels = {headers.plain(column.header.label): column.header.label for column in reversed(labelled)}
    if not labels:
        return columns, rows
    order = list(dict.fromkeys(headers.plain(column.header.label) for column in labelled))
    counted = _counted([column.text for column in labelled])
    if not all(label.isdigit() for label in order) or any(column.name == counted for column in columns):
        counted = "setting"
    places = [(label, row) for label in order for row in range(len(rows))]
    if counted != "setting":  # the ranks of each row below each other
        places.sort(key=lambda place: place[1])
    header = Header(", ".join(dict.fromkeys(column.text for column in labelled)), counted)
    long = [Column(header, 0, tuple(labels[label] for label, _ in places))]
    for column in (column for column in columns if not column.header.label):
        if column.name in MEASURED and not column.header.by_user:
            column = column.named("other")
        long.append(replace(column, cells=tuple(column.cells[row] for _, row in places)))
    for name in dict.fromkeys(column.name for column in labelled):
        same = {headers.plain(c.header.label): c for c in reversed(labelled) if c.name == name}
        cells = tuple(same[label].cells[row] if label in same else "" for label, row in places)
        long.append(replace(next(c for c in labelled if c.name == name), cells=cells))
    return long, [rows[row] for _, row in places]
