"""The audit: named rules over the reports' numbers and one's own records; what does not add up, and what it means.

Each rule is a small function with its reason written down; it knows quantities, not reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from analysis import TableError
from analysis.audit import curves, emulation, measuring, records, stated  # noqa: F401 - each fills the lists of rules
from analysis.audit.finding import SEVERITIES, TABLE_RULES, Finding, Severity
from analysis.tables import Own
from train.record import record


def audit_table(table: pd.DataFrame) -> list[Finding]:
    """What every rule over a tidy table finds, the most serious first within each report."""
    return ordered(finding for rule in TABLE_RULES.values() for finding in rule(table))


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """By report, then the serious before warnings before notes, then by rule and place."""
    return sorted(findings, key=lambda f: (f.report, SEVERITIES.index(f.severity), f.rule, f.place))


def record_files(places: list[Path]) -> list[Path]:
    """The record files in `places` (folders at any depth, or files); without any, those in ./results.

    Raises TableError naming a place that is not there, or a folder without a record.
    """
    files: list[Path] = []
    for place in places or [folder for folder in [Path("results")] if folder.is_dir()]:
        found = [place] if place.is_file() else sorted(place.rglob(record.RECORD_NAME))
        if places and not found:
            reason = f"no {record.RECORD_NAME} below it" if place.exists() else "not there"
            raise TableError(f"{place}: {reason}; give a results folder, a folder in it, or {record.RECORD_NAME} files")
        files += found
    return files


def audit_records(own: Own) -> list[Finding]:
    """What the rules find in one's own records: over their tidy table, in each, and between those of an experiment.

    A file that is no trustworthy record is left out and named, a failed run too.
    """
    counted = sorted(set(own.table["record"]))
    findings = audit_table(own.table) if counted else []
    findings += records.audit((path, record.load(Path(path))) for path in counted)
    left_out: list[tuple[str, Severity, str, list[str]]] = [
        ("unreadable_record", "serious", "a whole record", own.left_out),
        ("failed_run", "warning", "a complete run", own.failed),
    ]
    for rule, severity, follows, notices in left_out:
        for notice in notices:
            path, _, reason = notice.partition(": ")
            findings.append(
                Finding("own", path, rule, severity, reason, follows, None, "It is left out of everything.")
            )
    return findings
