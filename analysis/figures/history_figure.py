"""The figure of a history: each point over its sessions."""

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.compare.comparison_text import DISPLAY, subject
from analysis.compare.sessions import MachineHistory, MeasuredSession, PointHistory
from analysis.figures import plots

_SPREAD, _GAP = 0.7, 0.25  # of the marks of one session: in all, and at most between two
_VERDICTS = {"worse": plots.RED, "better": plots.BLUE, "alike": plots.GREEN, "not decidable": plots.GREY}
_DAYS = 8  # that fit below a panel

Marks = dict[str, str]  # name of a point -> its marker


def draw(machine: MachineHistory, within: float) -> Figure:
    """Return a figure of the throughput of each point over the sessions, a panel a model; of allreduce, its bandwidth.

    1 is the mean of the sessions with which the newest one is compared: those before it with the same provenance.
    Dots: launches. Marks: their mean with Student's 95 % interval on the logarithm; none for one launch.
    The colour of the last mark is its verdict. Band: within the tolerance.
    Vertical lines: the provenance changed (commit, driver, image, versions, kernel).
    """
    quantity = next(name for name in DISPLAY if any(row.quantity == name for row in machine.points))
    rows = [row for row in machine.points if row.quantity == quantity]
    marks = {point: plots.nth_marker(nth) for nth, point in enumerate(dict.fromkeys(row.point for row in rows))}
    subjects = list(dict.fromkeys(subject(row.model, quantity) for row in rows))
    figure, panels = plots.grid(len(subjects), 2, 26, 40, sharey=True)
    for nth, (axes, name) in enumerate(zip(panels, subjects, strict=True)):
        points = [row for row in rows if subject(row.model, quantity) == name]
        _panel(axes, machine.sessions, points, within, marks)
        axes.set_title(name, loc="left")
        axes.tick_params(labelbottom=nth + 2 >= len(subjects))
    for axes in panels[::2]:
        axes.set_ylabel(f"{DISPLAY[quantity][0]}, over before")
    return plots.legend(figure, _note(machine, within), columns=2)


def _panel(
    axes: Axes, history: Sequence[MeasuredSession], points: Sequence[PointHistory], within: float, marks: Marks
) -> None:
    axes.axhspan(1 - within, 1 + within, color=plots.GREY, alpha=0.15, linewidth=0)
    axes.axhline(1, color=plots.GREY, linestyle=":")
    position = {session.number: x for x, session in enumerate(history)}
    for number in _changed(history):
        axes.axvline(position[number] - 0.5, color=plots.BLACK, linewidth=0.5, linestyle=(0, (1, 2)))
    gap = min(_GAP, _SPREAD / max(1, len(points)))
    for nth, row in enumerate(points):
        _point(axes, row, position, (nth - (len(points) - 1) / 2) * gap, marks[row.point])
    step = -(-len(history) // _DAYS)
    days = [day if x % step == 0 else "" for x, day in enumerate(_days(history))]
    axes.set_xticks(range(len(history)), days, rotation=40, ha="right")
    axes.set_xlim(-0.6, len(history) - 0.4)
    axes.grid(False, axis="x")


def _point(axes: Axes, row: PointHistory, position: dict[int, int], offset: float, marker: str) -> None:
    first = row.reference.value if row.reference.n else row.sessions[0].value.value
    x = np.array([position[values.session] for values in row.sessions]) + offset
    levels = [values.value for values in row.sessions]
    middle = np.array([level.value for level in levels]) / first
    ends = np.nan_to_num([[level.value - end for end in level.interval] for level in levels]) / first
    for at, values in zip(x, row.sessions, strict=True):
        launches = np.array(values.launches) / first
        axes.plot([at] * len(launches), launches, ".", color=plots.BLACK, alpha=0.35, markersize=3, mew=0)
    axes.errorbar(x, middle, np.abs(ends).T, fmt="none", ecolor=plots.GREY, elinewidth=0.8)
    axes.plot(x, middle, color=plots.GREY, linewidth=0.7)
    axes.plot(x, middle, marker, color=plots.BLACK, mfc="white", mew=0.8)
    axes.plot([], [], marker, color=plots.BLACK, mfc="white", mew=0.8, linestyle="none", label=row.point)
    if row.measured.n:
        axes.plot(x[-1], middle[-1], marker, color=_VERDICTS[row.verdict], mew=0.8)
        axes.plot([], [], "s", color=_VERDICTS[row.verdict], linestyle="none", label=row.verdict)


def _changed(history: Sequence[MeasuredSession]) -> list[int]:
    """Return the numbers of the sessions before which the provenance of the launches changed."""
    pairs = itertools.pairwise(history)
    return [now.number for before, now in pairs if now.changed or before.provenance.commit != now.provenance.commit]


def _days(history: Sequence[MeasuredSession]) -> list[str]:
    """Return the day of each session, with a number from the second one of a day on."""
    days = [session.began[2:10] for session in history]
    nth = [days[: x + 1].count(day) for x, day in enumerate(days)]
    return [day if n == 1 else f"{day} ({n})" for day, n in zip(days, nth, strict=True)]


def _note(history: MachineHistory, within: float) -> str:
    machine = f"local: {history.machine}"
    bars = "bars: 95 % interval over the launches of one session; none of a single launch; dots: launches"
    band = f"band: within {100 * within:g} %, alike; the table has the other quantities"
    if _changed(history.sessions):
        band += "; upright lines: commit, driver, image or versions changed"
    return "\n".join([machine, bars, band])
