"""The figure `diagnosis`: the parts of the step of each point, and the efficiency that each part leaves."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import plots
from analysis.diagnose.split import LOSSES, Part, Split, splits
from analysis.diagnose.turns import Curve, curves
from analysis.diagnose.words import NAMES
from analysis.figures import Points

_SHADES: dict[Part, str] = {
    "alone": "0.82",
    "slower": plots.ORANGE,
    "shared": plots.PINK,
    "waiting": plots.GREEN,
    "exchange": plots.BLUE,
    "slower_or_exchange": plots.SKY,
    "input": plots.RED,
    "rest": "0.55",
}
_BESIDE = 0.2  # between the marks of two parts at one point
_MARKERS: dict[Part, str] = dict(zip(LOSSES, ("v", "s", "^", "D", "p", "X"), strict=True))


def diagnosis(points: Points) -> Figure:
    """Where the time of a step goes: its parts, stacked (left), and the efficiency if one part took no time (right).

    A panel a model, a bar a number of nodes; the parts are means over the ranks and the rounds, and add up to the
    measured step. Grey is what one node needs alone. Right: black, the efficiency by throughput; each mark is the
    bound that is left if that part alone were gone, with its 95 % interval. docs/diagnose.md says how each is measured.
    """
    found = [(curve, of) for curve in curves(points.local) if (of := splits(curve))]
    rows = max(1, len(found))
    fig, panels = plots.canvas(rows, 2, height_mm=32 + 44 * rows)
    if not found:
        plots.write(panels[0], 0.5, 0.5, "no rounds that can be split", ha="center")
    for nth, (curve, of) in enumerate(found):
        _stack(panels[2 * nth], of)
        _bounds(panels[2 * nth + 1], of)
        panels[2 * nth].set_title(_title(curve, of), loc="left")
        for axes in panels[2 * nth : 2 * nth + 2]:
            axes.set_xticks(range(len(of)), [str(split.point.nodes) for split in of])
            axes.set_xlim(-0.6, len(of) - 0.4)
            axes.grid(False, axis="x")
            axes.set_xlabel("nodes" if nth == len(found) - 1 else "")
    return plots.legend(fig, _note(points.local), columns=2)


def _title(curve: Curve, of: list[Split]) -> str:
    turns = sum(len(steps) for steps in of[-1].launches)
    words = [plots.name(curve.model), f"{turns} {'rounds' if curve.in_rounds else 'repeats'}", curve.series]
    return textwrap.fill(", ".join(word for word in words if word), 60)


def _note(local: pd.DataFrame) -> str:
    said = "local: " + "; ".join(local["machine"].unique()) + "\nbars: 95 % interval over rounds of these launches"
    return "\n".join("\n".join(textwrap.wrap(line, 78)) for line in said.splitlines())


def _stack(axes: Axes, of: list[Split]) -> None:
    """The parts of each point in ms; a part whose mean is below zero is drawn from zero down."""
    up, down = np.zeros(len(of)), np.zeros(len(of))
    for part, shade in _SHADES.items():
        if not any(part in split.parts for split in of):
            continue
        heights = np.array([split.part(part).value * 1e3 if part in split.parts else 0.0 for split in of])
        axes.bar(range(len(of)), heights, 0.7, np.where(heights < 0, down, up), color=shade, label=NAMES[part])
        up, down = up + np.maximum(heights, 0), down + np.minimum(heights, 0)
    measured = [split.measured for split in of]
    ends = [[(m.value - m.low) * 1e3 for m in measured], [(m.high - m.value) * 1e3 for m in measured]]
    axes.errorbar(range(len(of)), [m.value * 1e3 for m in measured], ends, fmt="none", ecolor=plots.BLACK, elinewidth=1)
    axes.axhline(0, color=plots.BLACK, linewidth=0.5)
    axes.set_ylabel("time of a step [ms]")


def _bounds(axes: Axes, of: list[Split]) -> None:
    """The efficiency of each point, and that without each of its parts."""
    shown = [part for part in LOSSES if any(part in split.parts for split in of)]
    for nth, part in enumerate(shown, 1):
        at = [(x + _BESIDE * (nth - (len(shown) + 1) / 2), split.without(part)) for x, split in enumerate(of)
              if part in split.parts]  # fmt: skip
        ends = [[e.value - e.low for _, e in at], [e.high - e.value for _, e in at]]
        axes.errorbar(
            [x for x, _ in at], [e.value for _, e in at], ends, fmt=_MARKERS[part], color=_SHADES[part], markersize=3.5,
            elinewidth=0.8,
        )  # fmt: skip
    for x, split in enumerate(of):
        axes.plot([x - 0.42, x + 0.42], [split.efficiency.value] * 2, color=plots.BLACK, linewidth=1.2)
    axes.plot([], [], color=plots.BLACK, linewidth=1.2, label="efficiency as measured")
    axes.axhline(1, color=plots.GREY, linestyle=":")
    axes.set_ylim(0, max(1.15, axes.get_ylim()[1]))
    axes.set_ylabel("efficiency without a part")
