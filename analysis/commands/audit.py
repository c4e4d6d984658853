"""`audit`: the findings, and the claims with their verdicts, or a user's study; `claims`: the claims in full."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from msgspec import structs

from analysis import TableError, audit, claims, documents, verify
from analysis.audit.findings import EXPERIMENT_RULES, RECORD_RULES, TABLE_RULES
from analysis.claims import VERDICTS, JudgedClaim
from analysis.commands import arguments, user_tables
from analysis.documents import Document, about, markdown_table, tally
from analysis.finding import SEVERITIES, Finding
from analysis.reports import TITLES
from analysis.study import Study, record_files
from common.terminal import paragraph
from record.schema import RECORD_NAME

JSON_VERSION = 3  # of all documents that --format json prints (docs/json.md)


class Audit(Document):
    """The findings, and the claims with their verdicts."""

    version: Annotated[int, about("3; raised by each release that changes a document")]
    findings: Annotated[Sequence[Finding], about("by report, then the serious ones first")]
    claims: Annotated[Sequence[JudgedClaim], about("as `claims` prints them; empty for FILE")]
    notes: Annotated[
        Sequence[str],
        about("what was left out of FILE; how many records are compared with their files"),
    ]
    read_as: Annotated[Sequence[str], about("how each column of FILE was read")]


def _by_report(items: Sequence[Any], heading: str, text: Callable[[Any], Iterable[str]]) -> Iterator[str]:
    """Yield the lines of findings or claims, below the title of their report; those of local records come first."""
    for report in sorted({item.report for item in items}, key=lambda name: (name != "local", name)):
        yield from ("", f"== {TITLES.get(report, report)}{heading}")
        for item in (item for item in items if item.report == report):
            yield from ("", *text(item))


def _finding(finding: Finding) -> list[str]:
    off = "" if finding.off is None else f" ({finding.off:+.1%})"
    texts = (finding.place, f"stated: {finding.stated}; follows: {finding.follows}{off}", finding.meaning)
    return [f"{finding.severity.upper()} {finding.rule}", *(paragraph(text, "    ") for text in texts)]


def _claim(claim: JudgedClaim) -> list[str]:
    texts = filter(None, (claim.text, claim.evidence, claim.remark))
    return [f"{claim.verdict.upper()} {claim.id} ({claim.place})", *(paragraph(text, "    ") for text in texts)]


def _text(audited: Audit) -> str:
    findings, judged = audited.findings, audited.claims
    lines = [*audited.read_as, *(paragraph(f"note: {note}", hanging="  ") for note in audited.notes)]
    lines += [*_by_report(findings, ": findings", _finding), *_by_report(judged, ": claims", _claim)]
    lines += ["", f"{len(findings)} findings: {tally([f.severity for f in findings], SEVERITIES)}"]
    lines += [claims_summary(judged)] if judged else []
    return "\n".join(lines).lstrip("\n")


def _markdown(audited: Audit) -> str:
    rows = [{**asdict(f), "off": "" if f.off is None else f"{f.off:+.1%}"} for f in audited.findings]
    judged = [structs.asdict(claim) for claim in audited.claims]
    notes = [{"note": note} for note in audited.notes]
    parts = [f"## Findings\n\n{markdown_table(rows) if rows else 'None.'}"]
    parts += [
        f"## {title}\n\n{markdown_table(table)}" for title, table in (("Claims", judged), ("Notes", notes)) if table
    ]
    return "\n\n".join(parts)


FORMATS = {"table": _text, "markdown": _markdown, "json": documents.text}


def declare_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "records", nargs="*", type=Path, metavar="RECORDS", help="result folders or record files (default: results)"
    )
    parser.add_argument("--file", type=Path, metavar="FILE", help="a scaling study: any table (docs/tables.md)")
    arguments.add(parser, "--columns")
    arguments.add(parser, "--format", choices=FORMATS, default="table")
    arguments.add(parser, "--strict", help="exit status 1 if a finding in FILE or in the records is serious")
    arguments.add(parser, "--junit")


def run_audit(options: argparse.Namespace) -> int:
    """Print all findings and claims; returns 0, with --strict 1 if a finding in the user's own numbers is serious."""
    audited = _audit_file(options) if options.file else _audit_all(options)
    print(FORMATS[options.format](audited))
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
    read = user_tables.read(options.file, options.columns)
    findings, notes = audit.user_table_findings(read)
    return Audit(version=JSON_VERSION, findings=findings, claims=[], notes=notes, read_as=read.interpretation)


def _audit_all(options: argparse.Namespace) -> Audit:
    study = Study(*_record_files(options.records))
    findings = audit.in_order([*audit.table_findings(study.published), *audit.record_findings(study)])
    judged = claims.judge(claims.read(), study)
    verified = study.verification()
    notes = [str(verified)] if verified.records else []
    return Audit(version=JSON_VERSION, findings=findings, claims=judged, notes=notes, read_as=[])


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


def claims_summary(judged: Sequence[JudgedClaim]) -> str:
    """Return how many claims have each verdict, as text."""
    return f"{len(judged)} claims: {tally([item.verdict for item in judged], VERDICTS)}"


def _full_claim(claim: JudgedClaim) -> Iterator[str]:
    yield f"{claim.verdict.upper()} {claim.id} ({claim.place})"
    for name, value in (
        ("says", claim.text), ("hypothesis", claim.hypothesis), ("data", claim.data), ("rule", claim.rule),
        ("numbers", claim.evidence), ("these runs", claim.these_runs), ("remark", claim.remark),
    ):  # fmt: skip
        if value:
            yield paragraph(f"{name + ':':12}{value}", "    ", " " * 12)


def claims_text(judged: Sequence[JudgedClaim]) -> str:
    """Return the claims for people, report by report."""
    return "\n".join([*_by_report(judged, "", _full_claim), "", claims_summary(judged)]).lstrip("\n")


def claims_markdown(judged: Sequence[JudgedClaim]) -> str:
    """Return the claims as one table."""
    rows = [
        {
            "claim": f"`{claim.id}`: {claim.text}",
            "hypothesis": claim.hypothesis,
            "verdict": f"{claim.verdict}; these runs: {claim.these_runs}" if claim.these_runs else claim.verdict,
        }
        for claim in judged
    ]
    return f"{markdown_table(rows)}\n\n{claims_summary(judged)}."


CLAIMS_FORMATS = {"table": claims_text, "markdown": claims_markdown, "json": documents.text}


def declare_claims(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--results")
    arguments.add(parser, "--format", choices=CLAIMS_FORMATS, default="table")


def run_claims(options: argparse.Namespace) -> int:
    """Print the claims and their verdicts; returns the exit status."""
    study = Study(options.results)
    arguments.print_notices(study)
    judged = claims.judge(claims.read(), study)
    print(CLAIMS_FORMATS[options.format](judged))
    return 0
