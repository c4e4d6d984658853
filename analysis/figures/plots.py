"""Shared by the figures: lines, markers, axes, legends at the width of one column, and bounds of throughput."""

import math
import re
import textwrap
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib import ticker, transforms
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from analysis import labels, speedups
from analysis.stats import Number
from analysis.stats.repeats import arithmetic_mean
from analysis.table import controls
from analysis.table.hardware import COMPUTE, LINK

STYLE = Path(__file__).with_name("style.mplstyle")
WIDTH_MM = 85
MM = 1 / 25.4  # inches
# For a picture a third of a page wide.
SMALL: dict[Any, Any] = {
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize"), 10.5),
    "legend.fontsize": 9.5, "lines.linewidth": 1.6, "lines.markersize": 6, "axes.linewidth": 0.9,
}  # fmt: skip
_SMALL_MM = 105  # high
_NOTE_CHARACTERS = 78
_LABEL_CHARACTERS, _FEW_LABELS = 32, 4  # of which two columns fit; so many labels stand below each other
_LEGEND_MM = 16  # of the height of a figure

_APART = 8.0  # points: from one line to the next where intervals would hide each other
_SHORT = 8.0  # from the bottom to the top of a short logarithmic axis
_NEAR = 0.12  # of the larger of two values, which a marker is high

# The colours of Okabe and Ito. One for each family of models, so that a model has the same colour in every figure.
BLUE, RED, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
# Two of Tol's muted scheme, if these are too few.
INDIGO, OLIVE = "#332288", "#999933"
GREY = "0.45"
_FAMILIES = {
    "vgg": (BLUE, "o"),
    "resnet": (RED, "s"),
    "inception": (GREEN, "^"),
    "alexnet": (PINK, "v"),
    "googlenet": (ORANGE, "P"),
}
_OTHERS = (SKY, INDIGO, OLIVE)  # for models of other families
COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, SKY, INDIGO, OLIVE)
# Local points: a model's first series has the marker of its family's position. No point of a report has one of these.
MARKERS = ("D", ">", "h", "<", "p", "8", "d")
STYLES = ("--", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)))


def _position(model: object) -> int:
    """Return the position of a model's family; of any other model one behind them, always the same."""
    name = str(model).lower()
    others = len(_FAMILIES) + zlib.crc32(name.encode()) % len(_OTHERS)
    return next((nth for nth, family in enumerate(_FAMILIES) if name.startswith(family)), others)


def colour(model: object) -> str:
    """Return the colour of a model, by its name in records or in papers; a family of models has one."""
    return [*(colour for colour, _ in _FAMILIES.values()), *_OTHERS][_position(model)]


def marker(model: object) -> str:
    """Return the marker of a model's family, for published points."""
    return _FAMILIES[next(family for family in _FAMILIES if str(model).startswith(family))][1]


def local_marker(model: object, nth: int = 0) -> str:
    """Return the marker of the nth series of a model's local points: in grey too, models differ."""
    return nth_marker(_position(model) + nth)


@dataclass(frozen=True)
class DrawnLine:
    """One curve: its points, the ends of their 95 % intervals where known, and which of them shared cores.

    `raw` are the x and y of the single values behind the points. No line joins the points if the style is "".
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str = BLACK
    marker: str = "o"
    style: str | tuple[int, tuple[int, ...]] = "-"
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    shared: Sequence[bool] = ()
    raw: tuple[Sequence[float], Sequence[float]] = ((), ())


def through(line: DrawnLine, numbers: Mapping[float, Number], **more: Any) -> DrawnLine:
    """Return a line through numbers with their intervals, by x; its label says why one has none, if that is known."""
    why = next((number.no_interval.partition(";")[0] for number in numbers.values() if number.no_interval), "")
    more["label"] = f"{line.label}; no bar: {why}" if line.label and why else line.label
    y, low, high = ([getattr(number, end) for number in numbers.values()] for end in ("value", "low", "high"))
    return replace(line, x=[*numbers], y=y, low=low, high=high, **more)


def canvas(rows: int = 1, columns: int = 1, height_mm: float = 70, **share: bool | str) -> tuple[Figure, list[Axes]]:
    """Return an empty figure of one column width, and its axes, row by row. height_mm: with a usual `legend`."""
    figure = Figure(figsize=(WIDTH_MM * MM, height_mm * MM), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **share)  # type: ignore[call-overload]
    return figure, list(axes.flat)


def grid(count: int, columns: int, height_mm: float, row_mm: float, **share: bool | str) -> tuple[Figure, list[Axes]]:
    """Return an empty figure of one column width, and its `count` axes in rows of `columns`, each row of row_mm."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure, axes = canvas(rows, columns, height_mm + rows * row_mm, **share)
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def draw(axes: Axes, lines: Iterable[DrawnLine], apart: bool = False) -> None:
    """Draw the lines, with intervals where they are known; points that shared cores are hollow.

    Each mark is at its x, so that its distance from a diagonal is true. Published lines, which have no intervals, have
    transparent markers where they would hide others, unless hollow points have a meaning. apart: lines that have points
    near each other at one x are moved apart to show their intervals; only where the ideal is horizontal.
    """
    figure, lines = axes.get_figure(root=True), list(lines)
    assert figure is not None
    width = 72 * figure.get_figwidth() * axes.get_position().width
    moves = offsets(lines, width) if apart else [0.0] * len(lines)
    has_hollow = any(any(line.shared) for line in lines)
    for nth, (line, offset) in enumerate(zip(lines, moves, strict=True)):
        moved: dict[str, Any] = {}
        if offset:
            moved["transform"] = transforms.offset_copy(axes.transData, figure, x=offset, units="points")
        if len(line.raw[0]):
            axes.plot(*line.raw, ".", color=line.colour, alpha=0.3, markersize=3, mew=0, zorder=1, **moved)
        x, y = np.asarray(line.x, float), np.asarray(line.y, float)
        axes.update_datalim(np.column_stack([x, y]))  # Matplotlib does not find them where lines are moved
        if np.isfinite(line.low).any():
            ends = np.array([y - np.asarray(line.low, float), np.asarray(line.high, float) - y])
            axes.update_datalim(np.column_stack([[*x, *x], [*line.low, *line.high]]))
            axes.errorbar(x, y, ends, fmt="none", ecolor=line.colour, elinewidth=0.8, **moved)
        axes.plot(x, y, linestyle=line.style, color=line.colour, **moved)
        shared = np.asarray(line.shared, bool) if len(line.shared) else np.zeros(len(x), bool)
        covers = not len(line.low) and any(_is_near(line, below) for below in lines[:nth])
        usual = "none" if covers and not (apart or has_hollow) else line.colour
        for mask, face in ((~shared, usual), (shared, "white")):
            axes.plot(x[mask], y[mask], line.marker, mfc=face, mec=line.colour, mew=0.8, **moved)
        axes.plot([], [], marker=line.marker, linestyle=line.style, color=line.colour, mfc=usual, label=line.label)


def offsets(lines: Sequence[DrawnLine], width: float) -> list[float]:
    """Return by how much each line is moved to the right so that no marker hides another, in points.

    width: of the axes. Lines stay in their order, and within half of the distance between two x.
    """
    groups: list[list[int]] = []
    for nth, line in enumerate(lines):
        near = [group for group in groups if any(_is_near(line, lines[other]) for other in group)]
        groups = [group for group in groups if group not in near] + [[*(n for group in near for n in group), nth]]
    moved = [0.0] * len(lines)
    for group in groups:
        positions = len({x for nth in group for x in lines[nth].x})
        step = min(_APART, width / 2 / max(1, positions) / max(1, len(group) - 1))
        for place, nth in enumerate(sorted(group)):
            moved[nth] = step * (place - (len(group) - 1) / 2)
    return moved


def _is_near(line: DrawnLine, other: DrawnLine) -> bool:
    """Return whether two lines have points at the same x that are near each other."""
    values = dict(zip(other.x, other.y, strict=True))
    pairs = [(y, values[x]) for x, y in zip(line.x, line.y, strict=True) if x in values]
    return any(abs(a - b) <= _NEAR * max(abs(a), abs(b)) for a, b in pairs)


def local_lines(
    local: pd.DataFrame, by: str = "throughput", value: str = "rate", over: str = "ranks"
) -> list[DrawnLine]:
    """Return one line for each series of local records: each point with its interval, and the values behind it.

    `by` names the rate (`speedups.rates`), `value` what is drawn: "rate" (images/s), "speedup", "efficiency";
    `over` is the column on the x axis. The label names the model, n, and what distinguishes the series. A line joins
    points of more than one value each. Colours stand for models, or for the arms of a single one (`colours`).
    """
    runs = speedups.rates(local, by)
    lines = []
    for _, points in runs.groupby(["model", "series"], sort=False):
        base = speedups.base_of(points, runs)
        curve, values = speedups.curve(points, over, base), speedups.paired(points, over, base)
        shared = controls.invalid(points).groupby(points[over]).any()
        counts = [point.n for point in curve]
        repeats = [labels.n_range(counts)] if points["round"].isna().all() else []  # rounds are counted in the note
        line = series_line(points, runs, "local", *repeats)
        raw = (values["size"].tolist(), values[value].tolist()) if max(counts) > 1 else ((), ())
        numbers = {point.size: getattr(point, value) for point in curve}
        line = through(line, numbers, shared=shared.tolist(), raw=raw)
        lines.append(line if min(counts) > 1 else replace(line, style=""))
    return lines


def throughput(axes: Axes, local: pd.DataFrame, over: str, others: Iterable[DrawnLine] = (), log: bool = False) -> None:
    """Draw the rates of local records over a column, with their bounds, on a y axis of rates; others: further lines."""
    draw(axes, [*others, *local_lines(local, over=over)])
    label = f"throughput [{labels.rate_unit(local)}]"
    if log:
        logarithmic(axes, label)
    else:
        axes.set_ylim(0)
        axes.set_ylabel(label)
    draw_bounds(axes, local, over)


def are_arms(runs: pd.DataFrame) -> bool:
    """Return whether these runs are arms of a single model, so that colours stand for arms."""
    return bool(runs["arm"].nunique() > 1 and runs["model"].nunique() == 1)


def colours(runs: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return the colour of each model and series: of the model's family, or one for each arm of a single model."""
    series = list(runs[["model", "series"]].drop_duplicates().itertuples(index=False, name=None))
    if are_arms(runs):
        return {key: nth_colour(nth) for nth, key in enumerate(series)}
    return {key: colour(key[0]) for key in series}


def series_line(rows: pd.DataFrame, runs: pd.DataFrame, *more: str) -> DrawnLine:
    """Return a line without points in the style of a series among these runs, labelled by what tells it apart.

    rows: its rows. more: stands in the label behind the name of the model.
    """
    model, series = rows["model"].iloc[0], rows["series"].iloc[0]
    label = ", ".join([labels.name(model), *more, *labels.distinctions(rows, runs)])
    nth = runs[runs["model"] == model]["series"].unique().tolist().index(series)
    return empty_line(label, colours(runs)[str(model), str(series)], nth, model)


def nth_marker(nth: int) -> str:
    """Return the marker of the nth series of local points."""
    return MARKERS[nth % len(MARKERS)]


def nth_style(nth: int) -> str | tuple[int, tuple[int, ...]]:
    """Return the line style of the nth series of local points."""
    return STYLES[nth % len(STYLES)]


def nth_colour(nth: int) -> str:
    """Return the colour of the nth series, where colours do not stand for models."""
    return COLOURS[nth % len(COLOURS)]


def setting(axes: Axes, values: Sequence[float], label: str) -> None:
    """Set up an x axis of the ordered values of any setting, at their `positions`."""
    positions, spaced = labels.positions(values)
    axes.set_xticks(positions, ["none" if math.isnan(value) else f"{value:g}" for value in values])
    margin = 0.08 * (max(positions) - min(positions)) or 0.5
    axes.set_xlim(min(positions) - margin, max(positions) + margin)
    axes.set_xlabel(f"{label} ({spaced})" if spaced and label else label)


def log_axis(
    axes: Axes, which: Literal["x", "y"], base: int = 10, subs: Sequence[float] = (1,), ticks: Sequence[float] = (),
    name: Callable[[float], str] = "{:g}".format,
) -> None:  # fmt: skip
    """Make an axis logarithmic, with ticks at `subs` times the powers of the base, or at `ticks`; name: of a tick."""
    axis, set_scale = (axes.xaxis, axes.set_xscale) if which == "x" else (axes.yaxis, axes.set_yscale)
    set_scale("log", base=base)
    axis.set_major_locator(ticker.FixedLocator(ticks) if len(ticks) else ticker.LogLocator(base, subs=subs))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: name(value)))
    axis.set_minor_locator(ticker.NullLocator())


def doubling(axes: Axes, ticks: Iterable[float], label: str) -> None:
    """Set up a logarithmic x axis with a tick at each of the points."""
    ticks = sorted(set(ticks))
    log_axis(axes, "x", 2, ticks=ticks)
    axes.set_xlim(min(ticks) / 1.25, max(ticks) * 1.25)
    axes.set_xlabel(label)


def logarithmic(axes: Axes, label: str, base: int = 10) -> None:
    """Set up a logarithmic y axis with plain numbers: 1, 2, 5, 10, or more if it is short; or the powers of a base."""
    low, high = axes.get_ylim()
    decimal = (1, 2, 5) if high > _SHORT * low else (1, 1.5, 2, 3, 5, 7)
    log_axis(axes, "y", base, decimal if base == 10 else (1,))
    axes.set_ylabel(label)


def fraction(axes: Axes, label: str, ideal: bool = True) -> None:
    """Set up a y axis of fractions from 0, with a line at the ideal 1, which needs no label."""
    axes.set_ylim(0, max(1.1, axes.get_ylim()[1]))
    axes.set_ylabel(label)
    if ideal:
        axes.axhline(1, color=GREY, linestyle=":")


def ideal(axes: Axes, x: Iterable[float], label: str = "ideal") -> None:
    """Draw the line of ideal scaling: proportional to x, 1 at the smallest x."""
    ends = [min(x := list(x)), max(x)]
    axes.plot(ends, [1, ends[1] / ends[0]], ":", color=GREY, label=label)


def write(axes: Axes, x: float, y: float, text: str, **style: str | float) -> None:
    """Write a remark inside the axes, at fractions of their width and height."""
    axes.text(x, y, text, transform=axes.transAxes, fontsize=6, color=GREY, **style)  # type: ignore[arg-type]


def legend(figure: Figure, note: str = "", columns: int = 3) -> Figure:
    """Return the figure with one legend below all its axes, and `note` above it, wrapped; both may make it higher.

    Many long labels are wrapped, so that two columns fit.
    """
    note = "\n".join(part for line in note.splitlines() for part in textwrap.wrap(line, _NOTE_CHARACTERS))
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    longest, many = max(map(len, handles), default=0), len(handles) > _FEW_LABELS
    fit = 3 if longest <= 18 else 2 if longest <= _LABEL_CHARACTERS or many else 1
    names = [textwrap.fill(label, _LABEL_CHARACTERS, break_on_hyphens=False) if many else label for label in handles]
    if handles or note:
        drawn = figure.legend(
            handles.values(), names, loc="outside lower center", ncols=min(fit, columns, len(handles) or 1),
            title=note or None, alignment="left",
        )  # fmt: skip
        drawn.get_title().set(color=GREY, fontsize=5.5)
        taller = drawn.get_window_extent().height / figure.dpi - _LEGEND_MM * MM
        figure.set_figheight(figure.get_figheight() + max(0, taller))
    return figure


def shorten(figure: Figure) -> Figure:
    """Return a figure of one height with few words: without notes and remarks, and with names alone in the legend."""
    for axes in figure.axes:
        for text in list(axes.texts):
            if isinstance(text, Annotation):  # the name of a mark
                text.set_fontsize(9)
            else:
                text.remove()
        axes.set_ylabel(textwrap.fill(axes.get_ylabel().partition("\n(")[0], 17))
        axes.set_title(_name_alone(axes.get_title()))
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legends[0].remove()
    figure.set_figheight(_SMALL_MM * MM)
    figure.legend(handles, map(_name_alone, names), loc="outside lower center", ncols=2)
    return figure


def _name_alone(label: str) -> str:
    return re.split(", local|, n=|: ", label.replace("\n", " "))[0]


def empty_line(label: str, colour: str, nth: int = 0, model: object = None) -> DrawnLine:
    """Return a line without points, with the style and the marker of the nth series; model: of the nth of its model."""
    marker = nth_marker(nth) if model is None else local_marker(model, nth)
    return DrawnLine(label, [], [], colour, marker, nth_style(nth))


def means(runs: pd.DataFrame, value: str, over: str, line: DrawnLine, scaling: bool = True) -> DrawnLine:
    """Return the line of local runs over a column: the mean of `value` over repeats, its interval, and each of them.

    scaling: shared cores distort the value; such points are hollow.
    """
    at = {float(str(x)): arithmetic_mean(speedups.by_record(rows, value)) for x, rows in runs.groupby(over)}
    shared = controls.invalid(runs).groupby(runs[over]).any().tolist() if scaling else ()
    label = f"{line.label}, {labels.n_range(e.n for e in at.values())}"
    raw = (runs[over].tolist(), runs[value].tolist()) if len(runs) > len(at) else ((), ())
    return through(replace(line, label=label), at, shared=shared, raw=raw)


def epochs(local: pd.DataFrame, quantity: str, line: DrawnLine) -> list[DrawnLine]:
    """Return local values of a quantity per epoch: mean over repeats with its interval, one line a series."""
    by_series = local[local["quantity"] == quantity].groupby("series", sort=False)
    return [means(rows, "value", "epoch", line, scaling=False) for _, rows in by_series]


_BOUND_LABELS = {COMPUTE: "limit of direct convolution", LINK: "limit of ring allreduce"}  # others could pass it
_BOUND_STYLES = {COMPUTE: "-", LINK: (0, (7, 1.5, 1, 1.5, 1, 1.5))}  # no series and no ideal has one of these
_BOUND_WIDTH = 0.5
_HIGHEST_BOUND = 3.0  # times the highest point: an axis does not stretch to a bound above


def draw_bounds(axes: Axes, local: pd.DataFrame, over: str, colour: str | None = None) -> None:
    """Draw the bounds of each series over a column, as lines without markers in the colour of its model.

    A bound is the largest of its launches. Arms share the highest of theirs. The axis does not stretch to a bound far
    above the points: it is not drawn. Call this after all else is drawn. colour: of all lines, not of the model.
    """
    highest = _HIGHEST_BOUND * max(_heights(axes), default=0.0)
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top)  # from here on no line changes it
    measured = local[local["kind"].eq("measured")]
    for quantity, name in _BOUND_LABELS.items():
        style: dict[str, Any] = {"linestyle": _BOUND_STYLES[quantity], "linewidth": _BOUND_WIDTH}
        bounds = [b for b in _bounds_by_series(measured, quantity, over) if b[0].min() <= highest]
        for bound, own_colour in bounds:
            axes.plot(*_bound_line(bound), color=colour or own_colour, **style)
        if bounds:
            axes.plot([], [], color=colour or GREY, label=name, **style)
    axes.set_ylim(bottom, max([top, *(1.05 * y for y in _heights(axes) if y <= highest)]))


def _bounds_by_series(measured: pd.DataFrame, quantity: str, over: str) -> Iterator[tuple[pd.Series, str]]:
    """Yield the bounds [images/s] of one kind by the column `over`, each with its colour; arms have one in common."""
    colour_of = colours(measured)
    rows = measured[measured["quantity"].eq(quantity)]
    for (model, _, _), alike in rows.groupby(["model", "arms", "precision"], sort=False):
        series = alike["series"].unique()
        common = GREY if are_arms(measured) else colour(model)
        highest = alike.groupby(over)["value"].max()
        yield highest, colour_of[str(model), series[0]] if len(series) == 1 else common


def _bound_line(bound: pd.Series) -> tuple[list[float], list[float]]:
    """Return the x and y of a line; about a single point a short one."""
    x, y = bound.index.tolist(), bound.tolist()
    return (x, y) if len(x) > 1 else ([0.9 * x[0], 1.1 * x[0]], [*y, *y])


def _heights(axes: Axes) -> list[float]:
    """Return the y of all lines, without vertical lines across the figure."""
    lines = [line for line in axes.get_lines() if line.get_transform().contains_branch_seperately(axes.transData)[1]]
    heights = [y for line in lines for y in np.asarray(line.get_ydata(), float).tolist()]
    return [y for y in heights if math.isfinite(y)]


def mark_bounds(axes: Axes, bounds: Mapping[str, float], y: float) -> None:
    """Mark the bounds of a point along an x axis of images/s, at this height."""
    for quantity, bound in bounds.items():
        present = axes.get_legend_handles_labels()[1]
        label = None if _BOUND_LABELS[quantity] in present else _BOUND_LABELS[quantity]
        axes.plot([bound, bound], [y - 0.3, y + 0.3], linestyle=_BOUND_STYLES[quantity], color=GREY, label=label)
