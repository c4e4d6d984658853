"""The numbers that claims are about, with their rounding and noise, and the bounds that are claimed for them."""

import ast
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import pandas as pd

from analysis import reports
from analysis.curves import SOURCE_RUN, Noises, Row, noises, ranks_in_words, row_dicts
from analysis.derived import MARGIN, Derived, stated_number
from analysis.stats import Number, combined
from analysis.stats.student import with_noise
from analysis.stats.verdict import Bounds, Outcome, Verdict

# A claim holds for the measurements in these runs, or for those in any run.
Scope = Literal["these runs", "any run"]
SCOPES: tuple[Scope, ...] = ("these runs", "any run")
Selection = Mapping[str, Any]


class Result(NamedTuple):
    """The result of a check: the verdict, its evidence as text, and each number that decides it with its bounds."""

    verdict: Verdict
    evidence: str
    numbers: tuple[tuple[Number, Bounds], ...] = ()


class Unknown(Exception):
    """The numbers that a check needs are not known."""


@dataclass(frozen=True, eq=False)
class Report:
    """The numbers of one report, measured and computed; noise and derived numbers are computed once."""

    table: pd.DataFrame
    published: pd.DataFrame  # the numbers of all reports, for predictions

    @cached_property
    def noises(self) -> Noises:
        """Return the noise of the measurements of the report."""
        return noises(self.table[self.table["kind"].ne("computed")])

    @cached_property
    def derived(self) -> list[Derived]:
        """Return the derived numbers that the report states, each with its verdict."""
        return list(reports.derived_numbers(self.table[self.table["kind"].ne("computed")]))


@dataclass(frozen=True)
class Data:
    """The numbers of one report, and the scope of a claim, which decides whether their noise counts."""

    report: Report
    scope: Scope = "these runs"

    @property
    def table(self) -> pd.DataFrame:
        """Return all numbers of the report."""
        return self.report.table

    def select(self, selection: Selection) -> pd.DataFrame:
        """Return the rows whose columns have the values in `selection` (a list: any of them).

        By default measured and computed ones, and those of a primary source only if `run` asks for them. Raises Unknown
        if there are none, KeyError for a column that does not exist.
        """
        if absent := [name for name in selection if name not in self.table.columns]:
            raise KeyError(f"no column {', '.join(absent)}")
        values = {"kind": ["measured", "computed"]} | dict(selection)
        rows = self.table if "run" in selection else self.table[self.table["run"].ne(SOURCE_RUN)]
        for name, value in values.items():
            rows = rows[rows[name].isin(listed(value))]
        if rows.empty:
            raise Unknown(f"no number is known for {selection_text(selection)}")
        return rows

    def single(self, selection: Selection) -> Row:
        """Return the one row of a selection. Raises ValueError if there are several: they must not be mixed."""
        return single_row(self.select(selection), selection_text(selection))

    def number(self, row: Row) -> Number:
        """Return the number of a row with its rounding, and its noise too if the claim is about any run."""
        return self.formula(lambda x: x, {"x": row})

    def formula(self, formula: Callable[..., float], rows: Mapping[str, Row]) -> Number:
        """Return the value of a formula over some rows, with their rounding, and their noise as in `number`."""
        numbers = {name: stated_number(row) for name, row in rows.items()}
        value = combined(formula, numbers)
        if self.scope == "these runs":
            return value
        powers = _powers(formula, {name: number.value for name, number in numbers.items()}, value.value)
        measurements = [
            (noise, power * powers[name])
            for name, row in rows.items()
            for noise, power in self.report.noises.measurements(row)
        ]
        return with_noise(value, measurements)


def _powers(formula: Callable[..., float], values: Mapping[str, float], value: float) -> dict[str, float]:
    """Return the power with which each value enters a formula, to first order: d ln(formula) / d ln(value)."""
    step, powers = 1e-6, {}
    for name in values:
        moved = formula(**{**values, name: values[name] * (1 + step)})
        powers[name] = (moved - value) / value / step if value else math.inf
    return powers


def single_row(rows: pd.DataFrame, description: str) -> Row:
    """Return the only one of some rows. Raises ValueError if there are several."""
    if len(rows) > 1:
        raise ValueError(f"{len(rows)} numbers for {description}: {values_text(row_dicts(rows.head(4)))}, ...")
    return row_dicts(rows)[0]


def selection_text(selection: Selection) -> str:
    """Return a selection as text."""
    texts = {name: ", ".join(map(str, listed(value))) for name, value in selection.items()}
    return "; ".join(f"{name} {text}" if text else f"no {name}" for name, text in texts.items())


def listed(value: Any) -> list[Any]:
    """Return a value of a selection as the list of values that it allows."""
    return value if isinstance(value, list) else [value]


def values_text(rows: Iterable[Mapping[Hashable, Any]]) -> str:
    """Return the values of some rows with their points, as text."""
    return ", ".join(f"{row['value']:.4g} ({point_text(row)})" for row in rows)


def point_text(row: Mapping[Hashable, Any]) -> str:
    """Return the point of a row, as text."""
    ranks = "" if pd.isna(row["ranks"]) else ranks_in_words(row["ranks"])
    return ", ".join(dict.fromkeys(str(part) for part in (row["model"] or row["run"], row["gpu"], ranks) if part))


def groups(rows: pd.DataFrame, by: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of each value of some columns, with those values as text."""
    return [
        (", ".join(_cell_text(name, cell) for name, cell in zip(by, cells, strict=True)), group)
        for cells, group in rows.groupby(list(by), dropna=False, sort=True)
    ]


def rows_by_group(data: Data, numbers: Mapping[str, Selection], by: Sequence[str]) -> list[tuple[str, dict[str, Row]]]:
    """Return one row of each selection for each value of some columns that all have. Raises Unknown without any."""
    selected = {name: dict(groups(data.select(selection), by)) for name, selection in numbers.items()}
    common = [key for key in next(iter(selected.values())) if all(key in rows for rows in selected.values())]
    if not common:
        raise Unknown(f"no {', '.join(by)} for which all of {', '.join(numbers)} are known")
    return [(key, {name: single_row(selected[name][key], f"{name}, {key}") for name in numbers}) for key in common]


def _cell_text(column: str, cell: Any) -> str:
    if pd.isna(cell) or cell == "":
        return f"no {column}"
    if column in ("ranks", "nodes"):
        return f"{cell} {column.removesuffix('s') if cell == 1 else column}"
    return {"batch_per_rank": "batch {}", "global_batch": "global batch {}"}.get(column, "{}").format(cell)


VerdictName = Literal["contradicted", "not decidable", "supported"]
VERDICT_NAMES: dict[Outcome, VerdictName] = {
    "outside": "contradicted",
    "undecided": "not decidable",
    "inside": "supported",
}
VERDICTS: tuple[VerdictName, ...] = tuple(VERDICT_NAMES.values())

_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def arithmetic(formula: str, values: dict[str, float]) -> float:
    """Return the value of a formula of names, numbers, + - * / and brackets. Raises ValueError for other parts."""

    def value(node: ast.expr) -> float:
        match node:
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value(left), value(right))
            case ast.Constant(float() | int() as number):
                return float(number)
            case ast.Name(name) if name in values:
                return values[name]
        raise ValueError(
            f"formula '{formula}': '{ast.unparse(node)}' is not a number, not + - * /, and not one of {list(values)}"
        )

    return value(ast.parse(formula, mode="eval").body)


@dataclass(frozen=True)
class ClaimBounds:
    """The bounds on a number for a claim to hold: beyond a bound, or about a value.

    `within` is the fraction that "about" allows. `roughly` moves bounds apart by a fraction. `margin` does not move
    them: a number that is beyond a bound by less than this fraction does not contradict it, and counts as within.
    """

    at_least: float | None = None
    at_most: float | None = None
    more_than: float | None = None
    less_than: float | None = None
    about: float | None = None
    within: float = MARGIN
    roughly: float = 0.0
    margin: float = 0.0

    @property
    def bounds(self) -> Bounds:
        """Return the bounds, without the margin."""
        low = max((x for x in (self.at_least, self.more_than) if x is not None), default=-math.inf)
        high = min((x for x in (self.at_most, self.less_than) if x is not None), default=math.inf)
        if self.about is not None:
            low, high = max(low, self.about * (1 - self.within)), min(high, self.about * (1 + self.within))
        strict = self.more_than is not None or self.less_than is not None
        return Bounds(low, high, strict).wider(self.roughly)

    @property
    def with_margin(self) -> Bounds | None:
        """Return the bounds moved apart by the margin; None without a margin."""
        return self.bounds.wider(self.margin) if self.margin else None

    def __str__(self) -> str:
        """Return the bounds as text."""
        parts = [
            f"{name.replace('_', ' ')} {bound:.6g}"
            for name in ("at_least", "at_most", "more_than", "less_than")
            if (bound := getattr(self, name)) is not None
        ]
        if self.about is not None:
            parts.append(f"within {100 * self.within:.3g} % of {self.about:.6g}")
        also = f", give or take {100 * self.roughly:.3g} %" if self.roughly else ""
        return " and ".join(parts) + also + (f", with a margin of {100 * self.margin:.3g} %" if self.margin else "")


def verdict_name(verdict: Verdict) -> VerdictName:
    """Return the name of a verdict on a claim."""
    return VERDICT_NAMES[verdict.outcome]


def counts(verdicts: Sequence[Verdict]) -> str:
    """Return how many verdicts there are of each kind, as text."""
    names = [verdict_name(verdict) for verdict in verdicts]
    return ", ".join(f"{names.count(name)} {name}" for name in VERDICTS if name in names)


def in_these_runs(result: Result) -> str:
    """Return the result of the numbers of these runs alone, as text: how many are as claimed, and n."""
    if not result.numbers:
        return "no number decides it"
    allowed = [bounds.allow(number.value) for number, bounds in result.numbers]
    values = [number.value for number, _ in result.numbers]
    n = sum(max(1, number.n) for number, _ in result.numbers)
    if len(values) == 1:
        return f"{'as claimed' if allowed[0] else 'not as claimed'}: {values[0]:.4g} (n = {n})"
    span = f"{min(values):.4g} to {max(values):.4g}"
    return f"{sum(allowed)} of {len(values)} numbers as claimed: {span} (n = {n})"
