"""The arms of an experiment on equally many nodes: the parts by which steps of an arm are longer than the base's.

Launches of one repeat belong together: a difference is taken within a repeat, so that the machine's drift cancels.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import pandas as pd

from analysis import labels
from analysis.diagnose.diagnosis_text import NAMES, milliseconds, page
from analysis.diagnose.paired_windows import CurveTimes
from analysis.diagnose.split import PARTS, PairedStep, PartName, Split
from analysis.documents import Document, NumberField, about, filled
from analysis.stats import Number
from analysis.stats.repeats import MIN_VALUES
from analysis.stats.verdict import is_above
from common.terminal import text_table

# Parts that are merged if one of two arms does not separate them.
_MERGED: tuple[PartName, ...] = ("slower", "shared", "waiting", "exchange", "slower_or_exchange")
_HEADER_CHARACTERS = 14

SplitCurve = tuple[CurveTimes, Split]


class ArmDifference(Document):
    """How the steps of one arm differ from those of the base."""

    arm: str
    longer_s: Annotated[NumberField, about("step of the arm less that of the base in the same repeat")]
    parts_longer_s: Annotated[Mapping[PartName, NumberField], about("by part; they add up")]
    differs: Annotated[bool, about("whether the interval of `longer_s` excludes zero")]
    reasons: Annotated[Sequence[PartName], about("parts that may be the largest, if one of them is significant")]


class ArmComparison(Document):
    """The arms of one model on as many nodes."""

    model: str
    machine: str
    nodes: Annotated[int, about("of all arms; their parts are in `curves`")]
    base: Annotated[str, about("the arm that the others are compared with")]
    others: Annotated[Sequence[ArmDifference], about("in the order of their names")]
    sentences: Annotated[Sequence[str], about("in words, with what the records do not show")]


@dataclass(frozen=True, eq=False)
class ComparedArms:
    """The arms of one model on so many nodes: the base, then the others in the order of their names."""

    nodes: int
    arms: Sequence[SplitCurve]
    others: Sequence[ArmDifference]  # how each of the others differs from the base


def comparisons(curves: Sequence[tuple[CurveTimes, Sequence[Split]]]) -> list[ComparedArms]:
    """Return the arms that can be compared, by model and nodes: those of launches that belong together."""
    groups: dict[tuple[str, str, int], list[SplitCurve]] = {}
    for curve, splits in curves:
        fewest = min(split.point.nodes for split in splits)
        for split in splits if curve.arm else ():
            if split.point.nodes > fewest:
                groups.setdefault((curve.model, curve.arms, split.point.nodes), []).append((curve, split))
    in_order = {key: sorted(arms, key=lambda arm: (not arm[0].is_base, arm[0].arm)) for key, arms in groups.items()}
    result = []
    for (_, _, nodes), (base, *others) in in_order.items():
        longer = [(arm, _longer_steps(base[1], arm[1])) for arm in others if base[0].is_base]
        compared = [(arm, _difference(arm[0].arm, replace(arm[1], launches=[steps]))) for arm, steps in longer if steps]
        if compared:
            arms = [base, *(arm for arm, _ in compared)]
            result.append(ComparedArms(nodes, arms, [difference for _, difference in compared]))
    return result


def _longer_steps(base: Split, split: Split) -> list[PairedStep]:
    """Return by how much the step of an arm and its parts are longer than the base's, in each repeat that has both.

    A part that an arm does not have takes no time. If only one of both arms separates slower computing, waiting and
    exchange, they are merged.
    """
    by_repeat = {step.repeat: step for steps in base.launches for step in steps}
    pairs = [(by_repeat[step.repeat], step) for steps in split.launches for step in steps if step.repeat in by_repeat]
    present = {part for pair in pairs for step in pair for part in step.parts_s}
    merges = "slower_or_exchange" in present
    parts = present - {*_MERGED} | {"slower_or_exchange"} if merges else present

    def seconds(step: PairedStep, part: PartName) -> float:
        return sum(step.parts_s.get(name, 0.0) for name in (_MERGED if merges and part in _MERGED else (part,)))

    return [
        PairedStep(step.measured_s - first.measured_s, 0.0, 0.0,
             {part: seconds(step, part) - seconds(first, part) for part in PARTS if part in parts}, repeat=step.repeat)
        for first, step in pairs
    ]  # fmt: skip


def _difference(arm: str, longer: Split) -> ArmDifference:
    """Return how the steps of an arm differ from those of the base. longer: its steps less those of the base."""
    whole, parts = longer.measured, {part: longer.part(part) for part in longer.parts}
    sign = -1 if is_above(whole.scaled(-1)) else 1
    differs, reasons = is_above(whole.scaled(sign)), list[PartName]()
    if differs:
        largest, *others = sorted(parts, key=lambda part: -sign * parts[part].value)
        rivals = [part for part in others if not is_above(longer.difference(largest, part).scaled(sign))]
        reasons = [largest, *rivals]
        reasons = reasons if any(is_above(parts[part].scaled(sign)) for part in reasons) else []
    return ArmDifference(arm=arm, longer_s=whole, parts_longer_s=parts, differs=differs, reasons=reasons)


def answer(comparison: ComparedArms) -> ArmComparison:
    """Return a comparison: by how much each arm is longer than the base, and the sentences."""
    base, _ = comparison.arms[0]
    return filled(ArmComparison, comparison, model=base.model, machine=base.machine, base=base.arm,
                  sentences=list(sentences(comparison)))  # fmt: skip


def report(comparison: ComparedArms) -> str:
    """Return the whole comparison as text: table and sentences."""
    curve, split = comparison.arms[0]
    point = f"{comparison.nodes} nodes, batch {split.point.batch_per_rank}"
    title = f"{labels.name(curve.model)} on {curve.machine}: {point}; {len(comparison.arms)} arms, launched in turn"
    return page(title, table(comparison), sentences(comparison))


def table(comparison: ComparedArms) -> str:
    """Return a row an arm: the parts of its step and the step in ms, its efficiency; below each its interval."""
    parts: list[PartName] = [part for part in NAMES if any(part in split.parts for _, split in comparison.arms)]
    names = [textwrap.fill(NAMES[part], _HEADER_CHARACTERS) for part in parts]
    rows = [[curve.arm, *_cells(curve, split, parts)] for curve, split in comparison.arms]
    headers = ["[ms a step]", *names, "measured\nstep", "efficiency"]
    return text_table(pd.DataFrame(rows, columns=headers))


def _cells(curve: CurveTimes, split: Split, parts: list[PartName]) -> Iterator[str]:
    absent = {part: "none" if part == "waiting" and not curve.waits else "not known" for part in parts}
    numbers = [milliseconds(split.part(part)) if part in split.parts else absent[part] for part in parts]
    numbers += [milliseconds(split.measured), split.efficiency.text(".2f")]
    yield from (number.replace(" (", "\n(") for number in numbers)  # the interval below it


def sentences(comparison: ComparedArms) -> Iterator[str]:
    """Yield how each arm differs from the base and by which parts; then what the records do not show."""
    (base, _), *others = comparison.arms
    for (_, split), arm in zip(others, comparison.others, strict=True):
        yield _sentence(arm, split, base.arm)
    yield from _notes(comparison)


def _sentence(arm: ArmDifference, split: Split, base: str) -> str:
    if not arm.longer_s.has_interval:
        return (
            f"{arm.arm}: a step takes {_longer(arm.longer_s)} than with {base}, on average over {arm.longer_s.n} "
            f"repeats. Fewer than {MIN_VALUES} repeats give no interval, and so no verdict."
        )
    if not arm.differs:
        return (
            f"{arm.arm}: not decided whether a step is longer or shorter than with {base}: "
            f"{milliseconds(arm.longer_s)} ms, of {milliseconds(split.measured)}."
        )
    sentence = f"{arm.arm}: a step takes {_longer(arm.longer_s)} than with {base}"
    parts = [f"{NAMES[part]}, {_longer(arm.parts_longer_s[part])}" for part in arm.reasons]
    if not parts:
        return f"{sentence}. No single part is significantly longer or shorter."
    if len(parts) == 1:
        return f"{sentence}. Most of it: {parts[0]}."
    return f"{sentence}. Most of it: {', or '.join(parts)}: these repeats do not show which."


def _longer(difference: Number) -> str:
    if difference.value >= 0:
        return f"{milliseconds(difference)} ms longer"
    return f"{milliseconds(difference.scaled(-1))} ms shorter"


def _notes(comparison: ComparedArms) -> Iterator[str]:
    """Yield the losses that the records of the arms do not separate, and the part that contains each."""
    arms = comparison.arms
    if merged := [curve.arm for curve, split in arms if "slower_or_exchange" in split.parts]:
        yield (
            f"{', '.join(merged)}: the records do not have the time at which gradients were ready, so slower "
            "computing, waiting and exchange are one part."
        )
    if asynchronous := [curve.arm for curve, _ in arms if not curve.synchronous]:
        yield (
            f"{', '.join(asynchronous)}: not synchronous SGD. No rank waits for another before the end, which is in "
            f"{NAMES['rest']}. Reading the variables is in slower computing where ranks read them as they compute."
        )
    for curve, _ in arms:
        if curve.servers:
            yield f"{curve.arm}: {curve.servers}. Its ranks have as many cores as those of the other arms."
    if overlapped := [curve.arm for curve, split in arms if not curve.flat and "slower" in split.parts]:
        yield (
            f"{', '.join(overlapped)}: the exchange of some gradients may begin while others are still computed. What "
            "of that slows computing down is in slower computing."
        )
    if not any("shared" in split.parts for _, split in arms):
        yield (
            "No arm without allreduce was measured: what other processes took of the cores is in slower computing and "
            "in waiting. Nor was the exchange by itself, so what of it is hidden is not known."
        )
