"""What a number must be for a claim to hold, in the words of `claims.toml`, and the arithmetic of formulas."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from analysis.stats.verdict import Bounds, Outcome, Verdict
from analysis.table.stated import MARGIN

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
