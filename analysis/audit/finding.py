"""A finding of the audit, and the lists of rules."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pandas as pd

from analysis.thresholds import limit

Severity = Literal["note", "warning", "serious"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One inconsistency. Texts carry their units; `off` is stated / follows - 1, where it is a number."""

    report: str  # "000" to "004", "local" for local records
    place: str
    rule: str
    severity: Severity
    stated: str
    follows: str
    off: float | None
    meaning: str


TableRule = Callable[[pd.DataFrame], Iterator[Finding]]
Rule = TypeVar("Rule", bound=Callable[..., Any])

# By name, in the order of their modules.
TABLE_RULES: dict[str, TableRule] = {}
RECORD_RULES: dict[str, Callable[..., Iterator[Finding]]] = {}
EXPERIMENT_RULES: dict[str, Callable[..., Iterator[Finding]]] = {}


def rule(rules: dict[str, Any]) -> Callable[[Rule], Rule]:
    """Returns a decorator that adds a function to `rules` by its name; the docstring is the reason for the rule."""

    def add(function: Rule) -> Rule:
        rules[function.__name__] = function
        return function

    return add


def graded(off: float, warning: float | None = None, serious: float | None = None) -> Severity:
    """The severity of a relative difference: a note below `warning`, serious from `serious` on."""
    warning = limit("graded_warning") if warning is None else warning
    serious = limit("graded_serious") if serious is None else serious
    return "serious" if abs(off) >= serious else "warning" if abs(off) >= warning else "note"
