"""The audit: named rules over the reports' numbers and one's own records; what does not add up, and what it means.

Each rule is a small function with its reason written down; it knows quantities, not reports.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from analysis import TableError, tables
from analysis.audit import curves, measuring, records, stated  # noqa: F401 - each fills the lists of rules
from analysis.audit.finding import SEVERITIES, TABLE_RULES, Finding, Severity
from train import record

TITLES = {
    "000": "report 000, HackSA: VGG, Inception and ResNet with Horovod",
    "001": "report 001, OSU: TensorFlow and Horovod on Owens",
    "002": "report 002, BNL: distributed TensorFlow on a GPU cluster",
    "003": "report 003, spreadsheet over the TensorFlow benchmarks of 2017",
    "004": "report 004, MSOE: multi-GPU training with Horovod",
    "own": "own records",
}


def audit_table(table: pd.DataFrame) -> list[Finding]:
    """What every rule over a tidy table finds, the most serious first within each report."""
    return ordered(finding for rule in TABLE_RULES.values() for finding in rule(table))


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """By report, then the serious before warnings before notes, then by rule and place."""
    return sorted(findings, key=lambda f: (f.report, SEVERITIES.index(f.severity), f.rule, f.place))


def _text(findings: list[Finding]) -> str:
    lines = []
    for report in dict.fromkeys(finding.report for finding in findings):
        lines += ["", f"== {TITLES.get(report, report)}"]
        for finding in (finding for finding in findings if finding.report == report):
            off = "" if finding.off is None else f" ({finding.off:+.1%})"
            lines += ["", f"{finding.severity.upper()} {finding.rule}", *_wrap(finding.place)]
            lines += _wrap(f"stated: {finding.stated}; follows: {finding.follows}{off}")
            lines += _wrap(finding.meaning)
    counts = [f"{sum(f.severity == severity for f in findings)} {severity}" for severity in SEVERITIES]
    return "\n".join([*lines, "", f"{len(findings)} findings: {', '.join(counts)}"]).lstrip("\n")


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="    ")


def _markdown(findings: list[Finding]) -> str:
    rows = [{**asdict(finding), "off": "" if finding.off is None else f"{finding.off:+.1%}"} for finding in findings]
    return tabulate(
        [{key: str(value).replace("|", "/") for key, value in row.items()} for row in rows],
        headers="keys",
        tablefmt="github",
    )


FORMATS = {
    "table": _text,
    "markdown": _markdown,
    "json": lambda findings: json.dumps([asdict(finding) for finding in findings], indent=1, ensure_ascii=False),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "records",
        nargs="*",
        type=Path,
        metavar="RECORDS",
        help="result folders or record files (default: results)",
    )
    parser.add_argument("--format", choices=sorted(FORMATS), default="table", help="default: table")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a finding is serious")


def run(options: argparse.Namespace) -> int:
    """Print all findings; 0, with --strict 1 where one is serious. Raises TableError where RECORDS are not there."""
    findings = ordered([*audit_table(tables.published()), *audit_records(record_files(options.records))])
    print(FORMATS[options.format](findings))
    return 1 if options.strict and any(finding.severity == "serious" for finding in findings) else 0


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


def audit_records(files: list[Path]) -> list[Finding]:
    """What the rules find in one's own records: over their tidy table, in each, and between those of an experiment.

    A file that is no trustworthy record is left out and named, a failed run too.
    """
    own = tables.own(*files)
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
