"""The chart kinds that the figures share: marks, axes and legends at one column width."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from analysis import control, metrics

STYLE = Path(__file__).with_name("style.mplstyle")
WIDTH_MM = 85
MM = 1 / 25.4  # inches

# Okabe and Ito's colours. One a family of models, so that a model has the same colour in every figure.
BLUE, RED, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
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
# One's own points: the first series of a model, and those after it. No report's point has one of these marks.
OWN_MARKERS = ("D", "p", "h", ">", "<")
OWN_STYLES = ("--", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)))
OWN_MARKER = OWN_MARKERS[0]


def name(model: object) -> str:
    """A model's name as papers write it."""
    return _NAMES.get(str(model), str(model))


def colour(model: object) -> str:
    """The colour of a model's family."""
    return next((c for family, (c, _) in _FAMILIES.items() if str(model).startswith(family)), SKY)


def marker(model: object) -> str:
    """The mark of a model's family, for published points."""
    return next((m for family, (_, m) in _FAMILIES.items() if str(model).startswith(family)), "X")


@dataclass(frozen=True)
class Line:
    """One curve: its points, the ends of their 95 % intervals where known, and which of them shared cores."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str = BLACK
    marker: str = "o"
    style: str | tuple[int, tuple[int, ...]] = "-"
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    shared: Sequence[bool] = field(default_factory=tuple)


def canvas(rows: int = 1, columns: int = 1, height_mm: float = 70, **share: bool | str) -> tuple[Figure, list[Axes]]:
    """An empty figure of one column width, and its axes, row by row."""
    figure = Figure(figsize=(WIDTH_MM * MM, height_mm * MM), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **share)  # type: ignore[call-overload]
    return figure, list(axes.flat)


def draw(axes: Axes, lines: Iterable[Line]) -> None:
    """The lines, with intervals where they are known; points that shared cores are hollow."""
    for line in lines:
        x, y = np.asarray(line.x, float), np.asarray(line.y, float)
        if len(line.low):
            ends = np.array([y - np.asarray(line.low, float), np.asarray(line.high, float) - y])
            axes.errorbar(x, y, ends, fmt="none", ecolor=line.colour, elinewidth=0.8)
        axes.plot(x, y, linestyle=line.style, color=line.colour)
        shared = np.asarray(line.shared, bool) if len(line.shared) else np.zeros(len(x), bool)
        for which, face in ((~shared, line.colour), (shared, "white")):
            axes.plot(x[which], y[which], line.marker, mfc=face, mec=line.colour, mew=0.8)
        axes.plot([], [], marker=line.marker, linestyle=line.style, color=line.colour, label=line.label)


# What can tell two series of one model apart, and how a legend says it.
_TELL = {
    **dict.fromkeys(("machine", "dataset", "device", "precision", "measure"), "{}"),
    "batch_per_rank": "batch {}",
    "gradients": "{} gradients",
    "cycle_time_ms": "cycle {:g} ms",
}


def own_lines(own: pd.DataFrame, by: str = "throughput", value: str = "rate", over: str = "ranks") -> list[Line]:
    """One line a series of one's own records, repeats joined to a mean with its interval.

    `by` names the rate (`metrics.rates`), `value` what is drawn of it: "rate" (images/s), "speedup", "efficiency";
    `over` is the column on the x axis. The label says the model, n, and what else tells the series apart.
    """
    runs = metrics.rates(own, by)
    lines = []
    for (_, series), points in runs.groupby(["model", "series"], sort=False):
        points = points.sort_values(over)
        curve = metrics.curve(points[over].tolist(), points["rate"].tolist())
        shared = control.lost(points).groupby(points[over]).any()
        model = points["model"].iloc[0]
        nth = runs[runs["model"] == model]["series"].unique().tolist().index(series) % len(OWN_MARKERS)
        lines.append(
            Line(
                ", ".join([f"{name(model)}, own", repeats(curve["n"]), *told_apart(points, runs)]),
                curve["ranks"].tolist(), curve[value].tolist(), colour(model), OWN_MARKERS[nth], OWN_STYLES[nth],
                curve[f"{value}_low"].tolist(), curve[f"{value}_high"].tolist(), shared.tolist(),
            )
        )  # fmt: skip
    return lines


def told_apart(series: pd.DataFrame, among: pd.DataFrame, *said: str) -> list[str]:
    """What the rows of one series have in common that others `among` which they stand have not: words for a label.

    said: the columns that the label names already.
    """
    differ = [column for column in _TELL if among[column].nunique() > 1 and series[column].nunique() == 1]
    return [_TELL[column].format(series[column].iloc[0]) for column in differ if column not in said]


def repeats(counts: Iterable[int]) -> str:
    """How many repeats the points have, for a legend: "n=3", "n=1 to 3"; with one there is no interval."""
    low, high = min(counts := list(counts)), max(counts)
    return f"n={high}" if low == high else f"n={low} to {high}"


def provenance(own: pd.DataFrame, scaling: bool = True) -> str:
    """A note for below the figure: the machines of one's own points, and how to read them; "" without any.

    scaling: the figure shows times or rates, which shared cores spoil; accuracies they leave as they are.
    """
    if own.empty:
        return ""
    said = ["bars: 95 % interval"]
    point = own.groupby(["series", "ranks", "batch_per_rank", "threads_per_rank"], dropna=False)["record"].nunique()
    if point.min() == 1:
        said.append("none where n=1")
    if scaling and own["cores_shared"].any():
        said.append("hollow, hatched: shared cores, no measure of scaling")
    elif scaling and control.lost(own).any():
        said.append("hollow, hatched: no measure of scaling")
    lines = ["own: " + "; ".join(own["machine"].unique()), "; ".join(said), *assumed(own)]
    if emulated := control.words(own):
        lines += [emulated, "images: " + images(own[own["cpus_per_node"].notna()])]
        lines += ["quotas begin with the warm-up: wall time counts what ran without them, too"]
    return "\n".join("\n".join(textwrap.wrap(line, 78)) for line in lines)


def assumed(own: pd.DataFrame) -> list[str]:
    """A line an experiment: the keys of its configuration that its report does not state; none where it states all."""
    keys = own.loc[own["assumed"].ne(""), ["experiment", "assumed"]].drop_duplicates()
    return [
        f"{experiment}, assumed, not stated by the report: {words}"
        for experiment, words in keys.itertuples(index=False)
    ]


def images(own: pd.DataFrame) -> str:
    """The size of the images of each model, in words."""
    sizes = own[["model", "image_size"]].dropna().drop_duplicates()
    return ", ".join(f"{name(model)} {size} x {size}" for model, size in sizes.itertuples(index=False))


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
    """A remark within the axes, at fractions of their width and height."""
    axes.text(x, y, text, transform=axes.transAxes, fontsize=6, color=GREY, **how)  # type: ignore[arg-type]


def legend(figure: Figure, note: str = "", columns: int = 3) -> Figure:
    """The figure, with one legend below for all its axes, and `note` over it."""
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    longest = max(map(len, handles), default=0)
    fit = 1 if longest > 30 else 2 if longest > 18 else 3
    if handles or note:
        drawn = figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(fit, columns, len(handles) or 1),
            title=note or None, alignment="left",
        )  # fmt: skip
        drawn.get_title().set(color=GREY, fontsize=5.5)
    return figure


def stacked(axes: Axes, parts: pd.DataFrame, shades: Mapping[str, str], shared: Sequence[bool]) -> None:
    """Stacked bars, one a row of `parts`, one layer a column, named by its label; hatched where cores were shared."""
    bottom = np.zeros(len(parts))
    for layer in parts.columns:
        bars = axes.bar(range(len(parts)), parts[layer], 0.7, bottom, color=shades[layer], label=layer)
        for bar, hollow in zip(bars, shared, strict=True):
            bar.set(edgecolor="white", linewidth=0.3, hatch="////" if hollow else None)
        bottom += parts[layer].to_numpy()


def over_ranks(runs: pd.DataFrame, value: str, label: str, colour: str, nth: int, scaling: bool = True) -> Line:
    """One's own runs over their ranks: mean of the column `value` over repeats with its interval, in the nth style.

    scaling: what is drawn is spoilt where ranks share cores; such points are hollow.
    """
    at = {int(str(ranks)): metrics.estimate(rows[value].tolist()) for ranks, rows in runs.groupby("ranks")}
    shared = control.lost(runs).groupby(runs["ranks"]).any().tolist() if scaling else ()
    values, low, high = ([getattr(e, end) for e in at.values()] for end in ("value", "low", "high"))
    words = f"{label}, {repeats(e.n for e in at.values())}"
    return Line(words, list(at), values, colour, OWN_MARKERS[nth], OWN_STYLES[nth], low, high, shared)


def epochs(axes: Axes, own: pd.DataFrame, quantity: str, label: str, colour: str, nth: int = 0) -> None:
    """One's own values of a quantity per epoch: mean over repeats with its interval, one line a series."""
    for _, rows in own[own["quantity"] == quantity].groupby("series", sort=False):
        at = {int(str(epoch)): metrics.estimate(group["value"].tolist()) for epoch, group in rows.groupby("epoch")}
        values, low, high = ([getattr(e, end) for e in at.values()] for end in ("value", "low", "high"))
        words = f"{label}, {repeats(e.n for e in at.values())}"
        draw(axes, [Line(words, list(at), values, colour, OWN_MARKERS[nth], OWN_STYLES[nth], low, high)])
