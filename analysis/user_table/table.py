"""A user's table: one row a point, how each column was read, and notes on guesses and omissions."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from analysis import TableError, metrics
from analysis.table import schema
from analysis.user_table import columns, files, headers, logs, numbers, rates, shape
from analysis.user_table.columns import Quantity
from analysis.user_table.files import Grid
from analysis.user_table.headers import NAMES, TEXT
from analysis.user_table.numbers import Missing, PrintedNumber
from analysis.user_table.shape import Long

_MEASURED = ("images_per_s", "images_per_s_per_rank", "wall_s", "job_s", "epoch_s", "step_s", "speedup", "efficiency")
_RAW = (*NAMES, "rate", "batch", "steps_per_s", "epochs_per_s")
_SCOPE = {
    "images_per_s": "of the whole job",
    "images_per_s_per_rank": "of one rank",
    "global_batch": "of all ranks",
    "batch_per_rank": "of one rank",
}
# Quantities of the tidy table, and the unit and kind that they have there.
_TIDY = ("init_s", "wall_s", "job_s", "epoch_s", "images_per_s_per_rank", "images_per_s", "steps_per_rank")


@dataclass(frozen=True)
class Reading:
    """How one column was read. guess: what the file does not say, and the reason for the choice."""

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
    (text; numbers, NaN where not known), and `work`, what a rate counts. rounding: the same numbers' half units.
    tidy: the rows of a file that is a tidy table (analysis.table.schema); None of others. notes: what was left out.
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
    def interpretation(self) -> list[str]:
        """How each column was read, and what was guessed, a line each."""
        lines = [str(reading) for reading in self.readings]
        if any(reading.guess for reading in self.readings) or self.guesses:
            lines += [f"guessed: {guess}" for guess in self.guesses]
            lines.append('to read a column otherwise: COLUMNS="HEADER=NAME,..."')
        return lines

    def tidy(self) -> pd.DataFrame:
        """Return the table as rows of `analysis.table.schema`, checked."""
        return self.published if self.published is not None else _tidy(self)


def read(path: Path, columns_text: str = "") -> UserTable:
    """Return the table in a file, in the files of a folder, or on standard input ("-"). `columns_text`: of COLUMNS=.

    Raises TableError naming the file and what is missing, where there is no number of ranks or nothing measured.
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
        problems += unused if not usable else []
        if usable and unused:
            problems.append(f"{text.where}: {len(unused)} other tables have no numbers of ranks, or nothing measured")
    if not parts:
        raise TableError("\n".join(problems[:_SHOWN]) or f"{path}: no table")
    return _together(str(path), parts, problems)


_SHOWN = 5  # problems of one file


def _file_tables(text: files.Text, overrides: Mapping[str, str]) -> tuple[list[UserTable], list[str]]:
    """Return the tables in the text of a file that can be used, and why others cannot."""
    parts: list[UserTable] = []
    problems: list[str] = []
    for grid in logs.grids(text) or files.grids(text):
        if published := _published(grid):
            parts.append(published)
            continue
        shaped = shape.tables(grid, overrides)
        if not shaped:
            problems.append(_no_headers(grid))
        for table in shaped:
            try:
                parts.append(_assembled(table, overrides))
            except TableError as error:
                problems.append(str(error))
    return _labelled(parts), sorted(problems, key=lambda problem: "no column of" not in problem)


def _labelled(parts: Sequence[UserTable]) -> list[UserTable]:
    """Return the tables of one file, each with its title, or its first line, as a setting."""
    if len(parts) < 2 or any(part.published is not None for part in parts):
        return list(parts)
    labels = [part.title or f"line {part.runs['line'].iloc[0]}" for part in parts]
    labels = [
        label if labels.count(label) == 1 else f"{label}, line {part.runs['line'].iloc[0]}"
        for label, part in zip(labels, parts, strict=True)
    ]
    guess = "several tables: a curve for each of their titles"
    settings_of_parts = [part.runs.get("setting", pd.Series("", part.runs.index)).astype(str) for part in parts]
    return [
        replace(
            part,
            runs=part.runs.assign(setting=(label + " " + setting).str.strip()),
            guesses=(guess, *part.guesses),
        )
        for label, setting, part in zip(labels, settings_of_parts, parts, strict=True)
    ]


def _no_headers(grid: Grid) -> str:
    examples = "; ".join(
        f"{name}: {', '.join(others)}"
        for name, others in headers.EXAMPLES.items()
        if name in ("ranks", "images_per_s", "wall_s", "speedup")
    )
    return (
        f"{grid.where}: no headers that are known, or no row below them; read as {grid.format}, its first row is "
        f"{shape.first_row(grid)}; headers are known as {examples}; for others say "
        'COLUMNS="HEADER=NAME,...", without headers COLUMNS="1=ranks,2=wall_s,..."'
    )


def _published(grid: Grid) -> UserTable | None:
    """Return a grid that is a tidy table (analysis.table.schema); None for others. Raises TableError for a bad one."""
    if not grid.rows or "quantity" not in grid.rows[0] or "value" not in grid.rows[0]:
        return None
    head = list(grid.rows[0])
    wrong = [line for row, line in zip(grid.rows, grid.lines, strict=True) if len(row) != len(head)]
    if wrong:
        raise TableError(f"{grid.where}, line {wrong[0]}: not as many cells as headers ({len(head)})")
    frame = pd.DataFrame(list(grid.rows[1:]), columns=head, dtype=str)
    if "half_unit" not in frame and {"value", "unit"} <= {*frame}:
        frame["half_unit"] = [schema.half_unit(*cells) for cells in zip(frame["value"], frame["unit"], strict=True)]
    empty = pd.DataFrame()
    return UserTable(grid.where, empty, empty, published=schema.check(frame, grid.where))


def _together(path: str, parts: Sequence[UserTable], notes: Sequence[str]) -> UserTable:
    """Return the tables of a file or folder as one."""
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
    all_notes = (*(note for part in parts for note in part.notes), *notes)
    return UserTable(path, runs, rounding, tuple(readings.values()), guesses, all_notes)


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

    @property
    def key(self) -> list[str]:
        """The columns that distinguish curves."""
        return [name for name in TEXT if name in self.values]

    def rename(self, old: str, new: str, guess: str) -> None:
        """Give a column its name, with the reason."""
        if new in self.values:  # the file has it already
            self.values[new] = self.values[new].fillna(self.values.pop(old))
            return
        self.values = self.values.rename(columns={old: new})
        self.rounding = self.rounding.rename(columns={old: new})
        reading = self.readings.pop(old)
        self.readings[new] = Reading(reading.header, new, reading.unit, "; ".join(filter(None, (reading.guess, guess))))

    def put(self, name: str, values: pd.Series, rounding: pd.Series | None = None) -> None:
        """Fill in a column that follows from others, where the file has no value."""
        have = self.values[name] if name in self.values else pd.Series(math.nan, self.values.index)
        half = self.rounding[name] if name in self.rounding else pd.Series(math.nan, self.values.index)
        self.values[name] = have.fillna(values)
        self.rounding[name] = half.where(have.notna(), rounding if rounding is not None else math.nan)


def _assembled(table: Long, overrides: Mapping[str, str]) -> UserTable:
    quantities, notes, unused = columns.read(table, overrides)
    assembly = _Assembly(table, *_frames(quantities), readings=_readings(quantities, table))
    assembly.guesses += table.guesses
    assembly.notes += [*table.notes, *_bad_cells(quantities, table), *(f"{table.grid.where}: {note}" for note in notes)]
    assembly.work = next((unit for one in quantities if (unit := _work(one))), "")
    _sizes(assembly)
    _settings(assembly, quantities, unused)
    _scopes(assembly)
    _derived(assembly)
    _usable(assembly)
    runs = assembly.values.reset_index(drop=True)
    runs["work"] = assembly.work
    order = ["file", "line", "place", *(name for name in NAMES if name in runs), "work"]
    readings = [assembly.readings[name] for name in (*NAMES, "steps_per_s") if name in assembly.readings]
    return UserTable(
        table.grid.where,
        runs[order],
        assembly.rounding.reset_index(drop=True),
        tuple(reading for reading in readings if reading.header not in ("the columns", "section")),
        tuple(assembly.guesses),
        tuple(assembly.notes),
        title=table.title,
    )


def _frames(quantities: Sequence[Quantity]) -> tuple[pd.DataFrame, pd.DataFrame]:
    values, rounding = {}, {}
    for one in quantities:
        if one.name in TEXT:
            continue
        values[one.name] = [cell.value if isinstance(cell, PrintedNumber) else math.nan for cell in one.cells]
        rounding[one.name] = [
            cell.half_unit if isinstance(cell, PrintedNumber) and not cell.about else math.nan for cell in one.cells
        ]
        spread = [
            (cell.low, cell.high) if isinstance(cell, PrintedNumber) else (math.nan, math.nan) for cell in one.cells
        ]
        if one.name in ("images_per_s", "images_per_s_per_rank", "rate") and any(
            math.isfinite(low) for low, _ in spread
        ):
            values["low"], values["high"] = ([ends[at] for ends in spread] for at in (0, 1))
    return pd.DataFrame(values, dtype=float), pd.DataFrame(rounding, dtype=float)


def _readings(quantities: Sequence[Quantity], table: Long) -> dict[str, Reading]:
    readings = {}
    for one in quantities:
        unit = one.header.unit
        text = next((cell.unit.text for cell in one.cells if isinstance(cell, PrintedNumber) and cell.unit.text), "")
        cell_unit = f"{text} in the cells" if text and not (unit and unit.text) else ""
        header_unit = (
            f"in {unit.text}"
            if unit and unit.text and unit.kind == "time" and unit.factor != 1
            else unit.text
            if unit and unit.kind == "rate"
            else ""
        )
        texts = one.header.text if len({*one.at}) < 2 else ", ".join(dict.fromkeys(one.at))
        readings[one.name] = Reading(texts, one.name, header_unit or cell_unit, one.guess)
    return readings


def _work(one: Quantity) -> str:
    """Return the unit of work of a column of rates."""
    if one.name not in ("rate", "images_per_s", "images_per_s_per_rank"):
        return ""
    units = [one.header.unit, *(cell.unit for cell in one.cells if isinstance(cell, PrintedNumber))]
    return next((unit.work for unit in units if unit and unit.work), "")


def _bad_cells(quantities: Sequence[Quantity], table: Long) -> Iterator[str]:
    """Yield the fault of each cell that cannot be used, and whether its row is used without it."""
    columns_of = {one.name: one for one in quantities if one.cells}
    measured = [columns_of[name] for name in (*_MEASURED, "rate", "steps_per_s") if name in columns_of]
    has_any = [any(isinstance(one.cells[row], PrintedNumber) for one in measured) for row in range(len(table.lines))]
    reported = set()
    for name, one in columns_of.items():
        for row, (cell, line, at) in enumerate(zip(one.cells, table.lines, one.at, strict=True)):
            lost = name == "ranks" or (one in measured and not has_any[row])
            if not isinstance(cell, Missing) or not cell.reason or (lost and row in reported):
                continue
            if cell.noted or lost or name in ("wall_s", "steps_per_rank"):
                left = "the row is left out" if lost else "the row is used without it"
                yield f"{table.grid.where}, line {line}, column '{at}': {cell.reason}; {left}"
                reported |= {row} if lost else set()


def _settings(assembly: _Assembly, quantities: Sequence[Quantity], unused: dict[str, str]) -> None:
    """Add the columns of text: models and the like, and unknown ones that distinguish curves; note `unused` ones."""
    table, texts = assembly.table, dict[str, pd.Series]()

    def add(name: str, cells: Sequence[str]) -> None:
        values = pd.Series(list(cells), assembly.values.index, dtype=object)
        texts[name] = (texts[name] + " " + values).str.strip() if name in texts else values

    for one in quantities:
        if one.name in TEXT:
            add(one.name, one.text)
    for column in table.columns:
        header = column.header
        if not header.name and header.why == "not known" and _distinguishes_curves(column, assembly):
            short = all(len(cell) < 6 for cell in column.cells)
            add("setting", [f"{header.text} {cell}" if short and cell else cell for cell in column.cells])
            assembly.readings["setting"] = Reading(header.text, "setting", guess="its text tells curves apart")
            unused.pop(header.text, None)
    if unused:
        listed = ", ".join(f"{text!r} ({why})" for text, why in unused.items())
        assembly.notes.append(f"{table.grid.where}: columns not used: {listed}")
    ranks = assembly.values["ranks"]
    for name in ("setting", "framework", "machine", "precision"):
        if name in texts and ranks.nunique() > 1 and ranks.groupby(texts[name]).nunique().max() < 2:
            header_text = assembly.readings.pop(name).header
            assembly.notes.append(f"{table.grid.where}: '{header_text}' differs at each number of ranks: unused")
            del texts[name]
    assembly.values = assembly.values.assign(**{name: cells.to_numpy(object) for name, cells in texts.items()})


def _distinguishes_curves(column: shape.Column, assembly: _Assembly) -> bool:
    """Return whether each value of a column has several numbers of ranks; for numbers, if rows are alike without it."""
    ranks, cells = assembly.values["ranks"], pd.Series(column.cells, assembly.values.index)
    if cells.nunique() < 2 or cells.eq("").any():
        return False
    numeric = cells.map(numbers.has_value).any()
    alike = assembly.values[
        [name for name in ("ranks", "batch", "batch_per_rank") if name in assembly.values]
    ].duplicated()
    return bool((ranks.groupby(cells).nunique() > 1).all() and (alike.any() or not numeric))


def _sizes(assembly: _Assembly) -> None:
    """Ranks from nodes and ranks per node, or as many as nodes; rows without any are left out."""
    have = {*assembly.values}
    if "ranks" not in have and {"nodes", "ranks_per_node"} <= have:
        assembly.values["ranks"] = assembly.values["nodes"] * assembly.values["ranks_per_node"]
    elif "ranks" not in have and "nodes" in have:
        assembly.values["ranks"] = assembly.values["nodes"]
        assembly.guesses.append("how many ranks a node has is not given: each node is taken as one rank")
    elif "ranks" not in have:
        raise TableError(_missing(assembly, "ranks"))
    if "ranks_per_node" not in have and {"ranks", "nodes"} <= have:
        each = assembly.values["ranks"] / assembly.values["nodes"]
        assembly.values["ranks_per_node"] = each.where(each % 1 == 0)
    if not {*_MEASURED, "rate", "steps_per_s", "epochs_per_s"} & have:
        raise TableError(_missing(assembly, "a rate, a time, a speedup or an efficiency"))


def _missing(assembly: _Assembly, what: str) -> str:
    """Return that a table lacks something, what its headers are, and which of them it may be."""
    texts = [text for column in assembly.table.columns for text in dict.fromkeys(column.at) if text]
    examples = headers.EXAMPLES.get(what, ())
    also = f" (also read as it: {', '.join(examples)})" if examples else ""
    asked = [column.header.text for column in assembly.table.columns if not column.header.name and column.header.text]
    like = difflib.get_close_matches(what, asked, 1, 0.6) or asked[:1]
    say = f'; say which it is: COLUMNS="{like[0]}={"ranks" if what == "ranks" else "images_per_s"}"' if like else ""
    return (
        f"{assembly.table.grid.where}, line {assembly.table.lines[0]}: no column of {what}{also}; read as "
        f"{assembly.table.grid.format}, the headers are {', '.join(map(repr, dict.fromkeys(texts)))}{say}"
    )


def _scopes(assembly: _Assembly) -> None:
    """Name rates and batches as those of one rank or of the whole job."""
    runs = assembly.values
    if "batch" in runs and "step_s" not in runs:
        _scope_of_batch(assembly)
    if "rate" in assembly.values:
        name, why, certain = rates.rate_scope(assembly.values, assembly.key)
        assembly.rename("rate", name, "" if certain else why)
        if certain:
            reading = assembly.readings[name]
            assembly.readings[name] = Reading(
                reading.header, name, ", ".join(filter(None, (reading.unit, why))), reading.guess
            )
    if "batch" in assembly.values:
        if "images_per_s" not in assembly.values and "images_per_s_per_rank" in assembly.values:
            assembly.values["images_per_s"] = assembly.values["images_per_s_per_rank"] * assembly.values["ranks"]
        _scope_of_batch(assembly)


def _scope_of_batch(assembly: _Assembly) -> None:
    name, why, certain = rates.batch_scope(assembly.values, assembly.key)
    assembly.rename("batch", name, "" if certain else why)


def _derived(assembly: _Assembly) -> None:
    """Add what follows from other columns: batches, rates of steps, and rates of one rank and of all."""
    runs, ranks = assembly.values, assembly.values["ranks"]
    if "batch_per_rank" in runs:
        assembly.put("global_batch", runs["batch_per_rank"] * ranks)
    if "global_batch" in runs:
        assembly.put("batch_per_rank", runs["global_batch"] / ranks)
    rated = {"images_per_s", "images_per_s_per_rank"} & {*runs}
    if "steps_per_s" in runs and not rated:
        batch = runs.get("batch_per_rank", 1.0)
        assembly.put("images_per_s_per_rank", runs["steps_per_s"] * batch, assembly.rounding["steps_per_s"] * batch)
    elif "step_s" in runs and not rated:
        batch = runs["batch_per_rank"] if "batch_per_rank" in runs else pd.Series(1.0, runs.index)
        rate = batch / runs["step_s"]
        assembly.put("images_per_s_per_rank", rate, rate * assembly.rounding["step_s"] / runs["step_s"])
    if {"steps_per_s", "step_s"} & {*runs} and not rated and "batch_per_rank" not in runs:
        assembly.work = "batches"
        assembly.guesses.append("the batch is not given: it is taken as equal on all ranks, and rates count batches")
    if "images_per_s" in assembly.values:
        half = assembly.rounding["images_per_s"] / ranks if "images_per_s" in assembly.rounding else None
        assembly.put("images_per_s_per_rank", assembly.values["images_per_s"] / ranks, half)
    elif "images_per_s_per_rank" in assembly.values:
        half = (
            assembly.rounding["images_per_s_per_rank"] * ranks if "images_per_s_per_rank" in assembly.rounding else None
        )
        assembly.put("images_per_s", metrics.whole_job(assembly.values["images_per_s_per_rank"], ranks), half)
        for end in ("low", "high"):
            if end in assembly.values:
                assembly.values[end] = assembly.values[end] * ranks
    assembly.values = assembly.values.drop(
        columns=[name for name in ("steps_per_s", "epochs_per_s") if name in assembly.values]
    )


def _usable(assembly: _Assembly) -> None:
    """Leave out rows without a number of ranks or a measurement; add the location of the others."""
    grid, lines = assembly.table.grid, assembly.table.lines
    measured = [name for name in _MEASURED if name in assembly.values]
    empty = assembly.values[measured].isna().all(axis=1)
    without = assembly.values["ranks"].isna()
    at = next(
        (column.at for column in assembly.table.columns if column.header.text == "the numbers across"), None
    ) or next((column.at for column in assembly.table.columns if len({*column.at}) > 1), None)
    name = Path(grid.where).name or grid.where
    used = ~(empty | without)
    assembly.values.insert(0, "file", grid.where)
    assembly.values.insert(1, "line", list(lines))
    places = [f"{name}, line {line}" + (f", '{at[row]}'" if at else "") for row, line in enumerate(lines)]
    assembly.values.insert(2, "place", places)
    assembly.values, assembly.rounding = assembly.values[used], assembly.rounding[used]
    if assembly.values.empty:
        raise TableError("\n".join([f"{grid.where}: no row can be used", *assembly.notes[:20]]))


def _tidy(table: UserTable) -> pd.DataFrame:
    """Return one row a number, as of a published report; repeats of one configuration are numbered."""
    runs = table.runs
    key = [name for name in (*TEXT, "nodes", "ranks_per_node", "ranks", "batch_per_rank") if name in runs]
    same = runs.groupby(key, dropna=False)["line"]
    number = same.cumcount().where(same.transform("size") > 1)
    rows = []
    for (index, run), repeat, setting in zip(runs.iterrows(), number, settings(runs), strict=True):
        base = _base(run, repeat, setting)
        for name in _TIDY:
            if name in runs and not pd.isna(run[name]):
                rows.append(base | _number(table, index, name, name, run[name]))
        rows += [base | one | {"kind": "stated"} for one in _stated(table, index, run)]
        if "epochs" in runs and not pd.isna(run["epochs"]):
            rows.append(
                base | {"quantity": "epochs_planned", "value": run["epochs"], "unit": "epochs", "kind": "planned"}
            )
    return schema.check(
        pd.DataFrame(rows, columns=[column.name for column in schema.COLUMNS], dtype=object), table.path
    )


def settings(runs: pd.DataFrame) -> pd.Series:
    """Return the setting of each run beside model, data and machine: framework, precision, other settings."""
    texts = [runs[name] for name in ("framework", "precision", "setting") if name in runs]
    joined = [" ".join(filter(None, map(str, row))) for row in zip(*texts, strict=True)] if texts else ""
    return pd.Series(joined, runs.index, dtype=object)


def _base(run: pd.Series, repeat: float, setting: str) -> dict[str, object]:
    """Return the columns of a tidy row that identify its run; the setting is part of the model."""

    def whole(name: str) -> int | None:
        value = run.get(name, math.nan)
        return int(value) if not pd.isna(value) and float(value).is_integer() else None

    names = ("dataset", "gpu", "machine")
    return dict.fromkeys((column.name for column in schema.COLUMNS), "") | {
        "source": "published", "place": run["place"],
        **{name: str(run.get(name, "") or "") for name in names},
        "model": " ".join(filter(None, (str(run.get("model", "") or ""), setting))),
        "nodes": whole("nodes"), "ranks_per_node": whole("ranks_per_node"), "threads_per_rank": None,
        "ranks": whole("ranks"), "batch_per_rank": whole("batch_per_rank"), "global_batch": whole("global_batch"),
        "repeat": None if pd.isna(repeat) else int(repeat), "kind": "measured",
        "half_unit": math.nan,
    }  # fmt: skip


def _number(table: UserTable, index: object, name: str, quantity: str, value: float) -> dict[str, object]:
    described = schema.quantity(quantity)
    assert described is not None
    half = table.rounding[name].get(index, math.nan) if name in table.rounding else math.nan
    return {"quantity": quantity, "value": float(value), "unit": described.unit, "half_unit": half}


def _stated(table: UserTable, index: object, run: pd.Series) -> Iterator[dict[str, object]]:
    """Yield the speedup and the efficiency that a run states: by throughput where the table has one, else by time."""
    sources = {"images_per_s": "throughput", "wall_s": "wall_time", "job_s": "job_time"}
    by = next((name for column, name in sources.items() if column in table.runs), "throughput")
    for name in ("speedup", "efficiency"):
        if name in table.runs and not pd.isna(run[name]):
            yield _number(table, index, name, f"{name}_{by}", run[name])
