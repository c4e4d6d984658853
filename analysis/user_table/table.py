"""A user's table: one row a point, the reading of each column, and notes on guesses and omissions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from analysis import TableError, metrics
from analysis.table import schema
from analysis.user_table import columns, files, headers, numbers, rates, shape, tidy
from analysis.user_table.columns import Quantity
from analysis.user_table.files import Grid
from analysis.user_table.headers import NAMES, TEXT
from analysis.user_table.numbers import Missing, PrintedNumber
from analysis.user_table.shape import Long

_MEASURED = ("images_per_s", "images_per_s_per_rank", "wall_s", "job_s", "epoch_s", "step_s", "speedup", "efficiency")
_UNSCOPED = ("rate", "steps_per_s", "epochs_per_s")
_RATES = ("images_per_s", "images_per_s_per_rank")
_SCOPE = {
    "images_per_s": "of the whole job", "images_per_s_per_rank": "of one rank", "global_batch": "of all ranks",
    "batch_per_rank": "of one rank",
}  # fmt: skip
_MOST_PROBLEMS = 5  # problems of one file
_NEAR, _FAR = 0.02, 0.05  # logarithms: up to _NEAR a ratio agrees with two numbers, beyond _FAR it does not


@dataclass(frozen=True)
class Reading:
    """How one column was read. guess: the reason for a choice that the file does not state."""

    header: str
    name: str
    unit: str = ""
    guess: str = ""

    def __str__(self) -> str:
        """Return, for example, "'Global Throughput (img/s)' -> images_per_s, of the whole job"."""
        scope = _SCOPE.get(self.name, "")
        description = ", ".join(filter(None, (self.name, scope, self.unit)))
        return f"'{self.header}' -> {description}" + (f" (guessed: {self.guess})" if self.guess else "")


@dataclass(frozen=True)
class UserTable:
    """A table that a user brought.

    runs: one row a run, with `file`, `line` and `place` (line and column), the columns of `headers.NAMES` that it has
    (text; numbers, NaN if not known), and `work`, the unit that a rate counts. rounding: the same numbers' half units.
    published: the rows of a file that is a tidy table (analysis.table.schema), else None. notes: on omissions.
    """

    path: str
    runs: pd.DataFrame
    rounding: pd.DataFrame
    readings: tuple[Reading, ...] = ()
    guesses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    published: pd.DataFrame | None = None
    title: str = ""

    @property
    def scales(self) -> bool:
        """Return whether it has several numbers of ranks."""
        return "ranks" in self.runs and self.runs["ranks"].nunique() > 1

    @property
    def interpretation(self) -> list[str]:
        """Return a line for the reading of each column, and for each guess."""
        lines = [*map(str, self.readings), *(f"guessed: {guess}" for guess in self.guesses)]
        return [*lines, 'to read a column otherwise: COLUMNS="HEADER=NAME,..."'] if lines else []

    def tidy(self) -> pd.DataFrame:
        """Return the table as rows of `analysis.table.schema`, checked."""
        if self.published is not None:
            return self.published
        return tidy.tidy(self.runs, self.rounding, {reading.name for reading in self.readings}, self.path)


def read(path: Path, columns_text: str = "") -> UserTable:
    """Return the table in a file, in the files of a folder, or on standard input ("-"). `columns_text`: COLUMNS=.

    Raises TableError naming the file and the missing part, if there is no number of ranks or no measurement.
    """
    overrides = headers.parse_overrides(columns_text)
    parts: list[UserTable] = []
    problems: list[str] = []
    for text in files.texts(path):
        try:
            usable, unused = _file_tables(text, overrides)
        except TableError as error:
            problems.append(str(error))
            continue
        parts += usable
        others = [problem for problem in unused if usable and _how_far(problem) >= 0]
        problems += [problem for problem in unused if problem not in others]
        problems += [_not_scaling(text.source, others)] if others else []
    if not parts:
        raise TableError("\n".join(problems[:_MOST_PROBLEMS]) or f"{path}: no table")
    return _together(str(path), parts, problems)


def _file_tables(text: files.Text, overrides: Mapping[str, str]) -> tuple[list[UserTable], list[str]]:
    """Return the usable tables in the text of a file, and why others are not usable."""
    parts: list[UserTable] = []
    problems: list[str] = []
    runs = files.log_grids(text)
    shaped: list[Long] = []
    for grid in runs or files.grids(text):
        if published := _published(grid):
            parts.append(published)
            continue
        grid_tables = shape.tables(grid, overrides)
        shaped += grid_tables
        if not grid_tables and not grid.loose:
            problems.append(_no_headers(grid))
    for table in shaped if runs else shape.joined(shaped):
        try:
            parts.append(_assembled(table, overrides))
        except TableError as error:
            problems += [] if table.grid.loose else [str(error)]
    usable = any(part.scales or part.published is not None for part in parts)
    if not usable and any(_how_far(problem) < 0 for problem in problems):
        parts = []  # the open question matters more than a single point
    if not runs and any(part.scales for part in parts):
        alike = [part for part in parts if not part.scales and part.published is None]
        problems += [f"{part.path}, line {part.runs['line'].iloc[0]}: one number of ranks alone" for part in alike]
        parts = [part for part in parts if part.scales or part.published is not None]
    return _labelled(parts), sorted(problems, key=_how_far)


def _how_far(problem: str) -> int:
    """Return how much a table lacks to be read, by its problem; -1 if it lacks nothing, and a question is open."""
    stages = ("no row can be used", "no column of a rate", "no column of ranks", "no headers", "one number of ranks")
    return next((at for at, stage in enumerate(stages) if stage in problem), -1)


def _labelled(parts: Sequence[UserTable]) -> list[UserTable]:
    """Return the tables of one file, each with its title, or its first line, as a setting."""
    if len(parts) < 2 or any(part.published is not None for part in parts):
        return list(parts)
    labels = [part.title or f"line {part.runs['line'].iloc[0]}" for part in parts]
    guess = "several tables: a curve for each of their titles"
    labelled = []
    for label, part in zip(labels, parts, strict=True):
        if labels.count(label) > 1:
            label += f", line {part.runs['line'].iloc[0]}"
        setting = part.runs.get("setting", pd.Series("", part.runs.index)).astype(str)
        runs = part.runs.assign(setting=(label + " " + setting).str.strip())
        labelled.append(replace(part, runs=runs, guesses=(guess, *part.guesses)))
    return labelled


def _not_scaling(source: str, problems: Sequence[str]) -> str:
    """Return a note that other tables of a file are not used, with their first lines."""
    lines = [line for problem in problems for line in re.findall(r", line (\d+)", problem)[:1]]
    location = f" (from lines {', '.join(sorted(lines, key=int))})" if lines else ""
    return (
        f"{source}: {len(problems)} other tables are no scaling tables{location}: they have no number of ranks, one "
        "alone, or nothing measured"
    )


def _no_headers(grid: Grid) -> str:
    names = ("ranks", "images_per_s", "wall_s", "speedup")
    examples = "; ".join(f"{name}: {', '.join(headers.EXAMPLES[name])}" for name in names)
    location = f"{grid.source}, line {grid.lines[0] if grid.lines else 1}"
    first = next((row for row in grid.rows if sum(map(bool, row)) > 1), [*grid.rows, ()][0])
    return (
        f"{location}: no headers that are known, or no row below them; read as {grid.format}, its first row is "
        f"{', '.join(map(repr, filter(None, first)))}; headers are known as {examples}; for others say "
        'COLUMNS="HEADER=NAME,...", without headers COLUMNS="1=ranks,2=wall_s,..."'
    )


def _published(grid: Grid) -> UserTable | None:
    """Return a grid that is a tidy table (analysis.table.schema), else None. Raises TableError for a bad one."""
    if not grid.rows or "quantity" not in grid.rows[0] or "value" not in grid.rows[0]:
        return None
    head = list(grid.rows[0])
    wrong = [line for row, line in zip(grid.rows, grid.lines, strict=True) if len(row) != len(head)]
    if wrong:
        raise TableError(f"{grid.source}, line {wrong[0]}: not as many cells as headers ({len(head)})")
    frame = pd.DataFrame(list(grid.rows[1:]), columns=head, dtype=str)
    published = schema.check(schema.with_half_units(frame), grid.source)
    return UserTable(grid.source, pd.DataFrame(), pd.DataFrame(), published=published)


def _together(path: str, parts: Sequence[UserTable], notes: Sequence[str]) -> UserTable:
    tidy_parts = [part for part in parts if part.published is not None]
    if tidy_parts:
        published = pd.concat([part.published for part in tidy_parts], ignore_index=True)
        return UserTable(path, pd.DataFrame(), pd.DataFrame(), notes=tuple(notes), published=published)
    runs = pd.concat([part.runs for part in parts], ignore_index=True)
    rounding = pd.concat([part.rounding for part in parts], ignore_index=True)
    runs = runs.fillna({name: "" for name in runs if name in TEXT or name == "work"})
    readings: dict[tuple[str, str], Reading] = {}
    for reading in (reading for part in parts for reading in part.readings):
        readings.setdefault((reading.header, reading.name), reading)
    guesses = tuple(dict.fromkeys(guess for part in parts for guess in part.guesses))
    all_notes = dict.fromkeys([*(note for part in parts for note in part.notes), *notes])
    return UserTable(path, runs, rounding, tuple(readings.values()), guesses, tuple(all_notes))


@dataclass
class _Assembly:
    """One table under construction: numbers and their rounding by name, and notes."""

    table: Long
    values: pd.DataFrame
    rounding: pd.DataFrame
    readings: dict[str, Reading]
    guesses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    work: str = ""

    def rename(self, old: str, new: str, guess: str) -> None:
        """Rename a column, with the reason."""
        if new in self.values:  # the file has it already
            self.values[new] = self.values[new].fillna(self.values.pop(old))
            return
        self.values = self.values.rename(columns={old: new})
        self.rounding = self.rounding.rename(columns={old: new})
        reading = self.readings.pop(old)
        self.readings[new] = Reading(reading.header, new, reading.unit, "; ".join(filter(None, (reading.guess, guess))))

    def put(self, name: str, values: pd.Series, rounding: pd.Series | None = None) -> None:
        """Fill in a column that follows from others, in rows for which the file has no value."""
        have = self.values.get(name, pd.Series(math.nan, self.values.index))
        half = self.rounding.get(name, pd.Series(math.nan, self.values.index))
        self.values[name] = have.fillna(values)
        self.rounding[name] = half.where(have.notna(), rounding if rounding is not None else math.nan)


def _assembled(table: Long, overrides: Mapping[str, str]) -> UserTable:
    quantities, notes, unused = columns.read(table, overrides)
    assembly = _Assembly(table, *_frames(quantities), readings=_readings(quantities))
    assembly.guesses += table.guesses
    assembly.notes += [*table.notes, *_bad_cells(quantities, table)]
    assembly.notes += [f"{table.grid.source}: {note}" for note in notes]
    assembly.work = _work(quantities)
    _sizes(assembly)
    _settings(assembly, quantities, unused)
    _scopes(assembly)
    _derived(assembly)
    _ratio_of_one_curve(assembly)
    _ratio_by_its_values(assembly)
    _usable(assembly)
    runs = assembly.values.reset_index(drop=True)
    runs["work"] = assembly.work
    order = ["file", "line", "place", *(name for name in NAMES if name in runs), "work"]
    readings = [assembly.readings[name] for name in (*NAMES, "steps_per_s") if name in assembly.readings]
    listed = tuple(reading for reading in readings if reading.header not in (shape.COLUMNS, shape.SECTION))
    rounding, all_notes = assembly.rounding.reset_index(drop=True), tuple(assembly.notes)
    guesses = tuple(assembly.guesses)
    return UserTable(table.grid.source, runs[order], rounding, listed, guesses, all_notes, title=table.title)


def _frames(quantities: Sequence[Quantity]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the numbers of columns, with the ends of ranges of rates, and their largest rounding errors."""
    values, rounding = {}, {}
    absent = PrintedNumber(math.nan, math.nan)
    for quantity in (quantity for quantity in quantities if quantity.name not in TEXT):
        cells = [cell if isinstance(cell, PrintedNumber) else absent for cell in quantity.cells]
        values[quantity.name] = [cell.value for cell in cells]
        rounding[quantity.name] = [math.nan if cell.about else cell.half_unit for cell in cells]
        if quantity.name in (*_RATES, "rate") and any(math.isfinite(cell.low) for cell in cells):
            values["low"], values["high"] = [cell.low for cell in cells], [cell.high for cell in cells]
    return pd.DataFrame(values, dtype=float), pd.DataFrame(rounding, dtype=float)


def _readings(quantities: Sequence[Quantity]) -> dict[str, Reading]:
    readings = {}
    for quantity in quantities:
        unit, text = quantity.header.unit, next((cell.unit.text for cell in quantity.numbers if cell.unit.text), "")
        described = f"{text} in the cells" if text and not (unit and unit.text) else ""
        if unit and unit.text and unit.kind == "time" and unit.factor != 1:
            described = f"in {unit.text}"
        elif unit and unit.kind == "rate":
            described = unit.text
        header = quantity.header.text if len({*quantity.at}) < 2 else ", ".join(dict.fromkeys(quantity.at))
        readings[quantity.name] = Reading(header, quantity.name, described, quantity.guess)
    return readings


def _work(quantities: Sequence[Quantity]) -> str:
    """Return the unit that rates count, as "tokens"; "" if no unit states it."""
    rates_alone = [quantity for quantity in quantities if quantity.name in (*_RATES, "rate")]
    units = [unit for q in rates_alone for unit in (q.header.unit, *(cell.unit for cell in q.numbers))]
    return next((unit.work for unit in units if unit and unit.work), "")


def _bad_cells(quantities: Sequence[Quantity], table: Long) -> Iterator[str]:
    """Yield the fault of each cell that cannot be used, and whether its row is used without it."""
    by_name = {quantity.name: quantity for quantity in quantities if quantity.cells}
    measured = [by_name[name] for name in (*_MEASURED, *_UNSCOPED) if name in by_name]
    has_any = [any(isinstance(q.cells[row], PrintedNumber) for q in measured) for row in range(len(table.lines))]
    reported = set()
    for name, quantity in by_name.items():
        for row, (cell, line, at) in enumerate(zip(quantity.cells, table.lines, quantity.at, strict=True)):
            lost = name == "ranks" or (quantity in measured and not has_any[row])
            if not isinstance(cell, Missing) or not cell.reason or (lost and row in reported):
                continue
            if cell.noted or lost or name in ("wall_s", "steps_per_rank"):
                consequence = "the row is left out" if lost else "the row is used without it"
                yield f"{table.grid.source}, line {line}, column '{at}': {cell.reason}; {consequence}"
                reported |= {row} if lost else set()


def _settings(assembly: _Assembly, quantities: Sequence[Quantity], unused: dict[str, str]) -> None:
    """Add the columns of text: models and the like, and unknown ones that distinguish curves; note `unused` ones."""
    table, texts = assembly.table, dict[str, pd.Series]()

    def add(name: str, cells: Sequence[str]) -> None:
        values = pd.Series(list(cells), assembly.values.index, dtype=object)
        texts[name] = (texts[name] + " " + values).str.strip() if name in texts else values

    for quantity in quantities:
        if quantity.name in TEXT:
            add(quantity.name, quantity.text)
    ranks = assembly.values["ranks"]
    unknown = [column for column in table.columns if unused.get(column.header.text) == "not known"]
    for several in (True, False):
        for column in unknown:
            header, cells = column.header, column.cells
            if header.text not in unused or not _distinguishes_curves(column, assembly, texts, several):
                continue
            short = all(len(cell) < 6 for cell in cells)
            labels = pd.Series([f"{header.text} {cell}" if short and cell else cell for cell in cells], ranks.index)
            for _, curve in ranks.groupby([*texts.values()]) if texts else ():
                if curve.nunique() > 1 and curve.groupby(labels[curve.index]).nunique().max() < 2:
                    labels[curve.index] = ""  # it grows with the ranks of this curve
            add("setting", labels.tolist())
            before = assembly.readings.get("setting")
            text = f"{before.header}, {header.text}" if before else header.text
            assembly.readings["setting"] = Reading(text, "setting", guess="its text distinguishes curves")
            del unused[header.text]
    unused_columns = [column for column in unknown if column.header.text in unused]
    threads = [column for column in unused_columns if headers.strength(column.header.text) == 3]
    identity = pd.DataFrame({"ranks": ranks, **texts})
    for column in threads[:1] if identity.duplicated().any() else ():
        distinct = not identity.assign(threads=column.cells).duplicated().any()
        if distinct and all(map(str.isdigit, column.cells)):
            assembly.values["ranks"] = ranks * [int(cell) for cell in column.cells]
            assembly.guesses.append(f"ranks are multiplied by '{column.header.text}': rows would be alike without it")
            del unused[column.header.text]
    if unused:
        listed = ", ".join(f"{text!r} ({why})" for text, why in unused.items())
        assembly.notes.append(f"{table.grid.source}: columns not used: {listed}")
    sizes = [assembly.values[name] for name in ("ranks", "batch", "batch_per_rank") if name in assembly.values]
    conditions = [name for name in ("setting", "framework", "machine", "precision") if name in texts]
    for name in conditions if ranks.nunique() > 1 else ():
        if ranks.groupby(texts[name]).nunique().max() < 2 and texts[name].groupby(sizes).nunique().max() < 2:
            header_text = assembly.readings.pop(name).header
            assembly.notes.append(f"{table.grid.source}: '{header_text}' differs at each number of ranks: unused")
            del texts[name]
    assembly.values = assembly.values.assign(**{name: cells.to_numpy(object) for name, cells in texts.items()})


def _distinguishes_curves(
    column: shape.Column, assembly: _Assembly, texts: Mapping[str, pd.Series], several: bool
) -> bool:
    """Return whether a column distinguishes curves: each of its values has several numbers of ranks.

    A column of numbers does only if rows are alike without it. Unless `several`: whether it distinguishes all rows that
    are alike.
    """
    ranks, cells = assembly.values["ranks"], pd.Series(column.cells, assembly.values.index)
    if cells.nunique() < 2 or cells.eq("").any():
        return False
    numeric = cells.map(numbers.has_value).any()
    measured = [other.header.name in (*_MEASURED, *_UNSCOPED) for other in assembly.table.columns]
    before = column in assembly.table.columns[: [*measured, True].index(True)]
    sizes = [name for name in ("ranks", "batch", "batch_per_rank", "repeat") if name in assembly.values]
    identity = assembly.values[sizes].assign(**texts)
    alike = identity.duplicated().any()
    if not several:
        whole = cells.map(str.isdigit).all()
        settings = not numeric or cells.value_counts().min() > 1 or (before and (whole or cells.nunique() < len(cells)))
        return bool(alike and settings and not identity.assign(cells=cells).duplicated().any())
    counts = ranks.groupby(cells).nunique()
    in_words = before and not numeric and cells.str.contains(r"[^\W\d_]").all()
    names = in_words and counts.max() > 1 and 2 * len(counts) <= len(cells)
    named = not numeric or (before and cells.map(str.isdigit).all())
    return bool(((counts > 1).all() and (alike or named)) or names)


def _sizes(assembly: _Assembly) -> None:
    """Add ranks: nodes x ranks per node, or as many as nodes; and ranks per node. Raises TableError without any."""
    have = {*assembly.values}
    if "ranks" not in have and {"nodes", "ranks_per_node"} <= have:
        assembly.values["ranks"] = assembly.values["nodes"] * assembly.values["ranks_per_node"]
    elif "ranks" not in have and "nodes" in have:
        nodes = assembly.values["nodes"]
        if nodes.min() > 8 and ((nodes / nodes.min()).map(math.log2) % 1).any():
            text = assembly.readings["nodes"].header
            question = f"are the '{text}' machines, or those of a graph? nothing else counts ranks"
            raise TableError(_question(assembly, question, [text], ("ranks", "unused")))
        assembly.values["ranks"] = nodes
        assembly.guesses.append("how many ranks a node has is not given: each node is taken as one rank")
    elif "ranks" not in have:
        raise TableError(_missing(assembly, "ranks"))
    if "ranks_per_node" not in have and {"ranks", "nodes"} <= have:
        each = assembly.values["ranks"] / assembly.values["nodes"]
        assembly.values["ranks_per_node"] = each.where(each % 1 == 0)
    if not {*_MEASURED, *_UNSCOPED} & have:
        raise TableError(_missing(assembly, "a rate, a time, a speedup or an efficiency"))


def _missing(assembly: _Assembly, missing: str) -> str:
    """Return a message that a column is missing, with the headers, and the one that it may be."""
    texts = [text for column in assembly.table.columns for text in dict.fromkeys(column.at) if text]
    examples = headers.EXAMPLES.get(missing, ())
    also = f" (also read as it: {', '.join(examples)})" if examples else ""
    unnamed = [column for column in assembly.table.columns if column.header.name in ("", "n")]
    unnamed = [column for column in unnamed if "share" not in column.unit_kinds]
    fits = str.isdigit if missing == "ranks" else numbers.is_number
    candidates = [column.header.text for column in unnamed if column.header.text and all(map(fits, column.cells))]
    like = candidates[0 if missing == "ranks" else -1] if candidates else ""
    name = "ranks" if missing == "ranks" else "wall_s" if "time" in like.lower() else "images_per_s"
    say = f'; say which it is: COLUMNS="{"cells" if like == shape.CELLS else like}={name}"' if like else ""
    return (
        f"{assembly.table.grid.source}, line {assembly.table.lines[0]}: no column of {missing}{also}; read as "
        f"{assembly.table.grid.format}, the headers are {', '.join(map(repr, dict.fromkeys(texts)))}{say}"
    )


def _question(assembly: _Assembly, question: str, texts: Sequence[str], names: Sequence[str]) -> str:
    """Return a question about columns with these headers, and the settings of COLUMNS that answer it."""
    answers = (f'COLUMNS="{",".join(f"{text}={name}" for text in texts)}"' for name in names)
    return f"{assembly.table.grid.source}, line {assembly.table.lines[0]}: {question}; say {' or '.join(answers)}"


def _scopes(assembly: _Assembly) -> None:
    """Name rates and batches as those of one rank or of the whole job."""
    if "batch" in assembly.values and "step_s" not in assembly.values:
        _name_scope(assembly, "batch")
    if "rate" in assembly.values:
        _name_scope(assembly, "rate")
    if "batch" in assembly.values:
        if "images_per_s" not in assembly.values and "images_per_s_per_rank" in assembly.values:
            assembly.values["images_per_s"] = assembly.values["images_per_s_per_rank"] * assembly.values["ranks"]
        _name_scope(assembly, "batch")


def _name_scope(assembly: _Assembly, column: str) -> None:
    """Rename "batch" or "rate" after its scope; the reading has the reason."""
    scope = rates.rate_scope if column == "rate" else rates.batch_scope
    name, why, certain = scope(assembly.values)
    if not name:
        source = next(source for source in assembly.table.columns if source.header.name == column)
        texts = ["cells"] if source.header.text == shape.CELLS else [*dict.fromkeys(source.at)]
        question = f"is '{', '.join(texts)}' the rate of one rank, or of the whole job? {why}"
        raise TableError(_question(assembly, question, texts, ("images_per_s_per_rank", "images_per_s")))
    assembly.rename(column, name, "" if certain else why)
    if certain and column == "rate":
        reading = assembly.readings[name]
        unit = ", ".join(filter(None, (reading.unit, why)))
        assembly.readings[name] = replace(reading, unit=unit)


def _derived(assembly: _Assembly) -> None:
    """Add columns that follow from others: batches, rates from steps, and rates of one rank and of all."""
    runs, ranks = assembly.values, assembly.values["ranks"]
    if "batch_per_rank" in runs:
        assembly.put("global_batch", runs["batch_per_rank"] * ranks)
    if "global_batch" in runs:
        assembly.put("batch_per_rank", runs["global_batch"] / ranks)
    if not {*_RATES} & {*runs} and {"steps_per_s", "step_s"} & {*runs}:
        _rates_from_steps(assembly)
    runs, rounding = assembly.values, assembly.rounding
    if "images_per_s" in runs:
        assembly.put("images_per_s_per_rank", runs["images_per_s"] / ranks, rounding["images_per_s"] / ranks)
    elif "images_per_s_per_rank" in runs:
        half = rounding["images_per_s_per_rank"] * ranks
        assembly.put("images_per_s", metrics.job_total(runs["images_per_s_per_rank"], ranks), half)
        for end in {"low", "high"} & {*runs}:
            runs[end] = runs[end] * ranks
    assembly.values = runs.drop(columns=[name for name in _UNSCOPED if name in runs])


def _rates_from_steps(assembly: _Assembly) -> None:
    """Add the rates that follow from the rate or time of steps and the batches; without batches, they count batches."""
    runs, name = assembly.values, "images_per_s"
    source = "steps_per_s" if "steps_per_s" in runs else "step_s"
    steps = runs[source] if source == "steps_per_s" else 1 / runs[source]
    relative = assembly.rounding[source] / runs[source]
    if "global_batch" in runs:
        rate = steps * runs["global_batch"]
    else:
        rate, assembly.work = steps, "batches"
        name, why, _ = rates.rate_scope(runs.drop(columns="step_s", errors="ignore").assign(rate=steps))
        name = name or "images_per_s_per_rank"
        same = "on all ranks" if name == "images_per_s_per_rank" else f"in all, at each number of ranks ({why})"
        assembly.guesses.append(f"the batch is not given: it is taken as equal {same}, and rates count batches")
    assembly.put(name, rate, rate * relative)


def _ratio_by_its_values(assembly: _Assembly) -> None:
    """Rename a stated speedup to efficiency, or the reverse, if it follows from rates or times only under that name."""
    values = assembly.values
    for name, opposite in (("speedup", "efficiency"), ("efficiency", "speedup")):
        if name not in values or opposite in values or (values[name] - 1).abs().max() < _FAR:
            continue
        rows = [curve for curve in (one.dropna(subset=[name]) for one in rates.curves(values)) if len(curve) > 1]
        errors = [[_misfit(curve.rename(columns={name: ratio}), ratio) for curve in rows] for ratio in (name, opposite)]
        if rows and max(errors[1]) < _NEAR and _FAR < max(errors[0]) < math.inf:
            assembly.rename(name, opposite, "so it follows from what is measured")
            return


def _ratio_of_one_curve(assembly: _Assembly) -> None:
    """Assign a ratio that is stated once for several curves to the curve from which it follows best."""
    values, lines = assembly.values, pd.Series(assembly.table.lines, assembly.values.index)
    spread = next((column.cells for column in assembly.table.columns if column.header.text == shape.COLUMNS), None)
    for name in ("speedup", "efficiency") if spread and lines.duplicated().any() else ():
        if name not in values or values.groupby(lines)[name].nunique().max() > 1:
            continue
        labels = pd.Series(spread, values.index)
        errors = {label: _misfit(rows, name) for label, rows in values.groupby(labels, sort=False)}
        best = min(errors, key=lambda label: errors[label])
        if errors[best] > _FAR and _is_of_settings(values, name, lines):
            assembly.values = values.drop(columns=name)
            reading = assembly.readings.pop(name)
            source = assembly.table.grid.source
            assembly.notes.append(f"{source}: column '{reading.header}' is a ratio of two settings: unused")
            continue
        assembly.values[name] = values[name].where(labels.eq(best))
        assembly.guesses.append(f"the {name} beside several curves is that of '{best}', from which it follows best")


def _is_of_settings(values: pd.DataFrame, name: str, lines: pd.Series) -> bool:
    """Return whether a stated ratio is, on each line, that of the measurements in two of its settings."""
    for measured in {*_MEASURED, "images_per_s"} & {*values} - {"speedup", "efficiency"}:
        rows, stated = values.groupby(lines)[measured], values.groupby(lines)[name].first()
        ratio = rows.first() / rows.last()
        if any(all((gain / stated).map(math.log).abs() < _NEAR) for gain in (ratio, 1 / ratio)):
            return True
    return False


def _misfit(curve: pd.DataFrame, name: str) -> float:
    """Return the distance, as a logarithm, of a stated ratio from that of rates or times, at the worst point."""
    measured = [column for column in ("images_per_s", "wall_s", "epoch_s", "job_s") if column in curve]
    curve = curve.dropna(subset=measured, how="all")
    if len(curve) < 2:
        return math.inf
    ranks_ratio = curve["ranks"] / curve["ranks"].iloc[0]
    gains = [curve["images_per_s"] / curve["images_per_s"].iloc[0]] if "images_per_s" in curve else []
    for time in {"wall_s", "epoch_s", "job_s"} & {*curve}:
        faster = curve[time].iloc[0] / curve[time]
        gains += [faster, faster * ranks_ratio]
    stated = curve[name] / curve[name].iloc[0] * (ranks_ratio if name == "efficiency" else 1)
    return min((float((gain / stated).map(math.log).abs().max()) for gain in gains), default=math.inf)


def _usable(assembly: _Assembly) -> None:
    """Leave out rows without a number of ranks or a measurement; add the location of the others."""
    grid, lines, values = assembly.table.grid, assembly.table.lines, assembly.values
    used = values["ranks"].notna() & values[[name for name in _MEASURED if name in values]].notna().any(axis=1)
    spread = [c for c in assembly.table.columns if c.header.text == shape.ACROSS or len({*c.at}) > 1]
    at = min(spread, key=lambda column: column.header.text != shape.ACROSS).at if spread else ()
    name = Path(grid.source).name or grid.source
    places = [f"{name}, line {line}" + (f", '{at[row]}'" if at else "") for row, line in enumerate(lines)]
    located = pd.DataFrame({"file": grid.source, "line": list(lines), "place": places}, values.index)
    assembly.values = pd.concat([located, values], axis=1)[used]
    assembly.rounding = assembly.rounding[used]
    if assembly.values.empty:
        raise TableError("\n".join([f"{grid.source}: no row can be used", *assembly.notes[:20]]))
