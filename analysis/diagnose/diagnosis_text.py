"""The diagnosis of one curve, as a document and as text: the parts of each point, and what to try first."""

import math
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd

from analysis import labels
from analysis.diagnose.paired_windows import CurveTimes
from analysis.diagnose.split import LOSSES, LargestLoss, LateRank, PartName, Split, largest_loss, slowest_rank
from analysis.documents import Document, NumberField, about, filled
from analysis.stats import Number, from_ends
from analysis.stats.repeats import MIN_ROUNDS
from common.terminal import counted, paragraph, text_table
from common.typed_commands import changed

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
    candidates: Annotated[Sequence[PartName], about("losses that may be the largest, by their means")]
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
    """Return a line for each curve with the largest loss of its largest point, or the one that is so by its mean."""
    lines = []
    for curve, (*_, split) in split_curves:
        loss = largest_loss(split)
        if split.too_long:
            line = f"not known: {NAMES[split.too_long[0]]} would be longer than the step"
        elif loss.candidates:
            first = loss.candidates[0]
            line = f"{'' if loss.part else 'not decided; by its mean '}{NAMES[first]}, {_share(split, first)} of a step"
        else:
            continue
        lines.append(f"{_title(curve)} on {counted(split.point.nodes, 'node')}: {line}")
    return lines


def _share(split: Split, part: PartName) -> str:
    """Return a part as a share of the step; no share is above all of it."""
    share = split.share(part).over(0.01)
    most = from_ends(share.value, share.low, min(share.high, 100.0), share.variation) if share.has_interval else share
    return f"{most.text('.0f')} %"


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
    share = point.parts_s[part].value / point.measured_s.value
    percent = f", {100 * share:.0f} %" if 0 <= share <= 1 else ""
    return f"{milliseconds(point.parts_s[part])}{percent}"


def _optional(value: Number | None) -> str:
    return "" if value is None else milliseconds(value)


def sentences(curve: CurveTimes, split: Split, loss: LargestLoss, slowest: LateRank | None) -> Iterator[str]:
    """Yield sentences on the largest point, and on what to do."""
    nodes, names = counted(split.point.nodes, "node"), [NAMES[part] for part in loss.candidates]
    if split.too_long:
        yield (
            f"On {nodes} no loss is named: {' and '.join(NAMES[part] for part in split.too_long)} would take longer "
            "than the whole step. Its arms did not run under the same conditions, so the split is not reliable. "
            "Measure fewer nodes, or on more cores."
        )
    elif loss.part:
        yield f"On {nodes} the largest loss is {names[0]}: {_of_step(split, loss.part)}."
    elif loss.candidates:
        yield f"On {nodes} {_lost(split)}"
        if split.part(loss.candidates[0]).value > 0:
            yield " ".join(_undecided(curve, split, loss))
    if split.efficiency.no_interval:
        yield f"The efficiency has no interval: {split.efficiency.no_interval}."
    yield from _negative(split)
    for part in loss.above_zero:
        yield from _advice(curve, split, part, slowest)
    if slowest and slowest.certain and "waiting" in split.parts:
        yield _slowest_rank(slowest)


def _of_step(split: Split, part: PartName) -> str:
    return f"{milliseconds(split.part(part))} ms of a step of {milliseconds(split.measured)} ms"


def _lost(split: Split) -> str:
    """Return whether time is lost at all, by the efficiency."""
    efficiency, text = split.efficiency, split.efficiency.text(_FORM)
    if not efficiency.has_interval:
        why = "" if efficiency.no_interval else ", from too few rounds or repeats"
        return f"it is not known whether time is lost: efficiency {text}{why}."
    if efficiency.high < 1:
        return f"a loss is certain: efficiency {text}."
    most = 100 * max(0.0, 1 - efficiency.low)
    return (
        f"it is not decided whether time is lost: efficiency {text}, so all losses take at most {most:.0f} % of a step."
    )


def _undecided(curve: CurveTimes, split: Split, loss: LargestLoss) -> Iterator[str]:
    """Yield what the largest loss may be, and how to measure more."""
    first, *others = loss.candidates
    yield (
        f"{counted(split.measured.n, 'repeat' if split.single else 'round')} cannot show which part is the largest. By "
        f"its mean: {NAMES[first]}, {_of_step(split, first)}."
    )
    if not split.measured.has_interval:
        yield "So few have no interval."
    elif others:
        yield f"Not significantly smaller: {', '.join(NAMES[part] for part in others)}."
    elif not loss.enough:
        yield f"It is named from {MIN_ROUNDS} rounds on: a rare disturbance may be in none of fewer."
    if not loss.launches:
        yield "Ten times as many launches would hardly show which."
        return
    more = loss.launches - (split.measured.n if split.single else len(split.launches))
    # One launch more is the time of those of single points. The budget of a command has the earlier launches too.
    minutes, budget_min = (math.ceil((launches + 1) * curve.launch_s / 60) for launches in (more, loss.launches))
    variables = {"NODES": str(split.point.nodes), "REPEATS": str(loss.launches)}
    command = changed(curve.command, variables, {} if split.single else {"measure.budget_s": str(60 * budget_min)})
    yield f"If the means stay, about {counted(minutes, 'more minute')} would: `{shlex.join(command)}`"


def _negative(split: Split) -> Iterator[str]:
    """Yield what a part below zero says of the others: they add up to the step."""
    for part in split.negative:
        yield (
            f"{NAMES[part][0].upper()}{NAMES[part][1:]} is below zero beyond its noise, "
            f"{milliseconds(split.part(part))} ms: the other parts are too long by as much together."
        )


def _advice(curve: CurveTimes, split: Split, part: PartName, slowest: LateRank | None) -> Iterator[str]:
    meaning, action, command = advice(curve, split, part, slowest)
    yield f"{NAMES[part][0].upper()}{NAMES[part][1:]}: {meaning}"
    yield f"Try first: {action} `{shlex.join(command)}`"
    if part not in split.losses:
        yield "What that could gain is not known: these rounds do not show that this part is shorter than the step."
        return
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
    return meaning, action, _command(command, curve, split)


def _command(name: str, curve: CurveTimes, split: Split) -> list[str]:
    """Return a command that the advice names: that which measured the curve, with other values."""
    if name == "input-bench":
        arguments = [word for word in curve.command if word.startswith(("DEVICE=", "MODELS=", "DATASET=", "DATA_DIR="))]
        return ["make", "input-bench", *arguments]
    nodes = {"NODES": str(split.point.nodes)}
    if name == "again":
        return [*changed(curve.command, nodes), "FORCE=1"]
    # All controls are of `make diagnose`; arms are compared with each other by their own target.
    make, target, *words = curve.command
    more = {"batch_per_rank": str(2 * split.point.batch_per_rank)} if name == "larger batch" else {}
    variables = {**nodes, "REPEATS": "", "GLOBAL_BATCH": ""}
    return changed([make, target if curve.arm and more else "diagnose", *words], variables, more)
