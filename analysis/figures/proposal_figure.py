"""The figure of a proposal: throughput, speedup and efficiency of weak and strong scaling."""

from collections.abc import Iterator, Sequence
from typing import get_args

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import plots
from analysis.figures.plots import MM, DrawnLine
from analysis.proposal import Proposal, ScalingKind, SupportedCurve

_WIDTH_MM, _PANELS_MM = 174, 52
_QUANTITIES = ("rate", "speedup", "efficiency")


def draw(content: Proposal) -> Figure:
    """Return the figure: a row of three panels for weak and one for strong scaling, of each unit."""
    groups = [
        [curve for curve in content.curves_in(kind) if curve.unit == unit]
        for kind in get_args(ScalingKind)
        for unit in dict.fromkeys(curve.unit for curve in content.curves_in(kind))
    ]
    size = (_WIDTH_MM * MM, (8 + _PANELS_MM * len(groups)) * MM)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(groups), 3, squeeze=False)
    for curves, axes in zip(groups, panels, strict=True):
        _panels(list(axes), curves, content.plan.threshold)
    return plots.legend(figure)


def _panels(panels: Sequence[Axes], curves: Sequence[SupportedCurve], threshold: float) -> None:
    kind, unit = curves[0].kind, curves[0].unit
    nodes = sorted({row.nodes for curve in curves for row in curve.rows})
    for axes, quantity in zip(panels, _QUANTITIES, strict=True):
        lines = [line for curve in curves for line in _lines(curve, quantity, _number(curve, curves))]
        plots.draw(axes, lines, apart=quantity == "efficiency")
        if any(row.predicted for curve in curves for row in curve.rows):
            axes.plot([], [], ":", color=plots.GREY, marker="o", mfc="white", label="predicted")
        plots.doubling(axes, nodes, "nodes")
    first = min(nodes)
    for curve in curves:
        ends = [first, nodes[-1]]
        ideal = [curve.rows[0].rate.value * n / first for n in ends]
        panels[0].plot(ends, ideal, ":", color=plots.colour(curve.model), lw=0.7)
    plots.logarithmic(panels[0], f"{kind} scaling: {unit}")
    plots.ideal(panels[1], nodes)
    plots.logarithmic(panels[1], "speedup", base=2)
    plots.fraction(panels[2], "efficiency")
    label = f"threshold {100 * threshold:g} %"
    panels[2].axhline(threshold, color="black", linestyle="--", lw=0.8, label=label)


def _number(curve: SupportedCurve, curves: Sequence[SupportedCurve]) -> int:
    """Return the number of a curve among those of its model."""
    return [other.name for other in curves if other.model == curve.model].index(curve.name)


def _lines(curve: SupportedCurve, quantity: str, number: int) -> Iterator[DrawnLine]:
    """Yield the measured sizes as a line, and predicted ones hollow and dotted; invalid sizes are hollow, too."""
    predicted = [row for row in curve.rows if row.predicted]
    parts = ((curve.name, curve.measured, "-"), ("", predicted, ":"))
    for label, rows, style in (part for part in parts if part[1]):
        hollow = [row.predicted or not row.valid for row in rows]
        line = DrawnLine(label, [], [], plots.colour(curve.model), plots.local_marker(curve.model, number), style)
        yield plots.through(line, {row.nodes: getattr(row, quantity) for row in rows}, shared=hollow)
