"""The shape of a table: its headers, and its rows as one row a point, whatever runs across its columns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from analysis.user_table import headers, numbers
from analysis.user_table.files import Grid
from analysis.user_table.headers import Header

_KEYS = {*headers.TEXT, *headers.SIZES, "batch", *headers.COUNTS}  # they identify points; the rest is measured
_MEASURED = {*headers.MEASURED, "rate", "scaling", "steps_per_s", "epochs_per_s"}
_TOTAL = re.compile(r"(?:grand )?total|sum|average|avg\.?|mean|median|geo ?mean|std\.?(?: ?dev\.?)?|min|max", re.I)
_REMARK = re.compile(r"\s*(?:[*†‡]|note\b|source\b|\(?\d\)|\[\d\])", re.I)
_RUN = re.compile(r"(?:run|trial|rep(?:eat|etition)?|launch|#)?\s*#?(\d{1,2})", re.I)


@dataclass(frozen=True)
class Column:
    """One column of a table with a row a point: its header, its cells, and the header in the file of each cell."""

    header: Header
    cells: tuple[str, ...]
    at: tuple[str, ...]

    def take(self, rows: Sequence[int]) -> Column:
        """Return the column with these of its rows, in this order."""
        return replace(self, cells=tuple(self.cells[row] for row in rows), at=tuple(self.at[row] for row in rows))


@dataclass(frozen=True)
class Long:
    """A table with one row a point. lines: of the file. notes: rows that are left out; guesses: about its shape."""

    grid: Grid
    title: str
    lines: tuple[int, ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()

    def take(self, rows: Sequence[int], common: Sequence[Column], more: Sequence[Column], *guesses: str) -> Long:
        """Return the table with these of its rows in its `common` columns, beside columns that have as many rows."""
        return replace(
            self,
            lines=tuple(self.lines[row] for row in rows),
            columns=(*(column.take(rows) for column in common), *more),
            guesses=(*self.guesses, *guesses),
        )


@dataclass
class Block:
    """One table of a grid: its headers, and its rows with the line and the title of the section of each."""

    grid: Grid
    title: str
    headers: list[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def tables(grid: Grid, overrides: Mapping[str, str]) -> list[Long]:
    """Return the tables of a grid, one row a point each. `overrides`: names of headers by COLUMNS."""
    blocks = _blocks(grid, overrides)
    if not blocks and any(name.isdigit() for name in overrides):  # no headers: the user says what each column is
        width = max(map(len, grid.rows))
        blocks = [Block(grid, grid.title, [str(number) for number in range(1, width + 1)])]
        for row, line in zip(grid.rows, grid.lines, strict=True):
            _add(blocks[0], row, line, "")
    return [_long(block, overrides) for block in blocks if block.rows]


def first_row(grid: Grid) -> str:
    """Return the cells of the first row that has several, for a message."""
    rows = [row for row in grid.rows if sum(map(bool, row)) > 1] or list(grid.rows) or [()]
    return ", ".join(f"'{cell}'" for cell in rows[0] if cell)


def _blocks(grid: Grid, overrides: Mapping[str, str]) -> list[Block]:
    blocks: list[Block] = []
    title, section = grid.title, ""
    above: list[tuple[str, ...]] = []  # rows of text just above, which may be the upper headers
    in_header = False
    for row, line in zip(grid.rows, grid.lines, strict=True):
        cells = tuple(cell.strip() for cell in row)
        filled = [cell for cell in cells if cell]
        if not filled or all(re.fullmatch(r"[-=_*.:+|\s]+", cell) and cell not in ("-", "--") for cell in filled):
            continue
        over = above if blocks and blocks[-1].title == title else [*above, (title,)]
        if _is_header(cells, over, overrides) and not (blocks and not in_header and _repeats(blocks[-1], cells)):
            if in_header and blocks and not blocks[-1].rows:
                blocks[-1].headers = _under([blocks[-1].headers, cells], overrides)
            else:
                blocks.append(Block(grid, title, _under([*above, cells], overrides)))
                section = ""
            in_header, above = True, []
            continue
        if blocks and _repeats(blocks[-1], cells):
            continue
        alone = len(filled) == 1 or (len({*filled}) == 1 and len(filled) > 2)
        if alone and not numbers.is_number(filled[0]):
            if len(filled[0]) <= 60 and not _REMARK.match(filled[0]):
                title, section = (title if blocks and blocks[-1].rows else filled[0]), filled[0]
            above = []
            continue
        if not any(numbers.is_number(cell) for cell in filled) and not (
            blocks and len(filled) >= len(blocks[-1].headers) - 1 and not in_header
        ):
            if in_header and blocks and not blocks[-1].rows:  # units, or the lower of two headers
                blocks[-1].headers = _under([blocks[-1].headers, cells], overrides)
            else:
                above = [cells]
            continue
        in_header = False
        if blocks:
            _add(blocks[-1], cells, line, section)
    return blocks


def _repeats(block: Block, cells: Sequence[str]) -> bool:
    """Return whether a row repeats the headers of the table."""
    return [cell for cell in cells if cell] == [cell for cell in block.headers if cell]


def _is_header(cells: Sequence[str], above: Sequence[Sequence[str]], overrides: Mapping[str, str]) -> bool:
    """Return whether a row has headers: of known columns, or of numbers of ranks."""
    filled = [cell for cell in cells if cell]
    explicit = [size for cell in filled if (size := _wide(cell)) and size[1]]
    if len({n for n, *_ in explicit}) > 1 and len(explicit) * 2 >= len(filled) - 1:
        return True
    bare = [int(cell) for cell in filled[1:] if re.fullmatch(r"\d{1,6}", cell)]
    if len(bare) > 1 and bare == sorted({*bare}) and len(bare) == len(filled) - 1:
        first = headers.read(filled[0], overrides)
        names_ranks = re.search(
            rf"\b(?:{headers.RANK}|{headers.NODE})\b", " ".join([filled[0], *(c for r in above for c in r)]), re.I
        )
        return not numbers.has_value(filled[0]) and (
            first.name in ("ranks", "nodes") or (bool(names_ranks) and not first.name.startswith("images"))
        )
    if any(numbers.has_value(cell) for cell in filled) or len(filled) < 2:
        return False
    return any(headers.read(cell, overrides).name for cell in filled) and not (
        len(filled) == 2 and all(headers.read(cell, overrides).name in headers.TEXT for cell in filled)
    )


def _under(rows: Sequence[Sequence[str]], overrides: Mapping[str, str]) -> list[str]:
    """Return headers in several rows joined; one that spans several columns is over all of them."""
    width = max(map(len, rows))
    padded = [[*row, *[""] * (width - len(row))] for row in rows]
    for upper, lower in pairwise(padded):
        for column in range(1, width):
            alone = headers.read(lower[column], overrides).name in ("ranks", "nodes")
            if not upper[column] and lower[column] and upper[column - 1] and not alone:
                upper[column] = upper[column - 1]
    return [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*padded, strict=True)]


def _add(block: Block, cells: tuple[str, ...], line: int, section: str) -> None:
    """Add a row to a table, or the reason why it is left out."""
    while block.headers and not block.headers[-1] and len(cells) < len(block.headers):
        block.headers.pop()
    width = len(block.headers)
    extra = cells[width:]
    where = f"{block.grid.where}, line {line}"
    first = next(cell for cell in cells if cell)
    if any(extra):
        if len(cells) == width + 1 and not block.rows and block.headers[0]:
            block.headers.insert(0, "")  # names of rows, without a header
            width += 1
        else:
            block.notes.append(f"{where}: {len(cells)} cells, and {width} headers; the row is left out")
            return
    cells = cells[:width]
    if len(cells) < width and block.grid.format.startswith("separated"):
        separated = block.grid.format
        block.notes.append(f"{where}: {len(cells)} cells, and {width} headers; {separated}; the row is left out")
        return
    if _TOTAL.fullmatch(first) and not numbers.has_value(first):
        block.notes.append(f"{where}: '{first}': no point; the row is left out")
        return
    if _REMARK.match(first) and not numbers.is_number(first) and sum(map(bool, cells)) < 3:
        return
    block.rows.append((*cells, *[""] * (width - len(cells))))
    block.lines.append(line)
    block.sections.append(section)


def _wide(text: str) -> tuple[int, str, str] | None:
    """Return the number of ranks in a header: the number, "ranks" or "nodes" or "", and the other words."""
    if plain := headers.ranks_in(text):
        return (*plain, "")
    unit = rf"(?:{headers.RANK}|{headers.NODE})"
    for pattern in (rf"\b(\d{{1,6}})\s*[x×]?\s*-?({unit})\b", rf"\b({unit})\s*[=:]?\s*(\d{{1,6}})$"):
        if match := re.search(pattern, text, re.I):
            number, unit_name = (match[1], match[2]) if match[1].isdigit() else (match[2], match[1])
            rest = re.sub(r"\s+", " ", f"{text[: match.start()]} {text[match.end() :]}").strip(" -,@:()[]")
            rest = re.sub(
                r"^(?:on|with|at|for|using)\b|\b(?:on|with|at|for|using|number of|num|#|no\.)$", "", rest, flags=re.I
            ).strip(" -,@:")
            return int(number), "nodes" if re.fullmatch(headers.NODE, unit_name, re.I) else "ranks", rest
    return None


def _long(block: Block, overrides: Mapping[str, str]) -> Long:
    """Return a block as a table with one row a point."""
    columns = [
        Column(_read(text, cells, overrides), cells, (text,) * len(cells))
        for text, cells in zip(block.headers, zip(*block.rows, strict=True), strict=True)
    ]
    if any(block.sections):
        columns.append(_column("section", "setting", block.sections))
    table = Long(block.grid, block.title, tuple(block.lines), tuple(columns), tuple(block.notes))
    table = _by_column(_down(_across(table, block.headers, overrides)), overrides)
    return _with_batch(_by_label(table))


_BATCH = re.compile(r"\b(?:batch[ _-]?size|bsz|bs|batch)(?: per (?:gpu|device))?\s*[=:]?\s*(\d+)\b", re.I)


def _with_batch(table: Long) -> Long:
    """Return a table without batches with those that the names of its settings, or its title, state."""
    if any("batch" in column.header.name for column in table.columns):
        return table
    settings = [column.cells for column in table.columns if column.header.text in ("the columns", "section")]
    texts = [[*texts, table.title] for texts in zip(*settings, strict=True)] or [[table.title]] * len(table.lines)
    batches = [next((match[1] for text in row if (match := _BATCH.search(text))), "") for row in texts]
    if not all(batches):
        return table
    return replace(table, columns=(*table.columns, _column("batch size in titles", "batch", batches)))


def _alike(columns: Sequence[Column]) -> list[Column]:
    """Return the columns with labels that differ only in case written as the first of them."""
    first: dict[str, str] = {}
    return [
        replace(one, header=replace(one.header, label=first.setdefault(one.header.label.lower(), one.header.label)))
        for one in columns
    ]


def _read(text: str, cells: Sequence[str], overrides: Mapping[str, str]) -> Header:
    """Return the meaning of a header above these cells: "n" counts repeats, or from 1000 on is a problem size."""
    header = headers.read(text, overrides)
    large = header.name == "n" and any(re.fullmatch(r"\d{4,}", cell) for cell in cells)
    return replace(header, name="", why="not known") if large and not header.overridden else header


def _column(text: str, name: str, cells: Sequence[str], at: Sequence[str] = ()) -> Column:
    return Column(Header(text, name), tuple(cells), tuple(at) or (text,) * len(cells))


def _across(table: Long, texts: Sequence[str], overrides: Mapping[str, str]) -> Long:
    """Return a table whose columns are numbers of ranks with one row for each; others as they are."""
    wide_columns = {
        position: wide for position, text in enumerate(texts) if (wide := _wide(text)) and plainly(text, overrides)
    }
    over = next(
        (
            position
            for position, text in enumerate(texts)
            if position not in wide_columns and headers.read(text, overrides).name in ("ranks", "nodes")
        ),
        None,
    )
    kinds = {kind for _, kind, _ in wide_columns.values()}
    numbered = len({n for n, *_ in wide_columns.values()}) > 1
    in_corner = over == 0 and all(not numbers.has_value(cell) for cell in table.columns[0].cells)
    if not numbered or (over is not None and not in_corner) or (kinds == {""} and len(wide_columns) < len(texts) - 1):
        return table
    kind = next(
        (kind for _, kind, _ in wide_columns.values() if kind),
        headers.read(texts[0], overrides).name if in_corner else "ranks",
    )
    lead = [column for position, column in enumerate(table.columns) if position not in wide_columns]
    rests = [*dict.fromkeys(rest for *_, rest in wide_columns.values())]
    sizes = [*dict.fromkeys(n for n, *_ in wide_columns.values())]
    where = {(n, rest): position for position, (n, _, rest) in wide_columns.items()}
    rows = [(row, n) for row in range(len(table.lines)) for n in sizes]
    at = [_text_at(texts, where, n, rests) for _, n in rows]
    columns = [_column("the numbers across", kind, [str(n) for _, n in rows], at)]
    for rest in rests:
        cells = [table.columns[where[n, rest]].cells[row] if (n, rest) in where else "" for row, n in rows]
        header = headers.read(rest, overrides) if rest else Header("the cells", overrides.get("cells", ""))
        columns.append(Column(header, tuple(cells), tuple(_text_at(texts, where, n, [rest]) for _, n in rows)))
    long = table.take([row for row, _ in rows], lead, columns)
    return _named(_by_quantity(long, in_corner, overrides), overrides)


def plainly(text: str, overrides: Mapping[str, str]) -> bool:
    """Return whether COLUMNS does not name a header."""
    return headers.plain(text) not in overrides


def _text_at(texts: Sequence[str], where: Mapping[tuple[int, str], int], n: int, rests: Sequence[str]) -> str:
    return next((texts[where[n, rest]] for rest in rests if (n, rest) in where), str(n))


def _by_quantity(table: Long, in_corner: bool, overrides: Mapping[str, str]) -> Long:
    """Return a table with quantities down one of its columns with a column for each; others as they are."""
    for position, column in enumerate(table.columns[:-2]):
        if column.header.name and not (in_corner and position == 0):
            continue
        read = {text: headers.read(text, overrides) for text in dict.fromkeys(column.cells)}
        measured = {text: header for text, header in read.items() if header.name and header.name not in headers.TEXT}
        if not measured or any(text and text not in measured and not read[text].why for text in read):
            continue
        others = [one for one in table.columns[:-1] if one is not column]
        points: dict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
        for row in range(len(table.lines)):
            points[tuple(one.cells[row] for one in others)].setdefault(column.cells[row], row)
        chosen = [next(iter(rows.values())) for rows in points.values()]
        columns, values = [], table.columns[-1].cells
        for text, header in read.items():
            cells = tuple(values[rows[text]] if text in rows else "" for rows in points.values())
            columns.append(Column(header, cells, (text,) * len(cells)))
        return table.take(chosen, others, columns)
    return table


def _named(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table with ranks across with its first columns as settings, and the quantity of its cells."""
    last = table.columns[-1]
    if last.header.text != "the cells":
        return table
    corner = {"", "ranks", "nodes"}
    lead = [
        replace(one, header=replace(one.header, name="setting"))
        if one.header.name in corner and one.header.text != "the numbers across"
        else one
        for one in table.columns[:-1]
    ]
    texts = [table.title, *(one.header.text for one in table.columns[:-2])]
    header, guess = _cells_are(texts, table.columns[-2].cells, last, overrides)
    return replace(table, columns=(*lead, replace(last, header=header)), guesses=(*table.guesses, *guess))


def _cells_are(
    texts: Sequence[str], sizes: Sequence[str], cells: Column, overrides: Mapping[str, str]
) -> tuple[Header, tuple[str, ...]]:
    """Return the header of cells without one, and the guess: by these texts, else by how they change with sizes."""
    if cells.header.name:
        return cells.header, ()
    for text in texts:
        header = headers.read(text, overrides)
        quantity = header if header.name in _MEASURED else _quantity_in(text)
        if quantity:
            return replace(quantity, label=""), (f"the cells are {quantity.name}, by '{text}'",)
    grow = _grows(sizes, cells.cells)
    kind = "rates, for they grow" if grow else "times, for they fall"
    guess = f'the cells are {kind} with the ranks; if not, COLUMNS="cells=NAME"'
    return Header("the cells", "rate" if grow else "wall_s"), (guess,)


def _quantity_in(text: str) -> Header | None:
    """Return the quantity that a title names; None for none."""
    rate = r"(?:images?|imgs?|samples?|examples?|tok(?:en)?s?)\s*(?:/|per) ?(?:s\w*)"
    time = r"(?:training|epoch|step|wall) time|time per \w+"
    phrases = re.findall(rf"(?i){rate}|throughput|speed-?ups?|efficiency|{time}", text)
    return next((header for phrase in phrases if (header := headers.read(phrase)).name), None)


def _grows(sizes: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether most of the cells grow with the sizes beside them, from row to row."""
    values = numbers.column(cells, ".")
    steps = [
        after.value > before.value
        for before, after, small, large in zip(values, values[1:], sizes, sizes[1:], strict=False)
        if isinstance(before, numbers.PrintedNumber) and isinstance(after, numbers.PrintedNumber)
        if small.isdigit() and large.isdigit() and int(large) > int(small)
    ]
    return sum(steps) * 2 >= len(steps)


def _down(table: Long) -> Long:
    """Return a table in which the blank cells of merged columns have the value above them."""
    columns, guesses = [], []
    measured = next(
        (position for position, one in enumerate(table.columns) if one.header.name and one.header.name not in _KEYS),
        len(table.columns),
    )
    for position, column in enumerate(table.columns):
        merged = (position < measured and column.header.name in _KEYS - {"ranks", *headers.COUNTS}) or (
            position == 0 and not column.header.name
        )
        cells = [*column.cells]
        if merged and cells and cells[0] and "" in cells:
            for row in range(1, len(cells)):
                cells[row] = cells[row] or cells[row - 1]
            guesses.append(f"'{column.header.text}': blank cells have the value above them (merged)")
        columns.append(replace(column, cells=tuple(cells)))
    return replace(table, columns=tuple(columns), guesses=(*table.guesses, *guesses))


def _by_column(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table whose measured columns are named after settings, as frameworks, with a row for each."""
    names = {column.header.name for column in table.columns}
    unknown = [column for column in table.columns if not column.header.name and column.header.why == "not known"]
    numeric = [column for column in unknown if _mostly_numbers(column.cells)]
    stated = "cells" in overrides or headers.read(table.title, overrides).name in _MEASURED or _quantity_in(table.title)
    if not names & {"ranks", "nodes"} or names & _MEASURED or not numeric or not stated:
        return table
    common = [column for column in table.columns if not any(column is one for one in numeric)]
    rows = [(row, one) for one in numeric for row in range(len(table.lines))]
    setting = _column("the columns", "setting", [one.header.text for _, one in rows])
    sizes = next(one for one in common if one.header.name in ("ranks", "nodes")).take([row for row, _ in rows])
    cells = Column(
        Header("the cells", overrides.get("cells", "")),
        tuple(one.cells[row] for row, one in rows),
        tuple(one.header.text for _, one in rows),
    )
    header, guess = _cells_are([table.title], sizes.cells, cells, overrides)
    curves = f"a curve for each of: {', '.join(one.header.text for one in numeric)}"
    return table.take([row for row, _ in rows], common, (setting, replace(cells, header=header)), curves, *guess)


def _mostly_numbers(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and sum(map(numbers.is_number, filled)) == len(filled) and any(map(numbers.has_value, filled))


def _by_label(table: Long) -> Long:
    """Return a table with several columns of one quantity, as of two precisions, with a row for each label."""
    columns_by_name: dict[str, list[Column]] = defaultdict(list)
    table = replace(table, columns=tuple(_alike(table.columns)))
    for column in table.columns:
        if column.header.name in _MEASURED or "batch" in column.header.name or column.header.name == "steps_per_rank":
            columns_by_name[column.header.name].append(column)
    several = {
        name: group
        for name, group in columns_by_name.items()
        if len(group) > 1 and len({one.header.label for one in group}) == len(group)
    }
    if not several:
        return table
    labels = [*dict.fromkeys(one.header.label for group in several.values() for one in group)]
    split = [one for group in several.values() for one in group]
    split += [
        group[0]
        for name, group in columns_by_name.items()
        if name not in several and group[0].header.label in labels and name not in _KEYS
    ]
    common = [column for column in table.columns if not any(column is one for one in split)]
    rows = [(row, label) for label in labels for row in range(len(table.lines))]
    columns = []
    for name in dict.fromkeys(one.header.name for one in split):
        its = {one.header.label: one for one in split if one.header.name == name}
        first = next(iter(its.values()))
        cells = tuple(its[label].cells[row] if label in its else "" for row, label in rows)
        at = tuple(its.get(label, first).header.text for _, label in rows)
        columns.append(Column(replace(first.header, label=""), cells, at))
    runs = [_RUN.fullmatch(label) for label in labels]
    if all(runs):
        number = {label: match[1] for label, match in zip(labels, runs, strict=True) if match}
        labelled = _column("the columns", "repeat", [number[label] for _, label in rows])
        guess = "repeats in columns"
    else:
        labelled = _column("the columns", "setting", [label for _, label in rows])
        guess = f"a curve for each of: {', '.join(label or 'no label' for label in labels)}"
    return table.take([row for row, _ in rows], common, [*columns, labelled], guess)
