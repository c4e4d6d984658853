"""`claims`: the claims of the reports, judged."""

import argparse
from collections.abc import Iterator, Sequence

from analysis import documents, judged_claims
from analysis.commands import arguments
from analysis.commands.audit import in_full, totals
from analysis.study import Study
from common.terminal import paragraph


def _full_claim(claim: judged_claims.JudgedClaim) -> Iterator[str]:
    yield f"{claim.verdict.upper()} {claim.id} ({claim.place})"
    for name, value in (
        ("says", claim.text), ("hypothesis", claim.hypothesis), ("data", claim.data), ("rule", claim.rule),
        ("numbers", claim.evidence), ("these runs", claim.these_runs), ("remark", claim.remark),
    ):  # fmt: skip
        if value:
            yield paragraph(f"{name + ':':12}{value}", "    ", " " * 12)


def _text(judged: Sequence[judged_claims.JudgedClaim], every: bool) -> str:
    """Return the verdicts, counted report by report; every: then each claim in full."""
    details = in_full(judged, _full_claim) if every else ["", "each with its numbers and rule: make claims ALL=1"]
    return "\n".join([*totals(judged, "claim", "verdict", judged_claims.VERDICTS), *details])


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--results", "--format", "--all")


def run(options: argparse.Namespace) -> int:
    """Print the claims and their verdicts; returns the exit status."""
    study = Study(options.results)
    arguments.print_notices(study)
    judged = judged_claims.judge(judged_claims.read_claims(), study)
    print(documents.text(judged) if options.format == "json" else _text(judged, options.all))
    return 0
