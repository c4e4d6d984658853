"""The contents of the appendix, from `appendix.toml` and `minutes.json`, and a reviewer's verdict on each claim.

Every name in them is checked to exist. A verdict compares what the archive states with what was judged here.
"""

import ast
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from analysis import TableError, claims
from analysis.claims import Claim, Judged
from analysis.documents import tally

FOLDER = Path(__file__).parent
DATA, MINUTES = FOLDER / "appendix.toml", FOLDER / "minutes.json"
ROOT = FOLDER.parents[1]


@dataclass(frozen=True)
class Minutes:
    """How long one run of a command took, and where it was measured."""

    minutes: float
    date: str
    cpu: str
    cores: int
    commit: str


@dataclass(frozen=True)
class Step:
    """A command that measures nothing: what it makes, and the lines that its output must have."""

    command: str
    makes: str
    expected: str
    prints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
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
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def shows(self) -> str:
        """Return the description in its file."""
        text = (ROOT / f"conf/experiment/{self.name}.yaml").read_text()
        match = re.search(r"^description: *(.*)$", text, re.MULTILINE)
        return match[1].strip("\"'") if match else ""


@dataclass(frozen=True)
class Appendix:
    """The content of the appendix: C1 is the first claim, E1 the first experiment."""

    claims: list[Claim]
    steps: list[Step]
    experiments: list[Experiment]
    minutes: dict[str, Minutes]  # by command

    def claims_of(self, experiment: str) -> list[str]:
        """Return the labels of the claims that the records of an experiment decide, as C1."""
        return [label(number, "C") for number, claim in enumerate(self.claims) if claim.experiment == experiment]

    def expected_verdict(self, claim: Claim) -> str:
        """Return the verdict that measured records should give a claim; "" for one that published numbers decide."""
        by_name = {experiment.name: experiment for experiment in self.experiments}
        return by_name[claim.experiment].verdicts.get(claim.id, "supported") if claim.experiment in by_name else ""


def label(index: int, letter: str) -> str:
    """Return the label of the claim or experiment with this index, as C1 or E1."""
    return f"{letter}{index + 1}"


def read(data: Path = DATA, minutes: Path = MINUTES) -> Appendix:
    """Return the contents. Raises TableError naming the file and what in it does not exist or cannot be read."""
    try:
        tables = tomllib.loads(data.read_text())
        steps = msgspec.convert(tables["step"], list[Step])
        experiments = msgspec.convert(tables["experiment"], list[Experiment])
    except (OSError, tomllib.TOMLDecodeError, KeyError, msgspec.ValidationError) as error:
        raise TableError(f"{data}: not a readable appendix: {error}") from error
    all_claims = [*claims.read(data), *claims.read()]
    _check(data, experiments, all_claims)
    return Appendix(all_claims, steps, experiments, read_minutes(minutes))


def read_minutes(path: Path) -> dict[str, Minutes]:
    """Return measured minutes by command. Raises TableError if the file cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Minutes])
    except (OSError, msgspec.DecodeError) as error:
        raise TableError(f"{path}: not a readable file of minutes: {error}") from error


def minutes_text(minutes: Mapping[str, Minutes]) -> str:
    """Return the content of a file of minutes."""
    return json.dumps({command: asdict(minutes[command]) for command in sorted(minutes)}, indent=1) + "\n"


def _check(data: Path, experiments: Iterable[Experiment], all_claims: Iterable[Claim]) -> None:
    """Raise TableError where experiments and files of conf/experiment differ, or a named function does not exist."""
    names = [experiment.name for experiment in experiments]
    files = sorted(path.stem for path in (ROOT / "conf/experiment").glob("*.yaml"))
    if sorted(names) != files:
        differing = ", ".join(sorted(set(names) ^ set(files))) or "one occurs twice"
        raise TableError(f"{data}: experiments must be the files of conf/experiment, each once: {differing}")
    by_id = {claim.id: claim for claim in all_claims}
    for experiment in experiments:
        for location in experiment.code:
            if not _is_defined(location):
                raise TableError(f"{data}: {experiment.name}: code {location} given, must be FILE:FUNCTION that exists")
        for id in experiment.verdicts:
            if id not in by_id or by_id[id].experiment != experiment.name:
                raise TableError(f"{data}: {experiment.name}: verdicts: {id} is not a claim that its records decide")


def _is_defined(location: str) -> bool:
    """Return whether the function or class FILE:FUNCTION is defined in the kit."""
    file, _, name = location.partition(":")
    if not (ROOT / file).is_file():
        return False
    definitions: tuple[Any, ...] = (ast.FunctionDef, ast.ClassDef)
    return any(
        isinstance(node, definitions) and node.name == name for node in ast.parse((ROOT / file).read_text()).body
    )


Outcome = Literal["reproduced", "not reproduced", "not run"]
OUTCOMES: tuple[Outcome, ...] = ("not run", "reproduced", "not reproduced")


@dataclass(frozen=True)
class ClaimRow:
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


@dataclass(frozen=True)
class StepResult:
    """A command of the appendix that was run here."""

    command: str
    minutes: float
    outcome: Outcome
    missing: tuple[str, ...] = ()  # lines that its output should have


@dataclass(frozen=True)
class Evaluation:
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


def claim_rows(
    stated: Mapping[str, Mapping[str, str]], judged: Sequence[Judged], measured: Collection[str]
) -> list[ClaimRow]:
    """Return a row for each claim, in the order of the appendix.

    stated: the archive's verdict and evidence by the claim's id. judged: the same claims, judged from the
    reviewer's records. measured: the experiments with such records.
    """
    result = []
    for number, item in enumerate(judged):
        claim, author = item.claim, stated.get(item.claim.id, {"verdict": "", "evidence": ""})
        outcome, why = _outcome(item, author["verdict"], measured)
        result.append(
            ClaimRow(
                label(number, "C"), claim.id, claim.hypothesis, claim.rule, author["verdict"], author["evidence"],
                item.verdict, item.evidence, outcome, why,
            )
        )  # fmt: skip
    return result


def _outcome(judged: Judged, stated: str, measured: Collection[str]) -> tuple[Outcome, str]:
    experiment = judged.claim.experiment
    if not stated:
        return "not run", "the archive does not state it"
    if experiment and experiment not in measured:
        return "not run", f"no record of {experiment} here"
    if experiment and stated == "not decidable":
        return "not run", "the archive has no numbers that decide it"
    if judged.verdict == stated:
        return "reproduced", ""
    return "not reproduced", "the numbers here do not decide it" if judged.verdict == "not decidable" else ""
