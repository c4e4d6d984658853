"""The shape of a table: its columns with one row for each point, also if headers state conditions of the points.

A header can state the quantity, its unit, and the condition: on 4 GPUs, with a batch of 32, with TF32. Columns of
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
_WITH_WHOLE_TIMES = {*_RATIOS, "init_s", "low", "high"}  # a table with these can still have times of the whole
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
_NUMERIC_REASONS = ("accuracy", "not about speed", "a part of the time", "scatter", "a difference")
_TITLE = 8  # the most words of a title that as a whole may be a quantity
_LEAST_POWER, _MOST_POWER = 0.5, 1.1  # powers of the ranks with which rates of whole jobs grow


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table with a row a point: its header, its cells, and the header in the file of each cell."""

    header: Header
    cells: tuple[str, ...]
    at: tuple[str, ...]

    @property
    def unit_kinds(self) -> set[str]:
        """Return the kinds of the units of its cells that are numbers; bytes per second are of another kind."""
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


def new_column(text: str, name: str, cells: Sequence[str], at: Sequence[str] = ()) -> Column:
    """Return a column of these cells; `at`: the headers in the file, if they differ from cell to cell."""
    return Column(Header(text, name), tuple(cells), tuple(at) or (text,) * len(cells))


@dataclass(frozen=True)
class Condition:
    """The condition under which a column was measured: the sizes that its header states, and its words as a label."""

    sizes: StatedSizes
    label: str

    @property
    def words(self) -> frozenset[str]:
        """Return the words of the label, in lower case."""
        return frozenset(re.findall(r"[^\W_]+", self.label.lower()))

    def extends(self, other: Condition) -> bool:
        """Return whether this states all that the other states, and more."""
        sizes, fewer = self.sizes, other.sizes
        batch = not fewer.batch or (fewer.batch, fewer.batch_name) == (sizes.batch, sizes.batch_name)
        states_all = fewer.size in ("", sizes.size) and batch and other.words <= self.words
        return states_all and (sizes, self.words) != (fewer, other.words)


Groups = dict[Condition, dict[str, Column]]


@dataclass(frozen=True)
class Long:
    """A table with one row a point. lines: those of the file. notes: on omitted rows. guesses: about its shape."""

    grid: Grid
    title: str
    lines: tuple[int, ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """Return the names of its columns."""
        return {column.header.name for column in self.columns}

    def column_of(self, text: str) -> Column | None:
        """Return the first column with this header."""
        return next((column for column in self.columns if column.header.text == text), None)

    def with_column(self, text: str, name: str, cells: Sequence[str]) -> Long:
        """Return the table with one more column."""
        return replace(self, columns=(*self.columns, new_column(text, name, cells)))

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

        attributes: under a header, the value of each group; these columns come before those of the groups.
        """
        parts = list(groups.values())
        rows = [(row, group) for group in range(len(parts)) for row in range(len(self.lines))]
        if by_row:
            rows.sort()
        at = tuple(next(iter(parts[group].values())).at[row] for row, group in rows)
        stacked = [Column(header, tuple(names[group] for _, group in rows), at) for header, names in attributes.items()]
        for name in dict.fromkeys(name for part in parts for name in part):
            columns = [part.get(name) for part in parts]
            if len({column.header.unit for column in columns if column}) > 1:
                columns = [column.in_units() if column else None for column in columns]
            first = next(column for column in columns if column)
            cells = tuple(column.cells[row] if (column := columns[group]) else "" for row, group in rows)
            texts = tuple((columns[group] or first).at[row] for row, group in rows)
            stacked.append(Column(replace(first.header, label="", sizes=StatedSizes()), cells, texts))
        common = self.without(column for part in parts for column in part.values())
        return self.take([row for row, _ in rows], common, stacked)


def tables(grid: Grid, overrides: Mapping[str, str]) -> list[Long]:
    """Return the tables of a grid, one row a point each. `overrides`: names of headers by COLUMNS."""
    return [_long(block, overrides) for block in blocks.blocks(grid, overrides)]


def joined(tables_of_file: Sequence[Long]) -> list[Long]:
    """Return tables, with those joined that have one number of ranks each, and the same headers and title."""
    together: dict[object, Long] = {}
    for number, table in enumerate(map(_with_title, tables_of_file)):
        alone = len({*_sizes(table)}) == 1
        title = re.sub(r"[\d单双]+|(?<=[a-z])s\b", "", table.title)
        key = (title, tuple(column.header for column in table.columns)) if alone else number
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
    """Return the number of ranks, or of nodes, of each row, from a column of counts or of codes as "n1g8", else []."""
    for column in table.columns:
        counts = [units.sizes_in(cell) or units.Sizes() for cell in column.cells]
        numbers_alone = all(re.fullmatch(r"\d+", cell) for cell in column.cells)
        named = column.header.name in ("ranks", "nodes", *(() if numbers_alone else ("", "gpu", "setting")))
        if named and all(size.ranks or size.nodes for size in counts):
            return [size.ranks or size.nodes for size in counts]
    return []


def _below(upper: Long, lower: Long) -> Long:
    columns = tuple(
        Column(first.header, first.cells + second.cells, first.at + second.at)
        for first, second in zip(upper.columns, lower.columns, strict=True)
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
    columns += [new_column(SECTION, "setting", block.sections)] if any(block.sections) else []
    columns += [
        new_column(column.header.text, column.header.sizes.batch_name, [column.header.sizes.batch] * len(block.lines))
        for column in columns
        if column.header.sizes.batch and not any(map(numbers.has_value, column.cells))  # the names of rows
    ]
    table = Long(block.grid, block.title, tuple(block.lines), tuple(columns), tuple(block.notes))
    return _with_batch(_spread(_one_of_each(_by_cells(_across(_down(table), overrides), overrides)), overrides))


def _read(text: str, cells: Sequence[str], overrides: Mapping[str, str]) -> Header:
    """Return the meaning of a header above these cells, which can change the meaning."""
    kinds = new_column(text, "", cells).unit_kinds
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
    if header.why in _NUMERIC_REASONS and not any(map(numbers.has_value, cells)):
        return unknown
    if header.name == "rate" and kinds and kinds <= {"ratio"}:
        return replace(header, name="speedup")
    return header


def _parts(column: Column, overrides: Mapping[str, str]) -> list[Column]:
    """Return the parts of a column "name (a/b)" with cells "1/2", "name: a, b" with "1, 2", "a x b" with "1 x 2"."""
    labelled = [{label.strip(): value for value, label in _LABELLED.findall(cell)} for cell in column.cells]
    if all(labelled):  # "10@FP16, 4@TF32"
        return [
            Column(replace(column.header, label=label), tuple(values.get(label, "") for values in labelled), column.at)
            for label in dict.fromkeys(label for values in labelled for label in values)
        ]
    for separator, pattern in _SPLIT.items():
        match = re.fullmatch(pattern, column.header.text)
        labels = re.split(rf"\s*{separator}\s*", match[2]) if match else []
        split = [re.split(rf"\s*{separator}\s*", cell) for cell in column.cells]
        if match and all(len(cells) == len(labels) and all(map(numbers.has_value, cells)) for cells in split):
            base = headers.read(f"{match[1]} {match[3]}", overrides)
            texts = [f"{match[1]} {label} {match[3]}".strip() for label in labels]
            return [
                Column(replace(base, text=text, label=label), tuple(cells), column.at)
                for text, label, cells in zip(texts, labels, zip(*split, strict=True), strict=True)
            ]
    return _factors(column, overrides)


def _factors(column: Column, overrides: Mapping[str, str]) -> list[Column]:
    """Return a column "a x b" or "name (a*b)" with cells "1 x 2" or "x (1*2)" as a column for each part, if known."""
    header = re.fullmatch(r"(?:(.*?)\s*\()?([^()×*:]+?)\s*(?:\bx\b|[×*:])\s*([^()×*:]+?)\)?", column.header.text)
    factors = r"(?:(.*?)\s*\()?(\d+|\(\d+ ?[x×*] ?\d+\))\s*[x×*:]\s*(\d+)\)?"
    cells = [match.groups("") for cell in column.cells if (match := re.fullmatch(factors, cell))]
    if not header or column.header.overridden or len(cells) < len(column.cells):
        return [column]
    read = [headers.read(text, overrides) if text else None for text in header.groups()]
    names = {part.name for part in read[1:] if part}
    sizes = {"ranks", "nodes", "ranks_per_node", "batch", "batch_per_rank", "global_batch"}
    if not names & sizes or names == {"nodes", "ranks"}:  # the second is read with the sizes in words
        return [column]
    if {"ranks", "batch"} <= names:
        read = [replace(part, name="batch_per_rank") if part and part.name == "batch" else part for part in read]
    parts = zip(read, zip(*cells, strict=True), strict=True)
    return [Column(part, tuple(text.strip("()") for text in texts), column.at) for part, texts in parts if part]


def titles(table: Long) -> list[list[str]]:
    """Return, for each row, the names of its settings from beside or above the table, and the title."""
    settings = [column.cells for column in table.columns if column.header.text in (COLUMNS, SECTION)]
    return [[*texts, table.title] for texts in zip(*settings, strict=True)] or [[table.title]] * len(table.lines)


def _with_batch(table: Long) -> Long:
    """Return a table without batches with those that the names of its settings, or its title, state."""
    if any("batch" in name for name in table.names):
        return table
    header_texts = [column.header.text for column in table.columns]
    texts_by_row = [[*reversed([*header_texts, *texts])] for texts in titles(table)]
    stated = [dict(pair for text in texts for pair in headers.batches_in(text).items()) for texts in texts_by_row]
    for name in dict.fromkeys(name for batches in stated for name in batches):
        if all(name in batches for batches in stated):
            text = "batch size in titles" if name == "batch" else f"{name} in titles"
            table = table.with_column(text, name, [batches[name] for batches in stated])
    return table


def _down(table: Long) -> Long:
    """Return a table in which the blank cells of merged columns have the value above them."""
    columns, guesses = [], []
    names = [column.header.name or (CELLS if column.header.sizes.size else "") for column in table.columns]
    measured = next((at for at, name in enumerate(names) if name and name not in _KEYS), len(names))
    blank = [{row for row, cell in enumerate(column.cells) if not cell} for column in table.columns]
    for at, column in enumerate(table.columns):
        named = names[at] in _KEYS - {"ranks", *headers.COUNTS} or (not names[at] and blank[at] <= blank[0])
        merged = at < measured and named
        if merged and column.cells and column.cells[0] and "" in column.cells:
            column = replace(column, cells=tuple(accumulate(column.cells, lambda above, cell: cell or above)))
            guesses.append(f"'{column.header.text}': blank cells have the value above them (merged)")
        columns.append(column)
    return replace(table, columns=tuple(columns)).guessing(*guesses)


def _across(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table in which headers keep the sizes that they state only if several state numbers of ranks."""
    candidates = [column for column in table.columns if column.header.text != SECTION]
    sized = [column for column in candidates if column.header.sizes.size]
    if any(column.header.name in _MEASURED for column in sized):  # a column with another label has no size
        sized = [column for column in sized if column.header.name or not column.header.label]
    with_unit = any(column.header.sizes.kind for column in sized)
    rows = [column for column in candidates[0 if with_unit else 1 :] if column.header.name == "ranks"]
    strengths = [headers.strength(column.header.text) for column in (*sized[:1], *rows)]
    stronger = bool(sized) and any(strength < strengths[0] for strength in strengths[1:])
    alone = not with_unit and len(sized) < len(candidates) - 1
    if len({column.header.sizes.size for column in sized}) < 2 or alone or stronger:
        return replace(table, columns=tuple(_without_size(column) for column in table.columns))
    first = candidates.index(sized[0])
    kind = candidates[0].header.name if candidates[0].header.name in ("ranks", "nodes") else "ranks"
    columns = []
    for at, column in enumerate(table.columns):
        column = column if column in sized else _without_size(column)
        header = column.header
        if header.sizes.size and not header.name and header.why in ("", _UNKNOWN):
            sizes = replace(header.sizes, kind=header.sizes.kind or kind)
            cells_header = replace(header, text=CELLS, name=overrides.get("cells", ""), why="", sizes=sizes)
            column = replace(column, header=cells_header)
        numeric = any(map(numbers.has_value, column.cells))
        quantity = header.name in _MEASURED or header.why == headers.UNKNOWN_TIME  # of the cells
        names_rows = at < first and (header.why == _UNKNOWN or (quantity and not numeric))
        if header.name in ("ranks", "nodes") or names_rows:
            cells = tuple(f"{header.text} {cell}" if numeric and cell else cell for cell in column.cells)
            column = replace(column.named("setting"), cells=cells)
        columns.append(column)
    return replace(table, columns=tuple(columns))


def _without_size(column: Column) -> Column:
    """Return a column without the size in its header, which is its label if the header has no other words."""
    header = column.header
    if not header.sizes.size:
        return column
    if not header.name and not header.why:
        header = headers.read(header.text, sized=False)
        header = replace(header, label=header.text) if header.why == _UNKNOWN else header
    return replace(column, header=replace(header, sizes=replace(header.sizes, size="", kind="")))


def _by_cells(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table with columns under names of settings renamed by their units, else by the title."""
    sizes = _sizes(table)
    if table.column_of(CELLS) or not (sizes or table.names & {"ranks", "nodes"}):
        return table
    times = [column for column in table.columns if column.header.name in ("wall_s", "job_s")]
    whole = [column for column in times if _WHOLE.search(column.header.text)]
    table = replace(table, columns=tuple(_part_of(column, whole) for column in table.columns))
    unknown_times = [column for column in table.columns if column.header.why == headers.UNKNOWN_TIME]
    if not (unknown_times or table.names & (_MEASURED - _WITH_WHOLE_TIMES)):
        table = _with_substitute(table)
    numeric = [
        column
        for column in table.columns
        if not column.header.name and column.header.why in (_UNKNOWN, headers.UNKNOWN_TIME)
        if all(numbers.is_number(cell) for cell in column.cells if cell) and any(map(numbers.has_value, column.cells))
    ]
    in_units = [column for column in numeric if column in unknown_times or column.unit_kinds & {"rate", "time"}]
    measured = [column for column in table.columns if column.header.name in _MEASURED - _WITH_WHOLE_TIMES]
    if not all(column.header.label for column in measured):  # times beside a whole one are parts of it
        numeric = []
    elif measured or in_units:  # one without a unit is a rate, as one beside it that has about the same number
        stated = [column for column in measured if column.unit_kinds >= {"rate"}]
        plain = [column for column in numeric if column.unit_kinds == {"number"}]
        alike = [column for column in plain if any(_ratio(column, other) < 10 for other in stated)]
        numeric = [column for column in numeric if column in in_units or column in alike]
    elif table.names & _MEASURED or not (
        "cells" in overrides
        or any(map(_quantity_in, [table.title, table.grid.above]))
        or _scale_alike(table, numeric, sizes)
    ):
        numeric = []
    if not numeric:
        return table
    columns = []
    for column in table.columns:
        if column in numeric:
            text = column.header.label if column.header.why == headers.UNKNOWN_TIME else column.header.text
            label = text if len(numeric) > 1 or measured else ""
            column = replace(column, header=replace(column.header, name=overrides.get("cells", ""), label=label))
            column, guess = _cells_named([table.title, table.grid.above], sizes, column)
            table = table.guessing(*(text for text in guess if text not in table.guesses))
        columns.append(column)
    return replace(table, columns=tuple(columns))


def _part_of(column: Column, wholes: Sequence[Column]) -> Column:
    """Return a column as not used, if it is a time of something beside that of the whole, and never longer."""
    labelled = column.header.name == "wall_s" and column.header.label and column not in wholes
    if not wholes or column.header.overridden or not (labelled or column.header.why == headers.UNKNOWN_TIME):
        return column
    part, whole = (numbers.values(times.in_units().cells) for times in (column, wholes[0]))
    longer = labelled and any(map(operator.gt, part, whole))
    return column if longer else column.named("", "a part of the time")


def _ratio(first: Column, second: Column) -> float:
    """Return by which factor the first numbers of two columns differ, if both have one."""
    a, b = (numbers.values(column.cells[:1])[0] for column in (first, second))
    return max(a / b, b / a) if a > 0 < b else math.inf


def _with_substitute(table: Long) -> Long:
    """Return a table without a measurement with its one latency as step time, else with bytes or FLOP as rates."""
    for pattern, name in (("latency", "step_s"), (r"\b[kmgtp]?(?:i?b(?:ytes)?/s|flops?\b)", "rate")):
        columns = [
            column
            for column in table.columns
            if re.search(pattern, column.header.text, re.I) and column.header.why not in ("", _UNKNOWN)
            if "share" not in column.unit_kinds
        ]
        if columns and (name == "rate" or len(columns) == 1):
            guess = f"{', '.join(repr(column.header.text) for column in columns)}: {name}, for nothing else is measured"
            texts = [re.sub(pattern, name, column.header.text, flags=re.I) for column in columns]  # "rate/GPU"
            named = [column.named(headers.read(text).name or name) for column, text in zip(columns, texts, strict=True)]
            return replace(table, columns=(*table.without(columns), *named)).guessing(guess)
    return table


def _scale_alike(table: Long, numeric: Sequence[Column], sizes: Sequence[int]) -> bool:
    """Return whether all of several columns grow with the numbers of ranks nearly as these do, from row to row."""
    if len(numeric) < 2 or len({*sizes}) < 3 or len(numeric) < len(table.columns) - 2 or sizes != sorted(sizes):
        return False
    for column in numeric:
        values = numbers.values(column.cells)
        grow = all(value > 0 for value in values) and values == sorted(values)
        if not grow or not _LEAST_POWER < math.log(values[-1] / values[0], sizes[-1] / sizes[0]) < _MOST_POWER:
            return False
    return True


def _spread(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table with a row for each condition that its headers state: a number of ranks, a batch, a label."""
    conditions = _conditions(table)
    groups = _groups(conditions)
    if len(groups) < 2:
        return table
    by_size = any(condition.sizes.size for condition in groups)
    if by_size and len({condition.sizes.size for condition in groups}) == len(groups):  # words distinguish no curves
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
        names = dict.fromkeys(label or "no label" for label in labels)
        table = table.guessing(f"a curve for each of: {', '.join(names)}")
    long = table.stack(groups, attributes, by_size)
    return _by_quantity(long, overrides) if long.column_of(CELLS) else long


def _one_of_each(table: Long) -> Long:
    """Return a table with one column of each quantity and label: the one with most digits if units differ.

    Times of a serial program beside others, minima and maxima, and single runs beside their mean are not used.
    """
    texts = {column.header.text.lower() for column in table.columns}
    means = {column.header.name for column in table.columns if _MEAN.search(column.header.text)}
    unused: dict[Column, str] = {}
    alike: dict[object, list[Column]] = defaultdict(list)
    for column in table.columns:
        header, text = column.header, column.header.text.lower()
        other_end = re.sub("min|max", lambda end: "max" if end[0] == "min" else "min", text)
        others = {other.header.name for other in table.columns if other is not column}
        if header.overridden:
            continue
        if other_end in texts - {text} and header.name not in ("low", "high"):
            unused[column] = "scatter"
        elif header.name in others & _MEASURED and re.search(r"serial|sequential|^seq$", header.label, re.I):
            unused[column] = "of a serial program"
        elif header.name in means and _RUN.fullmatch(header.label):
            unused[column] = "a single run"
        elif header.name in _MEASURED or "batch" in header.name:
            alike[header.name, header.label.lower(), header.sizes].append(column)
    for columns in alike.values():
        several_units = 1 < len(columns) == len({column.header.unit and column.header.unit.work for column in columns})
        digits = several_units and "batch" not in columns[0].header.name
        best = max(columns, key=lambda column: sum(map(len, column.cells))) if digits else columns[0]
        if several_units or best.header.label:
            why = "the same in another unit" if several_units else "given twice"
            unused |= {column: why for column in columns if column is not best}
    columns = [column.named("", unused[column]) if column in unused else column for column in table.columns]
    return replace(table, columns=tuple(columns))


def _conditions(table: Long) -> list[tuple[Column, Condition]]:
    """Return the measured columns, and other columns with the same labels, each with its condition."""
    spelling: dict[str, str] = {}  # labels that differ in case alone are one
    labels = {column.header.label.lower() for column in table.columns if column.header.name in _MEASURED}
    if "mixed precision" in labels and "fp16" not in labels:
        spelling["fp16"] = "mixed precision"
    measured, others = [], []
    for column in table.columns:
        header = column.header
        condition = Condition(header.sizes, spelling.setdefault(header.label.lower(), header.label))
        if header.name in _MEASURED or header.text == CELLS:
            measured.append((column, condition))
        elif header.name in _WITH_LABELS and condition.words:
            others.append((column, condition))
    labelled = [condition.words for _, condition in measured]
    return [*measured, *(pair for pair in others if any(pair[1].words <= words for words in labelled))]


def _groups(conditions: Sequence[tuple[Column, Condition]]) -> Groups:
    """Return the columns of each condition by name; a less specific header belongs to the condition that extends it.

    A ratio whose header states no size is that of the largest. A column that fits several conditions, and whose
    quantity none of them has, is in none: it is common to all.
    """
    specific = [
        condition for _, condition in conditions if not any(other.extends(condition) for _, other in conditions)
    ]
    groups: Groups = {condition: {} for condition in specific}
    for column, condition in sorted(conditions, key=lambda pair: pair[1] not in groups):
        name = column.header.name or CELLS
        targets = [target for target in groups if target == condition or target.extends(condition)]
        if name in _RATIOS and len({target.sizes.size for target in targets}) > 1:
            largest = max(targets, key=lambda target: _count(target.sizes.size))
            targets = [target for target in targets if target.sizes.size == largest.sizes.size]
        taken = any(name in groups[target] for target in targets)
        if len(targets) == 1 and not taken:
            groups[targets[0]][name] = column
        elif taken and condition not in groups and name not in _RATIOS:
            groups.setdefault(condition, {}).setdefault(name, column)
    return {condition: columns for condition, columns in groups.items() if columns}


def _count(size: str) -> int:
    """Return the number of ranks in "4" or "2 x 4"."""
    return math.prod(map(int, re.findall(r"\d+", size)))


def _by_quantity(table: Long, overrides: Mapping[str, str]) -> Long:
    """Return a table with ranks across with names for its cells: quantities in one of its columns, or a single one."""
    sizes, cells = table.column_of(ACROSS), table.column_of(CELLS)
    assert sizes is not None
    assert cells is not None
    for column in table.columns[: table.columns.index(sizes)]:
        no_names = column.header.name not in ("", "setting", "model") or any(map(numbers.has_value, column.cells))
        if no_names or cells.header.name:
            continue
        read = {text: headers.read(text, overrides) for text in dict.fromkeys(column.cells)}
        read = {text: header for text, header in read.items() if text}
        one_kind = len(cells.unit_kinds) == 1 and cells.unit_kinds <= {*_BY_UNIT}
        # A row "training" of rates has no times.
        fits = _BY_UNIT_OR[_BY_UNIT[min(cells.unit_kinds)]] if one_kind else ""
        usable = [header for header in read.values() if header.name not in headers.TEXT and header.why != _UNKNOWN]
        usable = [header for header in usable if header.name.startswith(fits)]
        unknown = [header for header in read.values() if not header.name and header.why == _UNKNOWN]
        mixed = len(cells.unit_kinds - {"number", "count", "other"}) > 1
        keys = [*zip(*(other.cells for other in table.without([column, cells])), strict=True)]
        named = any(header.name in _MEASURED for header in usable) and (mixed or len(usable) > len(unknown))
        if named and (len({*keys}) < len(keys) or len(read) == 1):
            return _pivoted(table, column, cells, read)
    corner = (column.header.text for column in table.columns if not any(map(numbers.has_value, column.cells)))
    texts = [*corner, table.title, table.grid.above]
    named_cells, guess = _cells_named([text for text in texts if text != CELLS], [*map(_count, sizes.cells)], cells)
    columns = tuple(named_cells if column is cells else column for column in table.columns)
    return replace(table, columns=columns).guessing(*guess)


def _pivoted(table: Long, quantities: Column, values: Column, read: Mapping[str, Header]) -> Long:
    """Return a table with a column for each of the quantities that one column names beside their values."""
    ratios = [column for column in table.columns if column.header.name in _RATIOS]
    others = table.without([quantities, values, *ratios])
    points: dict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
    for row, text in enumerate(quantities.cells):
        points[tuple(column.cells[row] for column in others)].setdefault(text, row)
    columns = []
    for text, header in read.items():
        cells = tuple(values.cells[rows[text]] if text in rows else "" for rows in points.values())
        columns.append(Column(header, cells, (text,) * len(points)))
    names = {header.name for header in read.values()}
    for ratio in (ratio for ratio in ratios if ratio.header.name not in names):
        filled = [[ratio.cells[row] for row in rows.values() if ratio.cells[row]] for rows in points.values()]
        columns.append(Column(ratio.header, tuple(next(iter(cells), "") for cells in filled), ratio.at[: len(points)]))
    return table.take([next(iter(rows.values())) for rows in points.values()], others, columns)


# The names of cells without a header by their unit, and the names that a title may give them.
_BY_UNIT = {"time": "wall_s", "rate": "rate", "ratio": "speedup", "share": "efficiency"}
_BY_UNIT_OR = {
    "wall_s": ("wall_s", "job_s", "epoch_s", "step_s", "init_s"), "rate": ("rate", "images", "steps", "epochs"),
    "speedup": ("speedup",), "efficiency": ("efficiency",),
}  # fmt: skip


def _cells_named(texts: Sequence[str], sizes: Sequence[int], cells: Column) -> tuple[Column, tuple[str, ...]]:
    """Return cells without a header with a name, and the guess: by these texts, else by their change with sizes."""
    if cells.header.name:
        return cells, ()
    stated: set[str] = {cells.header.unit.kind} if cells.header.unit else set()
    kinds = stated & {*_BY_UNIT} or cells.unit_kinds & {*_BY_UNIT}
    by_unit = _BY_UNIT[min(kinds)] if len(kinds) == 1 else ""
    points = [pair for pair in zip(sizes, numbers.values(cells.cells), strict=False) if math.isfinite(pair[1])]
    too_large = any(value > 3 * max(sizes) for _, value in points)  # for speedups
    for text in texts:
        header = headers.read(text)
        header = replace(header, name="wall_s") if header.why == headers.UNKNOWN_TIME else header
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
    """Return the quantity that a title names; None if it names none."""
    rate = r"(?:images?|imgs?|samples?|examples?|tok(?:en)?s?)\s*(?:/|per) ?(?:s(?:ec\w*)?\b)"
    time = r"(?:training|epoch|step|wall|execution|run) ?time|time per \w+"
    phrases = re.findall(rf"(?i){rate}|throughput|speed-?ups?|efficiency|{time}", text)
    return next((header for phrase in phrases if (header := headers.read(phrase)).name in _MEASURED), None)
