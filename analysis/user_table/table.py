"""A user's table as it was read: one row a point, how each column was read, what was guessed, what was left out."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from analysis import TableError, metrics
from analysis.table import schema
from analysis.user_table import columns, files, headers, logs, numbers, scopes, shape
from analysis.user_table.columns import Quantity
from analysis.user_table.files import Grid
from analysis.user_table.headers import NAMES, TEXT
from analysis.user_table.numbers import Missing, Number
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
    """How one column was read. guess: what the file does not say, and why it is taken so."""

    header: str
    name: str
    unit: str = ""
    guess: str = ""

    def __str__(self) -> str:
        """In words: "'Global Throughput (img/s)' -> images_per_s, of the whole job"."""
        scope = _SCOPE.get(self.name, "")
        said = ", ".join(filter(None, (self.name, scope, self.unit)))
        return f"'{self.header}' -> {said}" + (f" (guessed: {self.guess})" if self.guess else "")


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
        """The table as rows of `analysis.table.schema`, checked."""
        return self.published if self.published is not None else _tidy(self)


def read(path: Path, told: str = "") -> UserTable:
    """The table in a file, in the files of a folder, or on standard input ("-"). `told`: what COLUMNS= says.

    Raises TableError naming the file and what is missing, where there is no number of ranks or nothing measured.
    """
    says = headers.overrides(told)
    parts: list[UserTable] = []
    problems: list[str] = []
    for text in files.texts(path):
        try:
            found, unused = _of_file(text, says)
        except TableError as error:
            problems.append(str(error))
            continue
        parts += found
        problems += unused if not found else []
        if found and unused:
            problems.append(f"{text.where}: {len(unused)} other tables have no numbers of ranks, or nothing measured")
    if not parts:
        raise TableError("\n".join(problems[:_SHOWN]) or f"{path}: no table")
    return _together(str(path), parts, problems)


_SHOWN = 5  # problems of one file


def _of_file(text: files.Text, told: Mapping[str, str]) -> tuple[list[UserTable], list[str]]:
    """The tables in the text of a file that can be used, and why others cannot."""
    parts: list[UserTable] = []
    problems: list[str] = []
    for grid in logs.grids(text) or files.grids(text):
        if published := _published(grid):
            parts.append(published)
            continue
        found = shape.tables(grid, told)
        if not found:
            problems.append(_no_headers(grid))
        for table in found:
            try:
                parts.append(_assembled(table, told))
            except TableError as error:
                problems.append(str(error))
    return _labelled(parts), sorted(problems, key=lambda problem: "no column of" not in problem)


def _labelled(parts: Sequence[UserTable]) -> list[UserTable]:
    """Several tables of one file, told apart by their titles, or where they begin."""
    if len(parts) < 2 or any(part.published is not None for part in parts):
        return list(parts)
    labels = [part.title or f"line {part.runs['line'].iloc[0]}" for part in parts]
    labels = [
        label if labels.count(label) == 1 else f"{label}, line {part.runs['line'].iloc[0]}"
        for label, part in zip(labels, parts, strict=True)
    ]
    found = []
    for label, part in zip(labels, parts, strict=True):
        setting = part.runs["setting"] if "setting" in part.runs else pd.Series("", part.runs.index)
        runs = part.runs.assign(setting=(label + " " + setting.astype(str)).str.strip())
        guesses = ("several tables: a curve for each of their titles", *part.guesses)
        found.append(replace(part, runs=runs, guesses=guesses))
    return found


def _no_headers(grid: Grid) -> str:
    known = "; ".join(
        f"{name}: {', '.join(others)}"
        for name, others in headers.EXAMPLES.items()
        if name in ("ranks", "images_per_s", "wall_s", "speedup")
    )
    return (
        f"{grid.where}: no headers that are known, or no row below them; read as {grid.format}, its first row is "
        f"{shape.first_row(grid)}; headers are known as {known}; for others say "
        'COLUMNS="HEADER=NAME,...", without headers COLUMNS="1=ranks,2=wall_s,..."'
    )


def _published(grid: Grid) -> UserTable | None:
    """A grid that is a tidy table (analysis.table.schema); None for others. Raises TableError for a bad one."""
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
    """The tables of a file or folder as one."""
    given = [part for part in parts if part.published is not None]
    if given:
        published = pd.concat([part.published for part in given], ignore_index=True)
        return UserTable(path, pd.DataFrame(), pd.DataFrame(), notes=tuple(notes), published=published)
    runs = pd.concat([part.runs for part in parts], ignore_index=True)
    rounding = pd.concat([part.rounding for part in parts], ignore_index=True)
    for name in runs:
        if name in TEXT or name == "work":
            runs[name] = runs[name].fillna("")
    return UserTable(
        path,
        runs,
        rounding,
        tuple({(one.header, one.name): one for part in reversed(parts) for one in reversed(part.readings)}.values())[
            ::-1
        ],
        tuple(dict.fromkeys(guess for part in parts for guess in part.guesses)),
        (*(note for part in parts for note in part.notes), *notes),
    )


@dataclass
class _Assembly:
    """One table on its way: numbers and their rounding by name, and what is to say of them."""

    table: Long
    values: pd.DataFrame
    rounding: pd.DataFrame
    readings: dict[str, Reading]
    guesses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    work: str = ""

    @property
    def key(self) -> list[str]:
        """The columns that tell curves apart."""
        return [name for name in TEXT if name in self.values]

    def rename(self, old: str, new: str, guess: str) -> None:
        """Give a column its name, with why it is taken so."""
        if new in self.values:  # the file has it already
            self.values[new] = self.values[new].fillna(self.values.pop(old))
            return
        self.values = self.values.rename(columns={old: new})
        self.rounding = self.rounding.rename(columns={old: new})
        reading = self.readings.pop(old)
        self.readings[new] = Reading(reading.header, new, reading.unit, "; ".join(filter(None, (reading.guess, guess))))

    def put(self, name: str, values: pd.Series, rounding: pd.Series | None = None) -> None:
        """Give a column that follows from others, where the file has none."""
        have = self.values[name] if name in self.values else pd.Series(math.nan, self.values.index)
        half = self.rounding[name] if name in self.rounding else pd.Series(math.nan, self.values.index)
        self.values[name] = have.fillna(values)
        self.rounding[name] = half.where(have.notna(), rounding if rounding is not None else math.nan)


def _assembled(table: Long, told: Mapping[str, str]) -> UserTable:
    quantities, notes = columns.read(table, told)
    made = _Assembly(table, *_frames(quantities), readings=_readings(quantities, table))
    made.guesses += table.guesses
    made.notes += [*table.notes, *_bad_cells(quantities, table), *(f"{table.grid.where}: {note}" for note in notes)]
    made.work = next((unit for one in quantities if (unit := _work(one))), "")
    _sizes(made)
    _settings(made, quantities)
    _scopes(made)
    _derived(made)
    _usable(made)
    runs = made.values.reset_index(drop=True)
    runs["work"] = made.work
    order = ["file", "line", "place", *(name for name in NAMES if name in runs), "work"]
    readings = [made.readings[name] for name in (*NAMES, "steps_per_s") if name in made.readings]
    return UserTable(
        table.grid.where,
        runs[order],
        made.rounding.reset_index(drop=True),
        tuple(reading for reading in readings if reading.header not in ("the columns", "section")),
        tuple(made.guesses),
        tuple(made.notes),
        title=table.title,
    )


def _frames(quantities: Sequence[Quantity]) -> tuple[pd.DataFrame, pd.DataFrame]:
    values, rounding = {}, {}
    for one in quantities:
        if one.name in TEXT:
            continue
        values[one.name] = [cell.value if isinstance(cell, Number) else math.nan for cell in one.cells]
        rounding[one.name] = [
            cell.half_unit if isinstance(cell, Number) and not cell.about else math.nan for cell in one.cells
        ]
        spread = [(cell.low, cell.high) if isinstance(cell, Number) else (math.nan, math.nan) for cell in one.cells]
        if one.name in ("images_per_s", "images_per_s_per_rank", "rate") and any(
            math.isfinite(low) for low, _ in spread
        ):
            values["low"], values["high"] = ([ends[at] for ends in spread] for at in (0, 1))
    return pd.DataFrame(values, dtype=float), pd.DataFrame(rounding, dtype=float)


def _readings(quantities: Sequence[Quantity], table: Long) -> dict[str, Reading]:
    found = {}
    for one in quantities:
        unit = one.header.unit
        text = next((cell.unit.text for cell in one.cells if isinstance(cell, Number) and cell.unit.text), "")
        of_cell = f"{text} in the cells" if text and not (unit and unit.text) else ""
        given = (
            f"in {unit.text}"
            if unit and unit.text and unit.kind == "time" and unit.factor != 1
            else unit.text
            if unit and unit.kind == "rate"
            else ""
        )
        headers_of = one.header.text if len({*one.at}) < 2 else ", ".join(dict.fromkeys(one.at))
        found[one.name] = Reading(headers_of, one.name, given or of_cell, one.guess)
    return found


def _work(one: Quantity) -> str:
    """What a column of rates counts."""
    if one.name not in ("rate", "images_per_s", "images_per_s_per_rank"):
        return ""
    units = [one.header.unit, *(cell.unit for cell in one.cells if isinstance(cell, Number))]
    return next((unit.work for unit in units if unit and unit.work), "")


def _bad_cells(quantities: Sequence[Quantity], table: Long) -> Iterator[str]:
    """What is wrong with each cell that cannot be used, and whether its row is used without it."""
    columns_of = {one.name: one for one in quantities if one.cells}
    measured = [columns_of[name] for name in (*_MEASURED, "rate", "steps_per_s") if name in columns_of]
    has_any = [any(isinstance(one.cells[row], Number) for one in measured) for row in range(len(table.lines))]
    said = set()
    for name, one in columns_of.items():
        for row, (cell, line, at) in enumerate(zip(one.cells, table.lines, one.at, strict=True)):
            lost = name == "ranks" or (one in measured and not has_any[row])
            if not isinstance(cell, Missing) or not cell.reason or (lost and row in said):
                continue
            if cell.said or lost or name in ("wall_s", "steps_per_rank"):
                left = "the row is left out" if lost else "the row is used without it"
                yield f"{table.grid.where}, line {line}, column '{at}': {cell.reason}; {left}"
                said |= {row} if lost else set()


def _settings(made: _Assembly, quantities: Sequence[Quantity]) -> None:
    """Add the columns of text: models and the like, and what else tells curves apart."""
    table, index = made.table, made.values.index
    texts: dict[str, pd.Series] = {}
    for one in quantities:
        if one.name not in TEXT:
            continue
        cells = pd.Series(list(one.text), index, dtype=object)
        if one.name in texts:
            cells = (texts[one.name] + " " + cells).str.strip()
        texts[one.name] = cells
    for column in table.columns:
        if column.header.name or column.header.why != "not known" or not _tells_apart(column, made):
            continue
        short = all(len(cell) < 6 for cell in column.cells)
        cells = pd.Series(
            [f"{column.header.text} {cell}" if short and cell else cell for cell in column.cells], index, dtype=object
        )
        texts["setting"] = (texts["setting"] + " " + cells).str.strip() if "setting" in texts else cells
        made.readings["setting"] = Reading(column.header.text, "setting", guess="its text tells curves apart")
        made.notes = [
            note.replace(f"'{column.header.text}' (not known), ", "").replace(
                f", '{column.header.text}' (not known)", ""
            )
            for note in made.notes
        ]
        made.notes = [
            note for note in made.notes if not note.endswith(f"columns not used: '{column.header.text}' (not known)")
        ]
    ranks = made.values.get("ranks", made.values.get("nodes"))
    for name in ("setting", "framework", "machine", "precision"):
        if (
            name in texts
            and ranks is not None
            and ranks.nunique() > 1
            and ranks.groupby(texts[name]).nunique().max() < 2
        ):
            made.notes.append(
                f"{table.grid.where}: '{made.readings[name].header}' differs at each number of ranks: unused"
            )
            del texts[name], made.readings[name]
    for name, cells in texts.items():
        made.values[name] = cells.to_numpy(object)


def _tells_apart(column: shape.Column, made: _Assembly) -> bool:
    """Whether each value of a column stands at several numbers of ranks; of numbers, where rows are alike without."""
    ranks, cells = made.values["ranks"], pd.Series(column.cells, made.values.index)
    if cells.nunique() < 2 or cells.eq("").any():
        return False
    numeric = cells.map(numbers.has_value).any()
    alike = made.values[[name for name in ("ranks", "batch", "batch_per_rank") if name in made.values]].duplicated()
    return bool((ranks.groupby(cells).nunique() > 1).all() and (alike.any() or not numeric))


def _sizes(made: _Assembly) -> None:
    """Ranks from nodes and ranks per node, or as many as nodes; rows without any are left out."""
    have = {*made.values}
    if "ranks" not in have and {"nodes", "ranks_per_node"} <= have:
        made.values["ranks"] = made.values["nodes"] * made.values["ranks_per_node"]
    elif "ranks" not in have and "nodes" in have:
        made.values["ranks"] = made.values["nodes"]
        made.guesses.append("how many ranks a node has is not given: each node is taken as one rank")
    elif "ranks" not in have:
        raise TableError(_missing(made, "ranks"))
    if "ranks_per_node" not in have and {"ranks", "nodes"} <= have:
        each = made.values["ranks"] / made.values["nodes"]
        made.values["ranks_per_node"] = each.where(each % 1 == 0)
    if not {*_MEASURED, "rate", "steps_per_s", "epochs_per_s"} & have:
        raise TableError(_missing(made, "a rate, a time, a speedup or an efficiency"))


def _missing(made: _Assembly, what: str) -> str:
    """That a table lacks something, what its headers are, and which of them it may be."""
    texts = [text for column in made.table.columns for text in dict.fromkeys(column.at) if text]
    known = headers.EXAMPLES.get(what, ())
    also = f" (also read as it: {', '.join(known)})" if known else ""
    asked = [column.header.text for column in made.table.columns if not column.header.name and column.header.text]
    like = difflib.get_close_matches(what, asked, 1, 0.6) or asked[:1]
    say = f'; say which it is: COLUMNS="{like[0]}={"ranks" if what == "ranks" else "images_per_s"}"' if like else ""
    return (
        f"{made.table.grid.where}, line {made.table.lines[0]}: no column of {what}{also}; read as "
        f"{made.table.grid.format}, the headers are {', '.join(map(repr, dict.fromkeys(texts)))}{say}"
    )


def _scopes(made: _Assembly) -> None:
    """Say of rates and batches whether they are of one rank or of the whole job."""
    if "efficiency" in made.values and "speedup" not in made.values:
        pass
    runs = made.values
    if "batch" in runs and "step_s" not in runs:
        _scope_of_batch(made)
    if "rate" in made.values:
        name, why, certain = scopes.of_rate(made.values, made.key)
        made.rename("rate", name, "" if certain else why)
        if certain:
            reading = made.readings[name]
            made.readings[name] = Reading(
                reading.header, name, ", ".join(filter(None, (reading.unit, why))), reading.guess
            )
    if "batch" in made.values:
        if "images_per_s" not in made.values and "images_per_s_per_rank" in made.values:
            made.values["images_per_s"] = made.values["images_per_s_per_rank"] * made.values["ranks"]
        _scope_of_batch(made)


def _scope_of_batch(made: _Assembly) -> None:
    name, why, certain = scopes.of_batch(made.values, made.key)
    made.rename("batch", name, "" if certain else why)


def _derived(made: _Assembly) -> None:
    """Add what follows from other columns: batches, rates of steps, and rates of one rank and of all."""
    runs, ranks = made.values, made.values["ranks"]
    if "batch_per_rank" in runs:
        made.put("global_batch", runs["batch_per_rank"] * ranks)
    if "global_batch" in runs:
        made.put("batch_per_rank", runs["global_batch"] / ranks)
    rated = {"images_per_s", "images_per_s_per_rank"} & {*runs}
    if "steps_per_s" in runs and not rated:
        batch = runs.get("batch_per_rank", 1.0)
        made.put("images_per_s_per_rank", runs["steps_per_s"] * batch, made.rounding["steps_per_s"] * batch)
    elif "step_s" in runs and not rated:
        batch = runs["batch_per_rank"] if "batch_per_rank" in runs else pd.Series(1.0, runs.index)
        rate = batch / runs["step_s"]
        made.put("images_per_s_per_rank", rate, rate * made.rounding["step_s"] / runs["step_s"])
    if {"steps_per_s", "step_s"} & {*runs} and not rated and "batch_per_rank" not in runs:
        made.work = "batches"
        made.guesses.append("the batch is not given: it is taken as equal on all ranks, and rates count batches")
    if "images_per_s" in made.values:
        half = made.rounding["images_per_s"] / ranks if "images_per_s" in made.rounding else None
        made.put("images_per_s_per_rank", made.values["images_per_s"] / ranks, half)
    elif "images_per_s_per_rank" in made.values:
        half = made.rounding["images_per_s_per_rank"] * ranks if "images_per_s_per_rank" in made.rounding else None
        made.put("images_per_s", metrics.whole_job(made.values["images_per_s_per_rank"], ranks), half)
        for end in ("low", "high"):
            if end in made.values:
                made.values[end] = made.values[end] * ranks
    made.values = made.values.drop(columns=[name for name in ("steps_per_s", "epochs_per_s") if name in made.values])


def _usable(made: _Assembly) -> None:
    """Leave out rows without a number of ranks, or without anything measured; say where the others stand."""
    grid, lines = made.table.grid, made.table.lines
    measured = [name for name in _MEASURED if name in made.values]
    empty = made.values[measured].isna().all(axis=1)
    without = made.values["ranks"].isna()
    at = next((column.at for column in made.table.columns if column.header.text == "the numbers across"), None) or next(
        (column.at for column in made.table.columns if len({*column.at}) > 1), None
    )
    name = Path(grid.where).name or grid.where
    kept = ~(empty | without)
    made.values.insert(0, "file", grid.where)
    made.values.insert(1, "line", list(lines))
    places = [f"{name}, line {line}" + (f", '{at[row]}'" if at else "") for row, line in enumerate(lines)]
    made.values.insert(2, "place", places)
    made.values, made.rounding = made.values[kept], made.rounding[kept]
    if made.values.empty:
        raise TableError("\n".join([f"{grid.where}: no row can be used", *made.notes[:20]]))


def _tidy(table: UserTable) -> pd.DataFrame:
    """One row a number, as of a published report; repeats of one configuration are numbered."""
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
    """What tells curves apart beside model, data and machine, in words: framework, precision, other settings."""
    words = [runs[name] for name in ("framework", "precision", "setting") if name in runs]
    joined = [" ".join(filter(None, map(str, row))) for row in zip(*words, strict=True)] if words else ""
    return pd.Series(joined, runs.index, dtype=object)


def _base(run: pd.Series, repeat: float, setting: str) -> dict[str, object]:
    """The columns of a tidy row that tell what it is of; what tells curves apart beside the model is part of it."""

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
    known = schema.quantity(quantity)
    assert known is not None
    half = table.rounding[name].get(index, math.nan) if name in table.rounding else math.nan
    return {"quantity": quantity, "value": float(value), "unit": known.unit, "half_unit": half}


def _stated(table: UserTable, index: object, run: pd.Series) -> Iterator[dict[str, object]]:
    """The speedup and the efficiency that a run states: by throughput where the table has one, else by time."""
    by = (
        "throughput"
        if "images_per_s" in table.runs
        else "wall_time"
        if "wall_s" in table.runs
        else "job_time"
        if "job_s" in table.runs
        else "throughput"
    )
    for name in ("speedup", "efficiency"):
        if name in table.runs and not pd.isna(run[name]):
            yield _number(table, index, name, f"{name}_{by}", run[name])
