"""A user's table by the contract of docs/tables.md: one row a point, or a question. It never guesses silently."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from analysis import TableError
from analysis.table import tidy_columns
from analysis.user_table import answers, meanings, numbers, quantities, rates, table_files, tidy
from analysis.user_table import columns as user_columns
from analysis.user_table.answers import Choices, Question
from analysis.user_table.assembly import Assembly
from analysis.user_table.headers import TEXT, Column, displayed
from analysis.user_table.table_files import Grid
from common.grouping import gathered

_FURTHER, _LIKELY = 2, 6  # questions to which an answer may lead before a curve, and their answers that are tried
_TRIES, _CELLS = 200, 100_000  # readings of a table, and of its cells, to check the answers to one question


@dataclass(frozen=True)
class UserTable:
    """A table that a user brought.

    runs: one row a run, with `file`, `line` and `place` (line and column), the columns of `headers.NAMES` that it has
    (text; numbers, NaN if not known), `work`, the unit that a rate counts, and `scaling`, "strong" or "weak" if the
    times are those of equal work in all, or of each rank, else "". rounding: the same numbers' half units. published:
    the rows of a file that is a tidy table (analysis.table.tidy_columns), else None. notes: on omissions. unread_times:
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
        """Return the table as rows of `analysis.table.tidy_columns`, checked."""
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


def read_table(path: Path, columns_text: str = "") -> UserTable:
    """Return the table in a file, in the files of a folder, or on standard input ("-").

    columns_text: COLUMNS=; without it what is kept beside the file. Raises TableError naming the file and what is
    missing, or Question with the settings that answer it.
    """
    choices = answers.parse(columns_text)
    grids, problems = table_files.read_grids(path, not choices.text)
    if title := choices.directives.get("table", "").lower():
        grids = [grid for grid in grids if title in grid.title.lower()]
        problems += [] if grids else [f"{path}: no table with '{title}' in its title"]
    tables: list[tuple[Grid, UserTable]] = []
    unread: list[tuple[Grid, Question]] = []
    for grid in grids:
        own = choices if choices.text else answers.parse(grid.columns)
        alone = len(grids) == 1 or grid.log
        try:
            tables.append((grid, _published(grid) or _read(grid, own, alone)))
        except Question as question:
            unread.append((grid, _checked(question, grid, own, alone)))
    questions = [question for _, question in unread if question.answers]
    refused = [(grid, question.text) for grid, question in unread if not question.answers]
    problems += [f"{path}: COLUMNS names '{name}', which is no header here" for name in {*choices.names} - choices.used]
    if questions and not tables:
        more = [f"{len(questions) - 1} other tables ask too; for one alone add table=TITLE"] if questions[1:] else []
        questions.sort(key=lambda question: "no column of ranks" in question.text)  # scaling tables first
        raise Question("\n".join([questions[0].text, *more, *problems]), questions[0].answers)
    if not tables:
        raise TableError("\n".join([*problems, *(text for _, text in refused)][:3]) or f"{path}: no table")
    reasons = (re.split(":| among ", text.removeprefix(f"{grid.place}: "))[0] for grid, text in refused)
    lines = gathered(zip(reasons, (str(grid.rows[0].line) for grid, _ in refused), strict=True))
    unit = grids[0].rows[0].unit if grids else "line"
    notes = [f"{path}: not used: tables at {unit}s {', '.join(at)}: {reason}" for reason, at in lines.items()]
    notes += [*problems, *map(str, questions)]
    return _together(str(path), tables, notes, len(tables) + len(questions) > 1)


def _checked(question: Question, grid: Grid, choices: Choices, alone: bool) -> Question:
    """Return a question with its place, and with those answers alone with which the table has a curve."""
    texts = [choices.adding(answer) for answer in question.answers]
    tries = iter(range(min(_TRIES, _CELLS // sum(len(row.cells) for row in grid.rows))))
    leading = [text for text in texts if _leads(grid, text, alone, _FURTHER, tries)]
    reason = ": no answer gives a curve of several numbers of ranks" if texts and not leading else ""
    return Question(f"{grid.place}: {question.text}{reason}", leading)


def _leads(grid: Grid, columns_text: str, alone: bool, further: int, tries: Iterator[int]) -> bool:
    """Return whether a table is read as a curve by this text of COLUMNS, and up to so many further answers.

    Also if no more `tries` are left to tell.
    """
    choices = answers.parse(columns_text)
    if next(tries, None) is None:
        return True
    try:
        runs = _read(grid, choices, alone).runs
    except Question as question:
        texts = map(choices.adding, question.answers[:_LIKELY])
        return further > 0 and any(_leads(grid, text, alone, further - 1, tries) for text in texts)
    return grid.log or any(curve["ranks"].nunique() > 1 for curve in rates.curves(runs))


def _published(grid: Grid) -> UserTable | None:
    """Return a grid that is a tidy table (analysis.table.tidy_columns), else None. Raises TableError for a bad one."""
    head = list(grid.rows[0].cells)
    if not {"quantity", "value"} <= {*head}:
        return None
    if wrong := [row for row in grid.rows if len(row.cells) != len(head)]:
        raise TableError(f"{wrong[0].place}: not as many cells as headers ({len(head)})")
    frame = pd.DataFrame([row.cells for row in grid.rows[1:]], columns=head, dtype=str)
    return UserTable(
        grid.rows[0].source, published=tidy_columns.check(tidy_columns.with_half_units(frame), grid.rows[0].source)
    )


def _read(grid: Grid, choices: Choices, alone: bool) -> UserTable:
    """Return one table. Raises Question if it has several readings, or none."""
    columns, rows, notes = user_columns.read_columns(grid, choices)
    columns = [column for column in columns if column.name != "ranks" or column.filled]
    if grid.log and not {"ranks", "nodes"} & {column.name for column in columns}:
        counts = [f"ranks={count}" for count in re.findall(r"[1-9]\d*", Path(rows[0].source).name)]
        raise Question("the log does not state its number of ranks: give it as COLUMNS=ranks=NUMBER", counts)
    columns, bad_cells = quantities.read_quantities(meanings.resolved(columns, alone), grid, rows, choices)
    assembly = Assembly(grid, choices, rows, columns, [*notes, *bad_cells])
    assembly.settings()
    assembly.scopes()
    runs, rounding, readings = assembly.result()
    times = (column for column in columns if column.name in ("", "other"))
    unread_times = any("time" in {column.unit.kind, *numbers.kinds(column.cells)} for column in times)
    return UserTable(grid.rows[0].source, runs, rounding, readings, assembly.notes, unread_times=unread_times)


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
