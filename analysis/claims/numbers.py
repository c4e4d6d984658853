"""The numbers that claims are about, with their rounding and noise, and the bounds that are claimed for them."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pandas as pd

from analysis.curves import SOURCE_RUN, Row, row_dicts
from analysis.derived import Derived
from analysis.point_noise import Noises, noises
from analysis.reports import recompute
from analysis.stats.noise import with_noise
from analysis.stats.number import Number, combined
from analysis.stats.verdict import Bounds, Outcome, Verdict
from analysis.table import stated
from analysis.table.stated import MARGIN

# What a claim is about: what was measured in these runs, or what would be measured in any.
Scope = Literal["these runs", "any run"]
SCOPES: tuple[Scope, ...] = ("these runs", "any run")
Selection = Mapping[str, Any]


class Unknown(Exception):
    """The numbers that a check needs are not known."""


@dataclass(frozen=True, eq=False)
class Report:
    """The numbers of one report, measured and computed; what is made from all of them is made once."""

    table: pd.DataFrame
    published: pd.DataFrame  # the numbers of all reports, which teach how curves go on

    @cached_property
    def noises(self) -> Noises:
        """The noise of the measurements of the report."""
        return noises(self.table[self.table["kind"].ne("computed")])

    @cached_property
    def derived(self) -> list[Derived]:
        """The derived numbers that the report states, each with its verdict."""
        return list(recompute.derived_numbers(self.table[self.table["kind"].ne("computed")]))


@dataclass(frozen=True)
class Data:
    """The numbers of one report, and how far to trust a single one of them."""

    report: Report
    scope: Scope = "these runs"

    @property
    def table(self) -> pd.DataFrame:
        """All numbers of the report."""
        return self.report.table

    def select(self, of: Selection) -> pd.DataFrame:
        """The rows whose columns have the values in `of` (a list: any of them), measured or computed unless it says so.

        Rows of a primary source only where `run` asks for them. Raises Unknown where there is none, KeyError for a
        column.
        """
        if unknown := [name for name in of if name not in self.table.columns]:
            raise KeyError(f"no column {', '.join(unknown)}")
        wanted = {"kind": ["measured", "computed"]} | dict(of)
        rows = self.table if "run" in of else self.table[self.table["run"].ne(SOURCE_RUN)]
        for name, value in wanted.items():
            rows = rows[rows[name].isin(value if isinstance(value, list) else [value])]
        if rows.empty:
            raise Unknown(f"no number is known for {words(of)}")
        return rows

    def single(self, of: Selection) -> Row:
        """The one row of a selection. Raises ValueError where there are several: they must not be mixed."""
        return one(self.select(of), words(of))

    def number(self, row: Row) -> Number:
        """The number of a row: with its rounding, and where the claim is about any run with its noise too."""
        return self.formula(lambda x: x, {"x": row})

    def formula(self, formula: Callable[..., float], rows: Mapping[str, Row]) -> Number:
        """What a formula makes of the numbers of some rows, with their rounding, and their noise as in `number`."""
        numbers = {name: stated.number(row) for name, row in rows.items()}
        found = combined(formula, numbers)
        if self.scope == "these runs":
            return found
        powers = _powers(formula, {name: number.value for name, number in numbers.items()}, found.value)
        measurements = [
            (noise, power * powers[name])
            for name, row in rows.items()
            for noise, power in self.report.noises.measurements(row)
        ]
        return with_noise(found, measurements)


def _powers(formula: Callable[..., float], values: Mapping[str, float], value: float) -> dict[str, float]:
    """The power with which each value enters a formula, to first order: d ln(formula) / d ln(value)."""
    step, found = 1e-6, {}
    for name in values:
        moved = formula(**{**values, name: values[name] * (1 + step)})
        found[name] = (moved - value) / value / step if value else math.inf
    return found


def one(rows: pd.DataFrame, what: str) -> Row:
    """The only one of some rows. Raises ValueError where there are several."""
    if len(rows) > 1:
        raise ValueError(f"{len(rows)} numbers for {what}: {shown(row_dicts(rows.head(4)))}, ...")
    return row_dicts(rows)[0]


def words(of: Selection) -> str:
    """A selection in words."""
    said = {name: ", ".join(map(str, value)) if isinstance(value, list) else str(value) for name, value in of.items()}
    return "; ".join(f"{name} {value}" if value else f"no {name}" for name, value in said.items())


def shown(rows: Iterable[Mapping[Hashable, Any]]) -> str:
    """The values of some rows, and what tells them apart, in words."""
    return ", ".join(f"{row['value']:.4g} ({point(row)})" for row in rows)


def point(row: Mapping[Hashable, Any]) -> str:
    """What a row is of, in words."""
    ranks = "" if pd.isna(row["ranks"]) else f"{row['ranks']} rank{'s' * (row['ranks'] != 1)}"
    said = [row["model"] or row["run"], row["gpu"], ranks]
    return ", ".join(dict.fromkeys(str(word) for word in said if word))


def groups(rows: pd.DataFrame, by: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each value of some columns, with those values in words."""
    found = rows.groupby(list(by), dropna=False, sort=True)
    return [(", ".join(_word(name, cell) for name, cell in zip(by, cells, strict=True)), of) for cells, of in found]


def _word(column: str, cell: Any) -> str:
    if pd.isna(cell) or cell == "":
        return f"no {column}"
    if column in ("ranks", "nodes"):
        return f"{cell} {column.removesuffix('s') if cell == 1 else column}"
    return {"batch_per_rank": "batch {}", "global_batch": "global batch {}"}.get(column, "{}").format(cell)


Word = Literal["contradicted", "not decidable", "supported"]
WORDS: dict[Outcome, Word] = {"outside": "contradicted", "undecided": "not decidable", "inside": "supported"}
VERDICTS: tuple[Word, ...] = tuple(WORDS.values())

_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def arithmetic(formula: str, values: dict[str, float]) -> float:
    """The value of a formula of names, numbers, + - * / and brackets. Raises ValueError for anything else in it."""

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
class Claimed:
    """What a number must be for a claim to hold: beyond a bound, or about a value.

    `within` is the fraction that "about" allows. `roughly` moves bounds apart by a fraction. `margin` does not move
    them: what is beyond a bound by less than this fraction is not contradicted by it, and counts as within.
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
        """What is allowed."""
        low = max((x for x in (self.at_least, self.more_than) if x is not None), default=-math.inf)
        high = min((x for x in (self.at_most, self.less_than) if x is not None), default=math.inf)
        if self.about is not None:
            low, high = max(low, self.about * (1 - self.within)), min(high, self.about * (1 + self.within))
        strict = self.more_than is not None or self.less_than is not None
        return Bounds(low, high, strict).wider(self.roughly)

    @property
    def same(self) -> Bounds | None:
        """What counts as allowed where it cannot be told from it, by the margin."""
        return self.bounds.wider(self.margin) if self.margin else None

    def __str__(self) -> str:
        """The limits in words."""
        said = [
            f"{name.replace('_', ' ')} {limit:.6g}"
            for name in ("at_least", "at_most", "more_than", "less_than")
            if (limit := getattr(self, name)) is not None
        ]
        if self.about is not None:
            said.append(f"within {100 * self.within:.3g} % of {self.about:.6g}")
        also = f", give or take {100 * self.roughly:.3g} %" if self.roughly else ""
        return " and ".join(said) + also + (f", with a margin of {100 * self.margin:.3g} %" if self.margin else "")


@dataclass(frozen=True)
class Extreme:
    """Which one of the column `among` is claimed to be the highest, or the lowest."""

    among: str
    highest: Any = None
    lowest: Any = None

    @property
    def name(self) -> Any:
        """The claimed one."""
        return self.highest if self.lowest is None else self.lowest

    @property
    def bounds(self) -> Bounds:
        """What its ratio to each of the others must be."""
        return Bounds(low=1.0, strict=True) if self.lowest is None else Bounds(high=1.0, strict=True)


@dataclass(frozen=True)
class Plateau:
    """From where on a quantity is claimed not to rise: the value `at` of the column `along`; by less than `margin`."""

    along: str
    at: float
    margin: float


def counts(verdicts: Sequence[Verdict]) -> str:
    """How many verdicts there are of each kind, in words."""
    words = [WORDS[verdict.outcome] for verdict in verdicts]
    return ", ".join(f"{words.count(word)} {word}" for word in VERDICTS if word in words)
