"""What a check of a record finds, and the list of checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from train.record.record import RunRecord


@dataclass(frozen=True)
class Contradiction:
    """Two statements of one record that cannot both be true. Texts carry their units; off: stated / follows - 1."""

    rule: str
    stated: str
    follows: str
    off: float | None = None

    def __str__(self) -> str:
        """Both statements, as the commands print them."""
        return f"{self.stated}, but {self.follows}"


Check = Callable[[RunRecord], Iterator[Contradiction]]

# By name, in the order of their modules. The docstring is the reason for the check.
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Adds a function to the checks by its name."""
    CHECKS[function.__name__] = function
    return function


def off(stated: float, follows: float) -> float | None:
    """The relative difference of what is stated; None where it has no base."""
    return stated / follows - 1 if follows else None
