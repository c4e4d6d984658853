"""The shape of a table: its columns as one row a point, whatever its headers state of the points below them.

A header can say what is measured, its unit, and the condition: on 4 GPUs, with a batch of 32, with TF32. Columns of
several conditions are stacked: a row for each, with the size, the batch and the other words in separate columns.
"""

from __future__ import annotations

import math
import operator
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from analysis.user_table import blocks, headers, numbers, units
from analysis.user_table.blocks import Block
from analysis.user_table.files import Grid
from analysis.user_table.headers import Header, StatedSizes

_KEYS = {*headers.TEXT, *headers.SIZES, "batch", *headers.COUNTS}  # they identify points; the rest is measured
_MEASURED = {*headers.MEASURED, "rate", "scaling", "steps_per_s", "epochs_per_s"}
_RATIOS = ("speedup", "efficiency", "scaling")
_BESIDE = {*_RATIOS, "init_s", "low", "high"}  # beside these, the times of a table are still whole ones
_WITH_LABELS = ("batch", "batch_per_rank", "global_batch", "steps_per_rank", "epochs")  # of one curve, if labelled
_LABELLED = re.compile(r"([\d.]+) ?@ ?([^,@]+)")
_SPLIT = {"/": r"(.*?)\s*\(([^()/]+(?:/[^()/]+)+)\)\s*(.*)", ",": r"(.*?):\s*([^,:]+(?:,[^,:]+)+)()"}
_RUN = re.compile(r"(?:run|trial|rep(?:eat|etition)?|launch|#)?\s*#?(\d{1,2})", re.I)
_MEAN = re.compile(r"(?<![a-z])(?:mean|median|avg|average|promedio|media)(?![a-z])", re.I)
CELLS = "the cells"  # the header of cells without one
ACROSS, COLUMNS, SECTION = "the numbers across", "the columns", "section"  # headers of labels that the file spreads out
_BATCHES = "batches in headers"
_UNKNOWN = "not known"
_WHOLE = re.compile(r"\b(?:wall|elapsed|total|overall|end.to.end)", re.I)
_OF_NUMBERS = ("accuracy", "not about speed", "a part of the time", "scatter", "a difference")
_TITLE = 8  # words of a title that as a whole may say what is measured
_LEAST, _MOST = 0.5, 1.1  # powers of the ranks with which rates of whole jobs grow


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table with a row a point: its header, its cells, and the header in the file of each cell."""

    header: Header
    cells: tuple[str, ...]
    at: tuple[str, ...]

    @property
    def unit_kinds(self) -> set[str]:
        """The kinds of the units of its cells that are numbers; bytes per second are of another kind."""
        return {"other" if unit.work == "bytes" else unit.kind for unit in numbers.units_of(self.cells)}

    def in_units(self) -> Column:
        """Return the column with the unit of its header in those of its cells that end in a digit."""
        text = self.header.unit.text if self.header.unit else ""
        cells = tuple(f"{cell} {text}" if re.search(r"\d$", cell) else cell for cell in self.cells)
        return replace(self, header=replace(self.header, unit=None), cells=cells)

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
class Condition:
    """The condition under which a column was measured: the sizes that its header states, and its words as a label."""

    sizes: StatedSizes
    label: str

    @property
    def words(self) -> frozenset[str]:
        """The words of the label, in lower case."""
        return frozenset(re.findall(r"[^\W_]+", self.label.lower()))

    def extends(self, other: Condition) -> bool:
        """Return whether this says all that the other says, and more."""
        own, less = self.sizes, other.sizes
        batch = not less.batch or (less.batch, less.batch_name) == (own.batch, own.batch_name)
        says_all = less.size in ("", own.size) and batch and other.words <= self.words
        return says_all and (own, self.words) != (less, other.words)


Groups = dict[Condition, dict[str, Column]]


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

    def column_of(self, text: str) -> Column | None:
        """Return the first column with this header."""
        return next((one for one in self.columns if one.header.text == text), None)

    def with_column(self, text: str, name: str, cells: Sequence[str]) -> Long:
        """Return the table with one more column."""
        return replace(self, columns=(*self.columns, column(text, name, cells)))

    def without(self, left_out: Iterable[Column]) -> list[Column]:
        """Return its other columns."""
        out = {*left_out}
        return [column for column in self.columns if column not in out]

    def guessing(self, *guesses: str) -> Long:
        """Return the table with more guesses."""
        return replace(self, guesses=(*self.guesses, *guesses))

    def take(self, rows: Sequence[int], common: Sequence[Column], more: Sequence[Column]) -> Long:
        """Return the table with these of its rows in its `common` columns, beside columns that have as many rows."""
        lines = tuple(self.lines[row] for row in rows)
        return replace(self, lines=lines, columns=(*(column.take(rows) for column in common), *more))

    def stack(self, groups: Groups, attributes: Mapping[Header, Sequence[str]], by_row: bool) -> Long:
        """Return the table with a row for each of its rows and groups, which have columns by name.

        attributes: what each group is, under a header; these columns stand before those of the groups.
        """
        parts = list(groups.values())
        rows = [(row, group) for group in range(len(parts)) for row in range(len(self.lines))]
        if by_row:
            rows.sort()
        at = tuple(next(iter(parts[group].values())).at[row] for row, group in rows)
        stacked = [Column(header, tuple(names[group] for _, group in rows), at) for header, names in attributes.items()]
        for name in dict.fromkeys(name for part in parts for name in part):
            columns = [part.get(name) for part in parts]
            if len({one.header.unit for one in columns if one}) > 1:
                columns = [one.in_units() if one else None for one in columns]
            first = next(one for one in columns if one)
            cells = tuple(one.cells[row] if (one := columns[group]) else "" for row, group in rows)
            texts = tuple((columns[group] or first).at[row] for row, group in rows)
            stacked.append(Column(replace(first.header, label="", sizes=StatedSizes()), cells, texts))
        common = self.without(one for part in parts for one in part.values())
        return self.take([row for row, _ in rows], common, stacked)


def tables(grid: Grid, overrides: Mapping[str, str]) -> list[Long]:
    """Return the tables of a grid, one row a point each. `overrides`: names of headers by COLUMNS."""
    return [_long(block, overrides) for block in blocks.blocks(grid, overrides)]


def joined(tables_of_file: Sequence[Long]) -> list[Long]:
    """Return tables; those of one number of ranks each that are alike in headers and title are joined."""
    together: dict[object, Long] = {}
    for number, table in enumerate(map(_with_title, tables_of_file)):
        alone = len({*_sizes(table)}) == 1
        title = re.sub(r"[\d单双]+|(?<=[a-z])s\b", "", table.title)
        key = (title, tuple(one.header for one in table.columns)) if alone else number
        before = together.get(key)
        together[key] = _below(before, table) if before else table
    return list(together.values())


def _with_title(table: Long) -> Long:
    """Return a table without numbers of ranks under a title that is one, as "On 4 cores", with it in each row."""
    title = table.title.rpartition(", ")[2]
    sizes, rest = headers.sizes_in(title)
    above = sizes.kind and not rest and not _sizes(table) and not table.names & {"ranks", "nodes"}
    return table.with_column(SECTION, "setting", [title] * len(table.lines)) if above else table


def _sizes(table: Long) -> list[int]:
    """Return the number of ranks, or of nodes, of each row: of a column of them, or of codes as "n1g8"; [] for none."""
    for one in table.columns:
        counts = [units.sizes_in(cell) or units.Sizes() for cell in one.cells]
        numbers_alone = all(re.fullmatch(r"\d+", cell) for cell in one.cells)
        named = one.header.name in ("ranks", "nodes", *(() if numbers_alone else ("", "gpu", "setting")))
        if named and all(size.ranks or size.nodes for size in counts):
            return [size.ranks or size.nodes for size in counts]
    return []


def _below(upper: Long, lower: Long) -> Long:
    """Return a table with the rows of both."""
    columns = tuple(
        Column(one.header, one.cells + other.cells, one.at + other.at)
        for one, other in zip(upper.columns, lower.columns, strict=True)
    )
    title = upper.title if upper.title == lower.title else upper.title.rpartition(", ")[0]
    lines, notes = upper.lines + lower.lines, upper.notes + lower.notes
    return replace(upper, title=title, lines=lines, columns=columns, notes=notes)


def _long(block: Block, overrides: Mapping[str, str]) -> Long:
    """Return a block as a table with one row a point."""
    columns: list[Column] = []
    for text, cells in zip(block.headers, zip(*block.rows, strict=True), strict=True):
        stated = [next(iter(headers.batches_in(cell).values()), "") for cell in cells]
        cells = tuple(stated) if "batch" in headers.read(text, overrides).name and all(stated) else cells  # "batch=32"
        columns += _parts(Column(_read(text, cells, overrides), cells, (text,) * len(cells)), overrides)
    columns += [column(SECTION, "setting", block.sections)] if any(block.sections) else []
    columns += [
        column(one.header.text, one.header.sizes.batch_name, [one.header.sizes.batch] * len(block.lines))
        for one in columns
        if one.header.sizes.batch and not any(map(numbers.has_value, one.cells))  # the names of rows
    ]
    table = Long(block.grid, block.title, tuple(block.lines), tuple(columns), tuple(block.notes))
    return _with_batch(_spread(_one_of_each(_by_cells(_across(_down(table), overrides), overrides)), overrides))


def _read(text: str, cells: Sequence[str], overrides: Mapping[str, str]) -> Header:
    """Return the meaning of a header above these cells, which can show that it is another."""
    kinds = column(text, "", cells).unit_kinds
    in_unit = (unit for unit in numbers.units_of(cells) if kinds - {"number"} == {unit.kind} <= {"rate", "time"})
    header = headers.read(text, overrides, next(in_unit, None))
    if header.overridden:
        return header
    if (kinds == {"other"} and header.name != "rate") or (kinds == {"share"} and header.name == "rate"):  # as GB
        return replace(header, name="", why="not about speed")
    unknown = replace(header, name="", why=_UNKNOWN, label=header.text)
    if header.name in ("ranks", "nodes") and not re.search(r"\d", "".join(cells)):
        return replace(header, name="setting")
    digits = {"n": 4, "nodes": 7}.get(header.name)
    if digits and any(re.fullmatch(rf"\d{{{digits},}}", cell.replace(",", "")) for cell in cells):
        return unknown  # a problem size
    if header.name == "repeat" and not any(map(numbers.has_value, cells)):
        return replace(header, name="setting")
    if header.why in _OF_NUMBERS and not any(map(numbers.has_value, cells)):
        return unknown
    if header.name == "rate" and kinds and kinds <= {"ratio"}:
        return replace(header, name="speedup")
    return header


def _parts(one: Column, overrides: Mapping[str, str]) -> list[Column]:
    """Return the parts of a column "name (a/b)" with cells "1/2", "name: a, b" with "1, 2", "a x b" with "1 x 2"."""
    labelled = [{label.strip(): value for value, label in _LABELLED.findall(cell)} for cell in one.cells]
    if all(labelled):  # "10@FP16, 4@TF32"
        return [
            Column(replace(one.header, label=label), tuple(values.get(label, "") for values in labelled), one.at)
            for label in dict.fromkeys(label for values in labelled for label in values)
        ]
    for separator, pattern in _SPLIT.items():
        match = re.fullmatch(pattern, one.header.text)
        labels = re.split(rf"\s*{separator}\s*", match[2]) if match else []
        split = [re.split(rf"\s*{separator}\s*", cell) for cell in one.cells]
        if match and all(len(cells) == len(labels) and all(map(numbers.has_value, cells)) for cells in split):
            base = headers.read(f"{match[1]} {match[3]}", overrides)
            texts = [f"{match[1]} {label} {match[3]}".strip() for label in labels]
            return [
                Column(replace(base, text=text, label=label), tuple(cells), one.at)
                for text, label, cells in zip(texts, labels, zip(*split, strict=True), strict=True)
            ]
    return _factors(one, overrides)


def _factors(one: Column, overrides: Mapping[str, str]) -> list[Column]:
    """Return a column "a x b" or "name (a*b)" with cells "1 x 2" or "x (1*2)" as a column for each part, if known."""
    header = re.fullmatch(r"(?:(.*?)\s*\()?([^()×*:]+?)\s*(?:\bx\b|[×*:])\s*([^()×*:]+?)\)?", one.header.text)
    factors = r"(?:(.*?)\s*\()?(\d+|\(\d+ ?[x×*] ?\d+\))\s*[x×*:]\s*(\d+)\)?"
    cells = [match.groups("") for cell in one.cells if (match := re.fullmatch(factors, cell))]
    if not header or one.header.overridden or len(cells) < len(one.cells):
        return [one]
    read = [headers.read(text, overrides) if text else None for text in header.groups()]
    names = {part.name for part in read[1:] if part}
    sizes = {"ranks", "nodes", "ranks_per_node", "batch", "batch_per_rank", "global_batch"}
    if not names & sizes or names == {"nodes", "ranks"}:  # the second is read with the sizes in words
        return [one]
    if {"ranks", "batch"} <= names:
        read = [replace(part, name="batch_per_rank") if part and part.name == "batch" else part for part in read]
    parts = zip(read, zip(*cells, strict=True), strict=True)
    return [Column(part, tuple(text.strip("()") for text in texts), one.at) for part, texts in parts if part]


def titles(table: Long) -> list[list[str]]:
    """Return, for each row, the names of its settings that stand beside or above the table, and its title."""
    settings = [one.cells for one in table.columns if one.header.text in (COLUMNS, SECTION)]
    return [[*texts, table.title] for texts in zip(*settings, strict=True)] or [[table.title]] * len(table.lines)


def _with_batch(table: Long) -> Long:
    """Return a table without batches with those that the names of its settings, or its title, state."""
    if any("batch" in name for name in table.names):
        return table
    own = [one.header.text for one in table.columns]
    texts_of_rows = [[*reversed([*own, *texts])] for texts in titles(table)]
    stated = [dict(pair for text in texts for pair in headers.batches_in(text).items()) for texts in texts_of_rows]
    for name in dict.fromkeys(name for one in stated for name in one):
        if all(name in one for one in stated):
            text = "batch size in titles" if name == "batch" else f"{name} in titles"
            table = table.with_column(text, name, [one[name] for one in stated])
    return table


def _down(table: Long) -> Long:
    """Return a table in which the blank cells of merged columns have the value above them."""
    columns, guesses = [], []
    names = [one.header.name or (CELLS if one.header.sizes.size else "") for one in table.columns]
    measured = next((at for at, name in enumerate(names) if name and name not in _KEYS), len(names))
    blank = [{row for row, cell in enumerate(one.cells) if not cell} for one in table.columns]
    for at, one in enumerate(table.columns):
        named = names[at] in _KEYS - {"ranks", *headers.COUNTS} or (not names[at] and blank[at] <= blank[0])
        merged = at < measured and named
        if merged and one.cells and one.cells[0] and "" in one.cells:
            one = replace(one, cells=tuple(accumulate(one.cells, lambda above, cell: cell or above)))
            guesses.append(f"'{one.header.text}': blank cells have the value above them (merged)")
        columns.append(one)
    return replace(table, columns=tuple(columns)).guessing(*guesses)


def _across(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table in which headers keep the sizes that they state only if several state numbers of ranks."""
    own = [one for one in table.columns if one.header.text != SECTION]
    sized = [one for one in own if one.header.sizes.size]
    if any(one.header.name in _MEASURED for one in sized):  # a column with another label holds no measurement of a size
        sized = [one for one in sized if one.header.name or not one.header.label]
    with_unit = any(one.header.sizes.kind for one in sized)
    rows = [one for one in own[0 if with_unit else 1 :] if one.header.name == "ranks"]
    stronger = any(headers.strength(one.header.text) < headers.strength(sized[0].header.text) for one in rows if sized)
    alone = not with_unit and len(sized) < len(own) - 1
    if len({one.header.sizes.size for one in sized}) < 2 or alone or stronger:
        return replace(table, columns=tuple(_without_size(one) for one in table.columns))
    first = own.index(sized[0])
    kind = own[0].header.name if own[0].header.name in ("ranks", "nodes") else "ranks"
    columns = []
    for at, one in enumerate(table.columns):
        one = one if one in sized else _without_size(one)
        header = one.header
        if header.sizes.size and not header.name and header.why in ("", _UNKNOWN):
            sizes = replace(header.sizes, kind=header.sizes.kind or kind)
            one = replace(one, header=replace(header, text=CELLS, name=overrides.get("cells", ""), why="", sizes=sizes))
        numeric = any(map(numbers.has_value, one.cells))
        quantity = header.name in _MEASURED or header.why == headers.TIME_OF  # of the cells
        names_rows = at < first and (header.why == _UNKNOWN or (quantity and not numeric))
        if header.name in ("ranks", "nodes") or names_rows:
            cells = tuple(f"{header.text} {cell}" if numeric and cell else cell for cell in one.cells)
            one = replace(one.named("setting"), cells=cells)
        columns.append(one)
    return replace(table, columns=tuple(columns))


def _without_size(one: Column) -> Column:
    """Return a column whose header states no size; one that said nothing else has it as its label."""
    header = one.header
    if not header.sizes.size:
        return one
    if not header.name and not header.why:
        header = headers.read(header.text, sized=False)
        header = replace(header, label=header.text) if header.why == _UNKNOWN else header
    return replace(one, header=replace(header, sizes=replace(header.sizes, size="", kind="")))


def _by_cells(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table whose columns that are named after settings have names by their units, else by the title."""
    sizes = _sizes(table)
    if table.column_of(CELLS) or not (sizes or table.names & {"ranks", "nodes"}):
        return table
    whole = [one for one in table.columns if one.header.name in ("wall_s", "job_s") and _WHOLE.search(one.header.text)]
    table = replace(table, columns=tuple(_part_of(one, whole) for one in table.columns))
    times = any(one.header.why == headers.TIME_OF for one in table.columns)
    if not (times or table.names & (_MEASURED - _BESIDE)):
        table = _with_substitute(table)
    numeric = [
        one
        for one in table.columns
        if not one.header.name and one.header.why in (_UNKNOWN, headers.TIME_OF)
        if all(numbers.is_number(cell) for cell in one.cells if cell) and any(map(numbers.has_value, one.cells))
    ]
    in_units = [one for one in numeric if one.header.why == headers.TIME_OF or one.unit_kinds & {"rate", "time"}]
    measured = [one for one in table.columns if one.header.name in _MEASURED - _BESIDE]
    if not all(one.header.label for one in measured):  # times beside a whole one are parts of it
        numeric = []
    elif measured or in_units:  # one without a unit is a rate, as one beside it that has about the same number
        stated = [one for one in measured if one.unit_kinds >= {"rate"}]
        plain = [one for one in numeric if one.unit_kinds == {"number"}]
        alike = [one for one in plain if any(_ratio(one, other) < 10 for other in stated)]
        numeric = [one for one in numeric if one in in_units or one in alike]
    elif table.names & _MEASURED or not (
        "cells" in overrides
        or any(map(_quantity_in, [table.title, table.grid.above]))
        or _scale_alike(table, numeric, sizes)
    ):
        numeric = []
    if not numeric:
        return table
    columns = []
    for one in table.columns:
        if one in numeric:
            text = one.header.label if one.header.why == headers.TIME_OF else one.header.text
            label = text if len(numeric) > 1 or measured else ""
            one = replace(one, header=replace(one.header, name=overrides.get("cells", ""), label=label))
            one, guess = _cells_named([table.title, table.grid.above], sizes, one)
            table = table.guessing(*(text for text in guess if text not in table.guesses))
        columns.append(one)
    return replace(table, columns=tuple(columns))


def _part_of(one: Column, wholes: Sequence[Column]) -> Column:
    """Return a column as not used, if it is a time of something beside that of the whole, and never longer."""
    labelled = one.header.name == "wall_s" and one.header.label and one not in wholes
    if not wholes or one.header.overridden or not (labelled or one.header.why == headers.TIME_OF):
        return one
    part, whole = (numbers.values(column.in_units().cells) for column in (one, wholes[0]))
    longer = labelled and any(map(operator.gt, part, whole))
    return one if longer else one.named("", "a part of the time")


def _ratio(one: Column, other: Column) -> float:
    """Return by which factor the first numbers of two columns differ, if both have one."""
    a, b = (numbers.values(column.cells[:1])[0] for column in (one, other))
    return max(a / b, b / a) if a > 0 < b else math.inf


def _with_substitute(table: Long) -> Long:
    """Return a table in which nothing is measured with its one latency as step time, else bytes or FLOP as rates."""
    for pattern, name in (("latency", "step_s"), (r"\b[kmgtp]?(?:i?b(?:ytes)?/s|flops?\b)", "rate")):
        columns = [
            one
            for one in table.columns
            if re.search(pattern, one.header.text, re.I) and one.header.why not in ("", _UNKNOWN)
            if "share" not in one.unit_kinds
        ]
        if columns and (name == "rate" or len(columns) == 1):
            guess = f"{', '.join(repr(one.header.text) for one in columns)}: {name}, for nothing else is measured"
            texts = [re.sub(pattern, name, one.header.text, flags=re.I) for one in columns]  # "rate/GPU"
            named = [one.named(headers.read(text).name or name) for one, text in zip(columns, texts, strict=True)]
            return replace(table, columns=(*table.without(columns), *named)).guessing(guess)
    return table


def _scale_alike(table: Long, numeric: Sequence[Column], sizes: Sequence[int]) -> bool:
    """Return whether all of several columns grow with the numbers of ranks nearly as these do, from row to row."""
    if len(numeric) < 2 or len({*sizes}) < 3 or len(numeric) < len(table.columns) - 2 or sizes != sorted(sizes):
        return False
    for one in numeric:
        values = numbers.values(one.cells)
        grow = all(value > 0 for value in values) and values == sorted(values)
        if not grow or not _LEAST < math.log(values[-1] / values[0], sizes[-1] / sizes[0]) < _MOST:
            return False
    return True


def _spread(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table with a row for each condition that its headers state: a number of ranks, a batch, a label."""
    conditions = _conditions(table)
    groups = _groups(conditions)
    if len(groups) < 2:
        return table
    by_size = any(condition.sizes.size for condition in groups)
    if by_size and len({condition.sizes.size for condition in groups}) == len(groups):  # words tell no curves apart
        groups = {replace(condition, label=""): columns for condition, columns in groups.items()}
    labels = [condition.label for condition in groups]
    attributes = {}
    if by_size:
        kind = next((condition.sizes.kind for condition in groups if condition.sizes.kind), "ranks")
        attributes[Header(ACROSS, kind)] = [condition.sizes.size for condition in groups]
    if batches := {condition.sizes.batch_name for condition in groups if condition.sizes.batch}:
        attributes[Header(_BATCHES, batches.pop())] = [condition.sizes.batch for condition in groups]
    runs = [_RUN.fullmatch(label) for label in labels]
    if all(runs):
        attributes[Header(COLUMNS, "repeat")] = [run[1] for run in runs if run]
        table = table.guessing("repeats in columns")
    elif len({*labels}) > 1:
        attributes[Header(COLUMNS, "setting")] = labels
        shown = dict.fromkeys(label or "no label" for label in labels)
        table = table.guessing(f"a curve for each of: {', '.join(shown)}")
    long = table.stack(groups, attributes, by_size)
    return _by_quantity(long, overrides) if long.column_of(CELLS) else long


def _one_of_each(table: Long) -> Long:
    """Return a table with one column of each quantity and label; of several units, that with most digits.

    Times of a serial program beside others, least and largest ones, and single runs beside their mean are not used.
    """
    texts = {one.header.text.lower() for one in table.columns}
    means = {one.header.name for one in table.columns if _MEAN.search(one.header.text)}
    unused: dict[Column, str] = {}
    alike: dict[object, list[Column]] = defaultdict(list)
    for one in table.columns:
        header, text = one.header, one.header.text.lower()
        other_end = re.sub("min|max", lambda end: "max" if end[0] == "min" else "min", text)
        others = {other.header.name for other in table.columns if other is not one}
        if header.overridden:
            continue
        if other_end in texts - {text} and header.name not in ("low", "high"):
            unused[one] = "scatter"
        elif header.name in others & _MEASURED and re.search(r"serial|sequential|^seq$", header.label, re.I):
            unused[one] = "of a serial program"
        elif header.name in means and _RUN.fullmatch(header.label):
            unused[one] = "a single run"
        elif header.name in _MEASURED or "batch" in header.name:
            alike[header.name, header.label.lower(), header.sizes].append(one)
    for columns in alike.values():
        several_units = 1 < len(columns) == len({one.header.unit and one.header.unit.work for one in columns})
        digits = several_units and "batch" not in columns[0].header.name
        best = max(columns, key=lambda one: sum(map(len, one.cells))) if digits else columns[0]
        if several_units or best.header.label:
            why = "the same in another unit" if several_units else "given twice"
            unused |= {one: why for one in columns if one is not best}
    columns = [one.named("", unused[one]) if one in unused else one for one in table.columns]
    return replace(table, columns=tuple(columns))


def _conditions(table: Long) -> list[tuple[Column, Condition]]:
    """Return what is measured, and what else is labelled alike, each column with its condition."""
    spelling: dict[str, str] = {}  # labels that differ in case alone are one
    labels = {one.header.label.lower() for one in table.columns if one.header.name in _MEASURED}
    if "mixed precision" in labels and "fp16" not in labels:
        spelling["fp16"] = "mixed precision"
    measured, others = [], []
    for one in table.columns:
        header = one.header
        condition = Condition(header.sizes, spelling.setdefault(header.label.lower(), header.label))
        if header.name in _MEASURED or header.text == CELLS:
            measured.append((one, condition))
        elif header.name in _WITH_LABELS and condition.words:
            others.append((one, condition))
    labelled = [condition.words for _, condition in measured]
    return [*measured, *(pair for pair in others if any(pair[1].words <= words for words in labelled))]


def _groups(conditions: Sequence[tuple[Column, Condition]]) -> Groups:
    """Return the columns of each condition by name; one whose header says less belongs to the condition that says more.

    A ratio whose header states no size is that of the largest. A column that fits several conditions, and is of no
    quantity that they have, is in none: it is common to all.
    """
    most = [condition for _, condition in conditions if not any(other.extends(condition) for _, other in conditions)]
    groups: Groups = {condition: {} for condition in most}
    for one, condition in sorted(conditions, key=lambda pair: pair[1] not in groups):
        name = one.header.name or CELLS
        targets = [target for target in groups if target == condition or target.extends(condition)]
        if name in _RATIOS and len({target.sizes.size for target in targets}) > 1:
            largest = max(targets, key=lambda target: _count(target.sizes.size))
            targets = [target for target in targets if target.sizes.size == largest.sizes.size]
        taken = any(name in groups[target] for target in targets)
        if len(targets) == 1 and not taken:
            groups[targets[0]][name] = one
        elif taken and condition not in groups and name not in _RATIOS:
            groups.setdefault(condition, {}).setdefault(name, one)
    return {condition: columns for condition, columns in groups.items() if columns}


def _count(size: str) -> int:
    """Return the number of ranks in "4" or "2 x 4"."""
    return math.prod(map(int, re.findall(r"\d+", size)))


def _by_quantity(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table with ranks across under its quantities: those down one of its columns, or the one of all cells."""
    sizes, cells = table.column_of(ACROSS), table.column_of(CELLS)
    assert sizes is not None
    assert cells is not None
    for one in table.columns[: table.columns.index(sizes)]:
        no_names = one.header.name not in ("", "setting", "model") or any(map(numbers.has_value, one.cells))
        if no_names or cells.header.name:
            continue
        read = {text: headers.read(text, overrides) for text in dict.fromkeys(one.cells)}
        read = {text: header for text, header in read.items() if text}
        one_kind = len(cells.unit_kinds) == 1 and cells.unit_kinds <= {*_BY_UNIT}
        # A row "training" of rates has no times.
        fits = _BY_UNIT_OR[_BY_UNIT[min(cells.unit_kinds)]] if one_kind else ""
        known = [header for header in read.values() if header.name not in headers.TEXT and header.why != _UNKNOWN]
        known = [header for header in known if header.name.startswith(fits)]
        other = [header for header in read.values() if not header.name and header.why == _UNKNOWN]
        mixed = len(cells.unit_kinds - {"number", "count", "other"}) > 1
        keys = [*zip(*(column.cells for column in table.without([one, cells])), strict=True)]
        named = any(header.name in _MEASURED for header in known) and (mixed or len(known) > len(other))
        if named and (len({*keys}) < len(keys) or len(read) == 1):
            return _pivoted(table, one, cells, read)
    corner = (one.header.text for one in table.columns if not any(map(numbers.has_value, one.cells)))
    texts = [*corner, table.title, table.grid.above]
    named_cells, guess = _cells_named([text for text in texts if text != CELLS], [*map(_count, sizes.cells)], cells)
    columns = tuple(named_cells if one is cells else one for one in table.columns)
    return replace(table, columns=columns).guessing(*guess)


def _pivoted(table: Long, quantities: Column, values: Column, read: Mapping[str, Header]) -> Long:
    """Return a table with a column for each of the quantities that stand in a column beside their values."""
    ratios = [one for one in table.columns if one.header.name in _RATIOS]
    others = table.without([quantities, values, *ratios])
    points: dict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
    for row, text in enumerate(quantities.cells):
        points[tuple(one.cells[row] for one in others)].setdefault(text, row)
    columns = []
    for text, header in read.items():
        cells = tuple(values.cells[rows[text]] if text in rows else "" for rows in points.values())
        columns.append(Column(header, cells, (text,) * len(points)))
    names = {header.name for header in read.values()}
    for one in (ratio for ratio in ratios if ratio.header.name not in names):
        filled = [[one.cells[row] for row in rows.values() if one.cells[row]] for rows in points.values()]
        columns.append(Column(one.header, tuple(next(iter(cells), "") for cells in filled), one.at[: len(points)]))
    return table.take([next(iter(rows.values())) for rows in points.values()], others, columns)


# What cells without a header are by their unit, and what else a title may call them.
_BY_UNIT = {"time": "wall_s", "rate": "rate", "ratio": "speedup", "share": "efficiency"}
_BY_UNIT_OR = {
    "wall_s": ("wall_s", "job_s", "epoch_s", "step_s", "init_s"), "rate": ("rate", "images", "steps", "epochs"),
    "speedup": ("speedup",), "efficiency": ("efficiency",),
}  # fmt: skip


def _cells_named(texts: Sequence[str], sizes: Sequence[int], cells: Column) -> tuple[Column, tuple[str, ...]]:
    """Return cells without a header under one, and the guess: by these texts, else by how they change with sizes."""
    if cells.header.name:
        return cells, ()
    stated: set[str] = {cells.header.unit.kind} if cells.header.unit else set()
    kinds = stated & {*_BY_UNIT} or cells.unit_kinds & {*_BY_UNIT}
    by_unit = _BY_UNIT[min(kinds)] if len(kinds) == 1 else ""
    points = [pair for pair in zip(sizes, numbers.values(cells.cells), strict=False) if math.isfinite(pair[1])]
    too_large = any(value > 3 * max(sizes) for _, value in points)  # for speedups
    for text in texts:
        header = headers.read(text)
        header = replace(header, name="wall_s") if header.why == headers.TIME_OF else header
        named = header.name in _MEASURED - {"scaling"} and len(text.split()) <= _TITLE
        quantity = header if named else _quantity_in(text)
        if quantity and quantity.name == "speedup" and too_large and not by_unit:
            continue
        if quantity and (not by_unit or quantity.name.startswith(_BY_UNIT_OR[by_unit])):
            unit = cells.header.unit if kinds and cells.header.unit else quantity.unit
            header = replace(cells.header, name=quantity.name, unit=unit, why="")
            quoted = text if len(text) < 80 else quantity.text
            return replace(cells, header=header), (f"the cells are {quantity.name}, by '{quoted}' above",)
    if by_unit:
        return cells.named(by_unit), (f"the cells are {by_unit}, by their unit",)
    grow = [after > before for (small, before), (large, after) in pairwise(points) if large > small]
    balance = 2 * sum(grow) - len(grow)
    if 3 * abs(balance) <= len(grow):  # neither grow nor fall
        return cells, ()
    name, kind = ("rate", "rates, for they grow") if balance > 0 else ("wall_s", "times, for they fall")
    return cells.named(name), (f'the cells are {kind} with the ranks; if not, COLUMNS="cells=NAME"',)


def _quantity_in(text: str) -> Header | None:
    """Return the quantity that a title names; None for none."""
    rate = r"(?:images?|imgs?|samples?|examples?|tok(?:en)?s?)\s*(?:/|per) ?(?:s(?:ec\w*)?\b)"
    time = r"(?:training|epoch|step|wall|execution|run) ?time|time per \w+"
    phrases = re.findall(rf"(?i){rate}|throughput|speed-?ups?|efficiency|{time}", text)
    return next((header for phrase in phrases if (header := headers.read(phrase)).name in _MEASURED), None)
