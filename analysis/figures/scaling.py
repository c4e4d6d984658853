"""Figures of scaling: throughput, efficiency and phases over nodes or ranks, and step times as distributions."""

import math
import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import labels, speedups
from analysis.experiments import StepTimes, step_times
from analysis.figures import WITH_CONTROL, FigureData, FigureKind, plots
from analysis.figures.plots import DrawnLine
from analysis.table import controls
from common.terminal import counted

# In the order of a job. Phases of a second or less in most jobs share a colour with their neighbours. In grey, hatches
# distinguish them.
_PHASES = {
    "start, import": (("start", "import"), "0.82", ""),
    "init": (("init",), plots.PINK, "xxxx"),
    "data, build": (("data", "build"), plots.ORANGE, "...."),
    "broadcast": (("broadcast",), plots.GREEN, "----"),
    "first step": (("first_step",), plots.RED, 4 * "\\"),
    "warm-up": (("warm_up",), plots.SKY, "||||"),
    "timed": (("timed",), plots.BLUE, ""),
    "evaluate, checkpoint, exit": (("evaluate", "checkpoint", "exit"), "0.55", "////"),
}


def _over(local: pd.DataFrame) -> str:
    """Return the column of the x axis: that of the swept key."""
    return str(local["axis"].iloc[0]) if len(local) else "nodes"


def _axis_label(over: str) -> str:
    return over.replace("_", " ")


def _throughput(points: FigureData) -> Figure:
    """Draw the rates over the sizes, in a panel for each unit: those of two programs have no axis in common."""
    local, over = points.local, _over(points.local)
    units = labels.by_rate_unit(local)
    fig, panels = plots.canvas(len(units), 1, height_mm=30 + 50 * len(units), sharex=True)
    for axes, rows in zip(panels, units, strict=True):
        _rates(axes, rows, over)
        plots.doubling(axes, local[over], _axis_label(over) if axes is panels[-1] else "")
    panels[-1].plot([], [], ":", color=plots.GREY, label="ideal")
    return plots.legend(fig, points.note())


def _rates(axes: Axes, local: pd.DataFrame, over: str) -> None:
    lines = plots.local_lines(local, over=over)
    first = min((line.x[0] for line in lines), default=0)
    sizes = sorted({x for line in lines for x in line.x})
    # an arm that is only on more nodes shares the ideal of the others
    for line in (line for line in lines if line.x[0] == first):
        axes.plot(sizes, [line.y[0] * x / first for x in sizes], ":", color=line.colour, linewidth=0.7)
    plots.throughput(axes, local, over, log=True)


def _efficiency(points: FigureData) -> Figure:
    local = points.local[points.local["kind"].eq("measured")]
    over = _over(local)
    emulated = bool(local["control_off"].notna().any())
    launches = local[local["quantity"].eq("wall_s")]
    timed = bool(launches.groupby("series")[over].nunique().gt(1).any())  # of one point there is no efficiency
    count = 1 + timed + emulated
    fig, panels = plots.canvas(count, 1, height_mm=50 + 34 * count, sharex=True)
    lines = plots.local_lines(local, "throughput", "efficiency", over)
    plots.draw(panels[0], lines + ([] if emulated else _without_allreduce(points.local, over)), apart=True)
    plots.fraction(panels[0], "efficiency by throughput")
    if timed:
        _by_wall_time(panels[1], local, over)
    if emulated:
        _control(panels[-1], local, over)
    for axes in panels:
        plots.doubling(axes, local[over], _axis_label(over) if axes is panels[-1] else "")
    return plots.legend(fig, points.note())


def _by_wall_time(axes: Axes, local: pd.DataFrame, over: str) -> None:
    """Draw the efficiencies by wall time, without labels, whose counts would be those of the throughput."""
    lines = plots.local_lines(local, "wall time", "efficiency", over)
    plots.draw(axes, (replace(line, label="") for line in lines), apart=True)
    launches = local[local["quantity"].eq("wall_s")].groupby(["series", over])["record"].nunique()
    plots.fraction(axes, f"efficiency by wall time\n({labels.n_range(launches)})")
    if launches.min() == 1:
        plots.write(axes, 0.03, 0.06, "points of one launch: no interval, and no line between them")


def _without_allreduce(local: pd.DataFrame, over: str) -> list[DrawnLine]:
    """Return the efficiencies of the controls of curves in rounds, with their intervals."""
    runs = speedups.rates(local)
    runs = runs[runs["round"].notna()]
    control_series = runs[runs["kind"].eq("control")].groupby(["model", "series"], sort=False)
    lines = [DrawnLine("without allreduce", [], [], plots.GREY, "x", "")] if len(control_series) else []
    for (model, _), rows in control_series:
        curve = speedups.curve(rows, over, speedups.base_of(rows, runs))
        style = DrawnLine("", [], [], plots.colour(model), "x", "")
        lines.append(plots.through(style, {point.size: point.efficiency for point in curve}))
    return lines


def _control(axes: Axes, local: pd.DataFrame, over: str) -> None:
    """Draw the throughput of a node among others over that of one alone, without allreduce, and the allowed band."""
    bound = local["flat_within_fraction"].max()
    axes.axhspan(1 - bound, 1 + bound, color="0.9", label=f"allowed for the control: {bound:.0%}")
    lines = []
    for (model, _), rows in local.groupby(["model", "series"], sort=False):
        measured = rows[rows["control_nodes"].eq(rows["nodes"])]
        at = 1 + measured.groupby(over)["control_off"].first().dropna()
        style = (plots.colour(model), plots.local_marker(model), "")  # not joined: there may be two, far apart
        lines.append(DrawnLine("", at.index.tolist(), at.tolist(), *style))
    plots.draw(axes, lines, apart=True)
    axes.set_ylim(min(0.7, axes.get_ylim()[0]), max(1.3, axes.get_ylim()[1]))
    axes.set_ylabel("control / one node")


def _phases(points: FigureData) -> Figure:
    over = _over(points.local)
    local = points.local[points.local["quantity"].str.startswith("phase_") | points.local["quantity"].eq("job_s")]
    local = local.assign(name=local["model"].map(labels.name))
    curves = list(local.groupby(["name", "series"], sort=False))
    fig, panels = plots.grid(len(curves), 3, 45, 42, sharey=True)
    for axes, ((model, _), rows) in zip(panels, curves, strict=True):
        _stack(axes, rows, over)
        n = rows[rows["quantity"] == "job_s"].groupby(over)["record"].nunique()
        axes.set_title(textwrap.fill(", ".join([str(model), labels.n_range(n), *labels.distinctions(rows, local)]), 18))
    panels[0].set_ylabel("time of the job [s]")
    return plots.legend(fig, points.note(stacked=True))


def _stack(axes: Axes, rows: pd.DataFrame, over: str) -> None:
    """Draw the phases of one series as stacked bars, one a point, with an asterisk where cores were shared.

    Only phases that were recorded are in the legend: a user's program has a start, itself and an exit.
    """
    mean = rows.groupby([over, "quantity"])["value"].mean().unstack("quantity")
    shared = controls.invalid(rows).groupby(rows[over]).any().tolist()
    bottom = np.zeros(len(mean))
    for label, (names, shade, hatch) in _PHASES.items():
        recorded = [name for name in names if f"phase_{name}_s" in mean]
        if not recorded:
            continue
        label = label if len(recorded) == len(names) else ", ".join(recorded)
        heights = mean.reindex(columns=[f"phase_{name}_s" for name in names]).sum(axis=1).to_numpy()
        style: dict[str, Any] = {"color": shade, "edgecolor": "white", "linewidth": 0.3, "hatch": hatch}
        axes.bar(range(len(mean)), heights, 0.7, bottom, label=label, **style)
        bottom += heights
    axes.set_xticks(range(len(mean)), [f"{x}{'*' * invalid}" for x, invalid in zip(mean.index, shared, strict=True)])
    axes.set_xlabel(_axis_label(over))
    axes.grid(False, axis="x")


PERCENTILES = (5, 50, 95, 99)
_DRAWN_TIMES = 300  # points of a line


def _step_times(points: FigureData) -> Figure:
    steps = step_times(points.local, points.records)
    over = str(points.local["axis"].iloc[0])
    noun, _, rest = _axis_label(over).partition(" ")  # "ranks per node"
    sizes = sorted(steps[over].unique())
    measured = steps[steps["kind"].eq("measured")]
    series = list(measured.groupby(["model", "series"], sort=False))
    fig, panels = plots.canvas(len(series), 1, height_mm=24 + 34 * len(series))
    for axes, ((model, _), rows) in zip(panels, series, strict=True):
        launch_steps = steps[steps["record"].isin(rows["record"])]
        for (size, control), at in launch_steps.groupby([over, launch_steps["kind"].eq("control")]):
            name = f"{counted(float(str(size)), noun.removesuffix('s'))} {rest}".rstrip()
            label = f"{name}, without allreduce" if control else name
            _distribution(axes, np.concatenate(at["times"].tolist()), label, sizes.index(size), bool(control))
        counts = [sum(map(len, at["times"])) for _, at in launch_steps.groupby([over, "kind"])]
        title = [labels.name(model), f"{labels.n_range(counts)} steps", *labels.distinctions(rows, measured)]
        axes.set_title(textwrap.fill(", ".join(title), 60), loc="left")
        _time_axis(axes, axes is panels[-1])
    marks = f"marks: {', '.join(f'{share}th' for share in PERCENTILES)} percentile"
    return plots.legend(fig, f"local: {'; '.join(points.local['machine'].unique())}\n{marks}")


def _distribution(axes: Axes, times: StepTimes, label: str, nth: int, control: bool) -> None:
    """Draw the distribution of the times [s] of the nth point, in ms; a control is dashed, with hollow marks."""
    colour = plots.nth_colour(nth)
    line: dict[str, Any] = {"color": colour, "linestyle": "--" if control else "-"}
    mark: dict[str, Any] = {"marker": plots.nth_marker(nth), "mfc": "white" if control else colour, "markersize": 3}
    shares, marked = np.linspace(0, 1, _DRAWN_TIMES), np.array(PERCENTILES) / 100
    axes.plot(np.quantile(times, shares) * 1e3, shares, **line)
    axes.plot(np.quantile(times, marked) * 1e3, marked, color=colour, **mark | {"linestyle": ""})
    axes.plot([], [], label=label, **line, **mark)


def _time_axis(axes: Axes, last: bool) -> None:
    axes.set_xscale("log")  # its limits follow from the times
    plots.log_axis(axes, "x", ticks=time_ticks(*axes.get_xlim()))
    axes.set_ylim(-0.02, 1.02)
    axes.set_yticks([0.05, 0.5, 0.95])
    axes.set_ylabel("share of the steps")
    axes.set_xlabel("step time [ms]" if last else "")


_TICK_SERIES = ((1,), (1, 2, 5), (1, 2, 3, 5), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8))


def time_ticks(low: float, high: float) -> list[float]:
    """Return at least three round ticks of a logarithmic axis; evenly spaced ones if the axis is too short for them."""
    decades = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    candidates = [[decade * sub for decade in decades for sub in subs] for subs in _TICK_SERIES]
    candidates.append(list(ticker.MaxNLocator(4).tick_values(low, high)))
    inside = [[tick for tick in ticks if low <= tick <= high] for ticks in candidates]
    return next((ticks for ticks in inside if len(ticks) >= 3), inside[-1])


THROUGHPUT = FigureKind("throughput", "throughput", _throughput)
EFFICIENCY = FigureKind("efficiency", "efficiency", _efficiency, WITH_CONTROL)
STEPS = FigureKind("steps", "steps", _step_times, WITH_CONTROL, reads_records=True)
PHASES = FigureKind("phases", "phases", _phases)
