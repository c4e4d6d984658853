"""What a reviewer runs and judges, from `evaluation.toml`, and the verdict on each claim.

A reviewer's verdict compares what the archive states with what was judged here.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from analysis import TableError, judged_claims
from analysis.documents import tally
from analysis.judged_claims import Claim, JudgedClaim

FOLDER = Path(__file__).parent
DATA = FOLDER / "evaluation.toml"


class CheckedStep(msgspec.Struct, frozen=True):
    """A command that measures nothing, and the lines that its output must have."""

    command: str
    prints: tuple[str, ...]


class MeasuredExperiment(msgspec.Struct, frozen=True):
    """One file of conf/experiment, and the command that a reviewer types."""

    name: str
    command: str


class Contents(msgspec.Struct, frozen=True):
    """What is run and judged: C1 is the first claim, E1 the first experiment."""

    steps: list[CheckedStep] = msgspec.field(name="step")
    experiments: list[MeasuredExperiment] = msgspec.field(name="experiment")
    claims: list[Claim] = []


def read_contents(data: Path = DATA) -> Contents:
    """Return the contents, the kit's own claims before those of the reports. Raises TableError naming the file."""
    try:
        contents = msgspec.toml.decode(data.read_bytes(), type=Contents)
    except (OSError, msgspec.DecodeError) as error:
        raise TableError(f"{data}: not readable as what a reviewer runs: {error}") from error
    return msgspec.structs.replace(contents, claims=[*judged_claims.read_claims(data), *judged_claims.read_claims()])


ClaimOutcome = Literal["not run", "reproduced", "not reproduced"]
OUTCOMES: tuple[ClaimOutcome, ...] = get_args(ClaimOutcome)


class ClaimRow(msgspec.Struct, frozen=True):
    """One claim: the verdict and numbers that the archive states, those of the reviewer, and the outcome."""

    label: str
    id: str
    hypothesis: str
    allowed: str  # the rule with its bounds
    stated: str
    stated_numbers: str
    here: str
    numbers: str
    outcome: ClaimOutcome
    why: str = ""


class StepResult(msgspec.Struct, frozen=True):
    """A command that was run here."""

    command: str
    minutes: float
    outcome: ClaimOutcome
    missing: tuple[str, ...] = ()  # lines that its output should have


class Evaluation(msgspec.Struct, frozen=True):
    """The results of an evaluation."""

    archive: str
    machine: str
    commit: str
    steps: list[StepResult]
    files: int  # of the archive that can be made again from its records
    differing: list[str]  # those of them that now have other bytes
    rows: list[ClaimRow]
    comparison: str  # the archive's points compared with those measured here, as Markdown; "" without any

    def counts(self) -> str:
        """Return how many claims have each outcome, as text."""
        return f"{len(self.rows)} claims: {tally([row.outcome for row in self.rows], OUTCOMES)}"

    @property
    def failed(self) -> bool:
        """Return whether a claim or a step was not reproduced."""
        return "not reproduced" in [*(step.outcome for step in self.steps), *(row.outcome for row in self.rows)]


class StatedVerdict(msgspec.Struct, frozen=True):
    """The part of a claim's verdict in an archive that its reviewer compares; "" where the archive has none."""

    id: str
    verdict: str = ""
    evidence: str = ""


def claim_rows(
    stated: Mapping[str, StatedVerdict], all_claims: Sequence[Claim], judged: Sequence[JudgedClaim],
    measured: Collection[str],
) -> list[ClaimRow]:  # fmt: skip
    """Return a row for each claim, in the order of the contents.

    stated: the archive's verdicts by the claim's id. judged: all claims, judged from the reviewer's records. measured:
    the experiments with such records.
    """
    rows = []
    for number, (claim, judgement) in enumerate(zip(all_claims, judged, strict=True), 1):
        author = stated.get(claim.id, StatedVerdict(claim.id))
        outcome, why = _outcome(judgement.verdict, claim.experiment, author.verdict, measured)
        rows.append(
            ClaimRow(
                f"C{number}", claim.id, judgement.hypothesis, judgement.rule, author.verdict, author.evidence,
                judgement.verdict, judgement.evidence, outcome, why,
            )
        )  # fmt: skip
    return rows


def _outcome(verdict: str, experiment: str, stated: str, measured: Collection[str]) -> tuple[ClaimOutcome, str]:
    if not stated:
        return "not run", "the archive does not state it"
    if experiment and experiment not in measured:
        return "not run", f"no record of {experiment} here"
    if experiment and stated == "not decidable":
        return "not run", "the archive has no numbers that decide it"
    if verdict == stated:
        return "reproduced", ""
    return "not reproduced", "the numbers here do not decide it" if verdict == "not decidable" else ""
