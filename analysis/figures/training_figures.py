"""Figures of training: accuracy, time to accuracy, usage, and the losses of several ranks beside those of one."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import labels
from analysis.experiments import training_runs
from analysis.experiments.equivalence import TOLERANCE, Pair, pairs, ranks_label
from analysis.figures import FigureData, FigureKind, plots
from analysis.figures.settings import along_axis
from analysis.table.swept_axis import SCALING, phrase
from common.terminal import counted


def _points(local: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the label and the rows of each point, by model, series and position in the series."""
    points = []
    for (model, _, ranks, _), rows in local.groupby(["model", "series", "ranks", "axis_value"], dropna=False):
        axis, value = rows["axis"].iloc[0], rows["axis_value"].iloc[0]
        label = [labels.name(model)] if local["model"].nunique() > 1 else []
        label += labels.distinctions(rows, local)
        if axis and axis not in SCALING:
            label.append(phrase(axis, None if pd.isna(value) else value))
        if not label or local["ranks"].nunique() > 1:
            label.insert(0, counted(int(str(ranks)), "rank"))
        points.append((", ".join(label), rows))
    return points


def _curves(points: FigureData) -> Figure:
    labelled = _points(points.local)
    fig, panels = plots.canvas(2, 1, height_mm=98, sharex=True, sharey=True)
    for axes, part in zip(panels, ("validation", "training"), strict=True):
        quantity = f"{part.removesuffix('ing')}_accuracy"
        lines = []
        for nth, (label, rows) in enumerate(labelled):
            lines += plots.epochs(rows, quantity, plots.empty_line(label, plots.nth_colour(nth), nth))
        plots.draw(axes, lines)
        axes.set_ylabel(f"{part} accuracy")
    panels[-1].set_xlabel("epoch")
    panels[-1].xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    return plots.legend(fig, points.note(scaling=False))


_PANELS_OF_TIMES = (
    ("epoch_s", "time per\nepoch [s]", True),
    ("epochs_to_stable", "epochs to\nstable accuracy", False),
    ("time_to_stable_s", "time to stable\naccuracy [s]", True),
)


def _time_to_accuracy(points: FigureData) -> Figure:
    local, finish = along_axis(points.local)
    runs = training_runs(local)
    fig, panels = plots.canvas(3, 1, height_mm=130, sharex=True)
    for axes, (column, label, scaling) in zip(panels, _PANELS_OF_TIMES, strict=True):
        _draw_series(axes, runs[runs[column].notna()], column, scaling)
        finish(axes, axes is panels[-1])
        axes.set_ylim(0)
        axes.set_ylabel(label)
    return plots.legend(fig, points.note())


def _final_accuracy(points: FigureData) -> Figure:
    local, finish = along_axis(points.local)
    fig, panels = plots.canvas(2, 1, height_mm=100, sharex=True)
    for axes, part in zip(panels, ("validation", "training"), strict=True):
        rows = local[local["quantity"] == f"{part.removesuffix('ing')}_accuracy"]
        last = rows.sort_values("epoch", kind="stable").drop_duplicates("record", keep="last")
        _draw_series(axes, last, "value", scaling=False)
        finish(axes, axes is panels[-1])
        axes.set_ylabel(f"final {part}\naccuracy")
    return plots.legend(fig, points.note(scaling=False))


def _draw_series(axes: Axes, runs: pd.DataFrame, column: str, scaling: bool) -> None:
    """Draw a column of `runs`, one row a run, over their `x`."""
    series = [rows for _, rows in runs.groupby(["model", "series"], sort=False)]
    plots.draw(axes, [plots.means(rows, column, "x", plots.series_line(rows, runs), scaling) for rows in series])


_STYLES = ("-", *plots.STYLES)
_PANELS_OVER_TIME = (
    ("cpu_use_fraction", 1.0, "CPU use of\nits cores"),
    ("gpu_use_fraction", 1.0, "GPU use, share\nof the time"),
    ("memory_bytes", 2.0**-30, "memory [GiB]"),
    ("gpu_memory_bytes", 2.0**-30, "GPU memory [GiB]"),
)
_BEFORE_FIRST_STEP = tuple(f"phase_{name}_s" for name in ("start", "import", "init", "data", "build", "broadcast"))


def _usage(points: FigureData) -> Figure:
    local = points.local
    panels = [panel for panel in _PANELS_OVER_TIME if (local["quantity"] == panel[0]).any()]
    labelled, rows_of_panels = _points(local), max(1, len(panels))
    fig, drawn = plots.canvas(rows_of_panels, 1, height_mm=30 + 32 * rows_of_panels, sharex=True)
    if not panels:
        plots.write(drawn[0], 0.5, 0.5, "no samples: measure.usage_period_s=null", ha="center")
    for axes, (quantity, scale, unit) in zip(drawn, panels, strict=bool(panels)):
        for nth, (label, rows) in enumerate(labelled):
            _over_time(axes, rows, quantity, scale, label, nth)
        axes.plot([], [], "o", color=plots.GREY, markersize=4, label="dot: the first step begins")
        axes.set_ylim(0, max(1.05, axes.get_ylim()[1]) if quantity.endswith("fraction") else 1.1 * axes.get_ylim()[1])
        axes.set_ylabel(unit)
    drawn[-1].set_xlim(0)
    drawn[-1].set_xlabel("time since the launch of the job [s]")
    shared = "\nranks shared cores in some of the runs" if local["cores_shared"].any() else ""
    return plots.legend(fig, f"local: {'; '.join(local['machine'].unique())}{shared}")


def _over_time(axes: Axes, rows: pd.DataFrame, quantity: str, scale: float, name: str, nth: int) -> None:
    """Draw the nth point: each second the mean over repeats; a dot where the first step begins."""
    samples = rows[rows["quantity"] == quantity]
    if samples.empty:  # no samples, or no GPU
        return
    mean = samples.groupby("time_s")["value"].mean() * scale
    x, label = mean.index.astype(float), f"{name}, {labels.n_range([samples['record'].nunique()])}"
    axes.plot(x, mean, label=label, color=plots.nth_colour(nth), linestyle=_STYLES[nth % len(_STYLES)])
    before = rows[rows["record"].isin(samples["record"]) & rows["quantity"].isin(_BEFORE_FIRST_STEP)]
    begin = max(x.min(), before.groupby("record")["value"].sum().mean())
    axes.plot(begin, np.interp(begin, x, mean), "o", color=plots.nth_colour(nth), markersize=4)


# The quantities that the figures draw.
USAGE_QUANTITIES = (*(panel[0] for panel in _PANELS_OVER_TIME), *_BEFORE_FIRST_STEP)
EPOCH_QUANTITIES = ("epoch_s", "validation_accuracy", "train_accuracy")

_LOSS_COLOURS = {
    "horovod": {2: plots.SKY, 4: plots.RED},
    "mwms": {2: plots.BLUE, 4: plots.ORANGE},
    "ps_cpu": {2: plots.GREEN, 4: plots.PINK},
}
_LOSS_STYLES = {2: "--", 4: ":"}
# Hollow around those of another backend: a filled mark would hide the other one.
_MARKS: dict[str, dict[str, Any]] = {
    "mwms": {"marker": "o", "markersize": 4, "mfc": "none", "mew": 0.7},
    "ps_cpu": {"marker": "s", "markersize": 6, "mfc": "none", "mew": 0.7},
}
_DOTS: dict[str, Any] = {"marker": ".", "markersize": 2}
_BASE: dict[str, Any] = {"color": "0.7", "linewidth": 3.0, "linestyle": "-"}  # lines on top of it can be seen


def _loss_style(pair: Pair) -> dict[str, Any]:
    colours, ranks = _LOSS_COLOURS.get(pair.run["backend"], {}), pair.run["ranks"]
    return {"color": colours.get(ranks, plots.BLACK), "linestyle": _LOSS_STYLES.get(ranks, "-.")}


def _losses(axes: Axes, pairs: list[Pair], title: str, over_images: bool) -> None:
    drawn = [("1 rank", p.one["global_batch"], p.one_losses, _BASE) for p in pairs[:1]]
    drawn += [(ranks_label(p), p.run["global_batch"], p.losses, _loss_style(p)) for p in pairs]
    for label, global_batch, losses, style in drawn:
        x = losses.index * global_batch / 1000 if over_images else losses.index
        axes.plot(x, losses, label=label, **style)
    axes.set_title(title)
    axes.set_xlabel("images [thousands]" if over_images else "step")
    axes.set_ylabel("loss")


def _draw_losses(points: FigureData) -> Figure:
    fig, (same, same_batch, as_report, off) = plots.canvas(2, 2, height_mm=108)
    first = [p for p in pairs(points.local) if p.run["repeat"] == 0]
    groups = {
        "the same steps": (same, [p for p in first if p.same_steps]),
        "batch per rank kept": (same_batch, [p for p in first if not p.same_steps and p.same_rate]),
    }
    for title, (axes, group) in groups.items():
        _losses(axes, group, title, over_images=axes is same_batch)
        highest_loss = max((max(pair.losses.max(), pair.one_losses.max()) for pair in group), default=1.0)
        axes.set_ylim(0, 1.08 * highest_loss)
        for pair in group:
            differs = pair.off[pair.off > 0]
            marks = _MARKS.get(pair.run["backend"], _DOTS)
            off.plot(differs.index, differs, linewidth=0.6, **_loss_style(pair), **marks)
        highest = max((pair.off.max() for pair in group), default=0.0)
        if highest > 0:  # else nothing of the group is drawn
            off.text(0.03, 3 * highest, title, transform=off.get_yaxis_transform(), fontsize=5.5, color=plots.GREY)
    if scaled := [p for p in first if not p.same_rate]:
        title = f"{scaled[0].run['optimizer'].capitalize()}, rate {scaled[0].one['learning_rate']:g} x ranks"
        _losses(as_report, scaled, title, over_images=True)
        as_report.set_yscale("log")
    else:
        as_report.set_axis_off()
        plots.write(as_report, 0.5, 0.5, "a rate times the ranks:\nnot measured", ha="center")
    off.set_yscale("log")
    off.margins(y=0.15)
    off.axhline(TOLERANCE, color=plots.GREY, linestyle=":")
    off.set_title("difference from 1 rank")
    off.set_xlabel("step")
    off.set_ylabel("of its loss [fraction]")
    return plots.legend(fig, f"local: {'; '.join(points.local['machine'].unique())}; one run each")


CURVES = FigureKind("curves", "curves", _curves, {"quantity": EPOCH_QUANTITIES})
TIME_TO_ACCURACY = FigureKind("time-to-accuracy", "time-to-accuracy", _time_to_accuracy, {"quantity": EPOCH_QUANTITIES})
USAGE = FigureKind("usage", "usage", _usage, {"quantity": USAGE_QUANTITIES})
ACCURACY = FigureKind("accuracy", "accuracy", _final_accuracy, {"quantity": EPOCH_QUANTITIES})
EQUIVALENCE = FigureKind("equivalence", "", _draw_losses)
