"""`claims`: every claim of the reports with its hypothesis, the data that bear on it, the rule and the verdict."""

import argparse
import textwrap
from collections.abc import Sequence

from analysis import claims, documents
from analysis.claims import VERDICTS, Judged
from analysis.commands import arguments
from analysis.reports import TITLES
from analysis.text import markdown_table, tally


def summary(judged: Sequence[Judged]) -> str:
    """Return how many claims have each verdict, in words."""
    return f"{len(judged)} claims: {tally([item.verdict for item in judged], VERDICTS)}"


def text(judged: Sequence[Judged]) -> str:
    """Return the claims for people, report by report."""
    lines: list[str] = []
    for report in dict.fromkeys(item.claim.report for item in judged):
        lines += ["", f"== {TITLES.get(report, report)}"]
        for claim, item in ((item.claim, item) for item in judged if item.claim.report == report):
            lines += ["", f"{item.verdict.upper()} {claim.id} ({claim.place})"]
            for name, value in (
                ("says", claim.text), ("hypothesis", claim.hypothesis), ("data", claim.data), ("rule", claim.rule),
                ("numbers", item.evidence), ("these runs", item.these_runs), ("remark", claim.remark),
            ):  # fmt: skip
                lines += (
                    textwrap.wrap(f"{name + ':':12}{value}", 110, initial_indent="    ", subsequent_indent=" " * 16)
                    if value
                    else []
                )
    return "\n".join([*lines, "", summary(judged)]).lstrip("\n")


def markdown(judged: Sequence[Judged]) -> str:
    """Return the claims as one table, as it is in docs/claims.md."""
    rows = [
        {
            "claim": f"`{item.claim.id}`: {item.claim.text}",
            "hypothesis": item.claim.hypothesis,
            "verdict": f"{item.verdict}; these runs: {item.these_runs}" if item.these_runs else item.verdict,
        }
        for item in judged
    ]
    return f"{markdown_table(rows)}\n\n{summary(judged)}."


def as_json(judged: Sequence[Judged]) -> str:
    """Return the claims for programs, as docs/json.md says."""
    return documents.text([item.as_json() for item in judged])


FORMATS = {"table": text, "markdown": markdown, "json": as_json}


def declare_claims(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_results(parser)
    arguments.add_format(parser, "table", "markdown", "json")


def run_claims(options: argparse.Namespace) -> int:
    """Print the claims and their verdicts; the exit status."""
    judged = claims.judge(claims.read(), arguments.study(options))
    print(FORMATS[options.format](judged))
    return 0
