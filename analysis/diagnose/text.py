"""The diagnosis of one curve, as a document and as text: the parts of each point, and what to try first."""

import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd

from analysis import labels
from analysis.diagnose.paired_windows import CurveTimes
from analysis.diagnose.split import LOSSES, LargestLoss, LateRank, PartName, Split, largest_loss, slowest_rank
from analysis.documents import Document, NumberField, about, counted, filled
from analysis.stats import Number
from analysis.stats.repeats import MIN_VALUES
from common.terminal import paragraph, text_table

_FORM = ".3g"

NAMES: dict[PartName, str] = {
    "alone": "computing, as one node alone does",
    "slower": "slower computing beside others",
    "shared": "cores shared with other processes",
    "waiting": "waiting for the slowest rank",
    "exchange": "exposed exchange",
    "slower_or_exchange": "slower computing or exchange",
    "input": "input",
    "rest": "barrier after the steps",
}

# Labels of the efficiency if one part took no time.
WITHOUT: dict[PartName, str] = {
    "slower": "computing as fast as alone",
    "shared": "no core shared",
    "waiting": "no waiting",
    "exchange": "all exchange hidden",
    "slower_or_exchange": "neither of these",
    "input": "no time for input",
}


def milliseconds(value: Number) -> str:
    """Return a time in ms with its interval."""
    return value.over(1e-3).text(".0f" if abs(value.value) >= 0.1 else ".3g")


class DiagnosedPoint(Document):
    """A point of a curve: its step, and the parts of it as docs/diagnose.md explains them."""

    nodes: int
    ranks: int
    batch_per_rank: int
    measured_s: Annotated[NumberField, about("time of a step")]
    parts_s: Annotated[Mapping[PartName, NumberField], about("its parts; they add up")]
    efficiency_throughput: Annotated[NumberField, about("over the fewest nodes")]
    efficiency_without: Annotated[Mapping[PartName, NumberField], about("efficiency without one part, at most")]
    exchange_alone_s: Annotated[NumberField | None, about("exchange of the gradients by itself; null: not measured")]
    exchange_hidden_s: Annotated[NumberField | None, about("hidden part of it; below zero: more is exposed")]


class DiagnosedCurve(Document):
    """The diagnosis of one curve."""

    model: str
    series: Annotated[str, about("what distinguishes it from other series of its model")]
    machine: str
    design: Literal["rounds", "launches"]
    launches: int
    points: Annotated[Sequence[DiagnosedPoint], about("from the fewest nodes on")]
    largest_loss: Annotated[PartName | None, about("at the largest point; null: not decided")]
    candidates: Annotated[Sequence[PartName], about("losses that could be the largest")]
    slowest_rank: Annotated[LateRank | None, about("of the largest point")]
    sentences: Annotated[Sequence[str], about("the diagnosis in words")]


def answer(curve: CurveTimes, splits: Sequence[Split]) -> DiagnosedCurve:
    """Return what one curve shows: its points, the largest loss and the slowest rank of the largest point."""
    loss, slowest = largest_loss(splits[-1]), slowest_rank(curve, splits[-1].point)
    return filled(
        DiagnosedCurve,
        curve,
        design="rounds" if curve.in_rounds else "launches",
        launches=len(curve.records),
        points=[
            filled(
                DiagnosedPoint,
                split.point,
                ranks=split.ranks,
                measured_s=split.measured,
                parts_s={part: split.part(part) for part in split.parts},
                efficiency_throughput=split.efficiency,
                efficiency_without={part: split.efficiency_without(part) for part in split.losses},
                exchange_alone_s=split.exchange_alone,
                exchange_hidden_s=split.hidden,
            )
            for split in splits
        ],
        largest_loss=loss.part,
        candidates=loss.candidates,
        slowest_rank=slowest,
        sentences=list(sentences(curve, splits[-1], loss, slowest)),
    )


def report(curve: DiagnosedCurve) -> str:
    """Return the whole diagnosis of a curve: table and sentences."""
    rounds, in_rounds = curve.points[-1].measured_s.n, curve.design == "rounds"
    design = f"{rounds} rounds in {curve.launches}" if in_rounds else f"{rounds} repeats of single"
    launches = f"launch{'es' * (curve.launches > 1 or not in_rounds)}"
    title = f"{_title(curve)} on {curve.machine}: {design} {launches}"
    return page(title, table(curve.points), curve.sentences)


def page(title: str, table: str, sentences: Iterable[str]) -> str:
    """Return a title, a table and sentences as text."""
    return "\n".join([paragraph(f"== {title}"), "", table, "", *map(paragraph, sentences)])


def _title(curve: CurveTimes | DiagnosedCurve) -> str:
    return ", ".join(filter(None, (labels.name(curve.model), curve.series)))


def largest_losses(split_curves: Iterable[tuple[CurveTimes, Sequence[Split]]]) -> list[str]:
    """Return a line for each curve whose largest point has a loss that is certainly the largest, with its share."""
    lines = []
    for curve, (*_, split) in split_curves:
        if (part := largest_loss(split).part) is not None:
            share = split.share(part).over(0.01).text(".0f")
            nodes = counted(split.point.nodes, "node")
            lines.append(f"{_title(curve)} on {nodes}: {NAMES[part]}, {share} % of a step")
    return lines


def table(points: Sequence[DiagnosedPoint]) -> str:
    """Return the parts of the step of each point in ms, with their share; efficiency, and what bounds it."""
    parts = [part for part in NAMES if any(part in point.parts_s for point in points)]
    rows = [[NAMES[part], *(_part(point, part) for point in points)] for part in parts]
    rows.append(["measured step", *(milliseconds(point.measured_s) for point in points)])
    rows.append(["efficiency by throughput", *(point.efficiency_throughput.text(_FORM) for point in points)])
    for part in (part for part in parts if part in LOSSES):
        bounds = [point.efficiency_without.get(part) for point in points]
        rows.append([f"efficiency, {WITHOUT[part]}", *("" if bound is None else bound.text(_FORM) for bound in bounds)])
    if any(point.exchange_alone_s for point in points):
        rows.append(["exchange by itself", *(_optional(point.exchange_alone_s) for point in points)])
        rows.append(["exchange hidden", *(_optional(point.exchange_hidden_s) for point in points)])
    headers = [f"{counted(point.nodes, 'node')}, batch {point.batch_per_rank}" for point in points]
    return text_table(pd.DataFrame(rows, columns=["[ms a step]", *headers]))


def _part(point: DiagnosedPoint, part: PartName) -> str:
    if part not in point.parts_s:
        return ""
    return f"{milliseconds(point.parts_s[part])}, {100 * point.parts_s[part].value / point.measured_s.value:.0f} %"


def _optional(value: Number | None) -> str:
    return "" if value is None else milliseconds(value)


def sentences(curve: CurveTimes, split: Split, loss: LargestLoss, slowest: LateRank | None) -> Iterator[str]:
    """Yield sentences on the largest point, and on what to do."""
    nodes = counted(split.point.nodes, "node")
    names = [NAMES[part] for part in loss.candidates]
    if not loss.enough:
        yield (
            f"On {nodes}: fewer than {MIN_VALUES} rounds or repeats, so nothing is concluded. In the order "
            f"of their means: {', '.join(names)}. More rounds: the same command with ARGS=measure.budget_s=1200."
        )
        return
    if not loss.candidates:
        yield f"On {nodes} no loss is significantly above zero: there is nothing to gain."
    elif loss.part is None:
        yield f"On {nodes} the largest loss is {' or '.join(names)}: these rounds do not show which. More rounds may."
    else:
        yield (
            f"On {nodes} the largest loss is {names[0]}: {milliseconds(split.part(loss.part))} ms "
            f"of a step of {milliseconds(split.measured)} ms."
        )
    for part in loss.candidates:
        yield from _advice(curve, split, part, slowest)
    if slowest and slowest.certain and "waiting" in split.parts:
        yield _slowest_rank(slowest)


def _advice(curve: CurveTimes, split: Split, part: PartName, slowest: LateRank | None) -> Iterator[str]:
    meaning, action, command = advice(curve, split, part, slowest)
    yield f"{NAMES[part][0].upper()}{NAMES[part][1:]}: {meaning}"
    if part not in split.losses:
        yield (
            "It is not certainly shorter than the whole step: nodes were disturbed more without allreduce than with "
            "it, so the split is not reliable. Measure fewer nodes, or on more cores."
        )
        return
    yield f"Try first: {action} `{shlex.join(command)}`"
    yield (
        f"Possible gain, at most ({WITHOUT[part]}): a step of {milliseconds(split.step_without(part))} ms instead of "
        f"{milliseconds(split.measured)}, efficiency {split.efficiency_without(part).text(_FORM)} instead of "
        f"{split.efficiency.text(_FORM)}."
    )


def _slowest_rank(slowest: LateRank) -> str:
    cores = f"core{'s' * (len(slowest.cores) > 1)} {', '.join(map(str, slowest.cores))}"
    sentence = (
        f"The slowest rank is rank {slowest.rank} on host {slowest.host}, {cores}: {milliseconds(slowest.behind_s)} ms "
        "behind the others."
    )
    if slowest.others_fraction is None or slowest.stolen_fraction is None:
        return sentence
    return (
        f"{sentence} Other processes took {100 * max(0.0, slowest.others_fraction):.0f} % of the time of its cores, "
        f"the hypervisor {100 * slowest.stolen_fraction:.0f} %."
    )


ADVICE = Path(__file__).with_name("advice.toml")  # by case: meaning, action, and the command for it


def advice(curve: CurveTimes, split: Split, part: PartName, slowest: LateRank | None) -> tuple[str, str, list[str]]:
    """Return what a part of the step of a point means, what to try first against it, and the command for that."""
    case: str = part
    if slowest and part == "waiting" and slowest.certain:
        case = "slow rank"
    if slowest and part == "shared" and (slowest.stolen_fraction or 0) > (slowest.others_fraction or 0):
        case = "stolen"
    meaning, action, command = tomllib.loads(ADVICE.read_text())[case].values()
    if slowest:
        action = action.format(host=slowest.host, rank=slowest.rank)
    if part == "exchange" and split.exchange_alone and split.hidden:
        meaning += (
            f" By itself the exchange takes {split.exchange_alone.value * 1e3:.0f} ms; hidden are "
            f"{milliseconds(split.hidden)} ms (below zero: more is exposed, computing and exchange are in each other's "
            "way, as where Horovod's threads share cores with them)."
        )
    data = [f"MODELS={curve.model}"]
    data += ["DEVICE=gpu"] if curve.device == "gpu" else []
    data += [f"DATASET={curve.dataset}"] if curve.dataset != "synthetic" else []
    nodes = f"NODES={split.point.nodes}"
    commands = {
        "larger batch": ["make", curve.target, nodes, *data, f"ARGS=batch_per_rank={2 * split.point.batch_per_rank}"],
        "again": ["make", curve.target, nodes, *data, "FORCE=1"],
        "diagnose": ["make", "diagnose", nodes, *data],
        "input-bench": ["make", "input-bench", *data],
    }
    return meaning, action, commands[command]
