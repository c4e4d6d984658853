"""One table under construction: its settings, the scope of its rates and batches, and what follows from them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import TableError, metrics
from analysis.user_table import columns as user_columns
from analysis.user_table import headers, numbers, rates, sizes
from analysis.user_table.columns import Column, Question
from analysis.user_table.files import Grid, Row
from analysis.user_table.headers import NAMES, TEXT, Choices
from analysis.user_table.numbers import Number
from analysis.user_table.quantities import Quantity

_MEASURED = ("images_per_s", "images_per_s_per_rank", "wall_s", "job_s", "epoch_s", "step_s", "speedup", "efficiency")
_SCOPE = {
    "images_per_s": "of the whole job", "images_per_s_per_rank": "of one rank", "global_batch": "of all ranks",
    "batch_per_rank": "of one rank",
}  # fmt: skip
_SLOWER = 1.05  # speedups up to this on more ranks may be efficiencies


@dataclass(frozen=True)
class Reading:
    """How one column was read. why: what shows it, if not its header."""

    header: str
    name: str
    unit: str = ""
    work: str = ""
    why: str = ""

    def __str__(self) -> str:
        """Return, for example, "'Global Throughput (img/s)' -> images_per_s, of the whole job"."""
        parts = [displayed(self.name, self.work), _SCOPE.get(self.name, ""), self.unit]
        return f"'{self.header}' -> {', '.join(filter(None, parts))}" + (f" ({self.why})" if self.why else "")


def displayed(name: str, work: str) -> str:
    """Return the name of a column with the unit that its rates count, "tokens_per_s"."""
    counted = re.sub(r"\W+", "_", work).strip("_").lower() or "images"
    return f"{counted}_per_s" if name == "rate" else re.sub("^images(?=_per_s)", counted, name)


class Assembly:
    """The runs of one table under construction: numbers and their rounding by name, readings and notes."""

    def __init__(
        self, grid: Grid, choices: Choices, rows: Sequence[Row], numeric: Sequence[Quantity], notes: list[str]
    ) -> None:
        """Begin with the columns of numbers; notes: a list that grows."""
        self.grid, self.choices, self.rows, self.notes = grid, choices, rows, notes
        values = {quantity.name: numbers.finite(quantity.cells) for quantity in numeric}
        values["ranks"] = sizes.ranks(values, notes, grid.place)
        self.values = pd.DataFrame(values, dtype=float)
        half = {q.name: [c.half_unit if isinstance(c, Number) else math.nan for c in q.cells] for q in numeric}
        self.rounding = pd.DataFrame(half, dtype=float)
        self.readings = {q.name: Reading(q.column.text, q.name, q.unit, q.work, q.column.reason) for q in numeric}
        self.columns = {quantity.name: quantity.column for quantity in numeric}
        self.work = next((quantity.work for quantity in numeric if quantity.work), "")
        for rate in (quantity for quantity in numeric if quantity.name in ("rate", *_MEASURED[:2])):
            ends = [(c.low, c.high) if isinstance(c, Number) else (math.nan, math.nan) for c in rate.cells]
            if any(math.isfinite(low) for low, _ in ends) and "low" not in self.values:
                self.values["low"], self.values["high"] = zip(*ends, strict=True)
        self.scaling = ""

    def question(self, text: str, *answers: tuple[str, str]) -> Question:
        """Return a question about this table."""
        return Question(self.grid.place, text, answers, self.choices)

    def rename(self, old: str, new: str, why: str) -> None:
        """Rename a column; `why`: what shows it."""
        self.values = self.values.rename(columns={old: new})
        self.rounding = self.rounding.rename(columns={old: new})
        self.readings[new] = replace(self.readings.pop(old), name=new, why=why)

    def settings(self, columns: Sequence[Column]) -> None:
        """Add the columns of text: models and the like, and those without which rows would be alike.

        Raises Question if rows of one number of ranks are alike in all but what was measured.
        """
        texts: dict[str, pd.Series] = {}
        self.unknown_times = any(column.name == "time" for column in columns)
        for column in columns:
            if column.name in TEXT:
                self._add(texts, column, column.name, column.header.why)
        apart = [name for name in ("batch_per_rank", "global_batch", "batch", "steps_per_rank") if name in self.values]
        first = min((c.number for c in columns if c.name in user_columns.MEASURED), default=len(columns))
        conditions = [c for c in columns if c.name in ("condition", "threads", "batch")]
        words = [c for c in columns if c.name == "" and not c.header.why and not c.numeric and c.number < first]
        for column in [*conditions, *words]:
            cells = pd.Series(column.cells, self.values.index)
            several = self.values["ranks"].groupby(cells).nunique().max() > 1
            fewer = self._alike({**texts, "": cells}, apart, "first").sum() < self._alike(texts, apart, "first").sum()
            if several and fewer:
                self._add(texts, column, "setting", "rows would be alike without it")
        alike = self._alike(texts)
        if alike.any() and "rows" not in self.choices.directives:
            self._ask_alike(alike, texts, columns)
        if alike.any() and self.choices.directives.get("rows") == "curves":
            labels = [f"from line {line}" for line in self._curve_starts()]
            texts["setting"] = (texts.get("setting", pd.Series("", self.values.index)) + " " + labels).str.strip()
        self.values = self.values.assign(**{name: cells.to_numpy(object) for name, cells in texts.items()})
        named = {column.number for column in columns if column.name in NAMES or column.text in self._settings_read}
        self.unread_times = any(column.name == "time" or column.header.why == headers.PART for column in columns)
        self.unused = [c for c in columns if c.number not in named and c.text and c.name not in ("rate", "batch")]

    def _add(self, texts: dict[str, pd.Series], column: Column, name: str, why: str) -> None:
        """Add a column of text, behind what the name has already."""
        short = name == "setting" and (column.numeric or all(len(cell) < 6 for cell in column.cells))
        cells = [f"{column.text} {cell}" if short and cell and column.number else cell for cell in column.cells]
        values = pd.Series(cells, self.values.index, dtype=object)
        texts[name] = (texts[name] + " " + values).str.strip() if name in texts else values
        before = self.readings.get(name)
        header = f"{before.header}, {column.text}" if before else column.text
        self.readings[name] = Reading(header, name, why="" if column.header.by_user else why)

    @property
    def _settings_read(self) -> list[str]:
        return [text for name in TEXT if name in self.readings for text in self.readings[name].header.split(", ")]

    def _alike(self, texts: dict[str, pd.Series], but: Sequence[str] = (), keep: Any = False) -> pd.Series:
        """Return which rows are alike in all that identifies a run, `but` these, and not in what was measured."""
        names = [name for name in (*headers.SIZES, "repeat") if name in self.values and name not in but]
        measured = [name for name in self.values if name in (*user_columns.MEASURED, "rate")]
        identity = self.values[names].assign(**texts)
        rows = identity.join(self.values[measured])[self.values[["ranks"]].notna().all(axis=1)]
        rows = rows.dropna(subset=measured, how="all").drop_duplicates()
        return identity.loc[rows.index].duplicated(keep=keep).reindex(identity.index, fill_value=False)

    def _curve_starts(self) -> list[int]:
        """Return, for each row, the line on which its curve begins: where a number of ranks comes again."""
        starts: list[int] = []
        counts: set[float] = set()
        for row, count in zip(self.rows, self.values["ranks"], strict=True):
            if not starts or count in counts:
                counts = set()
                starts.append(row.line)
            else:
                starts.append(starts[-1])
            counts.add(count)
        return starts

    def _ask_alike(self, alike: pd.Series, texts: dict[str, pd.Series], columns: Sequence[Column]) -> None:
        """Raise Question whether rows are repeats, curves one after the other, or told apart by an unused column.

        If they can only be repeats, a note says so.
        """
        count = self.values.loc[alike, "ranks"].iloc[0]
        same = alike & self.values["ranks"].eq(count)
        lines = [str(row.line) for row, is_same in zip(self.rows, same, strict=True) if is_same]
        answers = [("repeats", "rows=repeats")]
        starts = pd.Series(self._curve_starts())
        if starts.nunique() > 1 and self.values["ranks"].groupby(starts).nunique().min() > 1:
            answers.append(("curves, one after the other", "rows=curves"))
        first = min((c.number for c in columns if c.name in user_columns.MEASURED), default=len(columns))
        for column in columns:
            unknown = column.name in ("condition", "batch", "threads") or (column.name == "" and column.number < first)
            if unknown and column.text not in self._settings_read:
                cells = pd.Series(column.cells, self.values.index)
                if not self._alike({**texts, "": cells}).any() and column.header.why != "not of one of the curves":
                    answers.append((f"'{column.text}' tells", f"{column.key(columns)}=setting"))
        text = f"lines {', '.join(lines[:4])} have {count:g} ranks but other values, and no column distinguishes them"
        if len(answers) > 1:
            raise self.question(f"{text}: what are they?", *answers[:5])
        self.notes.append(f"{self.grid.place}: {text}: they are repeats here")

    def scopes(self) -> None:
        """Name rates and batches as those of one rank or of the job, and add what follows from them.

        Raises Question where two readings are possible, and the rates of the table depend on it.
        """
        values = self.values
        steps = "rate" in values and self.work == "steps"
        if steps:
            self.values = values = values.rename(columns={"rate": "steps_per_s"})
        batch_known = {"batch_per_rank", "global_batch"} & {*values}
        if "batch" in values and not batch_known:
            self._name_batch()
        if "rate" in self.values:
            self._name_rate()
        if "batch" in self.values:
            self._name_batch()
        self._follow_sizes()
        rated = {"images_per_s", "images_per_s_per_rank"} & {*self.values}
        if not rated and {"steps_per_s", "step_s"} & {*self.values}:
            self._rates_from_steps()
        self._follow_rates()
        self._name_scaling()
        self._confirm_ratio()
        self.values = self.values.drop(columns=[n for n in ("batch", "steps_per_s", "threads") if n in self.values])

    def _name_batch(self) -> None:
        name, why = rates.batch_scope(self.values)
        if name and name not in self.values:
            self.rename("batch", name, why)

    def _name_rate(self) -> None:
        known = self.values["rate"].notna().any()
        name, why = rates.rate_scope(self.values) if known else ("images_per_s", "")
        if name in self.values:
            raise self.question(f"'{self.columns['rate'].text}' and '{self.columns[name].text}' are both {name}", *(
                (f"'{self.columns[use].text}'", f"{self._key(other)}={headers.UNUSED},{self._key(use)}={name}")
                for use, other in (("rate", name), (name, "rate"))
            ))  # fmt: skip
        if not name:
            key = self._key("rate")
            one, whole = (displayed(name, self.work) for name in ("images_per_s_per_rank", "images_per_s"))
            text = self.columns["rate"].text if key != "cells" else "cells"
            raise self.question(
                f"is '{text}' the rate of one rank, or of the whole job?",
                ("of one rank", f"{key}={one}"), ("of the whole job", f"{key}={whole}"),
            )  # fmt: skip
        self.rename("rate", name, why)

    def _key(self, name: str) -> str:
        column = self.columns[name]
        return "cells" if user_columns._ACROSS.fullmatch(column.text) else column.key([*self.columns.values()])

    def _follow_sizes(self) -> None:
        values, ranks = self.values, self.values["ranks"]
        if "batch_per_rank" in values:
            self._put("global_batch", values["batch_per_rank"] * ranks)
        if "global_batch" in values:
            self._put("batch_per_rank", values["global_batch"] / ranks)
        if "nodes" in values:
            each = ranks / values["nodes"]
            self._put("ranks_per_node", each.where(each % 1 == 0))

    def _put(self, name: str, values: pd.Series, rounding: pd.Series | None = None) -> None:
        """Fill in a column that follows from others, in rows for which the file has no value."""
        have = self.values.get(name, pd.Series(math.nan, self.values.index))
        half = self.rounding.get(name, pd.Series(math.nan, self.values.index))
        self.values = self.values.assign(**{name: have.fillna(values)})
        self.rounding = self.rounding.assign(
            **{name: half.where(have.notna(), rounding if rounding is not None else math.nan)}
        )

    def _rates_from_steps(self) -> None:
        """Add the rates that follow from the rate or time of steps and the batch; without one they count steps."""
        source = "steps_per_s" if "steps_per_s" in self.values else "step_s"
        column = "rate" if source == "steps_per_s" else "step_s"
        steps = self.values[source] if source == "steps_per_s" else 1 / self.values[source]
        half = steps * (self.rounding[column] / self.values[source])
        if "global_batch" in self.values:
            self.work = "images" if self.work == "steps" else self.work
            self._put(
                "images_per_s", steps * self.values["global_batch"], steps * self.values["global_batch"] * half / steps
            )
            return
        measured = {*rates.TIMES} & {*self.values}
        if "batch" in self.values and not measured:
            key = self._key("batch")
            raise self.question(
                f"is '{self.columns['batch'].text}' the batch of one rank, or of all ranks?",
                ("of one rank", f"{key}=batch_per_rank"), ("of all ranks", f"{key}=global_batch"),
            )  # fmt: skip
        scaling, why = self.choices.directives.get("scaling", ""), "as COLUMNS says"
        if not scaling:
            scaling, why = rates.scaling(self.values.assign(step=1 / steps), "step")
        if not scaling and self.values["ranks"].nunique() > 1:
            text = (
                f"'{self.columns[column].text}' has no batch beside it: which one is the same at each number of ranks?"
            )
            raise self.question(
                text, ("that of a rank (weak scaling)", "scaling=weak"),
                ("that of all ranks (strong scaling)", "scaling=strong"),
            )  # fmt: skip
        self.work = "steps"
        self._put("images_per_s_per_rank" if scaling == "weak" else "images_per_s", steps, half)
        self.readings[column] = replace(self.readings[column], why=f"{scaling} scaling: {why}")

    def _follow_rates(self) -> None:
        values, rounding, ranks = self.values, self.rounding, self.values["ranks"]
        if "images_per_s" in values:
            self._put("images_per_s_per_rank", values["images_per_s"] / ranks, rounding["images_per_s"] / ranks)
        elif "images_per_s_per_rank" in values:
            whole = metrics.job_total(values["images_per_s_per_rank"], ranks)
            self._put("images_per_s", whole, rounding["images_per_s_per_rank"] * ranks)
            for end in {"low", "high"} & {*values}:
                self.values[end] = values[end] * ranks

    def _name_scaling(self) -> None:
        """Set whether times are those of equal work in all or of each rank; a note asks if nothing shows it."""
        time = next((name for name in rates.TIMES if name in self.values), "")
        known = "images_per_s" in self.values or {"steps_per_rank", "global_batch"} <= {*self.values}
        if not time:
            return
        self.scaling, why = self.choices.directives.get("scaling", ""), "as COLUMNS says"
        if not self.scaling:
            self.scaling, why = rates.scaling(self.values, time)
        if not self.scaling and not known and self.values["ranks"].nunique() > 1:
            weak, strong = (self.choices.adding(f"scaling={name}") for name in ("weak", "strong"))
            self.notes.append(
                f"{self.grid.place}: '{self.columns[time].text}' does not show the work: no speedup follows from it; "
                f"of equal work of each rank say {weak}, of equal work in all {strong}"
            )
        elif self.scaling and not known:
            self.readings[time] = replace(self.readings[time], why=f"{self.scaling} scaling: {why}")

    def _confirm_ratio(self) -> None:
        """Raise Question if a speedup follows from what is measured only as an efficiency, or hardly is one."""
        time = next((name for name in ("images_per_s", *rates.TIMES, "step_s") if name in self.values), "")
        for name, other in (("speedup", "efficiency"), ("efficiency", "speedup")):
            if name not in self.values or other in self.values or self.columns[name].header.by_user:
                continue
            rate = self.values[time] ** (1 if time == "images_per_s" else -1) if time else math.nan
            runs = self.values.assign(rate=rate)
            follows = rates.by_stated(runs, name)
            opposite = rates.by_stated(runs.rename(columns={name: other}), other) == "images_per_s"
            more = self.values[self.values["ranks"] > self.values["ranks"].min()]
            slower = name == "speedup" and more[name].max() <= _SLOWER
            if (not follows or (time == "images_per_s" and follows != time)) and (opposite or slower):
                key, text = self._key(name), self.columns[name].text
                answers = [(name, f"{key}={name}"), (other, f"{key}={other}")]
                answers += [("a ratio of settings", f"{key}={headers.UNUSED}")] if time or self.unknown_times else []
                question = f"what is '{text}': a speedup, an efficiency, or a ratio of two settings?"
                raise self.question(question, *answers)

    def result(self) -> tuple[pd.DataFrame, pd.DataFrame, list[Reading]]:
        """Return the rows with a number of ranks and a measurement, their rounding, and the readings; add notes."""
        source = self.grid.rows[0].source
        measured = [name for name in _MEASURED if name in self.values]
        used = self.values["ranks"].notna() & self.values[measured].notna().any(axis=1)
        if not used.any():
            raise TableError("\n".join([f"{source}: no row can be used", *self.notes[:8]]))
        if lost := [str(row.line) for row, use in zip(self.rows, used, strict=True) if not use]:
            self.notes.append(f"{source}: left out, without ranks or a measurement: lines {', '.join(lost[:20])}")
        if self.unused:
            reasons = (f"'{c.text}'" + (f" ({c.header.why})" if c.header.why else "") for c in self.unused)
            self.notes.append(f"{source}: not used: {', '.join(reasons)}")
        if "batch" in self.readings and self.columns["batch"].text not in self._settings_read:
            key = self._key("batch")
            one, whole = (self.choices.adding(f"{key}={name}") for name in ("batch_per_rank", "global_batch"))
            self.notes.append(
                f"{source}: '{self.columns['batch'].text}' is not used: of a rank say {one}, of all {whole}"
            )
        located = [(row.source, row.line, f"{Path(row.source).name}, line {row.line}") for row in self.rows]
        runs = pd.DataFrame(located, self.values.index, ["file", "line", "place"])
        runs = runs.join(self.values[[name for name in NAMES if name in self.values]])
        runs = runs.assign(work=self.work, scaling=self.scaling)
        readings = [self.readings[name] for name in (*NAMES, "rate") if name in self.readings]
        return runs[used].reset_index(drop=True), self.rounding[used].reset_index(drop=True), readings
