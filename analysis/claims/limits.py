"""What a number must be for a claim to hold, and the arithmetic of formulas."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass

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
class Limits:
    """What a number must be for a claim to hold: beyond a bound, or near a value within a tolerance."""

    at_least: float | None = None
    at_most: float | None = None
    more_than: float | None = None
    less_than: float | None = None
    about: float | None = None
    within: float = 0.0

    def hold(self, value: float) -> bool:
        """Whether `value` is within all limits."""
        small = 1e-9 * max(1.0, abs(value))
        return (
            (self.at_least is None or value >= self.at_least - small)
            and (self.at_most is None or value <= self.at_most + small)
            and (self.more_than is None or value > self.more_than)
            and (self.less_than is None or value < self.less_than)
            and (self.about is None or abs(value - self.about) <= self.within + small)
        )

    def __str__(self) -> str:
        """The limits in words."""
        words = [
            f"{name.replace('_', ' ')} {limit:.6g}"
            for name in ("at_least", "at_most", "more_than", "less_than")
            if (limit := getattr(self, name)) is not None
        ]
        if self.about is not None:
            words.append(f"{self.about:.6g}" + (f" within {self.within:.3g}" if self.within else ""))
        return " and ".join(words)
