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
_SUMMARY = re.compile(r"(?:total|sum|average|mean|geomean|median)\b.{0,20}", re.I)
_ACROSS = re.compile(rf"(\d{{1,6}}) ?[x×]? ?-?({RANK}|{NODE}|{CORE})(?:\(s\))?", re.I)
MEASURED = (*headers.MEASURED, "rate", "scaling", "total", "time")


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
    """A column: its header, its number from 1 on, its cells, and the text that "*" stands for in its pattern."""

    header: Header
    number: int
    cells: tuple[str, ...]
    label: str = ""

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
        filled = [cell for cell in self.cells if cell.strip() and numbers.parse(cell) != numbers.Missing("")]
        return bool(filled) and all(map(numbers.is_number, filled))

    @property
    def kinds(self) -> set[str]:
        """Return the kinds of the units in its cells, and of its header."""
        header_kind = {self.header.unit.kind} if self.header.unit else set()
        return {unit.kind for unit in numbers.units_in(self.cells)} - {""} | header_kind

    @property
    def reason(self) -> str:
        """Return what gives its name, if that is neither its header nor the user."""
        return "" if self.header.by_user else self.header.why

    def named(self, name: str, why: str = "") -> Column:
        """Return the column under another name, with the reason."""
        return replace(self, header=replace(self.header, name=name, why=why or self.header.why))

    def key(self, columns: Sequence[Column]) -> str:
        """Return what COLUMNS= calls it: its header, or its number if that is not unique, or cannot be pasted."""
        alike = sum(headers.plain(other.text) == headers.plain(self.text) for other in columns)
        awkward = re.search(r"""[,;="'$`\\!*]|^\d*$""", self.text) or len(self.text) > 50
        return str(self.number) if awkward or (alike > 1) else self.text


def pattern_of(same: Sequence[Column]) -> tuple[str, list[str]]:
    """Return the pattern whose "*" is what distinguishes headers, "Throughput - *", and these texts; "" without one."""
    texts = [re.sub(r"\s+", " ", column.text) for column in same]
    before = re.sub(r"\w+$", "", _common(texts))
    after = re.sub(r"^\w+", "", _common([text[len(before) :][::-1] for text in texts])[::-1])
    after = after if re.search(r"\w", after) else ""
    labels = [text[len(before) : len(text) - len(after)].strip() for text in texts]
    awkward = len({*labels}) < len(same) or "" in labels or re.search(r"""[,;="'$`\\!*]""", before + after)
    return (
        ("", []) if len(same) < 2 or awkward or not re.search(r"\w", before + after) else (f"{before}*{after}", labels)
    )


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
    at = _header_row(rows, choices)
    head, body = rows[at], rows[at + 1 :]
    if _is_across(head.cells) and any(_name(row.cells[0]) in MEASURED for row in body if row.cells):
        width = max(len(row.cells) for row in rows[at:])
        padded = [[*row.cells, *[""] * (width - len(row.cells))] for row in rows[at:]]
        texts = [list(cells) for cells in zip(*padded, strict=True)]
        texts[0][0] = texts[0][0] if _name(texts[0][0]) in ("ranks", "nodes") else _counted(head.cells)
        head, *body = [Row(tuple(cells), head.source, head.line) for cells in texts]
    width = len(_trimmed(head.cells))
    if headless := all(map(numbers.is_number, _trimmed(head.cells)[:2])):
        head, body = replace(head, cells=("",) * width), [head, *body]
    below = body[0].cells[:width] if body else ()
    units_below = ["" if not cell else cell.strip("[](){} ") for cell in below]
    if any(units_below) and all(not cell or _is_unit(cell) for cell in units_below):
        body = body[1:]
        head = replace(
            head, cells=tuple(f"{h} [{u}]" if u else h for h, u in zip(head.cells, units_below, strict=False))
        )
    body, notes = _body(body, head, width)
    if not body:
        raise NotATable(f"{grid.place}: no row below the headers")
    columns = []
    for number, text in enumerate(head.cells[:width], 1):
        cells = tuple(row.cells[number - 1] for row in body)
        header, label = headers.read(text, number, choices)
        columns.append(Column(header, number, cells, label))
    if "*" in choices.names:
        choices.used.add("*")
        columns = [
            replace(c, header=headers.named(c.text, choices.names["*"], c.header.unit), label=c.text)
            if c.name in ("", "time") and not c.header.why and not c.header.by_user and c.numeric and c.text else c
            for c in columns
        ]  # fmt: skip
    if headless and not any(column.name for column in columns):
        raise _no_headers(grid, columns, choices)
    kit = any("_" in column.text and column.text in headers.NAMES for column in columns)
    if not kit and not grid.log:  # a size of the problem, else the number of repeats
        columns = [c.named("condition") if c.name == "n" and c.text.lower() == "n" else c for c in columns]
    return (*_spread(_across(columns, choices), body), notes)


def _name(text: str) -> str:
    return headers.read(text, 0, Choices())[0].name


def _trimmed(cells: Sequence[str]) -> list[str]:
    return list(cells)[: max((at for at, cell in enumerate(cells, 1) if cell), default=0)]


def _header_row(rows: Sequence[Row], choices: Choices) -> int:
    """Return the position of the row of headers: the first of several cells of which one is known, else the first."""
    for at, row in enumerate(rows[:_MOST_ABOVE]):
        if len(_trimmed(row.cells)) < 2 or all(map(numbers.is_number, filter(None, row.cells))):
            continue
        if _is_across(row.cells) or any(
            headers.read(text, -1, choices)[0] != Header(text, unit=headers.read(text, -1, choices)[0].unit)
            for text in row.cells
            if text and not numbers.is_number(text)
        ):
            return at
    return next((at for at, row in enumerate(rows[:_MOST_ABOVE]) if len(_trimmed(row.cells)) > 1), 0)


def _is_across(cells: Sequence[str]) -> bool:
    """Return whether headers are numbers of ranks: two or more with a unit, or all behind the name of a count."""
    first, *others = [*_trimmed(cells), ""][: len(_trimmed(cells)) or 1]
    if sum(bool(_ACROSS.fullmatch(cell)) for cell in others) > 1:
        return True
    return len(others) > 1 and all(cell.isdigit() for cell in others) and _name(first) in ("ranks", "nodes")


def _counted(cells: Sequence[str]) -> str:
    """Return "nodes" or "ranks", whichever headers across count."""
    words = [match[2] for match in map(_ACROSS.fullmatch, cells) if match]
    return "nodes" if words and re.fullmatch(NODE, words[0], re.I) else "ranks"


def _is_unit(text: str) -> bool:
    unit = units.read(text)
    return unit is not None and not numbers.is_number(text)


def _body(rows: Sequence[Row], head: Row, width: int) -> tuple[list[Row], list[str]]:
    """Return the rows with as many cells as there are headers, and a note for each that is left out."""
    body, notes = [], []
    for row in rows:
        cells = _trimmed(row.cells)
        reason = ""
        if len(cells) > width or (len(cells) < 2 <= width):
            reason = f"{len(cells)} cells, and {width} headers"
        elif _SUMMARY.fullmatch(cells[0]):
            reason = f"'{cells[0]}' is not a point"
        if reason:
            notes.append(f"{row.source}, line {row.line}: {reason}; the row is left out")
        elif row.cells[:width] != head.cells[:width]:
            body.append(replace(row, cells=(*cells, *[""] * (width - len(cells)))))
    return body, notes


def _no_headers(grid: Grid, columns: Sequence[Column], choices: Choices) -> Question:
    """Return the question what the columns of a table without headers are."""
    counts = [str(column.number) for column in columns if all(cell.isdigit() for cell in column.cells)]
    others = [str(c.number) for c in columns if c.numeric and str(c.number) not in counts[:1]]
    words = ",".join(f"{column.number}=setting" for column in columns if not column.numeric)
    pairs = [(name, f"{counts[0]}=ranks,{at}={name}") for at in others for name in ("wall_s", "images_per_s")]
    answers = [(name, ",".join(filter(None, (pair, words)))) for name, pair in pairs] if counts else []
    return Question(grid.place, "no headers: what are its columns?", answers, choices)


def _across(columns: list[Column], choices: Choices) -> list[Column]:
    """Return the columns with those below numbers of ranks labelled by these, and named as `cells=` says."""
    if not _is_across([column.text for column in columns]):
        return columns
    value, _ = choices.name("cells", -1)
    counted = _counted([column.text for column in columns])
    bare = _name(columns[0].text) in ("ranks", "nodes")
    labelled = []
    for column in columns:
        match = _ACROSS.fullmatch(column.text)
        label = match[1] if match else column.text if bare and column.text.isdigit() else ""
        if label and not column.header.by_user:
            header = headers.named(column.text, value) if value else Header(column.text, f"cells of {counted}")
            column = replace(column, header=header, label=label)
        elif bare and column is columns[0]:
            column = column.named("condition")
        labelled.append(column)
    return labelled


def _spread(columns: list[Column], rows: list[Row]) -> tuple[list[Column], list[Row]]:
    """Return the columns with those of each label below each other; the label is the number of ranks, or a setting.

    A measured column without a label is that of none of the curves: it is not used.
    """
    labels = list(dict.fromkeys(headers.plain(column.label) for column in columns if column.label))
    if not labels:
        return columns, rows
    if all(label.isdigit() for label in labels):
        counted = "nodes" if any(column.name == "cells of nodes" for column in columns) else "ranks"
        counted = "nodes" if _counted([column.text for column in columns if column.label]) == "nodes" else counted
        if any(column.name == counted for column in columns):
            counted = "setting"
    else:
        counted = "setting"
    shown = {headers.plain(column.label): column.label for column in reversed(columns)}
    height, long = len(rows), []
    cells = tuple(shown[label] for label in labels for _ in range(height))
    long.append(Column(Header(", ".join(dict.fromkeys(c.text for c in columns if c.label)), counted), 0, cells))
    for column in (column for column in columns if not column.label):
        if column.name in MEASURED and not column.header.by_user:
            column = column.named("", "not of one of the curves")
        long.append(replace(column, cells=column.cells * len(labels)))
    if counted != "setting":  # the ranks of each row below each other
        long = [replace(c, cells=_by_row(c.cells, height)) for c in long]
    names = dict.fromkeys(column.name.partition(" of ")[0] for column in columns if column.label)
    for name in names:
        same = [c for c in columns if c.label and c.name.partition(" of ")[0] == name]
        by_label = {headers.plain(column.label): column.cells for column in reversed(same)}
        below = tuple(cell for label in labels for cell in by_label.get(label, ("",) * height))
        below = below if counted == "setting" else _by_row(below, height)
        long.append(replace(same[0].named(name), cells=below, label=""))
    return long, rows * len(labels) if counted == "setting" else [row for row in rows for _ in labels]


def _by_row(cells: Sequence[str], height: int) -> tuple[str, ...]:
    """Return cells that are ordered by label ordered by row."""
    return tuple(cell for row in range(height) for cell in cells[row::height])
