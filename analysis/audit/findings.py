"""What all rules find, in the published table and in local records, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.audit import (  # noqa: F401 - each adds to the lists of rules
    curves,
    emulation,
    files,
    host_state,
    measuring,
    provenance,
    records,
    series,
    stated,
    wall_times,
)
from analysis.audit.finding import SEVERITIES, TABLE_RULES, Finding
from analysis.study import Study
from analysis.user_table.table import UserTable


def of_table(table: pd.DataFrame) -> list[Finding]:
    """What every rule over a tidy table finds, in order."""
    return ordered(finding for rule in TABLE_RULES.values() for finding in rule(table))


def of_user(table: UserTable) -> tuple[list[Finding], list[str]]:
    """What every rule over tables finds in a user's table, in order; and what was left out of it.

    Findings that are of no report of the kit bear the name of the file. Raises TableError as `files.read` does.
    """
    rows, notes = files.read(table)
    name = Path(table.path).name
    named = [replace(f, report=name) if f.report in ("", "local") else f for f in of_table(rows)]
    return ordered([*named, *files.weak_or_strong(table)]), notes


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by report, then the serious before warnings before notes, then by rule and place."""
    return sorted(findings, key=lambda f: (f.report, SEVERITIES.index(f.severity), f.rule, f.place))


def of_records(study: Study) -> list[Finding]:
    """What the rules find in local records: over their tidy table, in each, and between those of an experiment."""
    return ordered([*(of_table(study.local) if len(study.local) else []), *of_launches(study)])


def of_launches(study: Study) -> list[Finding]:
    """What the rules find in local records, and between those of an experiment, without their tidy table.

    A file that is no trustworthy record is left out and named, a failed run too; of one that failed in rounds the whole
    rounds count.
    """
    counted = sorted(set(study.local["record"]))
    found = [*series.audit((path, study.records[path]) for path in counted), *_left_out(study)]
    return ordered([*found, *provenance.missing(sorted({Path(path).parents[1] for path in counted}))])


def _left_out(study: Study) -> Iterator[Finding]:
    """One finding for each contradiction of a record, or for what else keeps it out of the table."""
    meaning = "It is left out of everything."
    for notice in study.left_out:
        for one in notice.contradictions:
            yield Finding("local", notice.path, one.rule, "serious", one.stated, one.follows, one.off, meaning)
        if not notice.contradictions:
            yield Finding(
                "local", notice.path, "unreadable_record", "serious", notice.reason, "a whole record", None, meaning
            )  # fmt: skip
    for notice in study.failed:
        kept = f"Its {notice.rounds} whole rounds count." if notice.rounds else meaning
        yield Finding("local", notice.path, "failed_run", "warning", notice.reason, "a complete run", None, kept)
