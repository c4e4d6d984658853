"""A figure: an id, what it shows, its caption, the rows that it draws, and the function that draws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.study import Study
from train.record.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Figures of local records alone: own-<experiment>-<kind>.
LOCAL = "own"


@dataclass(frozen=True)
class Points:
    """The data of one figure: published and local rows, as tidy tables, and records by path if it reads them."""

    published: pd.DataFrame
    local: pd.DataFrame
    records: Mapping[str, RunRecord] = field(default_factory=dict)


Draw = Callable[[Points], "Figure"]
Where = Mapping[str, Any]  # column -> value, or a tuple of values
WITH_CONTROL: Where = {"kind": ("measured", "control")}


@dataclass(frozen=True)
class Kind:
    """A kind of figure of an experiment. `name` ends the figure's id: "" for the one figure of a special experiment."""

    name: str
    shows: str
    caption: str
    draw: Draw
    where: Where = field(default_factory=dict)
    reads_records: bool = False  # it draws numbers that are in the records and not in the table


@dataclass(frozen=True)
class Entry:
    """A figure. `published` and `local` select its rows; None selects none.

    Local rows are the measured ones, unless `local` asks for controls by `kind`.
    """

    id: str
    shows: str
    caption: str
    draw: Draw
    published: Where | None = None
    local: Where | None = None
    reads_records: bool = False

    @property
    def report(self) -> str:
        """The report that the figure is from, "own" where it shows local records alone."""
        return self.id.split("-")[0]

    def points(self, study: Study) -> Points:
        """Return the rows of both tables that this figure draws."""
        local = select(study.local, self.local and {"kind": "measured", **self.local})
        paths = local["record"].unique() if self.reads_records else ()
        return Points(select(study.published, self.published), local, {path: study.records[path] for path in paths})


def select(table: pd.DataFrame, where: Where | None) -> pd.DataFrame:
    """Return the rows whose columns have the value, or one of the values, in `where`; None gives no row."""
    if where is None:
        return table.iloc[:0]
    chosen = pd.Series(True, table.index)
    for column, value in where.items():
        chosen &= table[column].isin(value if isinstance(value, tuple) else (value,))
    return table[chosen]
