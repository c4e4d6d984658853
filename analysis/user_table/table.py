"""A user's table by the contract of docs/tables.md: one row a point, or a question. It never guesses silently."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis import TableError
from analysis.table import schema
from analysis.user_table import columns as user_columns
from analysis.user_table import files, headers, quantities, sizes, tidy
from analysis.user_table.assembly import Assembly
from analysis.user_table.columns import NotATable
from analysis.user_table.files import Grid
from analysis.user_table.headers import TEXT, Choices, Column, displayed


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
    runs: pd.DataFrame
    rounding: pd.DataFrame
    readings: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()
    published: pd.DataFrame | None = None
    title: str | None = None
    unread_times: bool = False

    @property
    def scales(self) -> bool:
        """Return whether it has several numbers of ranks."""
        return self.published is not None or ("ranks" in self.runs and self.runs["ranks"].nunique() > 1)

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
        runs = self.runs.drop(columns=[name for name in ("file", "line", "scaling") if name in self.runs])
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
    parts: list[UserTable] = []
    questions: list[str] = []
    others: list[str] = []
    for grid in grids:
        try:
            parts.append(_published(grid) or _read(grid, choices, alone=len(grids) == 1 or grid.log))
        except NotATable as error:
            others.append(str(error))
        except TableError as error:
            questions.append(str(error))
    problems += [f"{path}: COLUMNS names '{name}', which is no header here" for name in {*choices.names} - choices.used]
    scaling = [part for part in parts if part.scales]
    if not scaling and questions:
        more = f"{len(questions) - 1} other tables ask too; for one alone add table=TITLE" if questions[1:] else ""
        raise TableError("\n".join(filter(None, [questions[0], more, *problems])))
    if not parts:
        raise TableError("\n".join([*problems, *others][:3]) or f"{path}: no table")
    if scaling:
        others += [f"{part.path}, line {part.runs['line'].iloc[0]}" for part in parts if not part.scales]
        parts = scaling
    lines = ", ".join(re.findall(r", line (\d+)", " ".join(text.split(": ")[0] for text in others)))
    notes = [f"{path}: {len(others)} other tables (lines {lines}) are no scaling tables: not used"] if others else []
    return _together(str(path), parts, [*notes, *problems, *questions], several=len(parts) + len(questions) > 1)


def _published(grid: Grid) -> UserTable | None:
    """Return a grid that is a tidy table (analysis.table.schema), else None. Raises TableError for a bad one."""
    head = list(grid.rows[0].cells)
    if not {"quantity", "value"} <= {*head}:
        return None
    if wrong := [row for row in grid.rows if len(row.cells) != len(head)]:
        raise TableError(f"{wrong[0].source}, line {wrong[0].line}: not as many cells as headers ({len(head)})")
    frame = pd.DataFrame([row.cells for row in grid.rows[1:]], columns=head, dtype=str)
    published = schema.check(schema.with_half_units(frame), grid.rows[0].source)
    return UserTable(grid.rows[0].source, pd.DataFrame(), pd.DataFrame(), published=published)


def _together(path: str, parts: Sequence[UserTable], notes: Sequence[str], several: bool) -> UserTable:
    """Return the tables as one; if there are several, each has its title as a setting, but runs of logs."""
    titles = [part.title for part in parts]
    tables = []
    for part in parts:
        runs = part.runs
        if several and part.title is not None:
            label = part.title if titles.count(part.title) == 1 else f"{part.title} {runs['place'].iloc[0]}".strip()
            setting = runs.get("setting", pd.Series("", runs.index)).astype(str)
            runs = runs.assign(setting=(label + " " + setting).str.strip())
        tables.append(runs)
    runs = pd.concat(tables, ignore_index=True)
    rounding = pd.concat([part.rounding for part in parts], ignore_index=True)
    runs = runs.fillna({name: "" for name in runs if name in (*TEXT, "work", "scaling")})
    readings = {(column.text, column.name): column for part in parts for column in part.readings}
    all_notes = dict.fromkeys([*(note for part in parts for note in part.notes), *notes])
    tidy_parts = [part.published for part in parts if part.published is not None]
    published = pd.concat(tidy_parts, ignore_index=True) if tidy_parts else None
    unread_times = any(part.unread_times for part in parts)
    return UserTable(path, runs, rounding, tuple(readings.values()), tuple(all_notes), published, None, unread_times)


def _read(grid: Grid, choices: Choices, alone: bool) -> UserTable:
    """Return one table. Raises Question if it has several readings, NotATable if it is no scaling table.

    alone: whether it is the only one; else it needs several numbers of ranks.
    """
    columns, rows, notes = user_columns.read(grid, choices)
    columns = sizes.resolved(columns, grid.place, choices)
    if not alone and all(len({*column.cells}) == 1 for column in columns if column.name in ("ranks", "nodes")):
        raise NotATable(f"{grid.place}: one number of ranks alone")
    columns = quantities.chosen(columns, grid.place, choices)
    numeric, bad_cells = quantities.read(columns, grid, rows, choices)
    assembly = Assembly(grid, choices, rows, numeric, [*notes, *bad_cells])
    assembly.settings(columns)
    assembly.scopes()
    runs, rounding, readings = assembly.result()
    title = None if grid.log else grid.title
    return UserTable(
        grid.rows[0].source, runs, rounding, tuple(readings), tuple(assembly.notes), None, title, assembly.unread_times
    )
