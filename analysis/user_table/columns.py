"""A grid as columns, one row a point: its row of headers, units below it, ranks across, and patterns with "*"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from analysis.user_table import headers, numbers, units
from analysis.user_table.answers import Choices, Question, offers
from analysis.user_table.headers import AWKWARD, KIND, MEASURED, TEXT, UNIT_KINDS, UNKNOWN, Column, plain
from analysis.user_table.table_files import Grid, GridRow, trimmed
from analysis.user_table.units import CORE, NODE, RANK

_MOST_ABOVE = 10  # titles above the headers, of one cell each
_ACROSS = re.compile(rf"(\d{{1,6}}) ?[x×]? ?-?({RANK}|({NODE})|{CORE})(?:\(s\))?", re.I)


def read_columns(grid: Grid, choices: Choices) -> tuple[list[Column], list[GridRow], list[str]]:
    """Return the columns of a table, the row of each of their cells, and notes on rows that are left out."""
    titles = next((at for at, row in enumerate(grid.rows[:_MOST_ABOVE]) if len(trimmed(row.cells)) > 1), 0)
    head, *rows = _transposed(grid.rows[titles:])
    texts = trimmed(head.cells)
    below = [cell.strip("[](){} ") for cell in (rows[0].cells[: len(texts)] if rows else ())]
    if any(below) and all((unit := units.read_unit(cell)) and (not cell or unit.kind) for cell in below):
        texts = [f"{text} [{unit}]" if unit else text for text, unit in zip(texts, below, strict=False)]
        rows = rows[1:]
    body, notes = [], []
    for row in rows:
        cells = trimmed(row.cells)
        if len(cells) > len(texts) or (len(cells) < 2 <= len(texts)):
            reason = f"{len(cells)} cells, and {len(texts)} headers"
            notes.append(f"{row.place}: {reason}; the row is left out")
        elif cells != trimmed(head.cells):
            body.append(replace(row, cells=(*cells, *[""] * (len(texts) - len(cells)))))
    if not body:
        raise Question("no row with values below the headers")
    columns, alike = [], Counter(map(plain, texts))
    for number, text in enumerate(texts, 1):
        awkward = AWKWARD.search(text) or re.fullmatch(r"\d*", text) or len(text) > 50 or alike[plain(text)] > 1
        below_it = tuple(row.cells[number - 1] for row in body)
        column = choices.column(text, number)
        key = column.key or (str(number) if awkward else text)
        columns.append(_by_cells(replace(column, cells=below_it, key=key)))
        if columns[-1].name == "ranks" and all(devices := tuple(numbers.counted(cell)[1] for cell in below_it)):
            columns.append(replace(columns[-1], name="gpu", cells=devices))
    if count := choices.directives.get("ranks"):
        columns = [column for column in columns if column.name != "ranks"]
        columns.append(Column("ranks", 0, "ranks", by_user=True, cells=(count,) * len(body)))
    return (*_spread(_across(columns, choices), body), notes)


def _by_cells(column: Column) -> Column:
    """Return a column without the name of its header if its cells are not such; "GPU" above "V100" is a type.

    The cells of counts become plain numbers. Numbers from 0 on are those of devices; "1 (serial)" beside "1" may be
    another thing.
    """
    fits = True
    if column.name in ("ranks", "nodes", "cores"):
        cells = tuple(numbers.counted(cell)[0] for cell in column.cells)
        from_zero = {*cells} == {*map(str, range(len(cells)))}
        remarked = {*cells} & {*column.cells} and len({*cells}) < len({*column.cells})
        counts = sum(map(numbers.counts, cells)) * 2 > len(column.filled)
        if column.by_user or (counts and not from_zero and not remarked):
            return replace(column, cells=cells)
        model = plain(column.text) in ("gpu", "device", "accelerator") and not column.numeric
        return column.named("gpu" if model else "")
    if column.by_user:
        return column
    if column.name in TEXT:
        fits = column.name == "setting" or not column.numeric
    elif column.name == "scaling":
        fits = {*map(plain, column.filled)} <= {"weak", "strong"}
    elif column.name in ("repeat", "repeats"):
        fits = column.numeric
    elif column.name in KIND:
        fits = numbers.kinds(column.cells) <= UNIT_KINDS[KIND[column.name]]  # "1.9x" is no rate
    return column if fits else column.named("")


def _name(text: str) -> str:
    return headers.read_header(text).name


def _counted(texts: Sequence[str]) -> str:
    """Return "ranks" or "nodes", whichever two or more headers across count; "" if they count neither."""
    counts = [match for text in texts if (match := _ACROSS.fullmatch(text))]
    return "" if len(counts) < 2 else "nodes" if any(match[3] for match in counts) else "ranks"


def _transposed(rows: Sequence[GridRow]) -> Sequence[GridRow]:
    """Return rows that are named after quantities, below ranks across, as columns; "GPUs", "1", "2" are such too."""
    first, *others = trimmed(rows[0].cells) or [""]
    counted = _counted(others) or (_name(first) if len(others) > 1 and all(map(str.isdigit, others)) else "")
    if counted not in ("ranks", "nodes") or not any(_name(row.cells[0]) in MEASURED for row in rows[1:]):
        return rows  # "Nodes", "10", "20" may be sizes
    flipped = zip_longest(*(row.cells for row in rows), fillvalue="")
    names, *points = [replace(rows[0], cells=cells) for cells in flipped]
    return [replace(names, cells=(counted, *names.cells[1:])), *points]


def _across(columns: list[Column], choices: Choices) -> list[Column]:
    """Return the columns, those below numbers of ranks labelled by their headers, and named by cells=.

    Without such, and if nothing else is measured, cells= names all unknown numbers.
    """
    value = choices.names.get("cells", "")
    across = [column for column in columns if _ACROSS.fullmatch(column.text) and not column.by_user]
    if len(across) < 2:
        measured = any(column.name in MEASURED for column in columns)
        across = [column for column in columns if value and not measured and column.name == "" and column.numeric]
    elif others := [c for c in columns if c.name in ("ranks", "nodes") and c not in across and not c.by_user]:
        texts = ", ".join(column.text for column in across)
        text = f"which are the ranks: '{texts}', or '{others[0].text}'?"
        raise Question(text, offers([others[0].key], ("setting", "ranks")))
    choices.used.update(["cells"] if value and across else [])
    labels = {c.number: match[1] if (match := _ACROSS.fullmatch(c.text)) else c.text for c in across}
    return [
        replace(c.assigned(value or UNKNOWN, bool(value), labels[c.number]), key="cells") if c.number in labels else c
        for c in columns
    ]


def _spread(columns: list[Column], rows: list[GridRow]) -> tuple[list[Column], list[GridRow]]:
    """Return the columns with the cells of each label below each other, in the order of their rows.

    The label is the number of ranks, or a setting. A measured column without a label is that of none of the curves: it
    is not used.
    """
    labelled = [column for column in columns if column.label]
    if not labelled:
        return columns, rows
    labels = {plain(column.label): column.label for column in labelled}
    texts = [*dict.fromkeys(column.text for column in labelled)]
    others = [column for column in columns if not column.label]
    bare = all(map(str.isdigit, labels)) and not any(column.name in ("ranks", "nodes") for column in others)
    places = [(label, at) for at in range(len(rows)) for label in labels]
    cells = tuple(labels[label] for label, _ in places)
    name = (_counted(texts) or "ranks") if bare else "setting"
    long = [Column(", ".join(texts), 0, name, by_user=not bare, cells=cells)]
    for name in dict.fromkeys(column.name for column in labelled):
        same = {plain(column.label): column for column in reversed(labelled) if column.name == name}
        cells = tuple(same[label].cells[at] if label in same else "" for label, at in places)
        long.append(replace([*same.values()][-1], cells=cells))
    for column in others:
        unlabelled = column.name in MEASURED and not column.by_user
        cells = tuple(column.cells[at] for _, at in places)
        long.append(replace(column, name="other" if unlabelled else column.name, cells=cells))
    return long, [rows[at] for _, at in places]
