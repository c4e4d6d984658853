"""`audit`: the findings, and the claims with their verdicts."""

import argparse
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tabulate import tabulate

from analysis.audit import findings as audit
from analysis.audit.finding import SEVERITIES, Finding
from analysis.claims import claims
from analysis.claims.claims import VERDICTS, Judged
from analysis.reports import TITLES
from analysis.table import loading


def _text(findings: list[Finding], judged: list[Judged]) -> str:
    lines = []
    for report in dict.fromkeys(finding.report for finding in findings):
        lines += ["", f"== {TITLES.get(report, report)}: findings"]
        for finding in (finding for finding in findings if finding.report == report):
            off = "" if finding.off is None else f" ({finding.off:+.1%})"
            lines += ["", f"{finding.severity.upper()} {finding.rule}", *_wrap(finding.place)]
            lines += _wrap(f"stated: {finding.stated}; follows: {finding.follows}{off}")
            lines += _wrap(finding.meaning)
    for report in dict.fromkeys(item.claim.report for item in judged):
        lines += ["", f"== {TITLES.get(report, report)}: claims"]
        for item in (item for item in judged if item.claim.report == report):
            lines += ["", f"{item.verdict.upper()} {item.claim.id} ({item.claim.place})"]
            lines += _wrap(item.claim.text) + _wrap(item.evidence) + _wrap(item.claim.remark)
    lines += ["", f"{len(findings)} findings: {_counts([f.severity for f in findings], SEVERITIES)}"]
    lines += [f"{len(judged)} claims: {_counts([item.verdict for item in judged], VERDICTS)}"]
    return "\n".join(lines).lstrip("\n")


def _counts(values: Sequence[str], names: Sequence[str]) -> str:
    return ", ".join(f"{values.count(name)} {name}" for name in names)


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="    ")


def claim_rows(judged: list[Judged]) -> list[dict[str, str]]:
    """Each claim as a flat row: id, report, place, text, verdict, evidence, remark."""
    return [
        {
            "id": item.claim.id,
            "report": item.claim.report,
            "place": item.claim.place,
            "text": item.claim.text,
            "verdict": item.verdict,
            "evidence": item.evidence,
            "remark": item.claim.remark,
        }
        for item in judged
    ]


def _markdown(findings: list[Finding], judged: list[Judged]) -> str:
    rows = [{**asdict(finding), "off": "" if finding.off is None else f"{finding.off:+.1%}"} for finding in findings]
    parts = []
    for title, table in (("Findings", rows), ("Claims", claim_rows(judged))):
        cells = [{key: value.replace("|", "/") for key, value in row.items()} for row in table]
        parts.append(f"## {title}\n\n{tabulate(cells, headers='keys', tablefmt='github')}")
    return "\n\n".join(parts)


def _json(findings: list[Finding], judged: list[Judged]) -> str:
    content = {"findings": [asdict(finding) for finding in findings], "claims": claim_rows(judged)}
    return json.dumps(content, indent=1, ensure_ascii=False)


FORMATS = {"table": _text, "markdown": _markdown, "json": _json}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "records", nargs="*", type=Path, metavar="RECORDS", help="result folders or record files (default: results)"
    )
    parser.add_argument("--format", choices=sorted(FORMATS), default="table", help="default: table")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a finding is serious")


def run(options: argparse.Namespace) -> int:
    """Print all findings and claims; 0, with --strict 1 where a finding is serious."""
    published = loading.published()
    local = loading.local(*audit.record_files(options.records))
    findings = audit.ordered([*audit.of_table(published), *audit.of_records(local)])
    print(FORMATS[options.format](findings, claims.judge(claims.read(), published, local.table)))
    return 1 if options.strict and any(finding.severity == "serious" for finding in findings) else 0
