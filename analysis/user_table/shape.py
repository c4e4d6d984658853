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
_RULE = re.compile(r"(?!--?$)[-=_*.:+|\s]+")
_CELLS = "the cells"  # the header of cells without one
ACROSS, COLUMNS, SECTION = "the numbers across", "the columns", "section"  # headers of labels that the file spreads out


@dataclass(frozen=True)
class Column:
    """One column of a table with a row a point: its header, its cells, and the header in the file of each cell."""

    header: Header
    cells: tuple[str, ...]
    at: tuple[str, ...]

    def take(self, rows: Sequence[int]) -> Column:
        """Return the column with these of its rows, in this order."""
        return replace(self, cells=tuple(self.cells[row] for row in rows), at=tuple(self.at[row] for row in rows))

    def named(self, name: str, why: str = "") -> Column:
        """Return the column with another name."""
        return replace(self, header=replace(self.header, name=name, why=why))


def column(text: str, name: str, cells: Sequence[str], at: Sequence[str] = ()) -> Column:
    """Return a column of these cells; `at`: the headers in the file, if they differ from cell to cell."""
    return Column(Header(text, name), tuple(cells), tuple(at) or (text,) * len(cells))


@dataclass(frozen=True)
class Long:
    """A table with one row a point. lines: of the file. notes: rows that are left out; guesses: about its shape."""

    grid: Grid
    title: str
    lines: tuple[int, ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """The names of its columns."""
        return {column.header.name for column in self.columns}

    def with_column(self, text: str, name: str, cells: Sequence[str]) -> Long:
        """Return the table with one more column."""
        return replace(self, columns=(*self.columns, column(text, name, cells)))

    def without(self, left_out: Sequence[Column]) -> list[Column]:
        """Return its other columns."""
        return [column for column in self.columns if not any(column is one for one in left_out)]

    def take(self, rows: Sequence[int], common: Sequence[Column], more: Sequence[Column], *guesses: str) -> Long:
        """Return the table with these of its rows in its `common` columns, beside columns that have as many rows."""
        return replace(
            self,
            lines=tuple(self.lines[row] for row in rows),
            columns=(*(column.take(rows) for column in common), *more),
            guesses=(*self.guesses, *guesses),
        )

    def stack(
        self, common: Sequence[Column], groups: Mapping[str, Mapping[str, Column]], label: Header, *guesses: str,
        by_row: bool = False,
    ) -> Long:  # fmt: skip
        """Return the table with a row for each of its rows and groups: `groups` has the columns by name for each label.

        A column of the labels, under this header, stands before those of the groups.
        """
        rows = [(row, group) for group in groups for row in range(len(self.lines))]
        if by_row:
            rows.sort(key=lambda one: one[0])
        labels = Column(
            label, tuple(g for _, g in rows), tuple(next(iter(groups[g].values())).at[row] for row, g in rows)
        )
        stacked = [labels]
        for name in dict.fromkeys(name for group in groups.values() for name in group):
            first = next(group[name] for group in groups.values() if name in group)
            cells = tuple(groups[g][name].cells[row] if name in groups[g] else "" for row, g in rows)
            stacked.append(Column(first.header, cells, tuple(groups[g].get(name, first).at[row] for row, g in rows)))
        return self.take([row for row, _ in rows], common, stacked, *guesses)


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
            if any(row):
                _add(blocks[0], row, line, "")
    return [_long(block, overrides) for block in blocks if block.rows]


def first_row(grid: Grid) -> str:
    """Return the cells of the first row that has several, for a message."""
    rows = [row for row in grid.rows if sum(map(bool, row)) > 1] or list(grid.rows) or [()]
    return ", ".join(f"'{cell}'" for cell in rows[0] if cell)


def _blocks(grid: Grid, overrides: Mapping[str, str]) -> list[Block]:
    """Return the tables of a grid: each begins with a row of headers."""
    blocks: list[Block] = []
    title, section = grid.title, ""
    above: list[tuple[str, ...]] = []  # rows of text just above, which may be the upper headers
    in_header = False
    for row, line in zip(grid.rows, grid.lines, strict=True):
        cells = tuple(cell.strip() for cell in row)
        filled = [cell for cell in cells if cell]
        if not filled or all(_RULE.fullmatch(cell) for cell in filled):
            continue
        repeats = bool(blocks) and filled == [cell for cell in blocks[-1].headers if cell]
        over = above if blocks and blocks[-1].title == title else [*above, (title,)]
        alone = len(filled) == 1 or (len({*filled}) == 1 and len(filled) > 2)
        has_numbers = any(map(numbers.is_number, filled))
        lower = in_header and bool(blocks) and not blocks[-1].rows  # beneath headers, before any row
        if (in_header or not repeats) and _is_header(cells, over, overrides):
            if lower:
                blocks[-1].headers = _under([blocks[-1].headers, cells], overrides)
            else:
                blocks.append(Block(grid, title, _under([*above, cells], overrides)))
                section = ""
            in_header, above = True, []
        elif repeats:
            continue
        elif alone and not numbers.is_number(filled[0]):
            if len(filled[0]) <= 60 and not _REMARK.match(filled[0]):
                title, section = (title if blocks and blocks[-1].rows else filled[0]), filled[0]
            above = []
        elif not has_numbers and lower:  # units, or the lower of two headers
            blocks[-1].headers = _under([blocks[-1].headers, cells], overrides)
        elif not has_numbers and not (blocks and len(filled) >= len(blocks[-1].headers) - 1 and not in_header):
            above = [cells]
        else:
            in_header = False
            if blocks:
                _add(blocks[-1], cells, line, section)
    return blocks


def _is_header(cells: Sequence[str], above: Sequence[Sequence[str]], overrides: Mapping[str, str]) -> bool:
    """Return whether a row has headers: of known columns, or of numbers of ranks."""
    filled = [cell for cell in cells if cell]
    stated = [size for cell in filled if (size := _wide(cell)) and size[1]]
    if len({n for n, *_ in stated}) > 1 and len(stated) * 2 >= len(filled) - 1:
        return True
    first = headers.read(filled[0], overrides)
    bare = [int(cell) for cell in filled[1:] if re.fullmatch(r"\d{1,6}", cell)]
    if len(bare) > 1 and bare == sorted({*bare}) and len(bare) == len(filled) - 1:
        words = " ".join([filled[0], *(cell for row in above for cell in row)])
        ranks_named = re.search(rf"\b(?:{headers.RANK}|{headers.NODE})\b", words, re.I)
        of_ranks = first.name in ("ranks", "nodes") or (ranks_named and not first.name.startswith("images"))
        return bool(of_ranks) and not numbers.has_value(filled[0])
    if len(filled) < 2 or any(map(numbers.has_value, filled)):
        return False
    names = [headers.read(cell, overrides).name for cell in filled]
    return any(names) and not (len(names) == 2 and all(name in headers.TEXT for name in names))


def _under(rows: Sequence[Sequence[str]], overrides: Mapping[str, str]) -> list[str]:
    """Return headers in several rows joined; one that spans several columns is over all of them."""
    width = max(map(len, rows))
    padded = [[*row, *[""] * (width - len(row))] for row in rows]
    for upper, lower in pairwise(padded):
        for at in range(1, width):
            alone = headers.read(lower[at], overrides).name in ("ranks", "nodes")
            if not upper[at] and lower[at] and upper[at - 1] and not alone:
                upper[at] = upper[at - 1]
    return [" ".join(dict.fromkeys(filter(None, cells))) for cells in zip(*padded, strict=True)]


def _add(block: Block, cells: tuple[str, ...], line: int, section: str) -> None:
    """Add a row to a table, or the reason why it is left out."""
    while block.headers and not block.headers[-1] and len(cells) < len(block.headers):
        block.headers.pop()
    width, first, why = len(block.headers), next(cell for cell in cells if cell), ""
    if any(cells[width:]) and len(cells) == width + 1 and not block.rows and block.headers[0]:
        block.headers.insert(0, "")  # names of rows, without a header
        width += 1
    if any(cells[width:]):
        why = f"{len(cells)} cells, and {width} headers"
    elif len(cells) < width and block.grid.format.startswith("separated"):
        why = f"{len(cells)} cells, and {width} headers; {block.grid.format}"
    elif _TOTAL.fullmatch(first) and not numbers.has_value(first):
        why = f"'{first}': no point"
    elif _REMARK.match(first) and not numbers.is_number(first) and sum(map(bool, cells)) < 3:
        return
    if why:
        block.notes.append(f"{block.grid.where}, line {line}: {why}; the row is left out")
        return
    block.rows.append((*cells[:width], *[""] * (width - len(cells))))
    block.lines.append(line)
    block.sections.append(section)


def _wide(text: str) -> tuple[int, str, str] | None:
    """Return the number of ranks in a header: the number, "ranks" or "nodes" or "", and the other words."""
    if plain := headers.ranks_in(text):
        return (*plain, "")
    unit = rf"(?:{headers.RANK}|{headers.NODE})"
    little = r"(?:on|with|at|for|using|number of|num|#|no\.)"
    for pattern in (
        rf"\b(?P<n>\d{{1,6}})\s*[x×]?\s*-?(?P<unit>{unit})\b",
        rf"\b(?P<unit>{unit})\s*[=:]?\s*(?P<n>\d{{1,6}})$",
    ):
        if match := re.search(pattern, text, re.I):
            rest = re.sub(r"\s+", " ", f"{text[: match.start()]} {text[match.end() :]}").strip(" -,@:()[]")
            rest = re.sub(rf"^{little}\b|\b{little}$", "", rest, flags=re.I).strip(" -,@:")
            return int(match["n"]), "nodes" if re.fullmatch(headers.NODE, match["unit"], re.I) else "ranks", rest
    return None


def _long(block: Block, overrides: Mapping[str, str]) -> Long:
    """Return a block as a table with one row a point."""
    columns = []
    for text, cells in zip(block.headers, zip(*block.rows, strict=True), strict=True):
        columns += _parts(Column(_read(text, cells, overrides), cells, (text,) * len(cells)), overrides)
    if any(block.sections):
        columns.append(column(SECTION, "setting", block.sections))
    table = Long(block.grid, block.title, tuple(block.lines), tuple(columns), tuple(block.notes))
    return _with_batch(_by_label(_by_column(_down(_across(table, overrides)), overrides)))


def _read(text: str, cells: Sequence[str], overrides: Mapping[str, str]) -> Header:
    """Return the meaning of a header above these cells: "n" from 1000 on is a problem size, "run" in words a name."""
    header = headers.read(text, overrides)
    if header.overridden:
        return header
    if header.name == "n" and any(re.fullmatch(r"\d{4,}", cell) for cell in cells):
        return replace(header, name="", why="not known")
    in_words = header.name == "repeat" and not any(map(numbers.has_value, cells))
    return replace(header, name="setting") if in_words else header


def _parts(one: Column, overrides: Mapping[str, str]) -> list[Column]:
    """Return a column "name (a/b/c)" with cells "1/2/3" as a column for each part; others as they are."""
    match = re.fullmatch(r"(.*?)\s*\(([^()/]+(?:/[^()/]+)+)\)\s*(.*)", one.header.text)
    split = [re.split(r"\s*/\s*", cell) for cell in one.cells]
    labels = re.split(r"\s*/\s*", match[2]) if match else []
    if not match or any(len(cells) != len(labels) or not all(map(numbers.has_value, cells)) for cells in split):
        return [one]
    base = headers.read(f"{match[1]} {match[3]}", overrides)
    return [
        Column(replace(base, text=f"{match[1]} {label} {match[3]}".strip(), label=label), tuple(cells), one.at)
        for label, cells in zip(labels, zip(*split, strict=True), strict=True)
    ]


_BATCH = re.compile(
    r"\b(?:(local|global|total)[ _-])?(?:batch[ _-]?size|bsz|bs|batch)( per (?:gpu|device))?\s*[=:]?\s*([\d,]+)\b", re.I
)
_SCOPES = {"": "batch", "local": "batch_per_rank", "global": "global_batch", "total": "global_batch"}


def _with_batch(table: Long) -> Long:
    """Return a table without batches with those that the names of its settings, or its title, state."""
    if any("batch" in name for name in table.names):
        return table
    stated = []
    for texts in titles(table):
        matches = [match for text in texts for match in _BATCH.finditer(text)]
        named = [("batch_per_rank" if one[2] else _SCOPES[(one[1] or "").lower()], one[3]) for one in matches]
        stated.append(dict(reversed(named)))
    for name in dict.fromkeys(_SCOPES.values()):
        if all(name in one for one in stated):
            text = "batch size in titles" if name == "batch" else f"{name} in titles"
            table = table.with_column(text, name, [one[name].replace(",", "") for one in stated])
    return table


def titles(table: Long) -> list[list[str]]:
    """Return, for each row, the names of its settings that stand beside or above the table, and its title."""
    settings = [one.cells for one in table.columns if one.header.text in (COLUMNS, SECTION)]
    return [[*texts, table.title] for texts in zip(*settings, strict=True)] or [[table.title]] * len(table.lines)


def _across(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table whose columns are numbers of ranks with one row for each; others as they are."""
    first = table.columns[0]
    wide = [
        (size, one)
        for one in table.columns
        if (size := _wide(one.header.text)) and headers.plain(one.header.text) not in overrides
    ]
    lead = table.without([one for _, one in wide])
    named = next((one for one in lead if headers.read(one.header.text, overrides).name in ("ranks", "nodes")), None)
    kinds = [kind for (_, kind, _), _ in wide if kind]
    sizes: dict[str, dict[str, Column]] = {str(n): {} for (n, *_), _ in wide}
    in_corner = named is first and not any(map(numbers.has_value, first.cells))
    if len(sizes) < 2 or (named and not in_corner) or (not kinds and len(wide) < len(table.columns) - 1):
        return table
    for (n, _, rest), one in wide:
        header = headers.read(rest, overrides) if rest else Header(_CELLS, overrides.get("cells", ""))
        sizes[str(n)].setdefault(rest, replace(one, header=header))
    corner = headers.read(first.header.text, overrides).name if in_corner else "ranks"
    long = table.stack(lead, sizes, Header(ACROSS, kinds[0] if kinds else corner), by_row=True)
    return _named(_by_quantity(_of_largest(long), in_corner, overrides), overrides)


def _of_largest(table: Long) -> Long:
    """Return a table with ranks across in which a ratio beside them ("Speedup") is of the largest number alone."""
    sizes = next(one for one in table.columns if one.header.text == ACROSS)
    columns = []
    for one in table.columns:
        if one.header.name in ("speedup", "efficiency") and len({*one.at}) == 1 and one.at[0] == one.header.text:
            at = re.search(r"\d+", one.header.label)
            largest = at[0] if at and at[0] in sizes.cells else str(max(map(int, sizes.cells)))
            cells = tuple(cell if n == largest else "" for cell, n in zip(one.cells, sizes.cells, strict=True))
            one = replace(one, header=replace(one.header, label=""), cells=cells)
        columns.append(one)
    return replace(table, columns=tuple(columns))


def _by_quantity(table: Long, in_corner: bool, overrides: Mapping[str, str]) -> Long:
    """Return a table with quantities down one of its columns with a column for each; others as they are."""
    for position, one in enumerate(table.columns[:-2]):
        if one.header.name and not (in_corner and position == 0):
            continue
        read = {text: headers.read(text, overrides) for text in dict.fromkeys(one.cells)}
        measured = {text for text, header in read.items() if header.name and header.name not in headers.TEXT}
        other = [text for text in read if text and text not in measured]
        if len(measured) <= len(other) or any(not read[text].why for text in other):
            continue
        others = [other for other in table.columns[:-1] if other is not one]
        points: dict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
        for row, text in enumerate(one.cells):
            points[tuple(other.cells[row] for other in others)].setdefault(text, row)
        values = table.columns[-1].cells
        by_quantity = [
            Column(header, cells, (text,) * len(cells))
            for text, header in read.items()
            if (cells := tuple(values[rows[text]] if text in rows else "" for rows in points.values()))
        ]
        return table.take([next(iter(rows.values())) for rows in points.values()], others, by_quantity)
    return table


def _named(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table with ranks across with its first columns as settings, and the quantity of its cells."""
    *lead, sizes, cells = table.columns
    if cells.header.text != _CELLS:
        return table
    texts = [table.title, *(one.header.text for one in lead if not any(map(numbers.has_value, one.cells)))]
    lead = [one.named("setting") if one.header.name in ("", "ranks", "nodes") else one for one in lead]
    cells, guess = _cells_named(texts, sizes, cells, overrides)
    return replace(table, columns=(*lead, sizes, cells), guesses=(*table.guesses, *guess))


# What cells without a header are by their unit, and what else a title may call them.
_BY_UNIT = {"time": "wall_s", "rate": "rate", "ratio": "speedup", "share": "efficiency"}
_BY_UNIT_OR = {
    "wall_s": ("wall_s", "job_s", "epoch_s", "step_s", "init_s"), "rate": ("rate", "images", "steps", "epochs"),
    "speedup": ("speedup",), "efficiency": ("efficiency",),
}  # fmt: skip


def _cells_named(
    texts: Sequence[str], sizes: Column, cells: Column, overrides: Mapping[str, str]
) -> tuple[Column, tuple[str, ...]]:
    """Return cells without a header under one, and the guess: by these texts, else by how they change with sizes."""
    if cells.header.name:
        return cells, ()
    values = numbers.column(cells.cells, ".")
    kinds: list[str] = [value.unit.kind for value in values if isinstance(value, numbers.PrintedNumber)]
    with_unit = [kind for kind in kinds if kind in _BY_UNIT]
    by_unit = next(
        (name for kind, name in _BY_UNIT.items() if with_unit and with_unit.count(kind) == len(with_unit)), ""
    )
    for text in texts:
        header = headers.read(text, overrides)
        quantity = header if header.name in _MEASURED else _quantity_in(text)
        if quantity and (not by_unit or quantity.name.startswith(_BY_UNIT_OR[by_unit])):
            return replace(cells, header=replace(quantity, label="")), (f"the cells are {quantity.name}, by '{text}'",)
    if by_unit:
        return cells.named(by_unit), (f"the cells are {by_unit}, by their unit",)
    grow = [
        after.value > before.value
        for before, after, small, large in zip(values, values[1:], sizes.cells, sizes.cells[1:], strict=False)
        if isinstance(before, numbers.PrintedNumber) and isinstance(after, numbers.PrintedNumber)
        if small.isdigit() and large.isdigit() and int(large) > int(small)
    ]
    name, kind = ("rate", "rates, for they grow") if sum(grow) * 2 >= len(grow) else ("wall_s", "times, for they fall")
    guess = f'the cells are {kind} with the ranks; if not, COLUMNS="cells=NAME"'
    return cells.named(name), (guess,)


def _quantity_in(text: str) -> Header | None:
    """Return the quantity that a title names; None for none."""
    rate = r"(?:images?|imgs?|samples?|examples?|tok(?:en)?s?)\s*(?:/|per) ?(?:s\w*)"
    time = r"(?:training|epoch|step|wall) time|time per \w+"
    phrases = re.findall(rf"(?i){rate}|throughput|speed-?ups?|efficiency|{time}", text)
    return next((header for phrase in phrases if (header := headers.read(phrase)).name), None)


def _down(table: Long) -> Long:
    """Return a table in which the blank cells of merged columns have the value above them."""
    columns, guesses = [], []
    names = [one.header.name for one in table.columns]
    measured = next((at for at, name in enumerate(names) if name and name not in _KEYS), len(names))
    for at, one in enumerate(table.columns):
        merged = (at < measured and names[at] in _KEYS - {"ranks", *headers.COUNTS}) or (at == 0 and not names[at])
        if merged and one.cells and one.cells[0] and "" in one.cells:
            cells = [*one.cells]
            for row in range(1, len(cells)):
                cells[row] = cells[row] or cells[row - 1]
            one = replace(one, cells=tuple(cells))
            guesses.append(f"'{one.header.text}': blank cells have the value above them (merged)")
        columns.append(one)
    return replace(table, columns=tuple(columns), guesses=(*table.guesses, *guesses))


def _by_column(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table whose measured columns are named after settings, as frameworks, with a row for each."""
    numeric = [
        one
        for one in table.columns
        if not one.header.name and one.header.why == "not known"
        if all(numbers.is_number(cell) for cell in one.cells if cell) and any(map(numbers.has_value, one.cells))
    ]
    in_units = [one for one in numeric if _unit_kinds(one) & {"rate", "time"}]
    if in_units:  # others may count as they do, but are no shares of them
        numeric = [one for one in numeric if not _unit_kinds(one) & {"share", "ratio"}]
    stated = "cells" in overrides or headers.read(table.title, overrides).name in _MEASURED or _quantity_in(table.title)
    sizes = next((one for one in table.columns if one.header.name in ("ranks", "nodes")), None)
    if not sizes or table.names & _MEASURED or not numeric or not (stated or in_units):
        return table
    header = Header(_CELLS, overrides.get("cells", ""))
    groups = {one.header.text: {_CELLS: replace(one, header=header)} for one in numeric}
    curves = f"a curve for each of: {', '.join(groups)}"
    long = table.stack(table.without(numeric), groups, Header(COLUMNS, "setting"), curves)
    sizes = next(one for one in long.columns if one.header.name in ("ranks", "nodes"))
    cells, guess = _cells_named([table.title], sizes, long.columns[-1], overrides)
    return replace(long, columns=(*long.columns[:-1], cells), guesses=(*long.guesses, *guess))


def _unit_kinds(one: Column) -> set[str]:
    """Return the kinds of the units in the cells of a column."""
    return {cell.unit.kind for cell in numbers.column(one.cells, ".") if isinstance(cell, numbers.PrintedNumber)}


def _by_label(table: Long) -> Long:
    """Return a table with several columns of one quantity, as of two precisions, with a row for each label."""
    table = _one_unit(table)
    spelling: dict[str, str] = {}  # labels that differ in case alone are one
    by_name: dict[str, dict[str, Column]] = defaultdict(dict)
    twice = set()
    for one in table.columns:
        name, label = one.header.name, spelling.setdefault(one.header.label.lower(), one.header.label)
        if name in _MEASURED or "batch" in name or name == "steps_per_rank":
            twice |= {name} if label in by_name[name] else set()
            by_name[name].setdefault(label, one)
    several = {name for name, columns in by_name.items() if len(columns) > 1 and name not in twice}
    labels = [*dict.fromkeys(label for name in several for label in by_name[name])]
    single = {
        name for name, columns in by_name.items() if name not in several | _KEYS | twice and {*columns} <= {*labels}
    }
    if not several:
        return table
    groups = {
        label: {
            name: replace(columns[label], header=replace(columns[label].header, label=""))
            for name, columns in by_name.items()
            if name in several | single and label in columns
        }
        for label in labels
    }
    common = table.without([one for name in several | single for one in by_name[name].values()])
    runs = [_RUN.fullmatch(label) for label in labels]
    if all(runs):
        numbered = {run[1]: groups[label] for label, run in zip(labels, runs, strict=True) if run}
        return table.stack(common, numbered, Header(COLUMNS, "repeat"), "repeats in columns")
    curves = f"a curve for each of: {', '.join(label or 'no label' for label in labels)}"
    return table.stack(common, groups, Header(COLUMNS, "setting"), curves)


def _one_unit(table: Long) -> Long:
    """Return a table with one column of each quantity that it gives in several units, as samples/s and tokens/s.

    Of rates the one with most digits is used, of batches the first.
    """
    by_name: dict[str, list[Column]] = defaultdict(list)
    for one in table.columns:
        if one.header.name in _MEASURED or "batch" in one.header.name:
            by_name[one.header.name].append(one)
    unused = []
    for name, columns in by_name.items():
        works = {one.header.unit.work if one.header.unit else "" for one in columns}
        if 1 < len(columns) == len(works) and len({one.header.label for one in columns}) == 1:
            best = columns[0] if "batch" in name else max(columns, key=lambda one: sum(map(len, one.cells)))
            unused += [one for one in columns if one is not best]
    left = table.without(unused)
    return replace(table, columns=(*left, *(one.named("", "the same in another unit") for one in unused)))
