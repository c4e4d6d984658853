"""What a figure is: an id, what it shows, the rows that it draws, and the function that draws them.

The docstring of the function is the caption of the figure.
"""

from __future__ import annotations

import inspect
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
    """What one figure draws: published and local rows, as tidy tables, and records by path if it reads them."""

    published: pd.DataFrame
    local: pd.DataFrame
    records: Mapping[str, RunRecord] = field(default_factory=dict)


Draw = Callable[[Points], "Figure"]
Where = dict[str, Any]  # column -> value, or a tuple of values


@dataclass(frozen=True)
class Entry:
    """A figure. `published` and `local` select its rows; None selects none.

    Local rows are the measured ones, unless `local` asks for controls by `kind`.
    """

    id: str
    shows: str
    draw: Draw
    published: Where | None = None
    local: Where | None = None
    reads_records: bool = False

    @property
    def report(self) -> str:
        """The report that the figure is from, "own" where it shows local records alone."""
        return self.id.split("-")[0]

    @property
    def caption(self) -> str:
        """The text below the figure."""
        return inspect.cleandoc(self.draw.__doc__ or "")

    def points(self, study: Study) -> Points:
        """The rows of both tables that this figure draws."""
        local = select(study.local, self.local and {"kind": "measured"} | self.local)
        paths = local["record"].unique() if self.reads_records else ()
        return Points(select(study.published, self.published), local, {path: study.records[path] for path in paths})


def select(table: pd.DataFrame, where: Where | None) -> pd.DataFrame:
    """The rows whose columns have the value, or one of the tuple of values, that `where` gives; None gives no row."""
    if where is None:
        return table.iloc[:0]
    chosen = pd.Series(True, table.index)
    for column, value in where.items():
        chosen &= table[column].isin(value if isinstance(value, tuple) else (value,))
    return table[chosen]


class Figures(list[Entry]):
    """The figures of one report, in its order: each is added by the decorator of its function."""

    def add(
        self, id: str, shows: str, published: Where | None = None, local: Where | None = None
    ) -> Callable[[Draw], Draw]:
        """Returns a decorator that adds the function below it as the figure `id`."""

        def register(function: Draw) -> Draw:
            self.append(Entry(id, shows, function, published, local))
            return function

        return register
