"""The contents of the appendix, from `appendix.toml` and `minutes.json`, and a reviewer's verdict on each claim.

A reviewer's verdict compares what the archive states with what was judged here.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from analysis import TableError, claims
from analysis.claims import Claim, JudgedClaim
from analysis.documents import tally

FOLDER = Path(__file__).parent
DATA, MINUTES = FOLDER / "appendix.toml", FOLDER / "minutes.json"
ROOT = FOLDER.parents[1]


class Minutes(msgspec.Struct, frozen=True):
    """How long one run of a command took, and where it was measured."""

    minutes: float
    date: str
    cpu: str
    cores: int
    commit: str


class Step(msgspec.Struct, frozen=True):
    """A command that measures nothing: what it makes, and the lines that its output must have."""

    command: str
    makes: str
    expected: str
    prints: tuple[str, ...] = ()


class Experiment(msgspec.Struct, frozen=True):
    """One file of conf/experiment: the command that a reviewer types, and what to expect of it.

    code: the functions that compute its result, as FILE:FUNCTION. verdicts: those expected of claims of the reports
    that its records decide, by the claim's id.
    """

    name: str
    command: str
    human_minutes: int
    figures: tuple[str, ...]
    code: tuple[str, ...]
    expected: str = ""
    variation: str = ""
    needs: str = ""
    verdicts: dict[str, str] = {}

    @property
    def shows(self) -> str:
        """Return the description in its file."""
        text = (ROOT / f"conf/experiment/{self.name}.yaml").read_text()
        match = re.search(r"^description: *(.*)$", text, re.MULTILINE)
        return match[1].strip("\"'") if match else ""


class Appendix(msgspec.Struct, frozen=True):
    """The content of the appendix: C1 is the first claim, E1 the first experiment."""

    steps: list[Step] = msgspec.field(name="step")
    experiments: list[Experiment] = msgspec.field(name="experiment")
    claims: list[Claim] = []
    minutes: dict[str, Minutes] = {}  # by command

    def claims_of(self, experiment: str) -> list[str]:
        """Return the labels of the claims that the records of an experiment decide, as C1."""
        return [f"C{number}" for number, claim in enumerate(self.claims, 1) if claim.experiment == experiment]

    def minutes_text(self, command: str) -> str:
        """Return the machine minutes of a command as text; "-" if they were not measured."""
        measured = self.minutes.get(command)
        if measured is None:
            return "-"
        return "below 1" if measured.minutes < 0.95 else f"{measured.minutes:.0f}"


def read(data: Path = DATA) -> Appendix:
    """Return the contents. Raises TableError naming the file that cannot be read."""
    try:
        appendix = msgspec.toml.decode(data.read_bytes(), type=Appendix)
    except (OSError, msgspec.DecodeError) as error:
        raise TableError(f"{data}: not a readable appendix: {error}") from error
    all_claims = [*claims.read(data), *claims.read()]
    return msgspec.structs.replace(appendix, claims=all_claims, minutes=read_minutes())


def read_minutes() -> dict[str, Minutes]:
    """Return measured minutes by command. Raises TableError if the file cannot be read."""
    try:
        return msgspec.json.decode(MINUTES.read_bytes(), type=dict[str, Minutes])
    except (OSError, msgspec.DecodeError) as error:
        raise TableError(f"{MINUTES}: not a readable file of minutes: {error}") from error


Outcome = Literal["not run", "reproduced", "not reproduced"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


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
    outcome: Outcome
    why: str = ""


class StepResult(msgspec.Struct, frozen=True):
    """A command of the appendix that was run here."""

    command: str
    minutes: float
    outcome: Outcome
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
    minutes: dict[str, Minutes]  # that the commands took here

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
    """Return a row for each claim, in the order of the appendix.

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


def _outcome(verdict: str, experiment: str, stated: str, measured: Collection[str]) -> tuple[Outcome, str]:
    if not stated:
        return "not run", "the archive does not state it"
    if experiment and experiment not in measured:
        return "not run", f"no record of {experiment} here"
    if experiment and stated == "not decidable":
        return "not run", "the archive has no numbers that decide it"
    if verdict == stated:
        return "reproduced", ""
    return "not reproduced", "the numbers here do not decide it" if verdict == "not decidable" else ""
