"""Scaling: throughput, efficiency and phases over the nodes, or over the ranks of a node."""

import textwrap
from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import limits, plots, speedups
from analysis.figures import Points
from analysis.plots import Line
from analysis.table import controls

# In the order of a job. Phases of a second or less in most jobs share a colour with their neighbours.
_PHASES = {
    "start, import": (("start", "import"), "0.82"),
    "init": (("init",), plots.PINK),
    "data, build": (("data", "build"), plots.ORANGE),
    "broadcast": (("broadcast",), plots.GREEN),
    "first step": (("first_step",), plots.RED),
    "warm-up": (("warm_up",), plots.SKY),
    "timed": (("timed",), plots.BLUE),
    "evaluate, checkpoint, exit": (("evaluate", "checkpoint", "exit"), "0.55"),
}


_BESIDE = 1.05  # so far right of the point that it is compared with, on a logarithmic axis, is a control drawn


def _over(local: pd.DataFrame) -> str:
    """The column of the x axis: that of the swept key."""
    return str(local["axis"].iloc[0]) if len(local) else "nodes"


def _words(over: str) -> str:
    return over.replace("_", " ")


def _apart(lines: list[Line], local: pd.DataFrame) -> list[Line]:
    """The lines; those of arms, of which many have a point at the same x, side by side."""
    return plots.side_by_side(lines) if local["arm"].nunique() > 1 else lines


def throughput(points: Points) -> Figure:
    """Throughput of the timed steps; dotted: the ideal from each point on the fewest nodes, or ranks. Both axes double.

    Faint dots are the single rounds, or launches. Lines without markers: the limits of compute and of the links. Arms
    on as many nodes stand side by side.
    """
    fig, (axes,) = plots.canvas(height_mm=80)
    over = _over(points.local)
    lines = plots.local_lines(points.local, over=over)
    first = min((line.x[0] for line in lines), default=0)
    sizes = sorted({x for line in lines for x in line.x})
    for line in (
        line for line in lines if line.x[0] == first
    ):  # an arm that is there alone has the ideal of the others
        axes.plot(sizes, [line.y[0] * x / first for x in sizes], ":", color=line.colour, linewidth=0.7)
    plots.draw(axes, _apart(lines, points.local))
    axes.plot([], [], ":", color=plots.GREY, label="ideal")
    plots.doubling(axes, points.local[over], _words(over))
    plots.logarithmic(axes, "throughput [images/s]")
    limits.draw(axes, points.local, over)
    return plots.legend(fig, plots.provenance(points.local))


def efficiency(points: Points) -> Figure:
    """Efficiency by throughput of the timed steps (top) and, where it is known, by wall time.

    Both are shares of the ideal against the smallest point; of a curve in rounds by throughput the median over its
    rounds. Faint dots are the single rounds, or launches. Crosses: the same ranks without allreduce, in the same
    rounds; what they lack is contention, the rest is exchange. The wall time runs from the broadcast to the last timed
    step of launches of single points: the cost that each run pays once counts too. Where nodes are emulated, their
    control is below: the throughput of a node among others, without allreduce, over that of one alone; the band is what
    the configuration allows.
    """
    local = points.local[points.local["kind"].eq("measured")]
    over = _over(local)
    emulated = bool(local["control_off"].notna().any())
    timed = bool(local["quantity"].eq("wall_s").any())
    count = 1 + timed + emulated
    fig, panels = plots.canvas(count, 1, height_mm=44 + 32 * count, sharex=True)
    plots.draw(panels[0], _apart(plots.local_lines(local, "throughput", "efficiency", over), local))
    if not emulated:
        _without_allreduce(panels[0], points.local, over)
    plots.fraction(panels[0], "efficiency by throughput")
    if timed:
        _by_wall_time(panels[1], local, over)
    if emulated:
        _control(panels[-1], local, over)
    for axes in panels:
        plots.doubling(axes, local[over], _words(over) if axes is panels[-1] else "")
    return plots.legend(fig, plots.provenance(local))


def _by_wall_time(axes: Axes, local: pd.DataFrame, over: str) -> None:
    """The efficiencies by wall time. They have no label: theirs would say how often the throughput was measured."""
    lines = _apart(plots.local_lines(local, "wall time", "efficiency", over), local)
    plots.draw(axes, (replace(line, label="") for line in lines))
    launches = local[local["quantity"].eq("wall_s")].groupby(["series", over])["record"].nunique()
    plots.fraction(axes, f"efficiency by wall time\n({plots.repeats(launches)})")


def _without_allreduce(axes: Axes, local: pd.DataFrame, over: str) -> None:
    """The efficiencies of the controls of curves in rounds, with their intervals."""
    runs = speedups.rates(local)
    runs = runs[runs["round"].notna()]
    controls_of = runs[runs["kind"].eq("control")].groupby(["model", "series"], sort=False)
    for nth, ((model, _), rows) in enumerate(controls_of, 1):
        curve = speedups.curve(rows, over, speedups.base_of(rows, runs))
        y, low, high = (curve[f"efficiency{end}"].tolist() for end in ("", "_low", "_high"))
        colour = plots.colour(model)
        beside = (curve["size"] * _BESIDE**nth).tolist()
        plots.draw(axes, [Line("", beside, y, colour, "x", "-", low, high, joined=False)])
    if runs["kind"].eq("control").any():
        axes.plot([], [], "x", color=plots.GREY, label="without allreduce")


def _control(axes: Axes, local: pd.DataFrame, over: str) -> None:
    """The throughput of a node among others over that of one alone, both without allreduce, and the band allowed."""
    bound = local["flat_within_fraction"].max()
    axes.axhspan(1 - bound, 1 + bound, color="0.9", label=f"allowed for the control: {bound:.0%}")
    lines = []
    for (model, _), rows in local.groupby(["model", "series"], sort=False):
        measured = rows[rows["control_nodes"].eq(rows["nodes"])]
        at = 1 + measured.groupby(over)["control_off"].first().dropna()
        look = (plots.colour(model), plots.MARKERS[0], "-")
        lines.append(plots.Line("", at.index.tolist(), at.tolist(), *look, joined=False))  # there may be two, far apart
    plots.draw(axes, lines)
    axes.set_ylim(min(0.7, axes.get_ylim()[0]), max(1.3, axes.get_ylim()[1]))
    axes.set_ylabel("control / one node")


def phases(points: Points) -> Figure:
    """Where the time of the job went, phase by phase: mean over repeats, of the rank with the longest wall time.

    The wall time of `efficiency by wall time` runs from broadcast to timed.
    """
    over = _over(points.local)
    local = points.local[points.local["quantity"].str.startswith("phase_") | points.local["quantity"].eq("job_s")]
    local = local.assign(name=local["model"].map(plots.name))
    curves = list(local.groupby(["name", "series"], sort=False))
    rows_of_panels = (len(curves) + 2) // 3
    fig, panels = plots.canvas(rows_of_panels, min(3, len(curves)), 45 + 42 * rows_of_panels, sharey=True)
    for axes, ((model, _), rows) in zip(panels, curves, strict=False):
        _stack(axes, rows, over)
        n = rows[rows["quantity"] == "job_s"].groupby(over)["record"].nunique()
        axes.set_title(textwrap.fill(", ".join([str(model), plots.repeats(n), *plots.told_apart(rows, local)]), 18))
    for axes in panels[len(curves) :]:
        axes.set_visible(False)
    panels[0].set_ylabel("time of the job [s]")
    return plots.legend(fig, plots.provenance(local))


def _stack(axes: Axes, rows: pd.DataFrame, over: str) -> None:
    """The phases of one series as stacked bars, one a point."""
    mean = rows.groupby([over, "quantity"])["value"].mean().unstack("quantity")
    parts = pd.DataFrame({label: _sum(mean, names) for label, (names, _) in _PHASES.items()})
    shared = controls.lost(rows).groupby(rows[over]).any().tolist()
    plots.stacked(axes, parts, {label: shade for label, (_, shade) in _PHASES.items()}, shared)
    axes.set_xticks(range(len(parts)), [f"{x}" for x in parts.index])
    axes.set_xlabel(_words(over))
    axes.grid(False, axis="x")


def _sum(mean: pd.DataFrame, phases: tuple[str, ...]) -> pd.Series:
    return mean.reindex(columns=[f"phase_{name}_s" for name in phases]).sum(axis=1)
