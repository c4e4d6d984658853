"""The claims of the reports, read from `published/claims.toml`, each with a verdict that is computed from numbers.

A claim is data: its text and place, its hypothesis, the check that decides it, the numbers and the bounds.
docs/claims.md explains how a claim is judged.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from analysis import PUBLISHED, TableError
from analysis.claims.checks import CHECKS
from analysis.claims.numbers import (
    SCOPES,
    ClaimBounds,
    Data,
    Report,
    Result,
    Scope,
    Unknown,
    VerdictName,
    in_these_runs,
    listed,
    selection_text,
    verdict_name,
)
from analysis.claims.numbers import VERDICTS as VERDICTS
from analysis.derived import computed_rows
from analysis.documents import Document, about, filled
from analysis.stats.verdict import Verdict
from analysis.study import Study

CLAIMS = PUBLISHED / "claims.toml"
_NEEDED = ("id", "report", "place", "text", "hypothesis", "check")
_BOUNDS = tuple(ClaimBounds.__dataclass_fields__)


@dataclass(frozen=True)
class Claim:
    """A sentence of a report, its place, and the check that decides it, with its arguments."""

    id: str
    report: str
    place: str
    text: str  # the statement of the report, paraphrased
    check: str
    arguments: dict[str, Any]
    hypothesis: str = ""  # must hold for the claim to be right
    scope: Scope = "these runs"
    experiment: str = ""  # its local records decide the claim; if empty, the numbers of the report do
    remark: str = ""  # for the reader, in addition to the numbers

    @property
    def data(self) -> str:
        """Return the numbers that bear on it, as text."""
        if self.experiment:
            return f"local records of {self.experiment}"
        numbers = self.arguments.get("numbers", {})
        if not numbers:
            return f"every cell of {self.arguments['ratio']}" if "ratio" in self.arguments else "lines of the report"
        if all(isinstance(selection, dict) for selection in numbers.values()):
            return " | ".join(f"{name}: {selection_text(selection)}" for name, selection in numbers.items())
        return selection_text(numbers)

    @property
    def rule(self) -> str:
        """Return the rule of its check and the bounds, as text."""
        check = CHECKS[self.check]
        bounds = {name: self.arguments[name] for name in _BOUNDS if name in self.arguments}
        others = {k: v for k, v in self.arguments.items() if k not in (*_BOUNDS, "numbers", "ratio", "unit")}
        if check.own_margin and "margin" in bounds:
            others["margin"] = bounds.pop("margin")
        parts = [f"{name} {', '.join(map(str, listed(value)))}" for name, value in others.items()]
        parts += [str(ClaimBounds(**bounds))] if bounds else []
        return f"{self.check}: {check.rule}" + (f" ({'; '.join(parts)})" if parts else "") + f"; {self.scope}"


class JudgedClaim(Document):
    """A claim of a report with its verdict."""

    id: Annotated[str, about("its name in analysis/published/claims.toml")]
    report: Annotated[str, about("000 to 004")]
    place: Annotated[str, about("where the report says it")]
    text: Annotated[str, about("paraphrased")]
    hypothesis: Annotated[str, about("what must hold for it to be right")]
    data: Annotated[str, about("the numbers that bear on it")]
    rule: Annotated[str, about("check and bounds")]
    scope: Annotated[Scope, about("what it holds for")]
    verdict: Annotated[VerdictName, about("on the hypothesis")]
    evidence: Annotated[str, about("the numbers that decide it")]
    these_runs: Annotated[str, about("what these runs say, if not decidable")]
    remark: Annotated[str, about("for the reader")]


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the numbers that decide it, as text."""

    claim: Claim
    verdict: VerdictName
    evidence: str
    these_runs: str = ""  # the result of these numbers alone, if other runs may give another one

    def as_json(self) -> JudgedClaim:
        """Return the claim and its verdict for programs."""
        judged = {"verdict": self.verdict, "evidence": self.evidence, "these_runs": self.these_runs}
        return filled(JudgedClaim, self.claim, **judged)


def read(path: Path = CLAIMS) -> list[Claim]:
    """Return the claims in the TOML file `path`. Raises TableError naming the file, the claim and the fault."""
    try:
        entries = tomllib.loads(path.read_text())["claim"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise TableError(f"{path}: not a readable list of claims: {error}") from error
    claims = [_claim(dict(entry), f"{path}: claim {number}") for number, entry in enumerate(entries, 1)]
    ids = [claim.id for claim in claims]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise TableError(f"{path}: duplicate id: {', '.join(twice)}")
    return claims


def _claim(entry: dict[str, Any], location: str) -> Claim:
    """Return one entry of the list as a claim; its other keys are the arguments of its check."""
    location = f"{location} ({entry.get('id', 'no id')})"
    if absent := [name for name in _NEEDED if name not in entry]:
        raise TableError(f"{location}: no {', '.join(absent)}")
    if entry["check"] not in CHECKS:
        raise TableError(f"{location}: check '{entry['check']}' given, allowed: {', '.join(CHECKS)}")
    if entry.get("scope", SCOPES[0]) not in SCOPES:
        raise TableError(f"{location}: scope '{entry['scope']}' given, allowed: {', '.join(SCOPES)}")
    fields = {name: entry.pop(name) for name in (*_NEEDED, "scope", "experiment", "remark") if name in entry}
    return Claim(**fields, arguments=entry)


def judge(claims: list[Claim], study: Study) -> list[Judged]:
    """Return each claim with its verdict, from the published numbers, or local records if the claim has an experiment.

    Raises TableError if an argument is wrong.
    """
    return judge_numbers(claims, study.published, study.local, study.published)


def judge_numbers(
    claims: list[Claim], table: pd.DataFrame, local: pd.DataFrame, published: pd.DataFrame
) -> list[Judged]:
    """Return the same for the numbers in the tidy `table`; predictions learn from `published`."""
    numbers = pd.concat([table, computed_rows(table)], ignore_index=True)
    reports = {
        name: Report(numbers[numbers["report"].eq(name)], published) for name in {claim.report for claim in claims}
    }
    judged = []
    for claim in claims:
        local_report = Report(local[local["experiment"].eq(claim.experiment)], published)
        data = Data(local_report if claim.experiment else reports[claim.report], claim.scope)
        try:
            result = CHECKS[claim.check].judge(data, **claim.arguments)
        except Unknown as missing:
            result = Result(Verdict("undecided"), str(missing))
        except (TypeError, KeyError, ValueError) as error:
            raise TableError(f"claim {claim.id}: {claim.check}: {error}") from error
        name = verdict_name(result.verdict)
        judged.append(Judged(claim, name, result.evidence, in_these_runs(result) if name == "not decidable" else ""))
    return judged
