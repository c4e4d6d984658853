"""The claims, read from `published/claims.toml`, and their verdicts.

The claims are data: what is said and where, which check decides it, over which numbers, and within which limits.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import TableError
from analysis.claims.checks import CHECKS, Unknown, Verdict
from analysis.claims.checks import VERDICTS as VERDICTS
from analysis.computed import computed
from analysis.table.loading import PUBLISHED

CLAIMS = PUBLISHED / "claims.toml"


@dataclass(frozen=True)
class Claim:
    """What a report claims, where, and the check that decides it, with its arguments."""

    id: str
    report: str
    place: str
    text: str  # quoted from the report, shortened
    check: str
    arguments: dict[str, Any]
    experiment: str = ""  # whose local records decide it; else the numbers of the report do
    remark: str = ""  # what a reader should know beside the numbers


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the numbers that decide it, in words."""

    claim: Claim
    verdict: Verdict
    evidence: str


def read(path: Path = CLAIMS) -> list[Claim]:
    """The claims in the TOML file `path`. Raises TableError naming the file, the claim and what is wrong with it."""
    try:
        entries = tomllib.loads(path.read_text())["claim"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise TableError(f"{path}: not a readable list of claims: {error}") from error
    claims = []
    for number, entry in enumerate(entries, 1):
        given = dict(entry)
        absent = [name for name in ("id", "report", "place", "text", "check") if name not in given]
        if absent:
            raise TableError(f"{path}: claim {number} ({given.get('id', 'no id')}): no {', '.join(absent)}")
        if given["check"] not in CHECKS:
            raise TableError(f"{path}: {given['id']}: check '{given['check']}' given, allowed: {', '.join(CHECKS)}")
        fields = {name: given.pop(name) for name in ("id", "report", "place", "text", "check")}
        also = {name: given.pop(name, "") for name in ("experiment", "remark")}
        claims.append(Claim(**fields, **also, arguments=given))
    twice = {claim.id for claim in claims if sum(other.id == claim.id for other in claims) > 1}
    if twice:
        raise TableError(f"{path}: duplicate id: {', '.join(sorted(twice))}")
    return claims


def judge(claims: list[Claim], table: pd.DataFrame, local: pd.DataFrame) -> list[Judged]:
    """Each claim with its verdict, from the published tidy `table`, or from `local` records where the claim says so.

    Raises TableError where an argument is wrong.
    """
    numbers = pd.concat([table, computed(table)], ignore_index=True)
    judged = []
    for claim in claims:
        try:
            of_report = numbers[numbers["report"].eq(claim.report)]
            decides = local[local["experiment"].eq(claim.experiment)] if claim.experiment else of_report
            verdict, evidence = CHECKS[claim.check](decides, **claim.arguments)
        except Unknown as missing:
            verdict, evidence = "not decidable", str(missing)
        except (TypeError, KeyError, ValueError) as error:
            raise TableError(f"claim {claim.id}: {claim.check}: {error}") from error
        judged.append(Judged(claim, verdict, evidence))
    return judged
