"""A user's table by the contract of docs/tables.md: one row a point, or a question. It never guesses silently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from analysis import TableError
from analysis.table import schema
from analysis.user_table import columns as user_columns
from analysis.user_table import files, headers, meanings, quantities, tidy
from analysis.user_table.assembly import Assembly
from analysis.user_table.files import Grid
from analysis.user_table.headers import TEXT, Choices, Column, Question, displayed


@dataclass(frozen=True)
class UserTable:
    """A table that a user brought.

    runs: one row a run, with `file`, `line` and `place` (line and column), the columns of `headers.NAMES` that it has
    (text; numbers, NaN if not known), `work`, the unit that a rate counts, and `scaling`, "strong" or "weak" if the
    times are those of equal work in all, or of each rank, else "". rounding: the same numbers' half units. published:
    the rows of a file that is a tidy table (analysis.table.schema), else None. notes: on omissions. unread_times:
    whether columns of times are not used.
    """

    path: str
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    rounding: pd.DataFrame = field(default_factory=pd.DataFrame)
    readings: Sequence[Column] = ()
    notes: Sequence[str] = ()
    published: pd.DataFrame | None = None
    unread_times: bool = False

    @property
    def interpretation(self) -> list[str]:
        """Return a line for the reading of each column."""
        lines = [*map(str, self.readings)]
        return [*lines, 'to read a column otherwise: COLUMNS="HEADER=NAME,..."'] if lines else []

    def tidy(self) -> pd.DataFrame:
        """Return the table as rows of `analysis.table.schema`, checked."""
        if self.published is not None:
            return self.published
        return tidy.tidy(self.runs, self.rounding, {reading.name for reading in self.readings}, self.path)

    def shown(self) -> pd.DataFrame:
        """Return its runs to read: rates under the name of what they count, without columns that repeat others."""
        runs = self.runs.drop(columns=["file", "line", "scaling"])
        work = runs.pop("work")
        if work.nunique() == 1:
            return runs.rename(columns={name: displayed(name, work.iloc[0]) for name in map(str, runs)})
        return runs.assign(work=work)


def read(path: Path, columns_text: str = "") -> UserTable:
    """Return the table in a file, in the files of a folder, or on standard input ("-"). `columns_text`: COLUMNS=.

    Raises TableError naming the file and what is missing, or with a question and the settings that answer it.
    """
    choices = headers.parse_choices(columns_text)
    grids, problems = files.read(path)
    if title := choices.directives.get("table", "").lower():
        grids = [grid for grid in grids if title in grid.title.lower()]
        problems += [] if grids else [f"{path}: no table with '{title}' in its title"]
    tables: list[tuple[Grid, UserTable]] = []
    questions: list[str] = []
    others: list[tuple[Grid, str]] = []
    for grid in grids:
        try:
            tables.append((grid, _published(grid) or _read(grid, choices, alone=len(grids) == 1 or grid.log)))
        except Question as question:
            answers = [f"  {meaning}: {choices.adding(answer)}" for meaning, answer in question.answers]
            text = "\n".join([f"{grid.place}: {question}", *answers])
            questions += [text] if answers else []
            others += [] if answers else [(grid, text)]
    problems += [f"{path}: COLUMNS names '{name}', which is no header here" for name in {*choices.names} - choices.used]
    if not tables:
        more = [f"{len(questions) - 1} other tables ask too; for one alone add table=TITLE"] if questions[1:] else []
        reasons = [questions[0], *more, *problems] if questions else [*problems, *(text for _, text in others)][:3]
        raise TableError("\n".join(reasons) or f"{path}: no table")
    lines = ", ".join(str(grid.rows[0].line) for grid, _ in others)
    notes = [f"{path}: {len(others)} other tables (lines {lines}) are no scaling tables: not used"] if others else []
    return _together(str(path), tables, [*notes, *problems, *questions], len(tables) + len(questions) > 1)


def _published(grid: Grid) -> UserTable | None:
    """Return a grid that is a tidy table (analysis.table.schema), else None. Raises TableError for a bad one."""
    head = list(grid.rows[0].cells)
    if not {"quantity", "value"} <= {*head}:
        return None
    if wrong := [row for row in grid.rows if len(row.cells) != len(head)]:
        raise TableError(f"{wrong[0].source}, line {wrong[0].line}: not as many cells as headers ({len(head)})")
    frame = pd.DataFrame([row.cells for row in grid.rows[1:]], columns=head, dtype=str)
    return UserTable(grid.rows[0].source, published=schema.check(schema.with_half_units(frame), grid.rows[0].source))


def _read(grid: Grid, choices: Choices, alone: bool) -> UserTable:
    """Return one table. Raises Question if it has several readings, or none."""
    columns, rows, notes = user_columns.read(grid, choices)
    columns = meanings.resolved(columns, alone)
    numeric, bad_cells = quantities.read(columns, grid, rows, choices)
    assembly = Assembly(grid, choices, rows, numeric, [*notes, *bad_cells])
    assembly.settings(columns)
    assembly.scopes()
    runs, rounding, readings = assembly.result()
    return UserTable(grid.rows[0].source, runs, rounding, readings, assembly.notes, unread_times=assembly.unread_times)


def _together(path: str, tables: Sequence[tuple[Grid, UserTable]], notes: Sequence[str], several: bool) -> UserTable:
    """Return tables as one; if there are several, each has its title as a setting, but runs of logs."""
    titles = [grid.title for grid, _ in tables]
    parts = []
    for grid, table in tables:
        runs = table.runs
        if several and table.published is None and not grid.log:
            title = grid.title if titles.count(grid.title) == 1 else f"{grid.title} {runs['place'].iloc[0]}"
            runs = runs.assign(
                setting=[f"{title} {setting}".strip() for setting in runs.get("setting", [""] * len(runs))]
            )
        parts.append(runs)
    runs = pd.concat(parts, ignore_index=True)
    runs = runs.fillna({name: "" for name in runs if name in (*TEXT, "work", "scaling")})
    published = [table.published for _, table in tables if table.published is not None]
    return UserTable(
        path,
        runs,
        pd.concat([table.rounding for _, table in tables], ignore_index=True),
        list({(column.text, column.name): column for _, table in tables for column in table.readings}.values()),
        tuple(dict.fromkeys([*(note for _, table in tables for note in table.notes), *notes])),
        pd.concat(published, ignore_index=True) if published else None,
        any(table.unread_times for _, table in tables),
    )
