"""`claims`: the claims of the reports, judged."""

import argparse
from collections.abc import Iterator, Sequence

from analysis import claims, documents
from analysis.claims import VERDICTS, JudgedClaim
from analysis.commands import arguments
from analysis.commands.audit import in_full, totals
from analysis.documents import markdown_table
from analysis.study import Study
from common.terminal import paragraph


def _full_claim(claim: JudgedClaim) -> Iterator[str]:
    yield f"{claim.verdict.upper()} {claim.id} ({claim.place})"
    for name, value in (
        ("says", claim.text), ("hypothesis", claim.hypothesis), ("data", claim.data), ("rule", claim.rule),
        ("numbers", claim.evidence), ("these runs", claim.these_runs), ("remark", claim.remark),
    ):  # fmt: skip
        if value:
            yield paragraph(f"{name + ':':12}{value}", "    ", " " * 12)


def _text(judged: Sequence[JudgedClaim], every: bool) -> str:
    """Return the verdicts, counted report by report; every: then each claim in full."""
    details = in_full(judged, _full_claim) if every else ["", "each with its numbers and rule: make claims ALL=1"]
    return "\n".join([*totals(judged, "claim", "verdict", VERDICTS), *details])


def _markdown(judged: Sequence[JudgedClaim], every: bool) -> str:
    """Return the claims as one table."""
    rows = [
        {
            "claim": f"`{claim.id}`: {claim.text}",
            "hypothesis": claim.hypothesis,
            "verdict": f"{claim.verdict}; these runs: {claim.these_runs}" if claim.these_runs else claim.verdict,
        }
        for claim in judged
    ]
    total = next(totals(judged, "claim", "verdict", VERDICTS))
    return f"{markdown_table(rows)}\n\n{total}."


FORMATS = {"table": _text, "markdown": _markdown, "json": lambda judged, every: documents.text(judged)}


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--results")
    arguments.add(parser, "--format", choices=FORMATS, default="table")
    arguments.add(parser, "--all")


def run(options: argparse.Namespace) -> int:
    """Print the claims and their verdicts; returns the exit status."""
    study = Study(options.results)
    arguments.print_notices(study)
    judged = claims.judge(claims.read_claims(), study)
    print(FORMATS[options.format](judged, options.all))
    return 0
