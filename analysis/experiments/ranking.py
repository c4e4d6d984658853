"""Arms that compete, ranked: images/s of each over those of the base, launch by launch, with an interval of each.

The intervals are of one level such that all together hold at 95 % (Bonferroni): of ten equal arms none is called faster
or slower in 95 of 100 contests.
"""

import json
import math
import re
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from tabulate import tabulate

from analysis import documents, labels, speedups
from analysis.documents import Document, about, filled
from analysis.stats import repeats
from analysis.stats.number import LEVEL, Number
from analysis.stats.repeats import MIN_VALUES
from analysis.stats.verdict import Bounds, Verdict, judge_at
from train.record.record import RunRecord

WIDTH = 110
ArmVerdict = Literal["base", "faster", "slower", "no difference", "dropped: significantly slower", "too few launches"]


@dataclass(frozen=True)
class Arm:
    """One arm of a contest."""

    name: str
    settings: Mapping[str, Any]  # dotted key -> value, where it differs from the base
    exchange: Mapping[str, Any]  # the same of all keys of `distribution` in which arms of the contest differ
    images_per_s: Number
    ratio: Number  # its images/s over those of the base in the same repeat: the median, with the contest's interval
    verdict: ArmVerdict


@dataclass(frozen=True)
class Contest:
    """The arms of one model on one machine, the fastest first."""

    model: str
    machine: str
    ranks: int
    base: str  # the arm that the others are compared with
    level: float  # of each interval
    arms: list[Arm]
    system: Mapping[str, Any]  # as configured

    @property
    def winner(self) -> Arm | None:
        """The arm with the largest ratio of those that are faster than the base; None where none is."""
        return next((arm for arm in self.arms if arm.verdict == "faster"), None)


class RankedArm(Document):
    """An arm of a contest."""

    arm: str
    settings: Annotated[Mapping[str, Any], about("each key in which it differs from the base, with its value")]
    images_per_s: documents.Number
    ratio: Annotated[documents.Number, about("to the base, in the same repeat; all ratios together hold at 95 %")]
    verdict: Annotated[ArmVerdict, about("relative to the base")]


class RankedContest(Document):
    """The arms of one model on one machine, ranked."""

    model: str
    machine: str
    ranks: int
    arms: Annotated[Sequence[RankedArm], about("the fastest first")]
    winner: Annotated[str | None, about("the fastest of the arms that are faster than the base; null: none is")]


def contests(local: pd.DataFrame, records: Mapping[str, RunRecord]) -> list[Contest]:
    """Return the contests in the local rows of one experiment that have the base and another arm; records: by path."""
    runs = speedups.rates(local[local["kind"].eq("measured")])
    result = []
    for (model, machine, _), rows in runs.groupby(["model", "machine", "ranks"], sort=False):
        arms = {str(name): arm for name, arm in rows.groupby("arm", sort=False)}
        bases = rows.loc[rows["role"].eq("base"), "arm"].unique()
        if len(bases) == 1 and len(arms) > 1:
            runs_by_arm = {name: records[arm["record"].iloc[0]] for name, arm in arms.items()}
            result.append(_contest(str(model), str(machine), str(bases[0]), arms, runs_by_arm))
    return result


def _contest(
    model: str, machine: str, base_name: str, rows: Mapping[str, pd.DataFrame], runs: Mapping[str, RunRecord]
) -> Contest:
    """Return the ranking of one contest; rows, runs: the rows of each arm, and one of its records, by its name."""
    base = rows[base_name]
    level = 1 - (1 - LEVEL) / (len(rows) - 1)
    leading = max(rows.values(), key=lambda arm: statistics.median(_ratios(arm, base) or [-math.inf]))
    arms = []
    for name, arm_rows in rows.items():
        run, ratio = runs[name], _ratio(arm_rows, base, level)
        against_base = _arm_verdict(judge_at(ratio, Bounds(1.0, 1.0)))
        outcome: ArmVerdict = "base" if name == base_name else against_base or _unfinished(arm_rows, leading)
        settings = differing(run, runs[base_name])
        arms.append(Arm(name, settings, _exchange(run), speedups.rate_of(arm_rows), ratio, outcome))
    ranked = sorted(arms, key=lambda arm: -arm.ratio.value)
    system = runs[base_name].config["system"]
    return Contest(model, machine, int(base["ranks"].iloc[0]), base_name, level, ranked, system)


def differing(run: RunRecord, base: RunRecord) -> dict[str, Any]:
    """Return the keys in which an arm's configuration differs from that of the base, with the values of the arm."""
    keys = [key for key in run.arm_keys if _value(run, key) != _value(base, key)]
    return {key: _value(run, key) for key in keys}


def _value(run: RunRecord, key: str) -> Any:
    value: Any = run.config
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _exchange(run: RunRecord) -> dict[str, Any]:
    """Return the keys of `distribution` in which arms differ, as far as this run uses them."""
    keys = [key for key in run.arm_keys if key.startswith("distribution.")]
    return {key: value for key in keys if (value := _value(run, key)) is not None}


def _ratios(runs: pd.DataFrame, base: pd.DataFrame) -> list[float]:
    """Return the images/s of an arm over those of the base in each repeat that has both."""
    return [value for launch in speedups.paired_ratios(runs, base) for value in launch]


def _ratio(runs: pd.DataFrame, base: pd.DataFrame, level: float) -> Number:
    """Return the median images/s of an arm over those of the base in the same repeat, with its interval at a level."""
    return repeats.median(repeats.singles(_ratios(runs, base)), level)


def _arm_verdict(verdict: Verdict) -> ArmVerdict | None:
    """Return the verdict on an arm against the base; None where the ratio has no interval."""
    if verdict.outcome == "outside":
        return "faster" if verdict.above else "slower"
    return None if verdict.why == "no interval" else "no difference"


def _unfinished(runs: pd.DataFrame, leading: pd.DataFrame) -> ArmVerdict:
    """Return why an arm has too few launches: the launcher drops those significantly slower than the leading one."""
    ratios = _ratios(runs, leading)
    fewer = runs["record"].nunique() < leading["record"].nunique()
    return "dropped: significantly slower" if fewer and ratios and max(ratios) < 1 else "too few launches"


def as_json(contest: Contest) -> RankedContest:
    """Return a contest for JSON."""
    arms = [filled(RankedArm, arm, arm=arm.name) for arm in contest.arms]
    return filled(RankedContest, contest, arms=arms, winner=contest.winner.name if contest.winner else None)


def report(contest: Contest) -> str:
    """Return the ranking of a contest as a table, and what follows from it."""
    title = f"{labels.name(contest.model)}, {contest.ranks} ranks, on {contest.machine}"
    table = tabulate([_row(arm, contest.base) for arm in contest.arms], headers="keys", disable_numparse=True)
    note = (
        f"in brackets: intervals at {100 * contest.level:.3g} % each, 95 % for all of them together; "
        f"of fewer than {_fewest(contest.level)} launches none"
    )
    return "\n".join([title, "", table, "", *textwrap.wrap(_conclusion(contest), WIDTH), note])


def _row(arm: Arm, base: str) -> dict[str, str]:
    ratio = "" if math.isnan(arm.ratio.value) else arm.ratio.text(".3f")
    return {
        "arm": arm.name,
        "launches": str(arm.images_per_s.n),
        "images/s": f"{arm.images_per_s.value:.4g}",
        f"over {base}": "1" if arm.verdict == "base" else ratio,
        "": "" if arm.verdict == "base" else arm.verdict,
    }


def _conclusion(contest: Contest) -> str:
    """Return the conclusion from the ranking."""
    best = contest.winner
    if best is None:
        unsure = [arm.name for arm in contest.arms if arm.verdict == "too few launches"]
        if unsure:
            more = f"too few launches of {', '.join(unsure)}: REPEATS=."
            return f"No arm is significantly faster than {contest.base}; {more}"
        return (
            f"No arm is significantly faster than {contest.base}: keep it. 'no difference' means that none is "
            "significant."
        )
    settings = ", ".join(f"{key}={value}" for key, value in best.settings.items())
    alike = [arm.name for arm in contest.arms if arm.verdict == "faster" and arm is not best]
    others = f" Faster too, and perhaps as fast: {', '.join(alike)}." if alike else ""
    return (
        f"{best.name} ({settings}) is {best.ratio.value:.3g} times as fast as {contest.base}, "
        f"{best.ratio.low:.3g} to {best.ratio.high:.3g}.{others} WRITE=name writes it into conf/system/name.yaml."
    )


def _fewest(level: float) -> int:
    """Return the fewest values whose median has an interval at this level: 2 / 2^n of medians are beyond all values."""
    return max(MIN_VALUES, math.ceil(1 + math.log2(1 / (1 - level))))


def system_file(contest: Contest, name: str, folder: Path) -> str:
    """Return a file of conf/system with the node of the contest, and the winner's settings of exchange and threads.

    folder: of the files of conf/system.
    """
    best = contest.winner
    assert best is not None
    exchange = {key.partition(".")[2]: value for key, value in best.exchange.items()}
    than_base = f"{best.ratio.value:.3g} times as fast as {contest.base}, {best.ratio.low:.3g} to {best.ratio.high:.3g}"
    lines = [
        "# @package _global_",
        f"# {contest.machine}: the fastest settings for {contest.model} on {contest.ranks} ranks, as make tune found",
        f"# ({best.name}: {than_base})",
        "defaults:",
        f"  - {_base_file(str(contest.system['name']), folder)}@system",
        "  - _self_",
        "system:",
        f"  name: {name}",
        "distribution:",
        # JSON is YAML
        *(f"  {key}: {json.dumps(value)}" for key, value in exchange.items()),
    ]
    if "threads_per_rank" in best.settings:
        lines.append(f"threads_per_rank: {best.settings['threads_per_rank']}")
    return "\n".join(lines) + "\n"


def _base_file(system: str, folder: Path) -> str:
    """Return the file that describes the node: that of the contest, or the one that this one is written over."""
    path = folder / f"{system}.yaml"
    written = re.search(r"^  - (\w+)@system$", path.read_text(), re.MULTILINE) if path.exists() else None
    return written[1] if written else system
