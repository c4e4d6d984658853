"""The figures: one module a report, one function a figure; the function's docstring is its caption."""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

_MODULES = ("hacksa", "osu", "bnl", "spreadsheet", "msoe", "own", "training", "allreduce", "equivalence", "network")
_FIGURES: dict[str, "Entry"] = {}


@dataclass(frozen=True)
class Points:
    """What one figure draws: the published rows and one's own rows of its experiment, as tidy tables."""

    published: pd.DataFrame
    own: pd.DataFrame


@dataclass(frozen=True)
class Entry:
    """A registered figure. `published` and `own` give its rows: column -> value, or values; None: none.

    Of one's own rows it is given the measured ones, unless it asks for controls by `kind`.
    """

    id: str
    shows: str
    function: Callable[[Points], Figure]
    published: dict[str, Any] | None
    own: dict[str, Any] | None

    @property
    def report(self) -> str:
        """The report whose figure it is, "own" where it shows one's own records alone."""
        return self.id.split("-")[0]

    @property
    def caption(self) -> str:
        """What stands below the figure."""
        return inspect.cleandoc(self.function.__doc__ or "")

    def points(self, published: pd.DataFrame, own: pd.DataFrame) -> Points:
        """The rows of both tables that this figure draws."""
        return Points(select(published, self.published), select(own, self.own and {"kind": "measured"} | self.own))


def select(table: pd.DataFrame, where: dict[str, Any] | None) -> pd.DataFrame:
    """The rows whose columns have the value, or one of the tuple of values, that `where` gives; None gives no row."""
    if where is None:
        return table.iloc[:0]
    for column, value in where.items():
        table = table[table[column].isin(value if isinstance(value, tuple) else (value,))]
    return table


def figure(
    id: str, shows: str, published: dict[str, Any] | None = None, own: dict[str, Any] | None = None
) -> Callable[[Callable[[Points], Figure]], Callable[[Points], Figure]]:
    """Register the function below as the figure `id`. Raises ValueError where the id is taken."""

    def register(function: Callable[[Points], Figure]) -> Callable[[Points], Figure]:
        if id in _FIGURES:
            raise ValueError(f"two figures are called {id}")
        _FIGURES[id] = Entry(id, shows, function, published, own)
        return function

    return register


def load() -> dict[str, Entry]:
    """All figures by id, in the order of the reports."""
    for module in _MODULES:
        importlib.import_module(f"analysis.figures.{module}")
    return dict(_FIGURES)
