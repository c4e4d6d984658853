"""The diagnosis of one curve as text: the parts of each point, and advice on the largest point."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence

from tabulate import tabulate

from analysis import labels
from analysis.diagnose.advice import advice
from analysis.diagnose.paired_windows import Curve
from analysis.diagnose.split import LOSSES, Part, Split
from analysis.diagnose.verdicts import LargestLoss, SlowestRank
from analysis.stats.number import Number
from analysis.stats.repeats import MIN_VALUES

WIDTH = 110
_FORM = ".3g"

NAMES: dict[Part, str] = {
    "alone": "computing, as one node alone does",
    "slower": "slower computing beside others",
    "shared": "cores shared with other processes",
    "waiting": "waiting for the slowest rank",
    "exchange": "exposed exchange",
    "slower_or_exchange": "slower computing or exchange",
    "input": "input",
    "rest": "barrier after the steps",
}

# Labels of the efficiency that is left if one part took no time.
WITHOUT: dict[Part, str] = {
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


def report(curve: Curve, splits: Sequence[Split], loss: LargestLoss, slowest: SlowestRank | None) -> str:
    """Return the whole diagnosis of a curve: table and sentences."""
    rounds = sum(map(len, splits[-1].launches))
    design = f"{rounds} rounds in {len(curve.launches)}" if curve.in_rounds else f"{rounds} repeats of single"
    launches = f"launch{'es' * (len(curve.launches) > 1 or not curve.in_rounds)}"
    lines = [
        f"== {_title(curve)} on {curve.machine}: {design} {launches}",
        "",
        table(splits),
        "",
        *(textwrap.fill(sentence, WIDTH) for sentence in sentences(curve, splits[-1], loss, slowest)),
    ]
    return "\n".join(lines)


def _title(curve: Curve) -> str:
    return ", ".join(filter(None, (labels.name(curve.model), curve.series)))


def largest_loss_line(curve: Curve, split: Split, loss: LargestLoss) -> str:
    """Return the largest loss of a point, with its share of a step, in a line; "" if none is certain."""
    if loss.part is None:
        return ""
    share = split.share(loss.part).over(0.01).text(".0f")
    return f"{_title(curve)} on {_nodes(split)}: {NAMES[loss.part]}, {share} % of a step"


def table(splits: Sequence[Split]) -> str:
    """Return the parts of the step of each point in ms, with their share; efficiency, and what bounds it."""
    parts = [part for part in NAMES if any(part in split.parts for split in splits)]
    rows = [[NAMES[part], *(_part(split, part) for split in splits)] for part in parts]
    rows.append(["measured step", *(milliseconds(split.measured) for split in splits)])
    rows.append(["efficiency by throughput", *(split.efficiency.text(_FORM) for split in splits)])
    for part in (part for part in parts if part in LOSSES):
        cells = [split.efficiency_without(part).text(_FORM) if part in split.parts else "" for split in splits]
        rows.append([f"efficiency, {WITHOUT[part]}", *cells])
    if any(split.exchange_alone for split in splits):
        rows.append(["exchange by itself", *(_optional(split.exchange_alone) for split in splits)])
        rows.append(["exchange hidden", *(_optional(split.hidden) for split in splits)])
    headers = [f"{_nodes(split)}, batch {split.point.batch_per_rank}" for split in splits]
    return tabulate(rows, headers=["[ms a step]", *headers], disable_numparse=True)


def _nodes(split: Split) -> str:
    return f"{split.point.nodes} node{'s' * (split.point.nodes > 1)}"


def _part(split: Split, part: Part) -> str:
    if part not in split.parts:
        return ""
    return f"{milliseconds(split.part(part))}, {100 * split.share(part).value:.0f} %"


def _optional(value: Number | None) -> str:
    return "" if value is None else milliseconds(value)


def sentences(curve: Curve, split: Split, loss: LargestLoss, slowest: SlowestRank | None) -> Iterator[str]:
    """Yield what the largest point shows, and what to do."""
    nodes = _nodes(split)
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


def _advice(curve: Curve, split: Split, part: Part, slowest: SlowestRank | None) -> Iterator[str]:
    first = advice(curve, split, part, slowest)
    yield f"{NAMES[part][0].upper()}{NAMES[part][1:]}: {first.meaning}"
    yield f"Try first: {first.action} `{shlex.join(first.command)}`"
    yield (
        f"Possible gain, at most ({WITHOUT[part]}): a step of {milliseconds(split.step_without(part))} ms instead of "
        f"{milliseconds(split.measured)}, efficiency {split.efficiency_without(part).text(_FORM)} instead of "
        f"{split.efficiency.text(_FORM)}."
    )


def _slowest_rank(slowest: SlowestRank) -> str:
    """Return which rank is late, and what took its cores."""
    cores = f"core{'s' * (len(slowest.cores) > 1)} {', '.join(map(str, slowest.cores))}"
    sentence = (
        f"The slowest rank is rank {slowest.rank} on host {slowest.host}, {cores}: {milliseconds(slowest.behind)} ms "
        "behind the others."
    )
    if slowest.others_fraction is None or slowest.stolen_fraction is None:
        return sentence
    return (
        f"{sentence} Other processes took {100 * max(0.0, slowest.others_fraction):.0f} % of the time of its cores, "
        f"the hypervisor {100 * slowest.stolen_fraction:.0f} %."
    )
