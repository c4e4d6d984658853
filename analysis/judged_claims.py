"""The claims of the reports with their verdicts, and claims that local records decide.

A verdict that follows from published numbers alone is data: `published/claims.toml` has the numbers that it rests on,
its rule and its evidence. A claim with an experiment is judged here, from the local records of that experiment.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
import pandas as pd

from analysis import PUBLISHED, TableError
from analysis.curves import row_dicts
from analysis.documents import Document, about, filled, tally
from analysis.experiments import equivalence, summary_points
from analysis.stats import Number
from analysis.stats.verdict import Bounds, Outcome, judge_all, together
from analysis.study import Study
from analysis.table import controls
from common.terminal import counted

CLAIMS = PUBLISHED / "claims.toml"
LOCAL_RULES = {
    "measured": "A quantity of every point of local records is within bounds, by its 95 % interval",
    "averaging_loses": "Local records show other losses on several ranks than on one, for the same steps",
}
ClaimScope = Literal[
    "these runs", "any run"
]  # a claim holds for the measurements in these runs, or for those in any run
VerdictName = Literal["contradicted", "not decidable", "supported"]
VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)
_NAMES: dict[Outcome, VerdictName] = {"outside": "contradicted", "undecided": "not decidable", "inside": "supported"}


class Statement(Document):
    """A sentence of a report."""

    id: Annotated[str, about("its name in analysis/published/claims.toml")]
    report: Annotated[str, about("000 to 004")]
    place: Annotated[str, about("where the report says it")]
    text: Annotated[str, about("paraphrased")]
    hypothesis: Annotated[str, about("what must hold for it to be right")]
    data: Annotated[str, about("the numbers that bear on it")]
    rule: Annotated[str, about("check and bounds")]
    scope: Annotated[ClaimScope, about("what it holds for")]


class Claim(Statement, kw_only=True):
    """A sentence of a report with its verdict, or with the experiment whose local records decide it.

    rule: its name in a file; once it is read, the rule and its bounds as text.
    """

    bounds: str = ""
    scope: ClaimScope = "these runs"
    data: str = ""
    verdict: VerdictName | None = None
    evidence: str = ""
    these_runs: str = ""  # the result of these numbers alone, if other runs may give another one
    remark: str = ""  # for the reader, in addition to the numbers
    experiment: str = ""
    quantity: str = ""  # of a claim whose rule is "measured", as the bounds on it
    ranks: tuple[int, ...] = ()  # only points on these
    at_least: float | None = None
    more_than: float | None = None
    less_than: float | None = None

    def allowed(self) -> Bounds:
        """Return the bounds on the quantity."""
        low = self.at_least if self.more_than is None else self.more_than
        ends = {name: end for name, end in (("low", low), ("high", self.less_than)) if end is not None}
        return Bounds(**ends, strict=self.at_least is None)

    def allowed_text(self) -> str:
        """Return the bounds on the quantity, as text."""
        ends = (("at least", self.at_least), ("more than", self.more_than), ("less than", self.less_than))
        return " and ".join(f"{name} {end:.6g}" for name, end in ends if end is not None)


class JudgedClaim(Statement):
    """A claim of a report with its verdict."""

    verdict: Annotated[VerdictName, about("on the hypothesis")]
    evidence: Annotated[str, about("the numbers that decide it")]
    these_runs: Annotated[str, about("what these runs say, if not decidable")]
    remark: Annotated[str, about("for the reader")]


class _Claims(msgspec.Struct):
    claim: list[Claim]
    rules: dict[str, str] = {}


def read_claims(path: Path = CLAIMS) -> list[Claim]:
    """Return the claims in a TOML file. Raises TableError naming the file, the claim and the fault."""
    try:
        file = msgspec.toml.decode(path.read_bytes(), type=_Claims)
    except (OSError, msgspec.DecodeError) as error:
        raise TableError(f"{path}: not a readable list of claims: {error}") from error
    if twice := [name for name, times in Counter(claim.id for claim in file.claim).items() if times > 1]:
        raise TableError(f"{path}: duplicate id: {', '.join(twice)}")
    return [_with_rule(claim, LOCAL_RULES if claim.experiment else file.rules, path) for claim in file.claim]


def _with_rule(claim: Claim, rules: dict[str, str], path: Path) -> Claim:
    if claim.rule not in rules:
        raise TableError(f"{path}: {claim.id}: rule '{claim.rule}' given, allowed: {', '.join(rules)}")
    if bool(claim.experiment) == bool(claim.verdict and claim.evidence):
        raise TableError(f"{path}: {claim.id}: needs either an experiment, or a verdict and its evidence")
    bounds = claim.bounds
    if claim.quantity:
        ranks = f"; ranks {', '.join(map(str, claim.ranks))}" if claim.ranks else ""
        bounds = f"quantity {claim.quantity}{ranks}; {claim.allowed_text()}"
    rule = f"{claim.rule}: {rules[claim.rule]}{f' ({bounds})' if bounds else ''}; {claim.scope}"
    data = f"local records of {claim.experiment}" if claim.experiment else claim.data
    return msgspec.structs.replace(claim, rule=rule, data=data)


def judge(claims: Sequence[Claim], study: Study) -> list[JudgedClaim]:
    """Return each claim with its verdict; one with an experiment is judged from the local records of the study."""
    return [_judge_local(claim, study.local) if claim.experiment else filled(JudgedClaim, claim) for claim in claims]


def _judge_local(claim: Claim, local: pd.DataFrame) -> JudgedClaim:
    rows = local[local["experiment"].eq(claim.experiment)]
    outcome, evidence, these_runs = _measured(claim, rows) if claim.quantity else _averaging_loses(rows)
    these_runs = these_runs if outcome == "undecided" else ""
    return filled(JudgedClaim, claim, verdict=_NAMES[outcome], evidence=evidence, these_runs=these_runs)


_NOTHING = "no number decides it"


def _averaging_loses(rows: pd.DataFrame) -> tuple[Outcome, str, str]:
    """Return whether averaging gradients over ranks makes training less precise, from records of equal steps."""
    loses, text = equivalence.verdict(equivalence.pairs(rows))
    return "undecided" if loses is None else "inside" if loses else "outside", text, _NOTHING


def _measured(claim: Claim, rows: pd.DataFrame) -> tuple[Outcome, str, str]:
    """Return whether the quantity of every point is within bounds, its numbers, and what these say alone."""
    points = [
        point
        for point in (summary_points.points(rows) if len(rows) else [])
        if claim.quantity in point.numbers and (not claim.ranks or point.runs["ranks"].iloc[0] in claim.ranks)
        if not point.runs["kind"].eq("control").all()
    ]
    if not points:
        on = f" on {', '.join(map(str, claim.ranks))} ranks" if claim.ranks else ""
        return "undecided", f"no {claim.quantity} was measured{on}", _NOTHING
    if not claim.quantity.startswith("validation"):  # an accuracy does not depend on the time that ranks take
        points = [point for point in points if not controls.invalid(point.runs).any()]
    if not points:
        return "undecided", "ranks disturbed each other: not valid as a scaling result", _NOTHING
    numbers = [point.numbers[claim.quantity] for point in points]
    verdicts = judge_all(numbers, claim.allowed())
    names = [_NAMES[verdict.outcome] for verdict in verdicts]
    texts = [f"{number} ({_point_text(point)})" for number, point in zip(numbers, points, strict=True)]
    first = [text for _, text in sorted(zip(names, texts, strict=True), key=lambda pair: VERDICTS.index(pair[0]))]
    evidence = f"claimed: {claim.allowed_text()}. {'; '.join(first)}"
    if not all(number.has_interval for number in numbers):
        evidence += "; without an interval nothing is decided: repeat the runs"
    if len(names) > 1:
        evidence += f"; {len(names)} numbers: {tally(names, VERDICTS)}"
    return together(verdicts).outcome, evidence, _alone(numbers, claim.allowed())


def _alone(numbers: Sequence[Number], bounds: Bounds) -> str:
    """Return how many numbers are as claimed if no other runs are considered, and n, as text."""
    allowed = sum(bounds.allow(number.value) for number in numbers)
    values = [number.value for number in numbers]
    n = sum(max(1, number.n) for number in numbers)
    return f"{allowed} of {len(values)} numbers as claimed: {min(values):.4g} to {max(values):.4g} (n = {n})"


def _point_text(point: summary_points.SummarizedPoint) -> str:
    """Return the model, the GPU, the ranks and the series of a point, as text."""
    row = row_dicts(point.runs)[0]
    ranks = "" if pd.isna(row["ranks"]) else counted(row["ranks"], "rank")
    return ", ".join(dict.fromkeys(filter(None, (row["model"] or row["run"], row["gpu"], ranks, point.series))))
