"""One table under construction: its settings, the scope of its rates and batches, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import metrics
from analysis.user_table import headers, numbers, rates
from analysis.user_table.files import Grid, Row
from analysis.user_table.headers import MEASURED, NAMES, SCOPE, TEXT, UNUSED, Choices, Column, Question

_SLOWER, _BEYOND = 1.05, 1.5  # speedups up to this, and efficiencies above that, may be something else
_WORK = ("batch_per_rank", "global_batch", "batch", "steps_per_rank")  # they may tell rows of one size apart


class Assembly:
    """The runs of one table under construction: numbers and their rounding by name, columns read, and notes."""

    def __init__(
        self, grid: Grid, choices: Choices, rows: Sequence[Row], numeric: Sequence[Column], notes: list[str]
    ) -> None:
        """Begin with the columns of numbers; notes: a list that grows."""
        self.grid, self.choices, self.rows, self.notes = grid, choices, rows, notes
        self.columns = {c.name: c.named(c.name, "as COLUMNS says" if c.by_user else "") for c in numeric}
        cells = pd.DataFrame({column.name: column.values for column in numeric}, dtype=object)
        self.values = cells.map(lambda cell: getattr(cell, "value", math.nan)).astype(float)  # NaN for a reason
        self.rounding = cells.map(lambda cell: getattr(cell, "half_unit", math.nan)).astype(float)
        if "ranks" not in self.values:
            each = self.values.get("ranks_per_node")
            self.values["ranks"] = self.values["nodes"] * (1 if each is None else each)
            text = f"{grid.place}: nodes are counted, and not their ranks: each node is one rank here"
            notes += [text] if each is None else []
        self.used: set[int] = set()  # numbers of the columns in settings
        self.work, self.scaling = "".join({column.unit.work for column in numeric}), ""

    def settings(self, columns: Sequence[Column]) -> None:
        """Add the columns of text: models and the like, and those without which rows would be alike.

        Raises Question if rows of one number of ranks are alike in all but what was measured.
        """
        texts: dict[str, list[str]] = {}
        for column in columns:
            if column.name in TEXT:
                self._add(texts, column, column.name, column.why)
        first = min((c.number for c in columns if c.name in MEASURED), default=len(columns))
        unknown = [c for c in columns if c.name == "" and c.number < first]
        candidates = [*(c for c in columns if c.name in ("condition", "threads", "batch")), *unknown]
        for column in candidates:
            cells = list(column.cells)
            several = self.values["ranks"].groupby(cells).nunique().max() > 1
            before, after = (self._alike(t, _WORK, "first").sum() for t in (texts, {**texts, "": cells}))
            if several and after < before and not (column.name == "" and column.numeric):
                self._add(texts, column, "setting", "rows would be alike without it")
        alike = self._alike(texts)
        if alike.any() and "rows" not in self.choices.directives:
            self._ask_alike(alike, texts, [column for column in candidates if column.number not in self.used])
        self.values = self.values.assign(**texts)
        times = (column for column in columns if column.name in ("time", "other"))
        self.unread_times = any("time" in {column.unit.kind, *numbers.kinds(column.cells)} for column in times)
        self.unused = [
            c.text for c in columns if c.text and c.number not in self.used and c.name not in (*NAMES, "rate", "batch")
        ]

    def _add(self, texts: dict[str, list[str]], column: Column, name: str, why: str) -> None:
        """Add a column of text, behind what the name has already."""
        short = name == "setting" and (column.numeric or all(len(cell) < 6 for cell in column.cells))
        cells = [f"{column.text} {cell}" if short and cell and column.number else cell for cell in column.cells]
        before = texts.get(name, [""] * len(cells))
        texts[name] = [" ".join(filter(None, both)) for both in zip(before, cells, strict=True)]
        header = f"{self.columns[name].text}, {column.text}" if name in self.columns else column.text
        self.columns[name] = replace(column, text=header, name=name, why="" if column.by_user else why)
        self.used.add(column.number)

    def _alike(self, texts: Mapping[str, list[str]], but: Sequence[str] = (), keep: Any = False) -> pd.Series:
        """Return which rows are alike in all that identifies a run, `but` these, and not in what was measured."""
        names = [name for name in (*headers.SIZES, "repeat") if name in self.values and name not in but]
        measured = [name for name in self.values if name in MEASURED]
        identity = self.values[names].assign(**texts)
        rows = identity.join(self.values[measured])[self.values["ranks"].notna()]
        rows = rows.dropna(subset=measured, how="all").drop_duplicates()
        return identity.loc[rows.index].duplicated(keep=keep).reindex(identity.index, fill_value=False)

    def _ask_alike(self, alike: pd.Series, texts: dict[str, list[str]], candidates: Sequence[Column]) -> None:
        """Raise Question whether rows are repeats, or told apart by an unused column; note those below each other."""
        ranks = self.values["ranks"]
        count = ranks[alike].iloc[0]
        lines = [str(row.line) for row, same in zip(self.rows, alike & ranks.eq(count), strict=True) if same]
        text = f"lines {', '.join(lines[:4])} have {count:g} ranks but other values, and no column distinguishes them"
        apart = [column for column in candidates if not self._alike({**texts, "": list(column.cells)}).any()]
        if not apart and ranks.ne(ranks.shift()).sum() == ranks.nunique():  # one below the other
            self.notes.append(f"{self.grid.place}: {text}: they are repeats here")
            return
        answers = [("repeats", "rows=repeats"), *((f"'{c.text}' tells", f"{c.key}=setting") for c in apart[:4])]
        raise Question(f"{text}: repeats? For several curves add a column with their names", answers)

    def scopes(self) -> None:
        """Name rates and batches as those of one rank or of the job, and add what follows from them.

        Raises Question where two readings are possible, and the rates of the table depend on it.
        """
        if "batch" in self.values:
            name, why = rates.batch_scope(self.values)
            if name and name not in self.values:
                self._rename("batch", name, why)
        ranks = self.values["ranks"]
        if "batch_per_rank" in self.values:
            self._put("global_batch", self.values["batch_per_rank"] * ranks)
        if "global_batch" in self.values:
            self._put("batch_per_rank", self.values["global_batch"] / ranks)
        if "nodes" in self.values:
            each = ranks / self.values["nodes"]
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
            for end in {"low", "high"} & {*values}:
                self.values[end] *= ranks
        self._name_scaling()
        for column in [self.columns[name] for name in ("speedup", "efficiency") if name in self.columns]:
            self._confirm_ratio(column)

    def _rename(self, old: str, new: str, why: str) -> None:
        self.values = self.values.rename(columns={old: new})
        self.rounding = self.rounding.rename(columns={old: new})
        self.columns[new] = self.columns.pop(old).named(new, why)

    def _put(self, name: str, values: pd.Series, rounding: pd.Series | float = math.nan) -> None:
        """Fill in a column that follows from others, in rows for which the file has no value."""
        have, half = (frame.get(name, pd.Series(math.nan, frame.index)) for frame in (self.values, self.rounding))
        self.values[name] = have.fillna(values)
        self.rounding[name] = half.where(have.notna(), rounding)

    def _rates_from_steps(self) -> None:
        """Add the rates that follow from the rate or time of steps and a known batch, if there are no others."""
        source = "rate" if "rate" in self.values and self.work == "steps" else "step_s"
        if not {source, "global_batch"} <= {*self.values} or {"rate", *headers.RATES} - {source} & {*self.values}:
            return
        images = self.values["global_batch"] * self.values[source] ** (1 if source == "rate" else -1)
        self._put("images_per_s", images, images * self.rounding[source] / self.values[source])
        if source == "rate":
            self.values, self.work = self.values.drop(columns=source), ""

    def _name_rate(self) -> None:
        """Name the rate as that of the job if it grows with the ranks. Raises Question otherwise."""
        several = self.values["ranks"][self.values["rate"].notna()].max() > 1
        if (not several or rates.grows(self.values, "rate")) and "images_per_s" not in self.values:
            self._rename("rate", "images_per_s", "it grows with the ranks" if several else "")
            return
        column, answers = self.columns["rate"], []
        for name, scaling in zip(headers.RATES, (" (weak scaling)", " (strong scaling)"), strict=True):
            if name not in self.values:
                scope = SCOPE[name] + (scaling if self.work == "steps" else "")
                answers.append((scope, f"{column.key}={headers.displayed(name, self.work)}"))
        answers += [("neither", f"{column.key}={UNUSED}")] if len(answers) < len(headers.RATES) else []
        raise Question(f"is '{column.text}' the rate of one rank, or of the whole job?", answers)

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
            answers = [("a speedup", f"{column.key}=speedup"), ("an efficiency", f"{column.key}=efficiency")]
            others = {*headers.TIMES, *headers.RATES} & {*self.values} or self.unread_times
            answers += [("a ratio of two settings", f"{column.key}={UNUSED}")] if others else []
            text = f"'{column.text}' is up to {ratios.max():.3g} on {ranks.max():.3g} times as many ranks: what is it?"
            raise Question(text, answers)

    def result(self) -> tuple[pd.DataFrame, pd.DataFrame, list[Column]]:
        """Return the rows with a number of ranks and a measurement, their rounding, and the columns read; add notes."""
        source = self.grid.rows[0].source
        measured = [
            name for name in (*headers.TIMES[1:], *headers.RATES, "speedup", "efficiency") if name in self.values
        ]
        used = self.values["ranks"].notna() & self.values[measured].notna().any(axis=1)
        if not used.any():
            raise Question("\n".join(["no row can be used", *self.notes[:8]]))
        if lost := [str(row.line) for row, use in zip(self.rows, used, strict=True) if not use]:
            self.notes.append(f"{source}: left out, without ranks or a measurement: lines {', '.join(lost[:20])}")
        if self.unused:
            self.notes.append(f"{source}: not used: {', '.join(map(repr, self.unused))}")
        if (batch := self.columns.get("batch")) and batch.number not in self.used:
            one, whole = (self.choices.adding(f"{batch.key}={name}") for name in headers.scoped("batch"))
            self.notes.append(f"{source}: '{batch.text}' is not used: is it of one rank ({one}), or of all ({whole})?")
        located = [(row.source, row.line, f"{Path(row.source).name}, line {row.line}") for row in self.rows]
        runs = pd.DataFrame(located, self.values.index, ["file", "line", "place"])
        runs = runs.join(self.values[[name for name in NAMES if name in self.values]])
        runs = runs.assign(work=self.work, scaling=self.scaling)
        columns = [self.columns[name] for name in (*NAMES, "rate") if name in self.columns]
        return runs[used].reset_index(drop=True), self.rounding[used].reset_index(drop=True), columns
