"""The figure of a history: each point over its sessions."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis.figures import plots
from analysis.history import Key, Quantity, Row, Session, Values, changed, launch_mean, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_GAP = 0.12  # between the marks of two points of one session
_VERDICTS = {"slower": plots.RED, "faster": plots.BLUE, "as before": plots.GREEN, "not decidable": plots.GREY}
_DAYS = 8  # that fit below a panel
_LABEL = 24  # characters that fit next to a panel
_PAIRS: tuple[tuple[Quantity, Quantity], ...] = (
    ("images_per_s", "speedup"), ("wall_s", "job_s"), ("allreduce_s", "bus_bandwidth_bytes_per_s"),
)  # fmt: skip

RowAndValues = tuple[Row, Values]
Marks = dict[str, str]  # name of a point -> its marker


def draw(history: Sequence[Session], rows: Sequence[Row], values: Mapping[Key, Values], within: float) -> Figure:
    """Return a figure of each quantity of each point over the sessions, relative to the sessions before the newest one.

    1 is the mean of the sessions with which the newest one is compared: those before it with the same provenance.
    Two rows a model: images/s and speedup; wall time and job time, which are larger if a machine is slower.
    Dots: launches. Marks: their mean with Student's 95 % interval on the logarithm; none for one launch.
    The colour of the last mark is its verdict. Band: within the tolerance.
    Vertical lines: the provenance changed (commit, driver, image, versions, kernel).
    """
    lines = _lines([row.change.key for row in rows])
    labels = dict.fromkeys(row.change.key.point for row in rows)
    marks = {label: plots.nth_marker(nth) for nth, label in enumerate(labels)}
    figure, panels = plots.canvas(len(lines), 2, height_mm=26 + 44 * len(lines), sharex=True)
    for nth, (subject, pair) in enumerate(lines):
        for axes, quantity in zip(panels[2 * nth : 2 * nth + 2], pair, strict=True):
            keys = {key for key in values if (text.subject(key), key.quantity) == (subject, quantity)}
            pairs = [(row, values[row.change.key]) for row in rows if row.change.key in keys]
            _panel(axes, history, pairs, within, marks)
            axes.set_ylabel(textwrap.fill(f"{text.DISPLAY[quantity][0]}, over before", _LABEL))
        panels[2 * nth].set_title(subject, loc="left")
    return plots.legend(figure, _note(history, within), columns=2)


def _lines(keys: Sequence[Key]) -> list[tuple[str, tuple[Quantity, Quantity]]]:
    """Return the rows of the figure: the subject, and its two quantities."""
    measured = dict.fromkeys((text.subject(key), key.quantity) for key in keys)
    subjects = dict.fromkeys(subject for subject, _ in measured)
    return [(name, pair) for name in subjects for pair in _PAIRS if any((name, q) in measured for q in pair)]


def _panel(axes: Axes, history: Sequence[Session], pairs: Sequence[RowAndValues], within: float, marks: Marks) -> None:
    axes.axhspan(1 - within, 1 + within, color=plots.GREY, alpha=0.15, linewidth=0)
    axes.axhline(1, color=plots.GREY, linestyle=":")
    position = {session.number: x for x, session in enumerate(history)}
    for number in _changed(history):
        axes.axvline(position[number] - 0.5, color=plots.BLACK, linewidth=0.5, linestyle=(0, (1, 2)))
    for nth, (row, values) in enumerate(pairs):
        _point(axes, row, values, position, (nth - (len(pairs) - 1) / 2) * _GAP, marks[row.change.key.point])
    if not pairs:
        plots.write(axes, 0.5, 0.5, "no smaller point to compare with", ha="center")
    step = -(-len(history) // _DAYS)
    days = [day if x % step == 0 else "" for x, day in enumerate(_days(history))]
    axes.set_xticks(range(len(history)), days, rotation=40, ha="right")
    axes.set_xlim(-0.6, len(history) - 0.4)
    axes.grid(False, axis="x")


def _point(axes: Axes, row: Row, values: Values, position: dict[int, int], offset: float, marker: str) -> None:
    """Draw one point: its launches, and their mean on each session."""
    by_session = values.by_session
    first = launch_mean(row.change.before or by_session[min(by_session)]).value
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
    axes.plot([], [], marker, color=plots.BLACK, mfc="white", mew=0.8, linestyle="none", label=row.change.key.point)
    verdict = row.verdict
    if row.change.now:
        axes.plot(x[-1], middle[-1], marker, color=_VERDICTS[verdict], mew=0.8)
        axes.plot([], [], "s", color=_VERDICTS[verdict], linestyle="none", label=verdict)


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
    band = f"band: within {100 * within:g} %, as before; of times, higher is slower"
    if _changed(history):
        band += "; upright lines: commit, driver, image or versions changed"
    return plots.wrapped(machine, bars, band)
