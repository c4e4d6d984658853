"""What a rule of the audit says, and the lists of rules."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pandas as pd

Severity = Literal["note", "warning", "serious"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that does not add up. Texts carry their units; `off` is stated / follows - 1, where it is a number."""

    report: str  # "000" to "004", "own" for one's own records
    place: str
    rule: str
    severity: Severity
    stated: str
    follows: str
    off: float | None
    meaning: str


TableRule = Callable[[pd.DataFrame], Iterator[Finding]]
Rule = TypeVar("Rule", bound=Callable[..., Any])

# By name, in the order in which they stand in their modules.
TABLE_RULES: dict[str, TableRule] = {}
RECORD_RULES: dict[str, Callable[..., Iterator[Finding]]] = {}
EXPERIMENT_RULES: dict[str, Callable[..., Iterator[Finding]]] = {}


def rule(rules: dict[str, Any]) -> Callable[[Rule], Rule]:
    """Put a function into `rules` under its own name; its docstring is the reason for it."""

    def add(function: Rule) -> Rule:
        rules[function.__name__] = function
        return function

    return add


def graded(off: float, warning: float = 0.02, serious: float = 0.10) -> Severity:
    """How bad a relative difference is: below `warning` no more than a note, from `serious` on serious."""
    return "serious" if abs(off) >= serious else "warning" if abs(off) >= warning else "note"
