"""The chart kinds that the figures share: markers, axes and legends at the width of one column."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import offset_copy

from analysis import speedups
from analysis.stats.repeats import arithmetic_mean
from analysis.table import controls
from analysis.table.identity import PHRASES
from train.record import backends, intervals

STYLE = Path(__file__).with_name("style.mplstyle")
WIDTH_MM = 85
MM = 1 / 25.4  # inches
_LEGEND_MM = 16  # of the height of a figure

_DOTS_BESIDE = 4  # points: so far left of a marker are the values behind it
BESIDE = 1.045  # times x: from one line to the next that has it too
_SIDE_BY_SIDE = 8  # lines; with more of them they move closer together

# The colours of Okabe and Ito. One for each family of models, so that a model has the same colour in every figure.
BLUE, RED, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
# Two of Tol's muted scheme, where these are too few.
INDIGO, OLIVE = "#332288", "#999933"
GREY = "0.45"
_FAMILIES = {
    "vgg": (BLUE, "o"),
    "resnet": (RED, "s"),
    "inception": (GREEN, "^"),
    "alexnet": (PINK, "v"),
    "googlenet": (ORANGE, "P"),
}
_NAMES = {
    "vgg16": "VGG16", "vgg19": "VGG19", "resnet50": "ResNet50", "resnet101v2": "ResNet101 v2", "resnet152": "ResNet152",
    "inceptionv3": "Inception v3", "inceptionv4": "Inception v4", "alexnet": "AlexNet", "googlenet": "GoogLeNet",
}  # fmt: skip
COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, SKY, INDIGO, OLIVE)
# Local points: the first series of a model, and those after it. No point of a report has one of these markers.
MARKERS = ("D", "p", "h", ">", "<", "8", "d")
STYLES = ("--", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)))


def name(model: object) -> str:
    """A model's name as papers write it."""
    return _NAMES.get(str(model), str(model))


def colour(model: object) -> str:
    """The colour of a model's family."""
    return next((c for family, (c, _) in _FAMILIES.items() if str(model).startswith(family)), SKY)


def marker(model: object) -> str:
    """The marker of a model's family, for published points."""
    return next((m for family, (_, m) in _FAMILIES.items() if str(model).startswith(family)), "X")


@dataclass(frozen=True)
class Line:
    """One curve: its points, the ends of their 95 % intervals where known, and which of them shared cores.

    `raw` are the x and y of the single values behind the points; `joined`: a line joins the points.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str = BLACK
    marker: str = "o"
    style: str | tuple[int, tuple[int, ...]] = "-"
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    shared: Sequence[bool] = field(default_factory=tuple)
    raw: tuple[Sequence[float], Sequence[float]] = ((), ())
    joined: bool = True


def canvas(rows: int = 1, columns: int = 1, height_mm: float = 70, **share: bool | str) -> tuple[Figure, list[Axes]]:
    """An empty figure of one column width, and its axes, row by row. The height is with a `legend` of usual length."""
    figure = Figure(figsize=(WIDTH_MM * MM, height_mm * MM), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **share)  # type: ignore[call-overload]
    return figure, list(axes.flat)


def draw(axes: Axes, lines: Iterable[Line]) -> None:
    """Draws the lines, with intervals where they are known; points that shared cores are hollow."""
    for line in lines:
        style = line.style if line.joined else "none"
        if len(line.raw[0]):
            beside = offset_copy(axes.transData, axes.get_figure(root=True), x=-_DOTS_BESIDE, units="points")
            axes.plot(*line.raw, ".", color=line.colour, alpha=0.3, markersize=3, mew=0, zorder=1, transform=beside)
        x, y = np.asarray(line.x, float), np.asarray(line.y, float)
        if np.isfinite(line.low).any():
            ends = np.array([y - np.asarray(line.low, float), np.asarray(line.high, float) - y])
            axes.errorbar(x, y, ends, fmt="none", ecolor=line.colour, elinewidth=0.8)
        axes.plot(x, y, linestyle=style, color=line.colour)
        shared = np.asarray(line.shared, bool) if len(line.shared) else np.zeros(len(x), bool)
        for which, face in ((~shared, line.colour), (shared, "white")):
            axes.plot(x[which], y[which], line.marker, mfc=face, mec=line.colour, mew=0.8)
        axes.plot([], [], marker=line.marker, linestyle=style, color=line.colour, label=line.label)


# Backends, and what a label says of them also where nothing else is drawn.
_ALWAYS_SAID = {backends.ASYNCHRONOUS: "asynchronous", backends.TOWERS: "variables on the CPU"}
# How ranks exchange gradients.
STRATEGY = ("backend", "gradients", "cycle_time_ms")
# Columns that can tell two series of one model apart.
_TELL = ("swept", "arm", "machine", "dataset", "device", "precision", "measure", "batch_per_rank", *STRATEGY)


def local_lines(local: pd.DataFrame, by: str = "throughput", value: str = "rate", over: str = "ranks") -> list[Line]:
    """One line for each series of local records: each point with its interval, and the values behind it.

    `by` names the rate (`speedups.rates`), `value` what is drawn of it: "rate" (images/s), "speedup", "efficiency";
    `over` is the column on the x axis. The label names the model, n, and what else tells the series apart. A line joins
    points of more than one value each. Colours stand for models, or for the arms of a single one (`colours`).
    """
    runs = speedups.rates(local, by)
    colour_of = colours(runs)
    lines = []
    for (_, series), points in runs.groupby(["model", "series"], sort=False):
        base = speedups.base_of(points, runs)
        curve, values = (of(points, over, base) for of in (speedups.curve, speedups.paired))
        shared = controls.lost(points).groupby(points[over]).any()
        model = points["model"].iloc[0]
        nth = runs[runs["model"] == model]["series"].unique().tolist().index(series)
        lines.append(
            Line(
                ", ".join([f"{name(model)}, local", measured(points, curve), *told_apart(points, runs)]),
                curve["size"].tolist(), curve[value].tolist(), colour_of[str(model), str(series)],
                nth_marker(nth), nth_style(nth),
                curve[f"{value}_low"].tolist(), curve[f"{value}_high"].tolist(), shared.tolist(),
                (values["size"].tolist(), values[value].tolist()) if curve["n"].max() > 1 else ((), ()),
                curve["n"].min() > 1,
            )
        )  # fmt: skip
    return lines


def side_by_side(lines: Sequence[Line], beside: float = BESIDE) -> list[Line]:
    """The lines for a logarithmic x axis, those with a point at the same x moved beside each other, in their order.

    beside: times x, from one to the next.
    """
    placed = []
    for line in lines:
        rivals = [other for other in lines if set(other.x) & set(line.x)]
        nth = next(place for place, other in enumerate(rivals) if other is line)
        closer = min(1.0, (_SIDE_BY_SIDE - 1) / max(1, len(rivals) - 1))
        times = beside ** (closer * (nth - (len(rivals) - 1) / 2))
        raw = ([x * times for x in line.raw[0]], line.raw[1])
        placed.append(replace(line, x=[x * times for x in line.x], raw=raw))
    return placed


def of_arms(runs: pd.DataFrame) -> bool:
    """Whether these runs are arms of a single model, so that colours stand for arms."""
    return bool(runs["arm"].nunique() > 1 and runs["model"].nunique() == 1)


def colours(runs: pd.DataFrame) -> dict[tuple[str, str], str]:
    """The colour of each model and series: that of the model's family, or of arms of a single model one for each."""
    found = list(runs[["model", "series"]].drop_duplicates().itertuples(index=False, name=None))
    if of_arms(runs):
        return {series: nth_colour(nth) for nth, series in enumerate(found)}
    return {series: colour(series[0]) for series in found}


def measured(runs: pd.DataFrame, curve: pd.DataFrame) -> str:
    """How often the points of a curve were measured, for a legend: "24 rounds in 2 launches", "n=3"."""
    if runs["round"].isna().all():
        return repeats(curve["n"])
    words = []
    for column, one in (("n", "round"), ("launches", "launch")):
        low, high = curve[column].min(), curve[column].max()
        several = "es" if one == "launch" else "s"
        words.append((f"{high}" if low == high else f"{low} to {high}") + f" {one}{several if high > 1 else ''}")
    return " in ".join(words)


def nth_marker(nth: int) -> str:
    """The marker of the nth series of local points."""
    return MARKERS[nth % len(MARKERS)]


def nth_style(nth: int) -> str | tuple[int, tuple[int, ...]]:
    """The line style of the nth series of local points."""
    return STYLES[nth % len(STYLES)]


def nth_colour(nth: int) -> str:
    """The colour of the nth series, where colours do not stand for models."""
    return COLOURS[nth % len(COLOURS)]


def told_apart(series: pd.DataFrame, among: pd.DataFrame, *said: str) -> list[str]:
    """What the rows of one series have in common that others `among` them have not: phrases for a label.

    said: the columns that the label names already.
    """
    words: dict[str, None] = {}
    of_models = among.groupby("model")
    named = among["arm"].nunique() > 1 and (of_models["arm"].nunique() == of_models["series"].nunique()).all()
    said += STRATEGY if named and "arm" not in said else ()  # the arm's name says it
    for column in _TELL:
        if column not in said and among[column].nunique() > 1 and series[column].nunique() == 1:
            phrase = PHRASES[column].format(series[column].iloc[0])
            words |= dict.fromkeys(part for part in phrase.split(", ") if part)
    words |= {word: None for of, word in _ALWAYS_SAID.items() if series["backend"].isin(of).all()}
    return [*words, *servers(series)]


def servers(runs: pd.DataFrame) -> list[str]:
    """A phrase where, in all runs, parameter servers had cores beside those of the ranks: "+2 cores for servers"."""
    cores = int(runs["server_cores"].min())
    return [f"+{cores} core{'s' * (cores > 1)} for servers"] if cores else []


def repeats(counts: Iterable[int]) -> str:
    """How many repeats the points have, for a legend: "n=3", "n=1 to 3"; below 6 there is no interval."""
    low, high = min(counts := list(counts)), max(counts)
    return f"n={high}" if low == high else f"n={low} to {high}"


def provenance(local: pd.DataFrame, scaling: bool = True) -> str:
    """A note for below the figure: the machines of the local points, and how to read them; "" without any.

    scaling: the figure shows times or rates, which shared cores distort; they leave accuracies as they are.
    """
    if local.empty:
        return ""
    within = ""
    counts = local.groupby(["series", "axis_value", "ranks", "batch_per_rank", "threads_per_rank"], dropna=False)
    in_rounds = local[local["round"].notna()]
    if len(in_rounds):
        few = in_rounds.groupby("series")["record"].nunique().min() < intervals.MIN_VALUES
        within = ", over rounds within these launches, not over other launches" if few else ""
    said = [f"bars: 95 % interval{within}"]
    if counts["record"].nunique().min() < intervals.MIN_VALUES:
        said.append(f"none where n < {intervals.MIN_VALUES}")
    if len(in_rounds):
        said.append("dots: rounds")
    if scaling and local["cores_shared"].any():
        said.append("hollow, hatched: shared cores, no measure of scaling")
    elif scaling and controls.lost(local).any():
        said.append("hollow, hatched: no measure of scaling")
    if local["backend"].isin(backends.ASYNCHRONOUS).any():
        said.append("asynchronous: not synchronous SGD")
    lines = ["local: " + "; ".join(local["machine"].unique()), "; ".join(said), *assumed(local)]
    if emulated := controls.words(local, name):
        lines += [emulated, "images: " + images(local[local["cpus_per_node"].notna()])]
        if local["quantity"].eq("wall_s").any():
            lines += ["quotas apply from the warm-up on: wall time also counts what ran without them"]
    return "\n".join("\n".join(textwrap.wrap(line, 78)) for line in lines)


def assumed(local: pd.DataFrame) -> list[str]:
    """A line an experiment: the keys of its configuration that its report does not state; none where it states all."""
    keys = local.loc[local["assumed"].ne(""), ["experiment", "assumed"]].drop_duplicates()
    return [
        f"{experiment}, assumed, not stated by the report: {words}"
        for experiment, words in keys.itertuples(index=False)
    ]


def images(local: pd.DataFrame) -> str:
    """The size of the images of each model, in words."""
    sizes = local[["model", "image_size"]].dropna().drop_duplicates()
    return ", ".join(f"{name(model)} {size} x {size}" for model, size in sizes.itertuples(index=False))


# Ticks that are closer than this share of the axis would overlap.
_TICKS_APART = 0.08


def ordered_values(values: Iterable[float]) -> list[float]:
    """Each value of an axis once, ascending; NaN (no limit, say) comes last."""
    given = [float(value) for value in values]
    return sorted({value for value in given if not math.isnan(value)}) + [math.nan] * any(map(math.isnan, given))


def positions(values: Sequence[float]) -> tuple[list[float], str]:
    """Where ordered values of any setting stand on an axis, and how it is spaced: "", "logarithmic", "evenly spaced".

    In proportion where their ticks do not overlap, else by their logarithms, else one after the other; the last is
    also for values that are no number.
    """
    x = np.asarray(values, float)
    if len(x) < 3 and np.isfinite(x).all():
        return x.tolist(), ""
    if np.isfinite(x).all() and np.diff(x).min() >= _TICKS_APART * np.ptp(x):
        return x.tolist(), ""
    if np.isfinite(x).all() and x.min() > 0 and np.diff(np.log2(x)).min() >= _TICKS_APART * np.ptp(np.log2(x)):
        return np.log2(x).tolist(), "logarithmic"
    return [float(i) for i in range(len(x))], "evenly spaced"


def setting(axes: Axes, values: Sequence[float], label: str) -> None:
    """An x axis of the ordered values of any setting, at their `positions`."""
    places, spaced = positions(values)
    axes.set_xticks(places, ["none" if math.isnan(value) else f"{value:g}" for value in values])
    margin = 0.08 * (max(places) - min(places)) or 0.5
    axes.set_xlim(min(places) - margin, max(places) + margin)
    axes.set_xlabel(f"{label} ({spaced})" if spaced and label else label)


def doubling(axes: Axes, ticks: Iterable[float], label: str) -> None:
    """A logarithmic x axis with a tick at each of the points."""
    ticks = sorted(set(ticks))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{t:g}" for t in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(min(ticks) / 1.25, max(ticks) * 1.25)
    axes.set_xlabel(label)


def logarithmic(axes: Axes, label: str, base: int = 10) -> None:
    """A logarithmic y axis with plain numbers: 1, 2, 5, 10, ... or the powers of another base."""
    axes.set_yscale("log", base=base)
    axes.yaxis.set_major_locator(LogLocator(base, subs=(1, 2, 5) if base == 10 else (1,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel(label)


def fraction(axes: Axes, label: str, ideal: bool = True) -> None:
    """A y axis of fractions from 0, with a line at the ideal 1."""
    axes.set_ylim(0, max(1.1, axes.get_ylim()[1]))
    axes.set_ylabel(label)
    if ideal:
        axes.axhline(1, color=GREY, linestyle=":", label="ideal")


def ideal(axes: Axes, x: Iterable[float], start: float = 1, label: str = "ideal") -> None:
    """The line of ideal scaling: proportional to x, `start` at the smallest x."""
    ends = [min(x := list(x)), max(x)]
    axes.plot(ends, [start, start * ends[1] / ends[0]], ":", color=GREY, label=label)


def write(axes: Axes, x: float, y: float, text: str, **how: str | float) -> None:
    """A remark inside the axes, at fractions of their width and height."""
    axes.text(x, y, text, transform=axes.transAxes, fontsize=6, color=GREY, **how)  # type: ignore[arg-type]


def legend(figure: Figure, note: str = "", columns: int = 3) -> Figure:
    """Returns the figure with one legend below all its axes, and `note` above it; a long one makes it higher."""
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    longest = max(map(len, handles), default=0)
    fit = 1 if longest > 32 else 2 if longest > 18 else 3
    if handles or note:
        drawn = figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(fit, columns, len(handles) or 1),
            title=note or None, alignment="left",
        )  # fmt: skip
        drawn.get_title().set(color=GREY, fontsize=5.5)
        taller = drawn.get_window_extent().height / figure.dpi - _LEGEND_MM * MM
        figure.set_figheight(figure.get_figheight() + max(0, taller))
    return figure


def stacked(axes: Axes, parts: pd.DataFrame, shades: Mapping[str, str], shared: Sequence[bool]) -> None:
    """Stacked bars, one a row of `parts`, one layer a column, named by its label; hatched where cores were shared."""
    bottom = np.zeros(len(parts))
    for layer in parts.columns:
        bars = axes.bar(range(len(parts)), parts[layer], 0.7, bottom, color=shades[layer], label=layer)
        for bar, hollow in zip(bars, shared, strict=True):
            bar.set(edgecolor="white", linewidth=0.3, hatch="////" if hollow else None)
        bottom += parts[layer].to_numpy()


@dataclass(frozen=True)
class Look:
    """How the line of one series looks, and its name."""

    label: str
    colour: str
    nth: int = 0


def means(runs: pd.DataFrame, value: str, over: str, look: Look, scaling: bool = True) -> Line:
    """Local runs over a column: the mean of the column `value` over repeats, with its interval, and each of them.

    scaling: what is drawn is distorted where ranks share cores; such points are hollow.
    """
    at = {float(str(x)): arithmetic_mean([rows[value].tolist()]) for x, rows in runs.groupby(over)}
    shared = controls.lost(runs).groupby(runs[over]).any().tolist() if scaling else ()
    values, low, high = ([getattr(e, end) for e in at.values()] for end in ("value", "low", "high"))
    words = f"{look.label}, {repeats(e.n for e in at.values())}"
    marker, style = nth_marker(look.nth), nth_style(look.nth)
    raw = (runs[over].tolist(), runs[value].tolist()) if len(runs) > len(at) else ((), ())
    return Line(words, list(at), values, look.colour, marker, style, low, high, shared, raw)


def epochs(axes: Axes, local: pd.DataFrame, quantity: str, look: Look) -> None:
    """Local values of a quantity per epoch: mean over repeats with its interval, one line a series."""
    for _, rows in local[local["quantity"] == quantity].groupby("series", sort=False):
        draw(axes, [means(rows, "value", "epoch", look, scaling=False)])
