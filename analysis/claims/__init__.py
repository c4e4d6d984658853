"""The claims, read from `published/claims.toml`, and their verdicts.

The claims are data: what is said and where, the hypothesis that it comes to, which check decides it, over which numbers
and within which limits. docs/claims.md explains how a claim is judged.
"""

from __future__ import annotations

import inspect
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import PUBLISHED, TableError
from analysis.claims.checks import CHECKS
from analysis.claims.numbers import SCOPES, WORDS, Claimed, Data, Report, Scope, Unknown, Word, words
from analysis.claims.numbers import VERDICTS as VERDICTS
from analysis.derived import computed
from analysis.stats.verdict import Verdict
from analysis.study import Study

CLAIMS = PUBLISHED / "claims.toml"
_NEEDED = ("id", "report", "place", "text", "hypothesis", "check")
_LIMITS = tuple(Claimed.__dataclass_fields__)


@dataclass(frozen=True)
class Claim:
    """What a report claims, where, and the check that decides it, with its arguments."""

    id: str
    report: str
    place: str
    text: str  # what the report says, in other words
    check: str
    arguments: dict[str, Any]
    hypothesis: str = ""  # what must hold for the claim to be right
    scope: Scope = "these runs"
    experiment: str = ""  # whose local records decide it; else the numbers of the report do
    remark: str = ""  # what a reader should know beside the numbers

    @property
    def data(self) -> str:
        """The numbers that bear on it, in words."""
        if self.experiment:
            return f"local records of {self.experiment}"
        of = self.arguments.get("of", {})
        named = all(isinstance(selection, dict) for selection in of.values()) and of
        said = " | ".join(f"{name}: {words(selection)}" for name, selection in of.items()) if named else words(of)
        return said or f"every cell of {self.arguments['ratio']}"

    @property
    def rule(self) -> str:
        """The check and its limits, in words."""
        limits = {name: value for name, value in self.arguments.items() if name in _LIMITS}
        given = {name: value for name, value in self.arguments.items() if name not in (*_LIMITS, "of", "ratio", "unit")}
        if self.check in _WITH_MARGIN and "margin" in limits:
            given["margin"] = limits.pop("margin")
        said = [
            f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
            for name, value in given.items()
        ]
        said += [str(Claimed(**limits))] if limits else []
        doc = str(inspect.getdoc(CHECKS[self.check])).split("\n")[0].rstrip(".")
        return f"{self.check}: {doc}" + (f" ({'; '.join(said)})" if said else "") + f"; {self.scope}"


# Checks whose margin is an argument of their own, and not one of the limits.
_WITH_MARGIN = ("trend", "flat_from")


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the numbers that decide it, in words."""

    claim: Claim
    verdict: Word
    evidence: str

    def as_json(self) -> dict[str, str]:
        """The claim and its verdict for programs; docs/json.md has the schema."""
        claim = self.claim
        said = {name: getattr(claim, name) for name in ("id", "report", "place", "text", "hypothesis", "data", "rule")}
        return said | {"scope": claim.scope, "verdict": self.verdict, "evidence": self.evidence, "remark": claim.remark}


def read(path: Path = CLAIMS) -> list[Claim]:
    """The claims in the TOML file `path`. Raises TableError naming the file, the claim and what is wrong with it."""
    try:
        entries = tomllib.loads(path.read_text())["claim"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise TableError(f"{path}: not a readable list of claims: {error}") from error
    claims = [_claim(dict(entry), f"{path}: claim {number}") for number, entry in enumerate(entries, 1)]
    twice = {claim.id for claim in claims if sum(other.id == claim.id for other in claims) > 1}
    if twice:
        raise TableError(f"{path}: duplicate id: {', '.join(sorted(twice))}")
    return claims


def _claim(given: dict[str, Any], where: str) -> Claim:
    """One entry of the list; what is left of it are the arguments of its check."""
    where = f"{where} ({given.get('id', 'no id')})"
    if absent := [name for name in _NEEDED if name not in given]:
        raise TableError(f"{where}: no {', '.join(absent)}")
    if given["check"] not in CHECKS:
        raise TableError(f"{where}: check '{given['check']}' given, allowed: {', '.join(CHECKS)}")
    if given.get("scope", SCOPES[0]) not in SCOPES:
        raise TableError(f"{where}: scope '{given['scope']}' given, allowed: {', '.join(SCOPES)}")
    fields = {name: given.pop(name) for name in _NEEDED}
    also = {name: given.pop(name) for name in ("scope", "experiment", "remark") if name in given}
    return Claim(**fields, **also, arguments=given)


def judge(claims: list[Claim], study: Study) -> list[Judged]:
    """Return each claim with its verdict, from the published numbers, or from local records if the claim says so.

    Raises TableError where an argument is wrong.
    """
    return judge_numbers(claims, study.published, study.local, study.published)


def judge_numbers(
    claims: list[Claim], table: pd.DataFrame, local: pd.DataFrame, published: pd.DataFrame
) -> list[Judged]:
    """Return the same for the numbers in the tidy `table`; `published` teaches how curves go on."""
    numbers = pd.concat([table, computed(table)], ignore_index=True)
    by_report = {report: numbers[numbers["report"].eq(report)] for report in {claim.report for claim in claims}}
    reports = {report: Report(rows, published) for report, rows in by_report.items()}
    judged = []
    for claim in claims:
        own = local[local["experiment"].eq(claim.experiment)]
        of = Report(own, published) if claim.experiment else reports[claim.report]
        try:
            verdict, evidence = CHECKS[claim.check](Data(of, claim.scope), **claim.arguments)
        except Unknown as missing:
            verdict, evidence = Verdict("undecided"), str(missing)
        except (TypeError, KeyError, ValueError) as error:
            raise TableError(f"claim {claim.id}: {claim.check}: {error}") from error
        judged.append(Judged(claim, WORDS[verdict.outcome], evidence))
    return judged
