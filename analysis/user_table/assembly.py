"""One table under construction: its settings, the scope of its rates and batches, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import metrics
from analysis.user_table import headers, numbers, rates
from analysis.user_table.answers import Choices, Question
from analysis.user_table.headers import MEASURED, NAMES, TEXT, UNUSED, Column
from analysis.user_table.table_files import Grid, GridRow

_SLOWER, _BEYOND = 1.05, 1.5  # speedups up to this, and efficiencies above that, may be something else
_REPEATS = 1.5  # the largest of repeats is at most this many times the smallest
_NO_REPEATS = 3.0  # rows that differ by more are not offered as repeats
_WORK = ("batch_per_rank", "global_batch", "batch", "steps_per_rank")  # they may tell rows of one size apart


class Assembly:
    """The runs of one table under construction: numbers and their rounding by name, columns read, and notes."""

    def __init__(
        self, grid: Grid, choices: Choices, rows: Sequence[GridRow], numeric: Sequence[Column], notes: list[str]
    ) -> None:
        """Begin with the columns of numbers; notes: a list that grows."""
        self.grid, self.choices, self.rows, self.notes = grid, choices, rows, notes
        self.columns = {c.name: c.named(c.name, "as COLUMNS says" if c.by_user else "") for c in numeric}
        cells = pd.DataFrame({column.name: column.values for column in numeric}, dtype=object)
        self.values = cells.map(lambda cell: getattr(cell, "value", math.nan)).astype(float)  # NaN for a reason
        self.rounding = cells.map(lambda cell: getattr(cell, "half_unit", math.nan)).astype(float)
        self.hosts_alone = not {"ranks", "ranks_per_node"} & {*self.values}
        if "ranks" not in self.values:
            self.values["ranks"] = self.values["nodes"] * self.values.get("ranks_per_node", 1)
            text = f"{grid.place}: nodes are counted, and not their ranks: each node is one rank here"
            notes += [text] * self.hosts_alone
        self.used: set[int] = set()  # numbers of the columns in settings
        self.work: str = "".join({column.unit.work for column in numeric})
        self.scaling: str | list[str] = ""

    def settings(self, columns: Sequence[Column]) -> None:
        """Add the columns of text: models and the like, and those without which rows would be alike.

        Raises Question if rows of one number of ranks are alike in all but what was measured, and an unused column
        differs, or nothing shows that they are repeats; or if an unused text may name curves.
        """
        texts: dict[str, list[str]] = {}
        for column in sorted(columns, key=lambda column: column.name in ("setting", "cores", "batch")):
            exact = column.name in TEXT and (column.name != "setting" or column.by_user or column.text == "setting")
            if column.name == "scaling" and column.varies:
                column, exact = column.named("setting"), True
            size = column.name in ("setting", "cores", "batch") and self._several(column)
            if exact:
                self._add(texts, column)
            elif size and self._separates(column, texts):
                self._add(texts, column.named("setting", "rows would be alike without it"))
        unused = [c for c in columns if c.name in ("", "setting", "cores", "batch") and c.number not in self.used]
        unused = [column for column in unused if column.text or not column.numeric]
        self._confirm_hosts(self.values.assign(**texts))
        if "rows" not in self.choices.directives:
            self._ask_alike(texts, unused)
            mixed = [column for column in unused if not column.numeric and self._mixes(column, texts)]
            if mixed:
                answers = [f"{column.key}={name}" for name in ("setting", UNUSED) for column in mixed]
                raise Question(f"is each of {', '.join(repr(column.text) for column in mixed)} another curve?", answers)
        self.values = self.values.assign(**texts)
        self.varied = any(column.name == "setting" and column.numeric and column.varies for column in unused)
        for column in columns:
            if column.name == "scaling":
                self.scaling = [cell.strip().lower() for cell in column.cells]
        times = (column for column in columns if column.name in ("", "other"))
        self.unread_times = any("time" in {column.unit.kind, *numbers.kinds(column.cells)} for column in times)
        self.headers = [c for c in columns if c.text and c.name != "scaling"]

    def _several(self, column: Column) -> bool:
        """Return whether a value of a column stands beside several numbers of ranks."""
        return self.values["ranks"].groupby(list(column.cells)).nunique().max() > 1

    def _mixes(self, column: Column, texts: Mapping[str, list[str]]) -> bool:
        """Return whether a column names curves, or rows.

        A curve has two of its values, each beside several numbers of ranks; or it is the first, and all differ.
        """
        if column.number == 1 and len({*column.cells}) == len(column.cells) > 1:
            return True
        rows = self.values[["ranks"]].assign(**texts, cells=column.cells)
        several = rows.groupby([*texts, "cells"])["ranks"].nunique() > 1
        return bool(several.groupby([*texts]).sum().max() > 1 if texts else several.sum() > 1)

    def _add(self, texts: dict[str, list[str]], column: Column) -> None:
        """Add a column of text, behind what its name has already."""
        name = column.name
        short = name == "setting" and (column.numeric or all(len(cell) < 6 for cell in column.cells))
        cells = [f"{column.text} {cell}" if short and cell and column.number else cell for cell in column.cells]
        before = texts.get(name, [""] * len(cells))
        texts[name] = [" ".join(filter(None, both)) for both in zip(before, cells, strict=True)]
        header = f"{self.columns[name].text}, {column.text}" if name in self.columns else column.text
        self.columns[name] = replace(column, text=header, why="" if column.by_user else column.why)
        self.used.add(column.number)

    def _distinct(self, texts: Mapping[str, Sequence[str]]) -> tuple[pd.DataFrame, list[str]]:
        """Return the rows that differ in what identifies a run or was measured, and the names of the former columns."""
        identity = self.values[[name for name in (*headers.SIZES, "repeat") if name in self.values]].assign(**texts)
        measured = [name for name in self.values if name in MEASURED]
        rows = identity.join(self.values[measured])[self.values["ranks"].notna()]
        return rows.dropna(subset=measured, how="all").drop_duplicates(), [*identity]

    def _separates(self, column: Column, texts: Mapping[str, Sequence[str]]) -> bool:
        """Return whether fewer rows are alike, whatever their work, with a column as a setting."""
        (rows, names), cells = self._distinct(texts), pd.Series(column.cells)
        names = [name for name in names if name not in _WORK]
        return bool(rows.assign(_=cells).duplicated([*names, "_"]).sum() < rows.duplicated(names).sum())

    def _ask_alike(self, texts: dict[str, list[str]], unused: Sequence[Column]) -> None:
        """Raise Question if rows are alike: repeats, or told apart by an unused column? Note those that are repeats.

        Repeats stand one below the other, measured much the same, and no unused column differs between them, but by
        numbers with decimals that occur at one number of ranks alone, as what was measured beside.
        """
        rows, names = self._distinct(texts)
        alike, ranks = rows[rows.duplicated(names, keep=False)], self.values["ranks"]
        if alike.empty:
            return
        count = alike["ranks"].iloc[0]
        first = alike.index[alike.groupby(names, dropna=False, sort=False).ngroup().eq(0)]
        lines = ", ".join(str(self.rows[at].line) for at in first[:4])
        text = f"lines {lines} have {count:g} ranks but other values"
        apart = [c for c in unused if self._separates(c, texts) and (self._several(c) or not self._measured(c))]
        measured = alike.groupby(names, dropna=False)[[name for name in alike if name in MEASURED]]
        spread = (measured.max() / measured.min()).max().max()
        if not apart and spread <= _REPEATS and ranks.ne(ranks.shift()).sum() == ranks.nunique():
            text = f"{text}, and no column distinguishes them: they are repeats here"
            self.notes.append(f"{self.grid.place}: {text}")
            return
        answers = [f"{c.key}={name}" for c in apart if c.name == "batch" for name in headers.SCOPED["batch"]]
        answers += [f"{c.key}=setting" for c in apart if c.name != "batch" and self._several(c)]
        answers += ["rows=repeats"] * bool(spread <= _NO_REPEATS)
        if ranks.nunique() == 1:
            answers += [f"{c.key}=ranks" for c in apart if c.counting and c.name in ("", "cores")]
        raise Question(f"{text}: repeats? For several curves add a column with their names", answers)

    def _measured(self, column: Column) -> bool:
        """Return whether a column has decimals, as what was measured has."""
        return column.numeric and any(numbers.value(cell) % 1 for cell in column.filled)

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
        self._job_rate()
        self._name_scaling()
        for column in [self.columns[name] for name in ("speedup", "efficiency") if name in self.columns]:
            self._confirm_ratio(column)

    def _job_rate(self) -> None:
        """Add the rates of the job and of a rank that follow from each other, or from that of a node."""
        values, rounding, ranks = self.values, self.rounding, self.values["ranks"]
        if (each := "images_per_s_per_node") in values and "nodes" in values:
            self._put("images_per_s", values[each] * values["nodes"], rounding[each] * values["nodes"])
        if "images_per_s" in values:
            self._put("images_per_s_per_rank", values["images_per_s"] / ranks, rounding["images_per_s"] / ranks)
        elif "images_per_s_per_rank" in values:
            whole = metrics.job_total(values["images_per_s_per_rank"], ranks)
            self._put("images_per_s", whole, rounding["images_per_s_per_rank"] * ranks)
            for end in {"low", "high"} & {*values}:
                self.values[end] *= ranks
                self.rounding[end] *= ranks

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
        column = self.columns["rate"]
        names = [headers.displayed(name, self.work) for name in headers.RATES[::2] if name not in self.values]
        answers = [f"{column.key}={name}" for name in (*names, *([UNUSED] if len(names) < 2 else []))]
        raise Question(f"is '{column.text}' the rate of one rank, or of the whole job?", answers)

    def _confirm_hosts(self, values: pd.DataFrame) -> None:
        """Raise Question if nodes are perhaps those of a graph: nothing else counts ranks, and no ratio shows it.

        That is so if no curve has several numbers of them, or if times grow with them.
        """
        column = self.columns.get("nodes", Column(""))
        if not self.hosts_alone or column.by_user or not column.key or {"speedup", "efficiency"} & {*values}:
            return
        time = next((name for name in rates.TIMES if name in values), "")
        curves = [curve for curve in rates.curves(values) if curve["ranks"].nunique() > 1]
        if values["ranks"].nunique() > 1 and (not curves or (time and rates.rises(values, time))):
            raise Question(f"does '{column.text}' count hosts, each as one rank?", [f"{column.key}=nodes"])

    def _name_scaling(self) -> None:
        """Set whether times are those of equal work in all or of each rank; a note asks if nothing shows it.

        Other steps, epochs, images or sizes are other work.
        """
        time = next((name for name in rates.TIMES if name in self.values), "")
        works = [name for name in ("steps_per_rank", "epochs", "images") if name in self.values]
        equal = not self.varied and bool((self.values[works].nunique() <= 1).all())
        if stated := self.choices.directives.get("scaling", ""):
            self.scaling, why = stated, f"{stated} scaling: as COLUMNS says"
        elif self.scaling:
            why = "weak or strong scaling as its column says"
        elif time and equal and rates.falls(self.values, time):
            self.scaling, why = "strong", "strong scaling: times fall with the ranks"
        if not time or "images_per_s" in self.values or {"steps_per_rank", "global_batch"} <= {*self.values}:
            return
        if self.scaling:
            self.columns[time] = self.columns[time].named(time, why)
        elif self.values["ranks"].nunique() > 1:
            weak, strong = (self.choices.adding(f"scaling={name}") for name in ("weak", "strong"))
            self.notes.append(
                f"{self.grid.place}: '{self.columns[time].text}' gives no speedup: is the work equal for each rank "
                f'(COLUMNS="{weak}"), or in all (COLUMNS="{strong}")?'
            )

    def _confirm_ratio(self, column: Column) -> None:
        """Raise Question if a ratio is hardly a speedup, as not above 1 on more ranks, or hardly an efficiency."""
        ranks, ratios = self.values["ranks"] / self.values["ranks"].min(), self.values[column.name]
        if column.name == "speedup":
            doubtful = "efficiency" not in self.values and ratios[ranks > 1].max() <= _SLOWER
        else:
            doubtful = ratios.max() > _BEYOND
        if doubtful and not column.by_user:
            answers = [f"{column.key}={name}" for name in ("speedup", "efficiency", UNUSED)]
            text = f"'{column.text}' is up to {ratios.max():.3g} on {ranks.max():.3g} times as many ranks: what is it?"
            raise Question(text, answers)

    def result(self) -> tuple[pd.DataFrame, pd.DataFrame, list[Column]]:
        """Return the rows with a number of ranks and a measurement, their rounding, and the columns read; add notes."""
        source = self.grid.rows[0].source
        names = [name for name in (*headers.TIMES[1:], *headers.RATES, "speedup", "efficiency") if name in self.values]
        used = self.values["ranks"].notna() & self.values[names].notna().any(axis=1)
        if not used.any():
            raise Question("\n".join(["no row can be used", *self.notes[:8]]))
        if lost := [str(row.line) for row, use in zip(self.rows, used, strict=True) if not use]:
            self.notes.append(f"{source}: left out, without ranks or a measurement: lines {', '.join(lost[:20])}")
        readings = [self.columns[name] for name in (*NAMES, "rate") if name in self.columns]
        numbers_read = self.used | {column.number for column in readings}
        if unused := [repr(column.text) for column in self.headers if column.number not in numbers_read]:
            self.notes.append(f"{source}: not used: {', '.join(unused)}")
        located = [(row.source, row.line, f"{Path(row.source).name}, line {row.line}") for row in self.rows]
        runs = pd.DataFrame(located, self.values.index, ["file", "line", "place"])
        runs = runs.join(self.values[[name for name in NAMES if name in self.values]])
        runs = runs.assign(work=self.work, scaling=self.scaling)
        return runs[used].reset_index(drop=True), self.rounding[used].reset_index(drop=True), readings
