"""One table under construction: its settings, the scope of its rates and batches, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import TableError, metrics
from analysis.user_table import headers, rates
from analysis.user_table.columns import MEASURED, Question, key
from analysis.user_table.files import Grid, Row
from analysis.user_table.headers import NAMES, TEXT, UNUSED, Choices, Column, displayed
from analysis.user_table.numbers import Number

_SLOWER, _BEYOND = 1.05, 1.5  # speedups up to this, and efficiencies above that, may be something else


class Assembly:
    """The runs of one table under construction: numbers and their rounding by name, columns read, and notes."""

    def __init__(
        self, grid: Grid, choices: Choices, rows: Sequence[Row], numeric: Sequence[Column], notes: list[str]
    ) -> None:
        """Begin with the columns of numbers; notes: a list that grows."""
        self.grid, self.choices, self.rows, self.notes = grid, choices, rows, notes
        nan = Number(math.nan, math.nan)
        cells = {c.name: [cell if isinstance(cell, Number) else nan for cell in c.values] for c in numeric}
        values = {name: [cell.value for cell in column] for name, column in cells.items()}
        if "ranks" not in values:
            each = values.get("ranks_per_node")
            values["ranks"] = [a * b for a, b in zip(values["nodes"], each, strict=True)] if each else values["nodes"]
            text = f"{grid.place}: nodes are counted, and not their ranks: each node is one rank here"
            notes += [] if each else [text]
        self.values = pd.DataFrame(values, dtype=float)
        self.rounding = pd.DataFrame(
            {name: [c.half_unit for c in column] for name, column in cells.items()}, dtype=float
        )
        self.columns = {c.name: c.named(c.name, "as COLUMNS says" if c.by_user else "") for c in numeric}
        self.used: set[int] = set()  # numbers of the columns in settings
        works = {column.work for column in numeric} - {""}
        if len(works) > 1:
            raise TableError(f"{grid.place}: its rates count {' and '.join(sorted(works))}: name one as {UNUSED}")
        self.work, self.scaling = "".join(works), ""

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
        candidates = [c for c in columns if c.name in ("condition", "threads", "batch")]
        left = [c for c in columns if c.name == "" and c.number < first]
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
        self.unread_times = any(column.name in ("time", "part") for column in columns)
        self.unused = [
            c.text for c in columns if c.text and c.number not in self.used and c.name not in (*NAMES, "rate", "batch")
        ]

    def _add(self, texts: dict[str, pd.Series], column: Column, name: str, why: str) -> None:
        """Add a column of text, behind what the name has already."""
        short = name == "setting" and (column.numeric or all(len(cell) < 6 for cell in column.cells))
        cells = [f"{column.text} {cell}" if short and cell and column.number else cell for cell in column.cells]
        values = pd.Series(cells, self.values.index, dtype=object)
        texts[name] = (texts[name] + " " + values).str.strip() if name in texts else values
        header = f"{self.columns[name].text}, {column.text}" if name in self.columns else column.text
        self.columns[name] = replace(column, text=header, name=name, why="" if column.by_user else why)
        self.used.add(column.number)

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
            if apart and column.number not in self.used:
                answers.append((f"'{column.text}' tells", f"{key(column, columns)}=setting"))
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
        if "batch" in self.values:
            name, why = rates.batch_scope(self.values)
            if name and name not in self.values:
                self._rename("batch", name, why)
        if "rate" in self.values and self.work != "steps":
            self._name_rate()
        values, ranks = self.values, self.values["ranks"]
        if "batch_per_rank" in values:
            self._put("global_batch", values["batch_per_rank"] * ranks)
        if "global_batch" in values:
            self._put("batch_per_rank", values["global_batch"] / ranks)
        if "nodes" in values:
            each = ranks / values["nodes"]
            self._put("ranks_per_node", each.where(each % 1 == 0))
        self._rates_from_steps()
        if "rate" in self.values:
            self._name_rate()
        values, rounding = self.values, self.rounding
        if "images_per_s" in values:
            self._put("images_per_s_per_rank", values["images_per_s"] / ranks, rounding["images_per_s"] / ranks)
        elif "images_per_s_per_rank" in values:
            whole = metrics.job_total(values["images_per_s_per_rank"], ranks)
            self._put("images_per_s", whole, rounding["images_per_s_per_rank"] * ranks)
            self.values = self.values.assign(**{end: values[end] * ranks for end in {"low", "high"} & {*values}})
        self._name_scaling()
        for column in [self.columns[name] for name in ("speedup", "efficiency") if name in self.columns]:
            self._confirm_ratio(column)

    def _rename(self, old: str, new: str, why: str) -> None:
        self.values = self.values.rename(columns={old: new})
        self.rounding = self.rounding.rename(columns={old: new})
        self.columns[new] = self.columns.pop(old).named(new, why)

    def _name_rate(self) -> None:
        """Name the rate as that of the job if it grows with the ranks. Raises Question otherwise."""
        several = self.values["ranks"][self.values["rate"].notna()].max() > 1
        if (not several or rates.grows(self.values, "rate")) and "images_per_s" not in self.values:
            self._rename("rate", "images_per_s", "it grows with the ranks" if several else "")
            return
        name, steps = self._key("rate"), self.work == "steps"
        meanings = {
            "images_per_s_per_rank": "of one rank" + " (weak scaling)" * steps,
            "images_per_s": "of the whole job" + " (strong scaling)" * steps,
        }
        free = {rate: meaning for rate, meaning in meanings.items() if rate not in self.values}
        answers = [(meaning, f"{name}={displayed(rate, self.work)}") for rate, meaning in free.items()]
        answers += [("neither", f"{name}={UNUSED}")] if len(free) < len(meanings) else []
        text = f"is '{self.columns['rate'].text}' the rate of one rank, or of the whole job?"
        raise Question(self.grid.place, text, answers, self.choices)

    def _key(self, name: str) -> str:
        column = self.columns[name]
        return "cells" if column.label else key(column, [*self.columns.values()])

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

    def _name_scaling(self) -> None:
        """Set whether times are those of equal work in all or of each rank; a note asks if nothing shows it."""
        time = next((name for name in rates.TIMES if name in self.values), "")
        if not time:
            return
        stated = self.choices.directives.get("scaling", "")
        falls = rates.grows(self.values.assign(rate=1 / self.values[time]), "rate")
        self.scaling = stated or ("strong" if falls else "")
        if "images_per_s" in self.values or {"steps_per_rank", "global_batch"} <= {*self.values}:
            return
        if self.scaling:
            why = f"{self.scaling} scaling: {'as COLUMNS says' if stated else 'times fall with the ranks'}"
            self.columns[time] = self.columns[time].named(time, why)
        elif self.values["ranks"].nunique() > 1:
            weak, strong = (self.choices.adding(f"scaling={name}") for name in ("weak", "strong"))
            self.notes.append(
                f"{self.grid.place}: '{self.columns[time].text}' gives no speedup: is the work equal for each rank "
                f"({weak}), or in all ({strong})?"
            )

    def _confirm_ratio(self, column: Column) -> None:
        """Raise Question if a ratio is hardly a speedup, as not above 1 on more ranks, or hardly an efficiency."""
        ranks, ratios = self.values["ranks"] / self.values["ranks"].min(), self.values[column.name]
        if column.name == "speedup":
            slow = "efficiency" not in self.values and ratios[ranks > 1].max() <= _SLOWER
            stated = "speed" in column.text.lower()  # not only "scaling"
            doubtful = slow or (not stated and (ratios / ranks).max() > _BEYOND)
        else:
            doubtful = ratios.max() > _BEYOND
        if doubtful and not column.by_user:
            name = self._key(column.name)
            answers = [("a speedup", f"{name}=speedup"), ("an efficiency", f"{name}=efficiency")]
            others = {*headers.TIMES, *headers.RATES} & {*self.values} or self.unread_times
            answers += [("a ratio of two settings", f"{name}={UNUSED}")] if others else []
            text = f"'{column.text}' is up to {ratios.max():.3g} on {ranks.max():.3g} times as many ranks: what is it?"
            raise Question(self.grid.place, text, answers, self.choices)

    def result(self) -> tuple[pd.DataFrame, pd.DataFrame, list[Column]]:
        """Return the rows with a number of ranks and a measurement, their rounding, and the columns read; add notes."""
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
        if "batch" in self.columns and self.columns["batch"].number not in self.used:
            name, text = self._key("batch"), self.columns["batch"].text
            one, whole = (self.choices.adding(f"{name}={batch}") for batch in ("batch_per_rank", "global_batch"))
            self.notes.append(f"{source}: '{text}' is not used: is it of one rank ({one}), or of all ({whole})?")
        located = [(row.source, row.line, f"{Path(row.source).name}, line {row.line}") for row in self.rows]
        runs = pd.DataFrame(located, self.values.index, ["file", "line", "place"])
        runs = runs.join(self.values[[name for name in NAMES if name in self.values]])
        runs = runs.assign(work=self.work, scaling=self.scaling)
        columns = [self.columns[name] for name in (*NAMES, "rate") if name in self.columns]
        return runs[used].reset_index(drop=True), self.rounding[used].reset_index(drop=True), columns
