"""A finding: what is stated somewhere, what follows instead, and how bad that is."""

from dataclasses import dataclass
from typing import Annotated, Literal

from analysis.documents import about

Severity = Literal["note", "warning", "serious"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One inconsistency. Texts carry their units; `off` is stated / follows - 1, if it is a number."""

    report: Annotated[str, about("000 to 004, `local` for your records, or the name of FILE")]
    place: Annotated[str, about("table, figure, file or record, and the point")]
    rule: Annotated[str, about("its name in docs/audit.md")]
    severity: Annotated[Severity, about("how bad it is")]
    stated: Annotated[str, about("value and unit")]
    follows: Annotated[str, about("value and unit that follow instead")]
    off: Annotated[float | None, about("stated / follows - 1; null: not a number")]
    meaning: Annotated[str, about("meaning, and what to do")]


def local_finding(rule: str, place: str, severity: Severity, stated: str, follows: str, meaning: str) -> Finding:
    """Return a finding in the files of a user's launches."""
    return Finding("local", place, rule, severity, stated, follows, None, meaning)
