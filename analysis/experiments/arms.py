"""The arms of an experiment compared with their base or control, in each round or repeat that has both; and ranked.

A ranking has images/s of each arm over those of the base, launch by launch. Its intervals are of one level such that
all together hold at 95 % (Bonferroni): of ten equal arms none is called faster or slower in 95 of 100 contests.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd

from analysis import labels, metrics, speedups
from analysis.documents import Document, NumberField, about
from analysis.stats import LEVEL, Number, repeats
from analysis.stats.verdict import Bounds, RatioVerdict, judge_at, ratio_verdict
from analysis.table import controls
from analysis.table.swept_axis import SCALING
from common import bounded_files as bounded
from common.terminal import counted, paragraph, text_table
from record import recorded_config
from record.schema import RunRecord


@dataclass(frozen=True, eq=False)
class Ratio:
    """The throughput of one arm over that of another."""

    model: str
    series: str  # of the arm in the numerator
    ranks: int
    label: list[str]  # the lines of a label that names the compared arms
    number: Number
    values: list[float]  # in each unit: a round, or a repeat
    unit: str


def ratios(local: pd.DataFrame) -> Iterator[Ratio]:
    """Yield, for each number of ranks, the throughput of each arm over that of the base."""
    runs = speedups.rates(local)
    for (model, _), rows in runs.groupby(["model", "arms"], sort=False):
        for ranks, at in rows.groupby("ranks"):
            arms = sorted((series for _, series in at.groupby("series")), key=_work)
            bases = [arm for arm in arms if arm["role"].eq("base").any()]
            for base, arm in ((base, arm) for base in bases for arm in arms if arm is not base):
                if values := [*speedups.paired_ratios(arm, base).values()]:
                    pair = _pair_label(arm.iloc[0], base.iloc[0])
                    title = f"{labels.name(model)}, {counted(int(str(ranks)), 'rank')}: {pair}"
                    details = labels.distinctions(rows, runs, "arm")
                    details += [f"{x['arm'].iloc[0]}: {cores}" for x in (arm, base) for cores in labels.server_cores(x)]
                    unit = "repeat" if arm["round"].isna().all() else "round"
                    label = [title, ", ".join(details)]
                    number, series = speedups.ratio(arm, base), str(arm["series"].iloc[0])
                    yield Ratio(str(model), series, int(str(ranks)), label, number, values, unit)


def compared(local: pd.DataFrame) -> bool:
    """Return whether an experiment has several arms on one number of ranks, and sweeps ranks or nothing."""
    measured = local[local["kind"].eq("measured")]
    on_ranks = measured["axis"].isin(("", *SCALING)).all()
    return bool(on_ranks and measured.groupby(["arms", "ranks"])["series"].nunique().max() > 1)


def _work(series: pd.DataFrame) -> tuple[bool, bool, str]:
    """Return a key that sorts arms by their work: first without Horovod, then without allreduce."""
    first = series.iloc[0]
    return first["backend"] != "none", bool(first["allreduce"]), str(first["arm"])


def _pair_label(arm: Any, base: Any) -> str:
    if base["backend"] == "none" and arm["backend"] == "horovod":
        return "with Horovod / without"
    if base["allreduce"] != arm["allreduce"]:
        return "with allreduce / without"
    return f"{_name(arm)} / {_name(base)}"


def _name(series: Any) -> str:
    """Return the name of an arm, marked where it is asynchronous."""
    return str(series["arm"]) + " (asynchronous)" * (series["backend"] in recorded_config.ASYNCHRONOUS)


# The columns that a series shares with its control.
_SAME = ["model", "nodes", "batch_per_rank", "machine"]


def link_rates(local: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each model and link rate of local records that swept the rate of the links.

    Columns: model, series, nodes, parameters, link_mbit_per_s (NaN: no limit), n, min_s
    (`metrics.ring_allreduce_min_s`), share (throughput over that of the control) and exposed_s (time of a step less
    that of the control) [s] in a round or a repeat, with the ends of their 95 % intervals (`_low`,
    `_high`); invalid: the nodes disturbed each other. Models without a control are left out.
    """
    runs = speedups.rates(local)
    runs = runs.assign(step_s=metrics.step_s(runs["global_batch"].astype(float), runs["rate"]))
    measured, alone = (runs[runs["kind"].eq(kind)] for kind in ("measured", "control"))
    points = []
    for _, rows in measured.groupby(["model", "series"], sort=False):
        control = alone[(alone[_SAME] == rows[_SAME].iloc[0]).all(axis=1)]
        if len(control):
            points += [_link_point(at, control) for _, at in rows.groupby("link_mbit_per_s", dropna=False)]
    return pd.DataFrame(points)


def _link_point(at: pd.DataFrame, control: pd.DataFrame) -> dict[str, Any]:
    """Return the numbers of one model at one link rate, against its control in the same round or repeat."""
    nodes, parameters, link = int(at["nodes"].iloc[0]), int(at["parameters"].iloc[0]), at["link_mbit_per_s"].iloc[0]
    share = speedups.ratio(at, control)
    exposed = repeats.typical(speedups.paired_differences(at, control, "step_s"))
    return {
        "model": at["model"].iloc[0],
        "series": at["series"].iloc[0],
        "nodes": nodes,
        "parameters": parameters,
        "link_mbit_per_s": link,
        "n": len(at),
        "min_s": metrics.ring_allreduce_min_s(parameters, nodes, link),
        "invalid": bool(controls.invalid(at).any()),
        **_interval("share", share),
        **_interval("exposed_s", exposed),
    }


def _interval(name: str, number: Number) -> dict[str, float]:
    return {name: number.value, f"{name}_low": number.low, f"{name}_high": number.high}


ArmVerdict = Literal[RatioVerdict, "base", "dropped: significantly slower"]


class RankedArm(Document):
    """An arm of a contest."""

    arm: str
    settings: Annotated[Mapping[str, Any], about("each key in which it differs from the base, with its value")]
    images_per_s: NumberField
    ratio: Annotated[NumberField, about("to the base, in the same repeat; all ratios together hold at 95 %")]
    verdict: Annotated[ArmVerdict, about("relative to the base")]


class RankedContest(Document):
    """The arms of one model on one machine, ranked."""

    model: str
    machine: str
    ranks: int
    arms: Annotated[Sequence[RankedArm], about("the fastest first")]
    winner: Annotated[str | None, about("the fastest of the arms that are faster than the base; null: none is")]


def contests(local: pd.DataFrame, records: Mapping[str, RunRecord]) -> list[RankedContest]:
    """Return the contests in the local rows of one experiment that have the base and another arm; records: by path."""
    runs = speedups.rates(local[local["kind"].eq("measured")])
    result = []
    for (model, machine, ranks), rows in runs.groupby(["model", "machine", "ranks"], sort=False):
        bases = rows.loc[rows["role"].eq("base"), "arm"].unique()
        if len(bases) == 1 and rows["arm"].nunique() > 1:
            arms = _ranked(rows, str(bases[0]), records)
            winner = next((arm.arm for arm in arms if arm.verdict == "better"), None)
            result.append(
                RankedContest(model=str(model), machine=str(machine), ranks=int(str(ranks)), arms=arms, winner=winner)
            )
    return result


def _ranked(contest: pd.DataFrame, base_name: str, records: Mapping[str, RunRecord]) -> list[RankedArm]:
    """Return the arms of one contest, the fastest first."""
    by_arm = {str(name): rows for name, rows in contest.groupby("arm", sort=False)}
    base = by_arm[base_name]
    level = 1 - (1 - LEVEL) / (len(by_arm) - 1)
    ratios = {name: speedups.ratio(rows, base, level) for name, rows in by_arm.items()}
    leading = by_arm[max((name for name in by_arm if ratios[name].n), key=lambda name: ratios[name].value)]
    arms = []
    for name, rows in by_arm.items():
        ratio = ratios[name]
        outcome: ArmVerdict = "base" if name == base_name else _arm_verdict(ratio, rows, leading)
        run, base_run = (records[arm["record"].iloc[0]] for arm in (rows, base))
        differing = [key for key in run.arm_keys if _value(run, key) != _value(base_run, key)]
        settings = {key: _value(run, key) for key in differing}
        rate = speedups.rate_of(rows)
        arms.append(RankedArm(arm=name, settings=settings, images_per_s=rate, ratio=ratio, verdict=outcome))
    return sorted(arms, key=lambda arm: -arm.ratio.value)


def _value(run: RunRecord, key: str) -> Any:
    value: Any = run.config
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _arm_verdict(ratio: Number, runs: pd.DataFrame, leading: pd.DataFrame) -> ArmVerdict:
    """Return the verdict on an arm; the launcher drops those that are significantly slower than the leading one."""
    verdict = judge_at(ratio, Bounds(1.0, 1.0))
    if verdict.why != "no interval":
        return ratio_verdict(verdict)
    ratios = speedups.paired_ratios(runs, leading).values()
    fewer = runs["record"].nunique() < leading["record"].nunique()
    return "dropped: significantly slower" if fewer and ratios and max(ratios) < 1 else "not decidable"


def report(contest: RankedContest) -> str:
    """Return the ranking of a contest as a table, and what follows from it."""
    title = f"{labels.name(contest.model)}, {contest.ranks} ranks, on {contest.machine}"
    base, level = _base(contest), contest.arms[0].ratio.level
    table = text_table([_row(arm, base) for arm in contest.arms])
    note = (
        f"in brackets: intervals at {100 * level:.3g} % each, 95 % for all of them together; "
        f"of fewer than {repeats.MIN_VALUES} launches none"
    )
    return "\n".join([title, "", table, "", paragraph(_conclusion(contest, base)), paragraph(note)])


def _base(contest: RankedContest) -> str:
    return next(arm.arm for arm in contest.arms if arm.verdict == "base")


def _row(arm: RankedArm, base: str) -> dict[str, str]:
    ratio = "" if math.isnan(arm.ratio.value) else arm.ratio.text(".3f")
    return {
        "arm": arm.arm,
        "launches": str(arm.images_per_s.n),
        "images/s": f"{arm.images_per_s.value:.4g}",
        f"over {base}": "1" if arm.verdict == "base" else ratio,
        "": "" if arm.verdict == "base" else arm.verdict,
    }


def _conclusion(contest: RankedContest, base: str) -> str:
    if contest.winner is None:
        none = f"No arm is significantly faster than {base}"
        undecided = [arm for arm in contest.arms if arm.verdict == "not decidable" and not arm.ratio.has_interval]
        if unsure := ", ".join(arm.arm for arm in undecided):
            return f"{none}; too few launches of {unsure}: REPEATS={repeats.MIN_VALUES} makes enough."
        open_arms = [arm for arm in contest.arms if arm.verdict == "not decidable"]
        if not open_arms:
            return f"{none}: all others are significantly slower."
        most = max(open_arms, key=lambda arm: arm.ratio.high)
        return f"{none}, and {most.arm} may still be {most.ratio.high:.3g} times as fast: keep it, or measure longer."
    best, *others = (arm for arm in contest.arms if arm.verdict == "better")
    settings = ", ".join(f"{key}={value}" for key, value in best.settings.items())
    also = f" Faster too, and perhaps as fast: {', '.join(arm.arm for arm in others)}." if others else ""
    return (
        f"{best.arm} ({settings}) is {_times_as_fast(best, base)}.{also} WRITE=name writes it into "
        "conf/system/name.yaml."
    )


def _times_as_fast(arm: RankedArm, base: str) -> str:
    return f"{arm.ratio.value:.3g} times as fast as {base}, {arm.ratio.low:.3g} to {arm.ratio.high:.3g}"


def system_file(contest: RankedContest, local: pd.DataFrame, records: Mapping[str, RunRecord], path: Path) -> str:
    """Return a file of conf/system with the node of the contest, and the winner's settings of exchange and threads.

    local, records: as of `contests`. path: where the file is to be.
    """
    best = next(arm for arm in contest.arms if arm.arm == contest.winner)
    runs = local[local["arm"].eq(best.arm) & local["model"].eq(contest.model) & local["machine"].eq(contest.machine)]
    run = records[runs[runs["ranks"].eq(contest.ranks)]["record"].iloc[0]]
    exchange = {key: _value(run, key) for key in run.arm_keys if key.startswith("distribution.")}
    # The file of the node: that of the contest, or the one on which a file like this is based.
    system = str(run.config["system"]["name"])
    node = path.with_name(f"{system}.yaml")
    text = bounded.read(node, bounded.MOST_YAML_BYTES).decode() if node.exists() else ""
    base_file = re.search(r"^  - (\w+)@system$", text, re.MULTILINE)
    lines = [
        "# @package _global_",
        f"# {contest.machine}: the fastest settings for {contest.model} on {contest.ranks} ranks, as make tune found",
        f"# ({best.arm}: {_times_as_fast(best, _base(contest))})",
        "defaults:",
        f"  - {base_file[1] if base_file else system}@system",
        "  - _self_",
        "system:",
        f"  name: {path.stem}",
        "distribution:",
        # JSON is YAML
        *(f"  {key.partition('.')[2]}: {json.dumps(value)}" for key, value in exchange.items() if value is not None),
    ]
    if "threads_per_rank" in best.settings:
        lines.append(f"threads_per_rank: {best.settings['threads_per_rank']}")
    return "\n".join(lines) + "\n"
