"""One table under construction: its settings, the scope of its rates and batches, and what follows from them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.user_table import headers, numbers, rates
from analysis.user_table.answers import Choices, Question, offers
from analysis.user_table.headers import MEASURED, NAMES, TEXT, UNUSED, Column
from analysis.user_table.table_files import Grid, GridRow

_SLOWER, _BEYOND = 1.05, 1.5  # speedups up to this, and efficiencies above that, may be something else
_REPEATS = 1.5  # the largest of repeats is at most this many times the smallest
_NO_REPEATS = 3.0  # rows that differ by more are not offered as repeats
_WORK = ("batch_per_rank", "global_batch", "batch", "steps_per_rank")  # they may tell rows of one size apart
# What follows from which column, and a number of ranks or nodes.
_BATCHES = (
    ("global_batch", "batch_per_rank", operator.mul, "ranks"),
    ("batch_per_rank", "global_batch", operator.truediv, "ranks"),
)
_JOB_RATES = (
    ("images_per_s", "images_per_s_per_node", operator.mul, "nodes"),
    ("images_per_s", "images_per_s_per_rank", operator.mul, "ranks"),
    ("images_per_s_per_rank", "images_per_s", operator.truediv, "ranks"),
)


class Assembly:
    """The runs of one table under construction: numbers and texts by name, the columns read, and notes.

    relative: how far rounding can have moved each number, as a share of it; what follows from a number has its share.
    """

    def __init__(
        self, grid: Grid, choices: Choices, rows: Sequence[GridRow], columns: Sequence[Column], notes: Sequence[str]
    ) -> None:
        """Begin with all columns; those of numbers have values."""
        self.grid, self.choices, self.rows, self.table, self.notes = grid, choices, rows, columns, [*notes]
        numeric = [column for column in columns if column.values]
        self.columns = {c.name: c.named(c.name, "as COLUMNS says" if c.by_user else "") for c in numeric}
        cells = pd.DataFrame({column.name: column.values for column in numeric}, dtype=object)
        self.values = cells.map(lambda cell: getattr(cell, "value", math.nan)).astype(float)  # NaN for a reason
        half_units = cells.map(lambda cell: getattr(cell, "half_unit", math.nan)).astype(float)
        self.relative = half_units / self.values
        self.hosts_alone = not {"ranks", "ranks_per_node"} & {*self.values}
        if "ranks" not in self.values:
            self.values["ranks"] = self.values["nodes"] * self.values.get("ranks_per_node", 1)
            text = f"{grid.place}: nodes are counted, and not their ranks: each node is one rank here"
            self.notes += [text] * self.hosts_alone
        self.used: set[int] = set()  # numbers of the columns in settings
        self.work: str = "".join({column.unit.work for column in numeric})

    def settings(self) -> None:
        """Add the columns of text: models and the like, and those without which rows would be alike.

        Raises Question if rows of one number of ranks are alike in all but what was measured, and an unused column
        differs, or nothing shows that they are repeats; or if an unused text may name curves.
        """
        for column in self.table:
            exact = column.name in TEXT and (column.name != "setting" or column.by_user or column.text == "setting")
            if exact or (column.name == "scaling" and column.varies):
                self._add(column if exact else column.named("setting"))
        for column in self._unused():
            if column.name and self._several(column) and self._separates(column):
                self._add(column.named("setting", "rows would be alike without it"))
        self._confirm_hosts()
        if "rows" not in self.choices.directives:
            self._ask_alike()
            mixed = [column for column in self._unused() if not column.numeric and self._mixes(column)]
            if mixed:
                texts, keys = ", ".join(repr(column.text) for column in mixed), [column.key for column in mixed]
                raise Question(f"is each of {texts} another curve?", offers(keys, ("setting", UNUSED)))

    def _unused(self) -> list[Column]:
        """Return the columns that may tell curves or repeats apart, and do not yet."""
        columns = (c for c in self.table if c.name in ("", "setting", "cores", "batch") and c.number not in self.used)
        return [column for column in columns if column.text or not column.numeric]

    def _several(self, column: Column) -> bool:
        """Return whether a value of a column stands beside several numbers of ranks."""
        return self.values["ranks"].groupby(list(column.cells)).nunique().max() > 1

    def _mixes(self, column: Column) -> bool:
        """Return whether a column names curves, or rows.

        A curve has two of its values, each beside several numbers of ranks; or it is the first, and all differ.
        """
        if column.number == 1 and len({*column.cells}) == len(column.cells) > 1:
            return True
        rows, curve = (
            self.values.assign(_=column.cells, all=0),
            ["all", *(name for name in TEXT if name in self.values)],
        )
        several = rows.groupby([*curve, "_"])["ranks"].nunique() > 1
        return bool(several.groupby(curve).sum().max() > 1)

    def _add(self, column: Column) -> None:
        """Add a column of text, behind what its name has already."""
        name = column.name
        short = name == "setting" and (column.numeric or all(len(cell) < 6 for cell in column.cells))
        cells = [f"{column.text} {cell}" if short and cell and column.number else cell for cell in column.cells]
        before = self.values.get(name, [""] * len(cells))
        self.values[name] = [" ".join(filter(None, both)) for both in zip(before, cells, strict=True)]
        header = f"{self.columns[name].text}, {column.text}" if name in self.columns else column.text
        self.columns[name] = replace(column, text=header, why="" if column.by_user else column.why)
        self.used.add(column.number)

    def _distinct(self) -> tuple[pd.DataFrame, list[str]]:
        """Return the rows that differ in what identifies a run or was measured, and the names of the former columns."""
        names = [name for name in (*headers.SIZES, "repeat", *TEXT) if name in self.values]
        measured = [name for name in self.values if name in MEASURED]
        rows = self.values[[*names, *measured]][self.values["ranks"].notna()]
        return rows.dropna(subset=measured, how="all").drop_duplicates(), names

    def _separates(self, column: Column) -> bool:
        """Return whether fewer rows are alike, whatever their work, with a column as a setting."""
        (rows, names), cells = self._distinct(), pd.Series(column.cells)
        names = [name for name in names if name not in _WORK]
        return bool(rows.assign(_=cells).duplicated([*names, "_"]).sum() < rows.duplicated(names).sum())

    def _ask_alike(self) -> None:
        """Raise Question if rows are alike: repeats, or told apart by an unused column? Note those that are repeats.

        Repeats stand one below the other, measured much the same, and no unused column differs between them, but by
        numbers with decimals that occur at one number of ranks alone, as what was measured beside.
        """
        rows, names = self._distinct()
        alike, ranks = rows[rows.duplicated(names, keep=False)], self.values["ranks"]
        if alike.empty:
            return
        count = alike["ranks"].iloc[0]
        first = alike.index[alike.groupby(names, dropna=False, sort=False).ngroup().eq(0)]
        lines = ", ".join(str(self.rows[at].line) for at in first[:4])
        text = f"{self.rows[0].unit}s {lines} have {count:g} ranks but other values"
        apart = [c for c in self._unused() if self._separates(c) and (self._several(c) or not self._measured(c))]
        measured = alike.groupby(names, dropna=False)[[name for name in alike if name in MEASURED]]
        spread = (measured.max() / measured.min()).max().max()
        if not apart and spread <= _REPEATS and ranks.ne(ranks.shift()).sum() == ranks.nunique():
            text = f"{text}, and no column distinguishes them: they are repeats here"
            self.notes.append(f"{self.grid.place}: {text}")
            return
        counting = [c.key for c in apart if c.counting and c.name in ("", "cores") and ranks.nunique() == 1]
        answers = offers([c.key for c in apart if c.name == "batch"], headers.SCOPED["batch"])
        answers += offers([c.key for c in apart if c.name != "batch" and self._several(c)], ("setting",))
        answers += ["rows=repeats"] * bool(spread <= _NO_REPEATS) + offers(counting, ("ranks",))
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
        self._follow(*_BATCHES)
        if "nodes" in self.values:
            each = self.values["ranks"] / self.values["nodes"]
            self._put("ranks_per_node", each.where(each % 1 == 0))
        self._rates_from_steps()
        if "rate" in self.values:
            self._name_rate()
        if "images_per_s_per_rank" in self.values and "images_per_s" not in self.values:
            for end in {"low", "high"} & {*self.values}:
                self.values[end] *= self.values["ranks"]
        self._follow(*_JOB_RATES)
        for column in [self.columns[name] for name in headers.RATIOS if name in self.columns]:
            self._confirm_ratio(column)

    def _follow(self, *formulas: tuple[str, str, Callable[[pd.Series, pd.Series], pd.Series], str]) -> None:
        """Add what follows from a column and another one that counts."""
        for name, source, operation, count in formulas:
            if {source, count} <= {*self.values}:
                self._put(name, operation(self.values[source], self.values[count]), source)

    def _rename(self, old: str, new: str, why: str) -> None:
        self.values = self.values.rename(columns={old: new})
        self.relative = self.relative.rename(columns={old: new})
        self.columns[new] = self.columns.pop(old).named(new, why)

    def _put(self, name: str, values: pd.Series, source: str = "") -> None:
        """Fill in a column that follows from others, where the file has no value, as exact as its source."""
        have, relative = (frame.get(name, pd.Series(math.nan, frame.index)) for frame in (self.values, self.relative))
        self.values[name] = have.fillna(values)
        self.relative[name] = relative.where(have.notna(), self.relative.get(source, math.nan))

    def _rates_from_steps(self) -> None:
        """Add the rates that follow from the rate or time of steps and a known batch, if there are no others."""
        source = "rate" if "rate" in self.values and self.work == "steps" else "step_s"
        if not {source, "global_batch"} <= {*self.values} or {"rate", *headers.RATES} - {source} & {*self.values}:
            return
        steps_per_s = 1 / self.values[source] if source == "step_s" else self.values.pop(source)
        self._put("images_per_s", self.values["global_batch"] * steps_per_s, source)
        self.work = self.work if source == "step_s" else ""

    def _name_rate(self) -> None:
        """Name the rate as that of the job if it grows with the ranks. Raises Question otherwise."""
        several = self.values["ranks"][self.values["rate"].notna()].max() > 1
        if (not several or rates.grows(self.values, "rate")) and "images_per_s" not in self.values:
            self._rename("rate", "images_per_s", "it grows with the ranks" if several else "")
            return
        column = self.columns["rate"]
        names = [headers.displayed(name, self.work) for name in headers.RATES[::2] if name not in self.values]
        names += [UNUSED] if len(names) < 2 else []
        raise Question(f"is '{column.text}' the rate of one rank, or of the whole job?", offers([column.key], names))

    def _confirm_hosts(self) -> None:
        """Raise Question if nodes are perhaps those of a graph: nothing else counts ranks, and no ratio shows it.

        That is so if no curve has several numbers of them, or if times grow with them.
        """
        values, column = self.values, self.columns.get("nodes", Column(""))
        if not self.hosts_alone or column.by_user or not column.key or {*headers.RATIOS} & {*values}:
            return
        time = self._time()
        curves = [curve for curve in rates.curves(values) if curve["ranks"].nunique() > 1]
        if values["ranks"].nunique() > 1 and (not curves or (time and rates.rises(values, time))):
            raise Question(f"does '{column.text}' count hosts, each as one rank?", [f"{column.key}=nodes"])

    def _time(self) -> str:
        """Return the name of the times from which rates follow; "" if there are none."""
        return next((name for name in rates.TIMES if name in self.values), "")

    def _scaling(self) -> str | list[str]:
        """Return whether times are those of equal work in all or of each rank; a note asks if nothing shows it.

        Other steps, epochs, images or sizes are other work.
        """
        cells = next(([cell.strip().lower() for cell in c.cells] for c in self.table if c.name == "scaling"), "")
        works = [name for name in ("steps_per_rank", "epochs", "images") if name in self.values]
        sizes = any(column.name == "setting" and column.numeric and column.varies for column in self._unused())
        equal = not sizes and (self.values[works].nunique() <= 1).all()
        stated, time = self.choices.directives.get("scaling", ""), self._time()
        falls = time and equal and rates.falls(self.values, time)
        reasons = (
            (stated, f"{stated} scaling: as COLUMNS says"),
            (cells, "weak or strong scaling as its column says"),
            ("strong" if falls else "", "strong scaling: times fall with the ranks"),
        )
        scaling, why = next((reason for reason in reasons if reason[0]), ("", ""))
        if not time or "images_per_s" in self.values or {"steps_per_rank", "global_batch"} <= {*self.values}:
            return scaling
        if scaling:
            self.columns[time] = self.columns[time].named(time, why)
        elif self.values["ranks"].nunique() > 1:
            weak, strong = (self.choices.adding(f"scaling={name}") for name in ("weak", "strong"))
            self.notes.append(
                f"{self.grid.place}: '{self.columns[time].text}' gives no speedup: is the work equal for each rank "
                f'(COLUMNS="{weak}"), or in all (COLUMNS="{strong}")?'
            )
        return scaling

    def _confirm_ratio(self, column: Column) -> None:
        """Raise Question if a ratio is hardly a speedup, as not above 1 on more ranks, or hardly an efficiency."""
        ranks, ratios = self.values["ranks"] / self.values["ranks"].min(), self.values[column.name]
        if column.name == "speedup":
            doubtful = "efficiency" not in self.values and ratios[ranks > 1].max() <= _SLOWER
        else:
            doubtful = ratios.max() > _BEYOND
        if doubtful and not column.by_user:
            text = f"'{column.text}' is up to {ratios.max():.3g} on {ranks.max():.3g} times as many ranks: what is it?"
            raise Question(text, offers([column.key], (*headers.RATIOS, UNUSED)))

    def result(self) -> tuple[pd.DataFrame, pd.DataFrame, list[Column]]:
        """Return the rows with a number of ranks and a measurement, their rounding, and the columns read; add notes."""
        source, scaling = self.grid.rows[0].source, self._scaling()
        names = [name for name in (*headers.TIMES[1:], *headers.RATES, *headers.RATIOS) if name in self.values]
        used = self.values["ranks"].notna() & self.values[names].notna().any(axis=1)
        if not used.any():
            raise Question("\n".join(["no row can be used", *self.notes[:8]]))
        if lost := [str(row.line) for row, use in zip(self.rows, used, strict=True) if not use]:
            lines = f"{self.rows[0].unit}s {', '.join(lost[:20])}"
            self.notes.append(f"{source}: left out, without ranks or a measurement: {lines}")
        readings = [self.columns[name] for name in (*NAMES, "rate") if name in self.columns]
        numbers_read = self.used | {column.number for column in readings}
        left = [c for c in self.table if c.text and c.name != "scaling" and c.number not in numbers_read]
        if left:
            self.notes.append(f"{source}: not used: {', '.join(repr(column.text) for column in left)}")
        located = [(row.source, row.line, replace(row, source=Path(row.source).name).place) for row in self.rows]
        runs = pd.DataFrame(located, self.values.index, ["file", "line", "place"])
        runs = runs.join(self.values[[name for name in NAMES if name in self.values]])
        rounding = self.relative * self.values.reindex(columns=self.relative.columns).abs()
        runs = runs.assign(work=self.work, scaling=scaling)
        return runs[used].reset_index(drop=True), rounding[used].reset_index(drop=True), readings
