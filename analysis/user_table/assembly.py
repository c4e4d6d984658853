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
from analysis.user_table import headers, numbers, rates, sizes
from analysis.user_table.columns import MEASURED, Column, Question
from analysis.user_table.files import Grid, Row
from analysis.user_table.headers import NAMES, TEXT, UNUSED, Choices
from analysis.user_table.numbers import Number
from analysis.user_table.quantities import Quantity

_SCOPE = {
    "images_per_s": "of the whole job", "images_per_s_per_rank": "of one rank", "global_batch": "of all ranks",
    "batch_per_rank": "of one rank",
}  # fmt: skip
_SLOWER = 1.05  # speedups up to this on more ranks may be efficiencies, or ratios of settings


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
        why = {q.name: "as COLUMNS says" if q.column.header.by_user else q.column.why for q in numeric}
        self.readings = {q.name: Reading(q.column.text, q.name, q.unit, q.work, why[q.name]) for q in numeric}
        self.columns = {quantity.name: quantity.column for quantity in numeric}
        works = {quantity.work for quantity in numeric} - {""}
        if len(works) > 1:
            raise TableError(f"{grid.place}: its rates count {' and '.join(sorted(works))}: name one as {UNUSED}")
        self.work = "".join(works)
        self.scaling = ""
        for rate in (quantity for quantity in numeric if quantity.name in ("rate", *headers.RATES)):
            ends = [(c.low, c.high) if isinstance(c, Number) else (math.nan, math.nan) for c in rate.cells]
            if any(math.isfinite(low) for low, _ in ends) and "low" not in self.values:
                self.values["low"], self.values["high"] = zip(*ends, strict=True)

    def settings(self, columns: Sequence[Column]) -> None:
        """Add the columns of text: models and the like, and those without which rows would be alike.

        Raises Question if rows of one number of ranks are alike in all but what was measured.
        """
        texts: dict[str, pd.Series] = {}
        for column in columns:
            if column.name in TEXT:
                self._add(texts, column, column.name, column.why)
        apart = [name for name in ("batch_per_rank", "global_batch", "batch", "steps_per_rank") if name in self.values]
        first = min((c.number for c in columns if c.name in MEASURED), default=len(columns))
        left = [c for c in columns if c.name == "" and c.number < first]
        candidates = [c for c in columns if c.name in ("condition", "threads", "batch")]
        for column in [*candidates, *(column for column in left if not column.numeric)]:
            cells = pd.Series(column.cells, self.values.index)
            several = self.values["ranks"].groupby(cells).nunique().max() > 1
            fewer = self._alike({**texts, "": cells}, apart, "first").sum() < self._alike(texts, apart, "first").sum()
            if several and fewer:
                self._add(texts, column, "setting", "rows would be alike without it")
        alike = self._alike(texts)
        if alike.any() and "rows" not in self.choices.directives:
            self._ask_alike(alike, texts, [*candidates, *left], columns)
        self.values = self.values.assign(**{name: cells.to_numpy(object) for name, cells in texts.items()})
        named = {column.number for column in columns if column.name in NAMES or column.text in self._settings_read}
        self.unread_times = any(column.name in ("time", "part") for column in columns)
        self.unused = [c.text for c in columns if c.number not in named and c.text and c.name not in ("rate", "batch")]

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
        measured = [name for name in self.values if name in MEASURED]
        identity = self.values[names].assign(**texts)
        rows = identity.join(self.values[measured])[self.values["ranks"].notna()]
        rows = rows.dropna(subset=measured, how="all").drop_duplicates()
        return identity.loc[rows.index].duplicated(keep=keep).reindex(identity.index, fill_value=False)

    def _ask_alike(
        self, alike: pd.Series, texts: dict[str, pd.Series], candidates: Sequence[Column], columns: Sequence[Column]
    ) -> None:
        """Raise Question whether rows are repeats, or told apart by an unused column; note those below each other."""
        count = self.values.loc[alike, "ranks"].iloc[0]
        same = alike & self.values["ranks"].eq(count)
        lines = [str(row.line) for row, is_same in zip(self.rows, same, strict=True) if is_same]
        answers = [("repeats", "rows=repeats")]
        for column in candidates:
            apart = not self._alike({**texts, "": pd.Series(column.cells, self.values.index)}).any()
            if apart and column.text not in self._settings_read:
                answers.append((f"'{column.text}' tells", f"{column.key(columns)}=setting"))
        text = f"lines {', '.join(lines[:4])} have {count:g} ranks but other values, and no column distinguishes them"
        changes = self.values["ranks"].ne(self.values["ranks"].shift()).sum()
        if len(answers) == 1 and changes == self.values["ranks"].nunique():  # one below the other
            self.notes.append(f"{self.grid.place}: {text}: they are repeats here")
            return
        text += ": repeats? For several curves add a column with their names"
        raise Question(self.grid.place, text, answers[:5], self.choices)

    def scopes(self) -> None:
        """Name rates and batches as those of one rank or of the job, and add what follows from them.

        Raises Question where two readings are possible, and the rates of the table depend on it.
        """
        name, why = rates.batch_scope(self.values) if "batch" in self.values else ("", "")
        if name and name not in self.values:
            self._rename("batch", name, why)
        if "rate" in self.values and self.work != "steps":
            self._name_rate()
        self._follow_sizes()
        self._rates_from_steps()
        if "rate" in self.values:
            self._name_rate()
        self._follow_rates()
        self._name_scaling()
        self._confirm_speedup()
        self.values = self.values.drop(columns=[n for n in ("batch", "threads") if n in self.values])

    def _rename(self, old: str, new: str, why: str) -> None:
        self.values = self.values.rename(columns={old: new})
        self.rounding = self.rounding.rename(columns={old: new})
        self.readings[new] = replace(self.readings.pop(old), name=new, why=why)
        self.columns[new] = self.columns.pop(old)

    def _name_rate(self) -> None:
        """Name the rate as that of the job if it grows with the ranks. Raises Question otherwise."""
        several = self.values["ranks"][self.values["rate"].notna()].max() > 1
        grows = not several or rates.grows(self.values, "rate")
        if grows and "images_per_s" not in self.values:
            self._rename("rate", "images_per_s", "it grows with the ranks" if several else "")
            return
        key, text = self._key("rate"), self.columns["rate"].text
        free = [name for name in headers.RATES if name not in self.values]
        kinds = dict(zip(headers.RATES, (" (weak scaling)", " (strong scaling)"), strict=True))
        meanings = {name: _SCOPE[name] + (kinds[name] if self.work == "steps" else "") for name in free}
        answers = [(meanings[name], f"{key}={displayed(name, self.work)}") for name in free]
        answers += [("neither", f"{key}={UNUSED}")] if len(free) < len(headers.RATES) else []
        text = f"is '{text}' the rate of one rank, or of the whole job?"
        raise Question(self.grid.place, text, answers, self.choices)

    def _key(self, name: str) -> str:
        column = self.columns[name]
        return "cells" if column.header.label else column.key([*self.columns.values()])

    def _follow_sizes(self) -> None:
        values, ranks = self.values, self.values["ranks"]
        if "batch_per_rank" in values:
            self._put("global_batch", values["batch_per_rank"] * ranks)
        if "global_batch" in values:
            self._put("batch_per_rank", values["global_batch"] / ranks)
        if "nodes" in values:
            each = ranks / values["nodes"]
            self._put("ranks_per_node", each.where(each % 1 == 0))

    def _put(self, name: str, values: pd.Series, rounding: pd.Series | float = math.nan) -> None:
        """Fill in a column that follows from others, in rows for which the file has no value."""
        have = self.values.get(name, pd.Series(math.nan, self.values.index))
        half = self.rounding.get(name, pd.Series(math.nan, self.values.index))
        self.values = self.values.assign(**{name: have.fillna(values)})
        self.rounding = self.rounding.assign(**{name: half.where(have.notna(), rounding)})

    def _rates_from_steps(self) -> None:
        """Add the rates that follow from the rate or time of steps and a known batch."""
        source = "rate" if "rate" in self.values and self.work == "steps" else "step_s"
        if not {source, "global_batch"} <= {*self.values} or {*headers.RATES} & {*self.values}:
            return
        images = self.values["global_batch"] * self.values[source] ** (1 if source == "rate" else -1)
        self._put("images_per_s", images, images * self.rounding[source] / self.values[source])
        self.values = self.values.drop(columns=[name for name in ("rate",) if name == source])
        self.work = "" if self.work == "steps" else self.work

    def _scaling(self, values: pd.DataFrame, time: str) -> tuple[str, str]:
        """Return "strong" or "weak", for what the times of each number of ranks are of, and what shows it; or ""."""
        if stated := self.choices.directives.get("scaling", ""):
            return stated, "as COLUMNS says"
        falls = rates.grows(values.assign(rate=1 / values[time]), "rate")
        return ("strong", "times fall with the ranks") if falls else ("", "")

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
        if not time:
            return
        known = "images_per_s" in self.values or {"steps_per_rank", "global_batch"} <= {*self.values}
        self.scaling, why = self._scaling(self.values, time)
        if self.scaling and not known:
            self.readings[time] = replace(self.readings[time], why=f"{self.scaling} scaling: {why}")
        elif not known and self.values["ranks"].nunique() > 1:
            weak, strong = (self.choices.adding(f"scaling={name}") for name in ("weak", "strong"))
            self.notes.append(
                f"{self.grid.place}: '{self.columns[time].text}' gives no speedup: is the work equal for each rank "
                f"({weak}), or in all ({strong})?"
            )

    def _confirm_speedup(self) -> None:
        """Raise Question if a stated speedup is hardly one: not above 1 on more ranks."""
        if "speedup" not in self.values or "efficiency" in self.values or self.columns["speedup"].header.by_user:
            return
        more = self.values[self.values["ranks"] > self.values["ranks"].min()]
        if more["speedup"].max() <= _SLOWER:
            key, text = self._key("speedup"), self.columns["speedup"].text
            others = {*headers.TIMES, *headers.RATES} & {*self.values} or self.unread_times
            answers = [("a ratio of two settings", f"{key}={UNUSED}")] if others else []
            answers = [("a speedup", f"{key}=speedup"), ("an efficiency", f"{key}=efficiency"), *answers]
            raise Question(self.grid.place, f"'{text}' is not above {_SLOWER}: what is it?", answers, self.choices)

    def result(self) -> tuple[pd.DataFrame, pd.DataFrame, list[Reading]]:
        """Return the rows with a number of ranks and a measurement, their rounding, and the readings; add notes."""
        source = self.grid.rows[0].source
        measured = [
            name for name in (*headers.TIMES[1:], *headers.RATES, "speedup", "efficiency") if name in self.values
        ]
        used = self.values["ranks"].notna() & self.values[measured].notna().any(axis=1)
        if not used.any():
            raise TableError("\n".join([f"{source}: no row can be used", *self.notes[:8]]))
        if lost := [str(row.line) for row, use in zip(self.rows, used, strict=True) if not use]:
            self.notes.append(f"{source}: left out, without ranks or a measurement: lines {', '.join(lost[:20])}")
        if self.unused:
            self.notes.append(f"{source}: not used: {', '.join(map(repr, self.unused))}")
        if "batch" in self.readings and self.columns["batch"].text not in self._settings_read:
            key, text = self._key("batch"), self.columns["batch"].text
            one, whole = (self.choices.adding(f"{key}={name}") for name in ("batch_per_rank", "global_batch"))
            self.notes.append(f"{source}: '{text}' is not used: is it of one rank ({one}), or of all ({whole})?")
        located = [(row.source, row.line, f"{Path(row.source).name}, line {row.line}") for row in self.rows]
        runs = pd.DataFrame(located, self.values.index, ["file", "line", "place"])
        runs = runs.join(self.values[[name for name in NAMES if name in self.values]])
        runs = runs.assign(work=self.work, scaling=self.scaling)
        readings = [self.readings[name] for name in (*NAMES, "rate") if name in self.readings]
        return runs[used].reset_index(drop=True), self.rounding[used].reset_index(drop=True), readings
