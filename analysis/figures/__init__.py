"""A figure: its id, the rows that it draws, the function that draws them, and its texts in captions.toml.

With page/ this is the only package that imports Matplotlib; it draws numbers that other packages compute.
"""

import functools
import os
import re
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis import labels
from analysis.study import Study
from record.schema import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

os.environ["MPLBACKEND"] = "agg"  # that of a notebook is not installed here, and Matplotlib refuses it when imported


# Figures of local records alone: own-<experiment>-<kind>.
LOCAL = "own"
CAPTIONS = Path(__file__).with_name("captions.toml")
_NAMED = 2  # missing points


@functools.cache
def captions() -> dict[str, dict[str, Any]]:
    """Return the texts of all figures, by id, and of all kinds of figures of experiments."""
    return tomllib.loads(CAPTIONS.read_text())


@dataclass(frozen=True)
class FigureData:
    """The data of one figure: published and local rows, as tidy tables, and records by path if it reads them.

    missing: why local points are not there, one line; "" if none is known to be missing.
    """

    published: pd.DataFrame
    local: pd.DataFrame
    records: Mapping[str, RunRecord] = field(default_factory=dict)
    missing: str = ""

    @property
    def empty(self) -> bool:
        """Return whether there is no row."""
        return self.published.empty and self.local.empty

    @property
    def several(self) -> bool:
        """Return whether there are local points, or several published values that can be compared."""
        values = self.published.groupby("quantity")["value"].nunique()
        return not self.local.empty or bool(values.gt(1).any())

    def note(self, *remarks: str, **how: bool) -> str:
        """Return the note below the figure: how to read points (`labels.figure_note`), remarks, missing points."""
        measured = self.local[self.local["kind"].eq("measured")]
        return "\n".join(filter(None, (labels.figure_note(measured, **how), *remarks, self.missing)))


Draw = Callable[[FigureData], "Figure"]
RowFilter = Mapping[str, Any]  # column -> value, or a tuple of values
WITH_CONTROL: RowFilter = {"kind": ("measured", "control")}


@dataclass(frozen=True)
class FigureEntry:
    """A figure. `published` and `local` select its rows; None selects none.

    Local rows are the measured ones, unless `local` asks for controls by `kind`. `texts`: the key of its texts, if it
    is not its id.
    """

    id: str
    draw: Draw
    published: RowFilter | None = None
    local: RowFilter | None = None
    reads_records: bool = False
    texts: str = ""

    @property
    def title(self) -> str:
        """A line on what the figure shows."""
        return str(captions()[self.texts or self.id]["shows"])

    @property
    def shows(self) -> str:
        """The title; of a figure of an experiment after its name."""
        return f"{self.local['experiment']}: {self.title}" if self.texts and self.local else self.title

    def caption(self, local: pd.DataFrame) -> str:
        """Return the caption, with what holds for the figure of these local rows alone."""
        texts = captions()[self.texts or self.id]
        more = [sentence for name, sentence in texts.get("if", {}).items() if _has(local, name)]
        return " ".join(" ".join([texts["caption"], *more, labels.caption_note(local)]).split())

    @property
    def report(self) -> str:
        """The report that the figure is from, "own" where it shows local records alone."""
        return self.id.split("-")[0]

    def points(self, study: Study) -> FigureData:
        """Return the rows of both tables that this figure draws."""
        local = select(study.local, self.local and {"kind": "measured", **self.local})
        paths = local["record"].unique() if self.reads_records else ()
        records = {path: study.records[path] for path in paths}
        return FigureData(select(study.published, self.published), local, records, self._missing(study, local))

    def _missing(self, study: Study, local: pd.DataFrame) -> str:
        """Return which points of the figure have no row, as their launches failed or are left out, and why."""
        lost = [
            (notice, run) for notice in study.notices if (run := study.records.get(notice.path)) and self._draws(run)
        ]
        drawn = {Path(path).parts[-5:-3] for path in (local["record"].unique() if lost else ())}
        reasons = {
            run.point: textwrap.shorten(notice.reason, 60)
            for notice, run in lost
            if Path(notice.path).parts[-5:-3] not in drawn
        }
        points = [f"{point}: {reason}" for point, reason in reasons.items()]
        more = [f"{len(points) - _NAMED} more"] if len(points) > _NAMED else []
        return f"not drawn of local runs: {'; '.join([*points[:_NAMED], *more])}" if points else ""

    def _draws(self, run: RunRecord) -> bool:
        """Return whether the figure is of runs as this one."""
        model = (run.config.get("model") or {}).get("name")
        facts = {"experiment": run.experiment, "model": model, "device": run.config["device"]}
        if not self.local:
            return False
        wanted = [(fact, self.local.get(name, fact)) for name, fact in facts.items()]
        return all(fact in (value if isinstance(value, tuple) else (value,)) for fact, value in wanted)


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure of an experiment. `name` ends the figure's id: "" for the one figure of a special experiment."""

    key: str  # of its texts
    name: str
    draw: Draw
    where: RowFilter = field(default_factory=dict)
    reads_records: bool = False  # it draws numbers that are in the records and not in the table

    def entry(self, experiment: str, over: str = "", **where: Any) -> FigureEntry:
        """Return the figure of this kind of an experiment. over: ends its id, beside a figure over another axis."""
        name = re.sub(r"[^A-Za-z0-9]+", "-", experiment)  # it is in a file's name, and a record may be anybody's
        id = "-".join(filter(None, (LOCAL, name, self.name, over)))
        local = {"experiment": experiment, **where, **self.where}
        return FigureEntry(id, self.draw, local=local, reads_records=self.reads_records, texts=self.key)


def _has(local: pd.DataFrame, name: str) -> bool:
    """Return whether a quantity or a kind of this name is in a local table, or a value in a column of this name."""
    return name in {*local["quantity"], *local["kind"]} or (name in local and bool(local[name].notna().any()))


def select(table: pd.DataFrame, where: RowFilter | None) -> pd.DataFrame:
    """Return the rows whose columns have the value, or one of the values, in `where`; None gives no row."""
    if where is None:
        return table.iloc[:0]
    chosen = pd.Series(True, table.index)
    for column, value in where.items():
        chosen &= table[column].isin(value if isinstance(value, tuple) else (value,))
    return table[chosen]
