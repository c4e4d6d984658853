"""A finding of the audit: its severity, the lists of rules, and how a number is compared with its bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pandas as pd

from analysis import metrics
from analysis.curves import Row, ranks_in_words, times_as_fast
from analysis.point_noise import Noises
from analysis.stats.noise import Noise, with_noise
from analysis.stats.number import Number, combined
from analysis.stats.verdict import Bounds, judge_all
from analysis.table.stated import number
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


# What is said of a number without an interval, by whether noise alone may be so large.
_UNKNOWN = "no repeat on this device at this scale tells how large the noise is"
_MAY_BE_NOISE = f"this cannot be judged: each was measured once, and {_UNKNOWN}"


def outside(numbers: Sequence[Number], bounds: Bounds) -> list[bool]:
    """Whether each of the numbers of one curve is outside of the bounds; one without an interval by its value alone."""
    judged = judge_all(numbers, bounds)
    return [
        verdict.outcome == "outside" if one.has_interval else not bounds.allow(one.value)
        for one, verdict in zip(numbers, judged, strict=True)
    ]


def severity(of: Number, off: float, worst: Severity = "serious") -> Severity:
    """How bad a relative difference is, at most `worst`.

    Where its interval is known, by its size. Else nothing is alleged that noise alone may be: it is a note up to the
    margin of single runs, a warning beyond, serious where they would be no measurements of the same thing.
    """
    if of.has_interval:
        found = graded(off)
    elif beyond_noise(off):
        found = "serious" if abs(off) > limit("apart_serious") else "warning"
    else:
        found = "note"
    return worst if found == "serious" else found


def beyond_noise(off: float) -> bool:
    """Whether two single runs do not differ so much by noise, if it is as large as is assumed at most."""
    return abs(off) > limit("single_runs")


def because(of: Number, off: float, interval: str) -> str:
    """Why a difference is alleged, or is not: by its interval, described in `interval`, or without one."""
    if of.has_interval:
        return interval
    if beyond_noise(off):
        noise, margin = limit("single_noise"), limit("single_runs")
        return f"each was measured once, but noise of {noise:.0%} would explain {margin:.0%} at most"
    return _MAY_BE_NOISE


def faster(row: Row, base: Row, noisy: Noises) -> Number:
    """How many times as much work per second one point of a curve does than another, in any runs of them.

    Within what was rounded to the printed numbers, widened by the noise of both.
    """
    return faster_with_noise(row, base, noisy.of(row), noisy.of(base))


def faster_with_noise(row: Row, base: Row, here: Noise | None, there: Noise | None) -> Number:
    """As `faster`, with the noise of both points given."""
    both: Mapping[str, Number] = {"here": number(row), "there": number(base)}
    found = combined(lambda here, there: times_as_fast(row, base, here, there), both)
    return with_noise(found, [(here, 1.0), (there, -1.0)])


def share(speedup: Number, ranks: float) -> Number:
    """The efficiency of a speedup over so many times the ranks."""
    return speedup.through(lambda value: metrics.efficiency(value, ranks))


def called(row: Row) -> str:
    """A point in words: what tells it apart from others of its table."""
    words = [row["model"], row["dataset"], row["gpu"]]
    if not pd.isna(row["batch_per_rank"]):
        words.append(f"batch {row['batch_per_rank']}")
    if not pd.isna(row["ranks"]):
        words.append(ranks_in_words(row["ranks"]))
    return ", ".join(dict.fromkeys(word for word in words if word))


def at(row: Row) -> str:
    """The place of a row, and the point that it is of."""
    return f"{row['place']}: {called(row)}"
