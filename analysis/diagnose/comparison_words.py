"""The comparison of arms in words: a table of their steps, and why one of them takes longer than the first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tabulate import tabulate

from analysis import labels
from analysis.diagnose.comparison import Compared, Comparison
from analysis.diagnose.split import Part, Split
from analysis.diagnose.turns import Curve
from analysis.diagnose.words import NAMES, WIDTH, milliseconds
from analysis.stats.number import Number
from analysis.stats.repeats import MIN_VALUES

_CELL = 14  # characters of a header


def report(comparison: Comparison) -> str:
    """The whole comparison: table and sentences."""
    curve = comparison.curve
    where = f"{comparison.nodes} nodes, batch {comparison.split.point.batch_per_rank}"
    lines = [
        f"== {labels.name(curve.model)} on {curve.machine}: {where}; {len(comparison.arms)} arms, launched in turn",
        "",
        table(comparison),
        "",
        *(textwrap.fill(sentence, WIDTH) for sentence in sentences(comparison)),
    ]
    return "\n".join(lines)


def table(comparison: Comparison) -> str:
    """A row an arm: the parts of its step and the step in ms, its efficiency; below each its interval."""
    parts: list[Part] = [part for part in NAMES if any(part in split.parts for _, split in comparison.arms)]
    heads = ["[ms a step]", *(textwrap.fill(NAMES[part], _CELL) for part in parts), "measured\nstep", "efficiency"]
    rows = [[curve.arm, *_cells(curve, split, parts)] for curve, split in comparison.arms]
    return tabulate(rows, headers=heads, disable_numparse=True)


def _cells(curve: Curve, split: Split, parts: list[Part]) -> Iterator[str]:
    for part in parts:
        absent = "none" if part == "waiting" and not curve.waits else "not known"
        yield _below(milliseconds(split.part(part))) if part in split.parts else absent
    yield _below(milliseconds(split.measured))
    yield _below(split.efficiency.text(".2f"))


def _below(said: str) -> str:
    """A number with its interval below it."""
    return said.replace(" (", "\n(")


def sentences(comparison: Comparison) -> Iterator[str]:
    """How each arm differs from the first and by which parts; then what the records do not tell."""
    for arm in comparison.others:
        yield _difference(arm, comparison.curve.arm)
    yield from _not_told(comparison)


def _difference(arm: Compared, first: str) -> str:
    if not arm.longer.has_interval:
        return (
            f"{arm.curve.arm}: a step takes {_longer(arm.longer)} than with {first}, on average over {arm.longer.n} "
            f"repeats. Fewer than {MIN_VALUES} repeats give no interval, and so no verdict."
        )
    if not arm.differs:
        return (
            f"{arm.curve.arm}: no difference to {first} is shown: {milliseconds(arm.longer)} ms a step, of "
            f"{milliseconds(arm.split.measured)}."
        )
    said = f"{arm.curve.arm}: a step takes {_longer(arm.longer)} than with {first}"
    parts = [f"{NAMES[part]}, {_longer(arm.parts[part])}" for part in arm.reasons]
    if not parts:
        return f"{said}. No part is surely longer or shorter by itself."
    if len(parts) == 1:
        return f"{said}. Most of it: {parts[0]}."
    return f"{said}. Most of it: {', or '.join(parts)}: these repeats do not tell which."


def _longer(difference: Number) -> str:
    """A difference of times in words, with its interval."""
    if difference.value >= 0:
        return f"{milliseconds(difference)} ms longer"
    return f"{milliseconds(difference.scaled(-1))} ms shorter"


def _not_told(comparison: Comparison) -> Iterator[str]:
    """What the records of the arms do not tell, and where it is instead."""
    arms = comparison.arms
    if untold := [curve.arm for curve, split in arms if "slower_or_exchange" in split.parts]:
        yield (
            f"{', '.join(untold)}: the records do not say when gradients were ready, so slower computing, waiting and "
            "exchange are one part."
        )
    if own := [curve.arm for curve, _ in arms if not curve.synchronous]:
        yield (
            f"{', '.join(own)}: not synchronous SGD. No rank waits for another before the end, which is in "
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
