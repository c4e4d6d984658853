"""The figure of a history: each point over its sessions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis.compare import Comparison
from analysis.compare.launches import Values, launch_mean
from analysis.compare.sessions import Machine, Session, changed
from analysis.compare.text import DISPLAY, subject
from analysis.figures import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SPREAD, _GAP = 0.7, 0.25  # of the marks of one session: in all, and at most between two
_VERDICTS = {"worse": plots.RED, "better": plots.BLUE, "alike": plots.GREEN, "not decidable": plots.GREY}
_DAYS = 8  # that fit below a panel

RowAndValues = tuple[Comparison, Values]
Marks = dict[str, str]  # name of a point -> its marker


def draw(machine: Machine, within: float) -> Figure:
    """Return a figure of the throughput of each point over the sessions, a panel a model; of allreduce, its bandwidth.

    1 is the mean of the sessions with which the newest one is compared: those before it with the same provenance.
    Dots: launches. Marks: their mean with Student's 95 % interval on the logarithm; none for one launch.
    The colour of the last mark is its verdict. Band: within the tolerance.
    Vertical lines: the provenance changed (commit, driver, image, versions, kernel).
    """
    by_point = [*zip(machine.comparisons, machine.values.values(), strict=True)]
    quantity = next(name for name in DISPLAY if any(row.quantity == name for row, _ in by_point))
    rows = [(row, values) for row, values in by_point if row.quantity == quantity]
    marks = {point: plots.nth_marker(nth) for nth, point in enumerate(dict.fromkeys(row.point for row, _ in rows))}
    subjects = list(dict.fromkeys(subject(row.model, quantity) for row, _ in rows))
    columns = min(2, len(subjects))
    figure, panels = plots.canvas(-(-len(subjects) // columns), columns, 26 + 22 * len(subjects), sharey=True)
    for nth, (axes, name) in enumerate(itertools.zip_longest(panels, subjects)):
        axes.set_visible(name is not None)
        pairs = [(row, values) for row, values in rows if subject(row.model, quantity) == name]
        _panel(axes, machine.sessions, pairs, within, marks)
        axes.set_title(name, loc="left")
        axes.tick_params(labelbottom=nth + columns >= len(subjects))
    for axes in panels[::columns]:
        axes.set_ylabel(f"{DISPLAY[quantity][0]}, over before")
    return plots.legend(figure, _note(machine.sessions, within), columns=2)


def _panel(axes: Axes, history: Sequence[Session], pairs: Sequence[RowAndValues], within: float, marks: Marks) -> None:
    axes.axhspan(1 - within, 1 + within, color=plots.GREY, alpha=0.15, linewidth=0)
    axes.axhline(1, color=plots.GREY, linestyle=":")
    position = {session.number: x for x, session in enumerate(history)}
    for number in _changed(history):
        axes.axvline(position[number] - 0.5, color=plots.BLACK, linewidth=0.5, linestyle=(0, (1, 2)))
    gap = min(_GAP, _SPREAD / max(1, len(pairs)))
    for nth, (row, values) in enumerate(pairs):
        _point(axes, row, values, position, (nth - (len(pairs) - 1) / 2) * gap, marks[row.point])
    step = -(-len(history) // _DAYS)
    days = [day if x % step == 0 else "" for x, day in enumerate(_days(history))]
    axes.set_xticks(range(len(history)), days, rotation=40, ha="right")
    axes.set_xlim(-0.6, len(history) - 0.4)
    axes.grid(False, axis="x")


def _point(axes: Axes, row: Comparison, values: Values, position: dict[int, int], offset: float, marker: str) -> None:
    """Draw one point: its launches, and their mean on each session."""
    by_session = values.by_session
    first = row.reference.value if row.reference.n else launch_mean(by_session[min(by_session)]).value
    x = np.array([position[number] for number in by_session]) + offset
    levels = [launch_mean(values) for values in by_session.values()]
    middle = np.array([level.value for level in levels]) / first
    ends = np.nan_to_num([[level.value - end for end in level.interval] for level in levels]) / first
    for at, launches in zip(x, by_session.values(), strict=True):
        axes.plot(
            [at] * len(launches), np.array(launches) / first, ".", color=plots.BLACK, alpha=0.35, markersize=3, mew=0
        )
    axes.errorbar(x, middle, np.abs(ends).T, fmt="none", ecolor=plots.GREY, elinewidth=0.8)
    axes.plot(x, middle, color=plots.GREY, linewidth=0.7)
    axes.plot(x, middle, marker, color=plots.BLACK, mfc="white", mew=0.8)
    axes.plot([], [], marker, color=plots.BLACK, mfc="white", mew=0.8, linestyle="none", label=row.point)
    if row.measured.n:
        axes.plot(x[-1], middle[-1], marker, color=_VERDICTS[row.verdict], mew=0.8)
        axes.plot([], [], "s", color=_VERDICTS[row.verdict], linestyle="none", label=row.verdict)


def _changed(history: Sequence[Session]) -> list[int]:
    """Return the numbers of the sessions before which the provenance of the launches changed."""
    return [
        now.number
        for before, now in itertools.pairwise(history)
        if changed(before, now) or before.provenance.commit != now.provenance.commit
    ]


def _days(history: Sequence[Session]) -> list[str]:
    """Return the day of each session, with a number from the second one of a day on."""
    days = [session.launches[0].started_at[2:10] for session in history]
    nth = [days[: x + 1].count(day) for x, day in enumerate(days)]
    return [day if n == 1 else f"{day} ({n})" for day, n in zip(days, nth, strict=True)]


def _note(history: Sequence[Session], within: float) -> str:
    machine = f"local: {history[0].launches[0].machine}"
    bars = "bars: 95 % interval over the launches of one session; none of a single launch; dots: launches"
    band = f"band: within {100 * within:g} %, alike; the table has the other quantities"
    if _changed(history):
        band += "; upright lines: commit, driver, image or versions changed"
    return plots.wrapped(machine, bars, band)
