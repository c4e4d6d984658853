"""A grid as columns, one row a point: its row of headers, units below it, ranks across, and patterns with "*"."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from analysis import TableError
from analysis.user_table import headers, units
from analysis.user_table.files import Grid, Row, trimmed
from analysis.user_table.headers import UNUSED, Choices, Column
from analysis.user_table.units import CORE, NODE, RANK

_MOST_ABOVE = 10  # titles above the headers, of one cell each
_ACROSS = re.compile(rf"(\d{{1,6}}) ?[x×]? ?-?({RANK}|({NODE})|{CORE})(?:\(s\))?", re.I)
_AWKWARD = re.compile(r"""[,;="'$`\\!*]""")  # in COLUMNS=, or in a shell
ANSWERS = 7  # at most, to one question
ASSIGNED = {"rate": "images_per_s", "batch": "batch_per_rank"}  # what COLUMNS= gives to these meanings first
MEASURED = (*headers.MEASURED, "rate", "total", "cells")


class NotATable(TableError):
    """A table without numbers of ranks, or in which nothing is measured: no question can make it one."""


class Question(TableError):
    """A table with several readings: the question, and the setting of COLUMNS for each."""

    def __init__(self, place: str, text: str, answers: Sequence[tuple[str, str]], choices: Choices) -> None:
        """Write the question about the table at `place`; answers: the meaning of each, and what it adds to COLUMNS."""
        lines = [f"  {meaning}: {choices.adding(answer)}" for meaning, answer in answers]
        super().__init__("\n".join([f"{place}: {text}", *lines]))


def key(column: Column, columns: Sequence[Column]) -> str:
    """Return what COLUMNS= calls a column: its header, or its number if that is not unique, or cannot be pasted."""
    if column.label and column.name == "cells":
        return "cells"
    alike = sum(headers.plain(other.text) == headers.plain(column.text) for other in columns)
    awkward = _AWKWARD.search(column.text) or re.fullmatch(r"\d*", column.text) or len(column.text) > 50
    return str(column.number) if awkward or alike > 1 else column.text


def pattern_of(same: Sequence[Column]) -> tuple[str, list[str]]:
    """Return the pattern whose "*" is what distinguishes headers, "Throughput - *", and these texts; "" without one."""
    texts = [re.sub(r"\s+", " ", column.text) for column in same]
    common = os.path.commonprefix  # of characters
    before = re.sub(r"\w+$", "", common(texts))
    after = re.sub(r"^\w+", "", common([text[len(before) :][::-1] for text in texts])[::-1])
    after = after if re.search(r"\w", after) else ""
    labels = [text[len(before) : len(text) - len(after)].strip() for text in texts]
    awkward = len(same) < 2 or len({*labels}) < len(same) or "" in labels or _AWKWARD.search(before + after)
    return ("", []) if awkward or not re.search(r"\w", before + after) else (f"{before}*{after}", labels)


def one_of(columns: Sequence[Column], name: str, place: str, choices: Choices) -> list[Column]:
    """Return the columns with one of this name, that which COLUMNS names first. Raises Question if several differ."""
    same = [column for column in columns if column.name == name]
    same = [column for column in same if column.by_user] or same
    if len({(column.cells, column.unit) for column in same}) > 1:
        raise which(name, same, columns, place, choices)
    return [column for column in columns if column.name != name or column is same[0]]


def which(
    name: str, same: Sequence[Column], columns: Sequence[Column], place: str, choices: Choices, curves: bool = True
) -> Question:
    """Return the question which of several columns is the quantity: `curves`: or if each is a curve, else one alone."""
    patterns = {pattern_of(same)[0]: ""} if curves and name in MEASURED else {}
    if "" in patterns:  # of all but one
        apart = {column: [other for other in same if other is not column] for column in same}
        patterns = {pattern_of(rest)[0]: f",{key(column, columns)}={UNUSED}" for column, rest in apart.items()}
    names = headers.RATES[::-1] if name == "rate" else [ASSIGNED.get(name, name)]
    answers = [
        (f"a curve for each, {each}", f"{text}={each}{rest}")
        for each in names
        for text, rest in patterns.items()
        if text
    ]
    for column in same:
        unused = [f"{key(other, columns)}={UNUSED}" for other in same if other is not column]
        answers.append((f"'{column.text}'", ",".join(unused)))
    listed = ", ".join(f"'{column.text}'" for column in same)
    return Question(place, f"several columns are {ASSIGNED.get(name, name)}: {listed}", answers[:ANSWERS], choices)


def read(grid: Grid, choices: Choices) -> tuple[list[Column], list[Row], list[str]]:
    """Return the columns of a table, the row of each of their cells, and notes on rows that are left out."""
    titles = next((at for at, row in enumerate(grid.rows[:_MOST_ABOVE]) if len(trimmed(row.cells)) > 1), 0)
    head, *rows = _transposed(grid.rows[titles:])
    texts = trimmed(head.cells)
    below = [cell.strip("[](){} ") for cell in (rows[0].cells[: len(texts)] if rows else ())]
    if any(below) and all((unit := units.read(cell)) and (not cell or unit.kind) for cell in below):
        texts = [f"{text} [{unit}]" if unit else text for text, unit in zip(texts, below, strict=False)]
        rows = rows[1:]
    body, notes = [], []
    for row in rows:
        cells = trimmed(row.cells)
        if len(cells) > len(texts) or (len(cells) < 2 <= len(texts)):
            reason = f"{len(cells)} cells, and {len(texts)} headers"
            notes.append(f"{row.source}, line {row.line}: {reason}; the row is left out")
        elif cells != trimmed(head.cells):
            body.append(replace(row, cells=(*cells, *[""] * (len(texts) - len(cells)))))
    if not body:
        raise NotATable(f"{grid.place}: no row below the headers")
    columns = [
        headers.read(text, number, choices, tuple(row.cells[number - 1] for row in body))
        for number, text in enumerate(texts, 1)
    ]
    if not grid.log and not any("_" in column.text and column.text in headers.NAMES for column in columns):
        # "n" is a size of the problem, else the number of repeats
        columns = [c.named("condition") if c.name == c.text.lower() == "n" and not c.by_user else c for c in columns]
    return (*_spread(_across(columns, grid.place, choices), body), notes)


def _name(text: str) -> str:
    return headers.read(text, 0, Choices()).name


def _counted(texts: Sequence[str]) -> str:
    """Return "ranks" or "nodes", whichever two or more headers across count; "" if they count neither."""
    counts = [match for text in texts if (match := _ACROSS.fullmatch(text))]
    return "" if len(counts) < 2 else "nodes" if any(match[3] for match in counts) else "ranks"


def _transposed(rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows that are named after quantities, below ranks across, or below "GPUs", "1", "2", as columns."""
    head, *body = rows
    first, *others = trimmed(head.cells) or [""]
    bare = _name(first) in ("ranks", "nodes") and len(others) > 1 and all(cell.isdigit() for cell in others)
    counted = first if bare else _counted(head.cells)
    if not bare and not (counted and any(_name(row.cells[0]) in MEASURED for row in body)):
        return rows
    width = max(len(row.cells) for row in rows)
    flipped = zip(*([*row.cells, *[""] * (width - len(row.cells))] for row in rows), strict=True)
    names, *points = [Row(cells, head.source, head.line) for cells in flipped]
    return [replace(names, cells=(counted, *names.cells[1:])), *points]


def _across(columns: list[Column], place: str, choices: Choices) -> list[Column]:
    """Return the columns below numbers of ranks, else all unknown numbers, labelled by headers, and named by cells=."""
    value, _ = choices.name("cells")
    across = [column for column in columns if _ACROSS.fullmatch(column.text) and not column.by_user]
    if len(across) < 2:
        across = [column for column in columns if value and column.name in ("", "time") and column.numeric]
    elif others := [c for c in columns if c.name in ("ranks", "nodes") and c not in across and not c.by_user]:
        name, texts = key(others[0], columns), ", ".join(column.text for column in across)
        answers = [(f"'{texts}'", f"{name}=setting"), (f"'{others[0].text}'", f"{name}=ranks")]
        raise Question(place, f"which are the ranks: '{texts}', or '{others[0].text}'?", answers, choices)
    label = lambda text: match[1] if (match := _ACROSS.fullmatch(text)) else text  # noqa: E731
    return [c.assigned(value or "cells", bool(value), label(c.text)) if c in across else c for c in columns]


def _spread(columns: list[Column], rows: list[Row]) -> tuple[list[Column], list[Row]]:
    """Return the columns with those of each label below each other; the label is the number of ranks, or a setting.

    A measured column without a label is that of none of the curves: it is not used.
    """
    texts = [column.text for column in columns if column.label]
    if not texts:
        return columns, rows
    labels: dict[str, str] = {}
    groups: dict[object, dict[str, Column]] = {}
    for column in columns:
        label = headers.plain(column.label)
        groups.setdefault(column.name if label else column.number, {}).setdefault(label, column)
        labels |= {label: column.label} if label and label not in labels else {}
    counted = _counted(texts) or "ranks"
    if not all(label.isdigit() for label in labels) or any(column.name == counted for column in columns):
        counted = "setting"
    places = [(label, row) for label in labels for row in range(len(rows))]
    if counted != "setting":  # the ranks of each row below each other
        places.sort(key=lambda place: place[1])
    long = [Column(", ".join(dict.fromkeys(texts)), 0, counted, cells=tuple(labels[label] for label, _ in places))]
    measured = [column.name for column in columns if column.name in MEASURED and not column.label]
    for same in groups.values():
        first = next(iter(same.values()))
        cells = tuple(same[label].cells[at] if label in same else "" for label, at in places)
        if not first.label:
            cells = tuple(first.cells[at] for _, at in places)
            first = first.named("other") if measured.count(first.name) == 1 and not first.by_user else first
        long.append(replace(first, cells=cells))
    return long, [rows[row] for _, row in places]
