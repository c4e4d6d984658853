"""A finding of the audit, the lists of rules, and how a rule compares a number with its bounds."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ParamSpec

import pandas as pd

from analysis.audit.audited_table import AuditedTable
from analysis.curves import Row, times_as_fast
from analysis.derived import stated_number
from analysis.finding import Finding, Severity
from analysis.stats import Number, combined
from analysis.stats.student import Noise, with_noise
from analysis.stats.verdict import Bounds, judge_all
from analysis.thresholds import limit
from common.terminal import counted


def finding(
    source: Row | str, severity: Severity, stated: str, follows: str, off: float | None, meaning: str, place: str = ""
) -> Finding:
    """Return a finding at a row of a tidy table, or at the path of a record; `rule` adds the name of its rule.

    `place` is the location in the report if it is not that of the row.
    """
    report, location = ("", source) if isinstance(source, str) else (source["report"], point_location(source))
    return Finding(report or "local", place or location, "", severity, stated, follows, off, meaning)


Rule = Callable[..., Iterator[Finding]]
Over = ParamSpec("Over")  # what a rule is over
# By name, in the order of their modules: over an `AuditedTable`; over a record and its path; over a list of
# `ComparedLaunch`.
TABLE_RULES: dict[str, Rule] = {}
RECORD_RULES: dict[str, Rule] = {}
EXPERIMENT_RULES: dict[str, Rule] = {}


def rule(rules: dict[str, Rule]) -> Callable[[Callable[Over, Iterator[Finding]]], Callable[Over, Iterator[Finding]]]:
    """Return a decorator that adds a function to `rules` by its name, which its findings get."""

    def add(function: Callable[Over, Iterator[Finding]]) -> Callable[Over, Iterator[Finding]]:
        @functools.wraps(function)
        def named(*over: Over.args, **options: Over.kwargs) -> Iterator[Finding]:
            return (replace(result, rule=function.__name__) for result in function(*over, **options))

        rules[function.__name__] = named
        return named

    return add


def rows_rule(function: Callable[[pd.DataFrame], Iterator[Finding]]) -> Callable[[AuditedTable], Iterator[Finding]]:
    """Add a function to TABLE_RULES that needs the rows of the table alone."""

    @functools.wraps(function)
    def over_rows(table: AuditedTable) -> Iterator[Finding]:
        return function(table.rows)

    return rule(TABLE_RULES)(over_rows)


def point_label(row: Row) -> str:
    """Return the values that distinguish a point from others of its table, as text."""
    parts = [row["model"], row["dataset"], row["gpu"]]
    if not pd.isna(row["batch_per_rank"]):
        parts.append(f"batch {row['batch_per_rank']}")
    if not pd.isna(row["ranks"]):
        parts.append(counted(row["ranks"], "rank"))
    return ", ".join(dict.fromkeys(part for part in parts if part))


def point_location(row: Row) -> str:
    """Return the place of a row in its report, and its point."""
    return f"{row['place']}: {point_label(row)}"


def graded(off: float, warning: float | None = None, serious: float | None = None) -> Severity:
    """Return the severity of a relative difference: a note below `warning`, serious from `serious` on."""
    warning = limit("graded_warning") if warning is None else warning
    serious = limit("graded_serious") if serious is None else serious
    return "serious" if abs(off) >= serious else "warning" if abs(off) >= warning else "note"


def severity_and_reason(
    difference: Number, off: float, interval: str, worst: Severity = "serious"
) -> tuple[Severity, str]:
    """Return how bad a relative difference `off` is, at most `worst`, and why; `interval` describes its interval.

    With an interval the severity follows from the size. Without one, noise may explain the difference: it is a note up
    to the margin of single runs, a warning beyond, and serious if the two cannot be measurements of the same thing.
    """
    noise, margin = limit("single_noise"), limit("single_runs")
    if difference.has_interval:
        grade, reason = graded(off), interval
    elif abs(off) > margin:
        grade = "serious" if abs(off) > limit("apart_serious") else "warning"
        reason = f"each was measured once, but noise of {noise:.0%} would explain {margin:.0%} at most"
    else:
        grade = "note"
        reason = (
            "this cannot be judged: each was measured once, and no repeat on this device at this scale shows how large "
            "the noise is"
        )
    return worst if grade == "serious" else grade, reason


def outside(numbers: Sequence[Number], bounds: Bounds) -> list[bool]:
    """Return whether each number of one curve is outside the bounds; without an interval its value decides."""
    return [
        verdict.outcome == "outside" if number.has_interval else not bounds.allow(number.value)
        for number, verdict in zip(numbers, judge_all(numbers, bounds), strict=True)
    ]


def speedup(row: Row, base: Row, noise: Noise | None, base_noise: Noise | None) -> Number:
    """Return the work per second of one point of a curve over that of another.

    The interval covers any runs of both: the rounding of the printed numbers and the noise of both points.
    """
    both = {"here": stated_number(row), "there": stated_number(base)}
    ratio = combined(lambda here, there: times_as_fast(row, base, here, there), both)
    return with_noise(ratio, [(noise, 1.0), (base_noise, -1.0)])
