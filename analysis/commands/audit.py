"""`audit`: the findings in the reports and in records, or in a user's study."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from analysis import TableError, audit, documents, verify
from analysis.audit.findings import EXPERIMENT_RULES, RECORD_RULES, TABLE_RULES
from analysis.commands import arguments, user_tables
from analysis.documents import Document, about, tally
from analysis.finding import SEVERITIES, Finding
from analysis.reports import TITLES
from analysis.study import Study, record_files
from analysis.table.tidy_columns import REPORTS
from common.terminal import counted, paragraph, prose
from record.schema import RECORD_NAME

JSON_VERSION = 3  # of all documents that --format json prints (docs/json.md)


class Audit(Document):
    """The findings."""

    version: Annotated[int, about("3; raised by each release that changes a document")]
    findings: Annotated[Sequence[Finding], about("by report, then the serious ones first")]
    notes: Annotated[
        Sequence[str],
        about("what was left out of FILE; how many records are compared with their files"),
    ]
    read_as: Annotated[Sequence[str], about("how each column of FILE was read")]


def _by_report(items: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Return the findings or claims of each report, with its title; those of local records come first."""
    reports = sorted({item.report for item in items}, key=lambda name: (name != "local", name))
    return [(TITLES.get(report, report), [item for item in items if item.report == report]) for report in reports]


def in_full(items: Sequence[Any], text: Callable[[Any], Iterable[str]]) -> Iterator[str]:
    """Yield the lines of each finding or claim, below the title of its report."""
    for title, own in _by_report(items):
        yield from ("", f"== {title}", *(line for item in own for line in ("", *text(item))))


def totals(items: Sequence[Any], noun: str, field: str, names: Sequence[str]) -> Iterator[str]:
    """Yield how many findings or claims have each severity or verdict: in all, and by report."""
    yield f"{counted(len(items), noun)}: {tally([getattr(item, field) for item in items], names)}"
    for title, own in _by_report(items):
        count = tally([getattr(item, field) for item in own], names)
        yield paragraph(f"{title}: {count}", "  ", "    ")


def _finding(finding: Finding) -> list[str]:
    off = "" if finding.off is None else f" ({finding.off:+.1%})"
    texts = (finding.place, f"stated: {finding.stated}; follows: {finding.follows}{off}", finding.meaning)
    return [f"{finding.severity.upper()} {finding.rule}", *(paragraph(text, "    ") for text in texts)]


def _text(audited: Audit, every: bool) -> str:
    """Return the totals, then the findings in full: those of the user's own numbers, or every one."""
    findings = audited.findings
    own = [finding for finding in findings if every or finding.report not in REPORTS]
    lines = [*totals(findings, "finding", "severity", SEVERITIES), *map(prose, audited.read_as)]
    lines += [prose(f"note: {note}") for note in audited.notes]
    lines += [*in_full(own, _finding)]
    lines += ["", "those of the reports in full: make audit ALL=1"] if len(own) < len(findings) else []
    return "\n".join(lines)


def declare(parser: argparse.ArgumentParser) -> None:
    records_help = "result folders or record files (default: results)"
    parser.add_argument("records", nargs="*", type=Path, metavar="RECORDS", help=records_help)
    parser.add_argument("--file", type=Path, metavar="FILE", help="a scaling study: any table (docs/tables.md)")
    arguments.add(parser, "--columns", "--format", "--all")
    parser.add_argument("--atlas", action="store_true", help="the published curves of docs/atlas.md alone")
    arguments.add(parser, "--strict", help="exit status 1 if a finding in FILE or in the records is serious")
    arguments.add(parser, "--junit")


def run(options: argparse.Namespace) -> int:
    """Print the findings; returns 0, with --strict 1 if a finding in the user's own numbers is serious."""
    if options.atlas:
        if options.file or options.records:
            raise TableError(
                "--atlas: audits the published curves alone; leave out --file and records (FILE=, RESULTS=)"
            )
        audited = Audit(version=JSON_VERSION, findings=audit.atlas_findings(), notes=[], read_as=[])
    else:
        audited = _audit_file(options) if options.file else _audit_all(options)
    every = options.all or options.file is not None
    print(documents.text(audited) if options.format == "json" else _text(audited, every))
    local = [finding for finding in audited.findings if options.file or finding.report == "local"]
    serious = [finding for finding in local if finding.severity == "serious"]
    if options.junit:
        rules = [*TABLE_RULES, *([] if options.file else [*RECORD_RULES, *EXPERIMENT_RULES, *verify.RULES])]
        failures = {
            rule: "\n".join(f"{f.place}: stated: {f.stated}; follows: {f.follows}" for f in serious if f.rule == rule)
            for rule in rules
        }
        arguments.write_junit(options.junit, "audit", failures)
    return 1 if options.strict and serious else 0


def _audit_file(options: argparse.Namespace) -> Audit:
    """Audit one study. Raises TableError if it cannot be read, or if records are given too."""
    if options.records:
        raise TableError(f"--file {options.file}: audits this study alone; leave out {options.records[0]}")
    read = user_tables.read_user_table(options.file, options.columns)
    findings, notes = audit.user_table_findings(read)
    return Audit(version=JSON_VERSION, findings=findings, notes=notes, read_as=read.interpretation)


def _audit_all(options: argparse.Namespace) -> Audit:
    study = Study(*_record_files(options.records))
    findings = audit.in_order([*audit.table_findings(study.published), *audit.record_findings(study)])
    verified = study.verification()
    notes = [str(verified)] if verified.records else []
    return Audit(version=JSON_VERSION, findings=findings, notes=notes, read_as=[])


def _record_files(paths: list[Path]) -> list[Path]:
    """Return the record files in `paths` (folders at any depth, or files); without any, those in ./results.

    Raises TableError naming a path that does not exist, or a folder without a record.
    """
    files: list[Path] = []
    for path in paths or [folder for folder in [Path("results")] if folder.is_dir()]:
        records = record_files(path)
        if paths and not records:
            reason = f"no {RECORD_NAME} below it" if path.exists() else "does not exist"
            raise TableError(f"{path}: {reason}; give a results folder, a folder in it, or {RECORD_NAME} files")
        files += records
    return files
