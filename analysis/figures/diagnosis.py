"""The figure `diagnosis`: the parts of the step of each point, and the efficiency that each part leaves."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import labels
from analysis.diagnose.comparison import ComparedArms, comparisons
from analysis.diagnose.diagnosis_text import NAMES
from analysis.diagnose.paired_windows import CurveTimes
from analysis.diagnose.split import LOSSES, PartName, Split, split_curves
from analysis.figures import WITH_CONTROL, FigureData, FigureKind, plots
from analysis.stats import Number

_SHADES: dict[PartName, str] = {
    "alone": "0.82",
    "slower": plots.ORANGE,
    "shared": plots.PINK,
    "waiting": plots.GREEN,
    "exchange": plots.BLUE,
    "slower_or_exchange": plots.SKY,
    "input": plots.RED,
    "rest": "0.55",
}
_HATCHES: dict[PartName, str] = {
    "slower": "....",
    "shared": "xxxx",
    "waiting": "----",
    "input": 4 * "\\",
    "rest": "////",
}
_MARK_SPACING = 0.2  # between the marks of two parts at one point
_MARKERS: dict[PartName, str] = dict(zip(LOSSES, ("v", "s", "^", "D", "p", "X"), strict=True))


def _diagnosis(points: FigureData) -> Figure:
    by_curve = split_curves(points.local, points.records)
    compared = comparisons(by_curve)
    arms = {id(arm) for comparison in compared for arm, _ in comparison.arms}
    alone = [(curve, at) for curve, at in by_curve if id(curve) not in arms]
    rows = max(1, len(compared) + len(alone))
    fig, panels = plots.canvas(rows, 2, height_mm=32 + 44 * rows + 20 * len(compared))  # room for the names of arms
    pairs = list(zip(panels[::2], panels[1::2], strict=True))
    if not by_curve:
        plots.write(panels[0], 0.5, 0.5, "nothing that can be split", ha="center")
    for axes, comparison in zip(pairs, compared, strict=False):
        _arms(axes, comparison)
    for nth, (axes, (curve, at)) in enumerate(zip(pairs[len(compared) :], alone, strict=False), 1):
        _points(axes, curve, at, "nodes" if nth == len(alone) else "")
    shown = [number for _, at in by_curve for split in at for number in (split.measured, split.efficiency)]
    return plots.legend(fig, _note(points.local, shown), columns=2)


Pair = tuple["Axes", "Axes"]


def _points(axes: Pair, curve: CurveTimes, points: list[Split], label: str) -> None:
    _stack(axes[0], points)
    _bounds(axes[1], points)
    axes[0].set_title(_title(curve, points[-1]), loc="left")
    for panel in axes:
        _ticks(panel, [str(split.point.nodes) for split in points])
        panel.set_xlabel(label)


def _arms(axes: Pair, compared: ComparedArms) -> None:
    """Draw the arms on one number of nodes, and by how much each takes longer than the base."""
    _stack(axes[0], [split for _, split in compared.arms])
    names, (base, split) = [_name(curve) for curve, _ in compared.arms], compared.arms[0]
    _ticks(axes[0], names)
    repeats = sum(map(len, split.launches))
    axes[0].set_title(f"{labels.name(base.model)}, {compared.nodes} nodes, {repeats} repeats", loc="left")
    _longer(axes[1], compared)
    _ticks(axes[1], names[1:])
    for panel in axes:
        if len(compared.arms) > 2:
            panel.tick_params(axis="x", labelrotation=90)
            for label in panel.get_xticklabels():
                label.set_multialignment("right")  # up, as it is rotated: each line begins at the axis


def _name(curve: CurveTimes) -> str:
    """Return the name of an arm, marked if it is asynchronous."""
    if curve.synchronous:
        return curve.arm
    return f"{curve.arm} (asynchronous,\n{curve.servers})" if curve.servers else f"{curve.arm}\n(asynchronous)"


def _ticks(axes: Axes, names: Sequence[str]) -> None:
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.grid(False, axis="x")


def _title(curve: CurveTimes, largest: Split) -> str:
    count = sum(len(steps) for steps in largest.launches)
    parts = [labels.name(curve.model), f"{count} {'rounds' if curve.in_rounds else 'repeats'}", curve.series]
    return textwrap.fill(", ".join(part for part in parts if part), 60)


def _note(local: pd.DataFrame, shown: Sequence[Number]) -> str:
    variations = sorted({number.variation for number in shown} - {""})
    bars = [f"bars: 95 % interval {' or '.join(variations)}"] if variations else []
    return "\n".join(["local: " + "; ".join(local["machine"].unique()), *bars])


def _stack(axes: Axes, points: list[Split]) -> None:
    """Draw the parts of each point in ms; a part whose mean is below zero is drawn from zero down."""
    up, down = np.zeros(len(points)), np.zeros(len(points))
    for part, shade in _SHADES.items():
        if not any(part in split.parts for split in points):
            continue
        heights = np.array([split.part(part).value * 1e3 if part in split.parts else 0.0 for split in points])
        style: dict[str, Any] = {"color": shade, "edgecolor": "white", "linewidth": 0.3, "hatch": _HATCHES.get(part)}
        axes.bar(range(len(points)), heights, 0.7, np.where(heights < 0, down, up), label=NAMES[part], **style)
        up, down = up + np.maximum(heights, 0), down + np.minimum(heights, 0)
    measured = list(enumerate(split.measured for split in points))
    _intervals(axes, measured, 1e3, fmt="none", ecolor=plots.BLACK, elinewidth=1)
    axes.axhline(0, color=plots.BLACK, linewidth=0.5)
    axes.set_ylabel("time of a step [ms]")


def _bounds(axes: Axes, points: list[Split]) -> None:
    """Draw the efficiency of each point, and that without each of its parts."""
    parts = [{part: split.efficiency_without(part) for part in split.losses} for split in points]
    _marks(axes, parts, [split.efficiency.value for split in points], "efficiency as measured")
    axes.axhline(1, color=plots.GREY, linestyle=":")
    axes.set_ylim(0, max(1.15, axes.get_ylim()[1]))
    axes.set_ylabel("efficiency without a part")


def _longer(axes: Axes, compared: ComparedArms) -> None:
    """Draw by how many ms a step of each arm is longer than one of the base, in all and part by part."""
    parts = [{part: number.over(1e-3) for part, number in arm.parts_longer_s.items()} for arm in compared.others]
    _marks(axes, parts, [arm.longer_s.value * 1e3 for arm in compared.others], "whole step (right)")
    axes.axhline(0, color=plots.GREY, linestyle=":")
    axes.set_ylabel(f"longer than\n{compared.arms[0][0].arm} [ms]")


def _marks(axes: Axes, points: Sequence[Mapping[PartName, Number]], wholes: Sequence[float], label: str) -> None:
    """Draw the losses of each point on the x axis side by side, with their intervals, and a bar at the whole."""
    parts = [part for part in LOSSES if any(part in numbers for numbers in points)]
    for nth, part in enumerate(parts, 1):
        offset = _MARK_SPACING * (nth - (len(parts) + 1) / 2)
        at = [(x + offset, numbers[part]) for x, numbers in enumerate(points) if part in numbers]
        _intervals(axes, at, fmt=_MARKERS[part], color=_SHADES[part], markersize=3.5, elinewidth=0.8)
    for x, whole in enumerate(wholes):
        axes.plot([x - 0.42, x + 0.42], [whole] * 2, color=plots.BLACK, linewidth=1.2)
    axes.plot([], [], color=plots.BLACK, linewidth=1.2, label=label)


def _intervals(axes: Axes, numbers: Sequence[tuple[float, Number]], scale: float = 1.0, **style: Any) -> None:
    x, values = [x for x, _ in numbers], [number.value * scale for _, number in numbers]
    ends = [(scale * (number.value - number.low), scale * (number.high - number.value)) for _, number in numbers]
    axes.errorbar(x, values, np.transpose(ends), **style)


DIAGNOSIS = FigureKind("diagnosis", "diagnosis", _diagnosis, WITH_CONTROL, reads_records=True)
