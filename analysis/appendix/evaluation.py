"""A reviewer's verdict on each claim: what the author's archive states beside what was judged here."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.appendix.contents import label
from analysis.claims import Judged
from analysis.text import tally

Outcome = Literal["reproduced", "not reproduced", "not run"]
OUTCOMES: tuple[Outcome, ...] = ("not run", "reproduced", "not reproduced")


@dataclass(frozen=True)
class Row:
    """One claim: the verdict and numbers that the archive states, those found here, and what follows."""

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


@dataclass(frozen=True)
class StepResult:
    """A command of the appendix that was run here."""

    command: str
    minutes: float
    outcome: Outcome
    missing: tuple[str, ...] = ()  # lines that its output should have


@dataclass(frozen=True)
class Evaluation:
    """All that an evaluation found."""

    archive: str
    machine: str
    commit: str
    steps: list[StepResult]
    files: int  # of the archive that can be made again from its records
    differing: list[str]  # of them those that came out with other bytes
    rows: list[Row]
    comparison: str  # the archive's points beside those measured here, as Markdown; "" without any

    def counts(self) -> str:
        """Return how many claims have each outcome, in words."""
        return f"{len(self.rows)} claims: {tally([row.outcome for row in self.rows], OUTCOMES)}"

    @property
    def failed(self) -> bool:
        """Return whether a claim or a step was not reproduced."""
        return "not reproduced" in [*(one.outcome for one in self.steps), *(one.outcome for one in self.rows)]


def rows(stated: Mapping[str, Mapping[str, str]], here: Sequence[Judged], measured: Collection[str]) -> list[Row]:
    """Return a row for each claim, in the order of the appendix.

    stated: the archive's verdict and evidence by the claim's id. here: the same claims, judged from the reviewer's
    records. measured: the experiments of which there are such records.
    """
    result = []
    for number, one in enumerate(here):
        claim, author = one.claim, stated.get(one.claim.id, {"verdict": "", "evidence": ""})
        outcome, why = _outcome(one, author["verdict"], measured)
        result.append(
            Row(
                label(number, "C"), claim.id, claim.hypothesis, claim.rule, author["verdict"], author["evidence"],
                one.verdict, one.evidence, outcome, why,
            )
        )  # fmt: skip
    return result


def _outcome(here: Judged, stated: str, measured: Collection[str]) -> tuple[Outcome, str]:
    experiment = here.claim.experiment
    if not stated:
        return "not run", "the archive does not state it"
    if experiment and experiment not in measured:
        return "not run", f"no record of {experiment} here"
    if experiment and stated == "not decidable":
        return "not run", "the archive has no numbers that decide it"
    if here.verdict == stated:
        return "reproduced", ""
    return "not reproduced", "the numbers here do not decide it" if here.verdict == "not decidable" else ""
