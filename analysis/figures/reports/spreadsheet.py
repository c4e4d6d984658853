"""Report 003: a spreadsheet over TensorFlow's benchmarks of 2017, 16 columns of throughput on 1 to 8 GPUs."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from analysis import labels, speedups
from analysis.curves import measured
from analysis.derived import KEY, RATIOS, ratios_of_settings
from analysis.figures import FigureData, FigureEntry, plots
from analysis.figures.plots import DrawnLine
from analysis.figures.reports import bnl

_GPUS = [1, 2, 4, 8]
_PUBLISHED = {"report": "003", "run": "", "quantity": "images_per_s", "kind": "measured"}
_LOCAL = {"experiment": "tf_benchmarks"}
_WITH_STRATEGIES = {"experiment": ("tf_benchmarks", bnl.EXPERIMENT)}
# These figures use them for nothing else.
_FREE = (plots.GREEN, plots.PINK, plots.ORANGE, plots.SKY, plots.BLUE, plots.RED)
_PANELS = [("inceptionv3", "P100"), ("inceptionv3", "K80"), ("resnet50", "P100"), ("resnet50", "K80")]
# The colours of no model in these figures.
_STYLES = {
    (64, "synthetic"): (plots.INDIGO, "o", "-"),
    (64, "imagenet"): (plots.INDIGO, "s", "--"),
    (32, "synthetic"): (plots.OLIVE, "o", "-"),
    (32, "imagenet"): (plots.OLIVE, "s", "--"),
}


def _columns(points: FigureData, value: str, axis_label: str) -> Figure:
    """Draw four panels, a model on a GPU each, with four columns of the sheet: two batches x two kinds of data."""
    benchmarks, strategies = bnl.split_strategies(points.local)
    fig, panels = plots.canvas(2, 2, height_mm=100, sharex=True, sharey=value != "rate")
    gpus = [*_GPUS, *points.local["ranks"]]
    for axes, (model, gpu) in zip(panels, _PANELS, strict=True):
        rows = points.published[(points.published["model"] == model) & (points.published["gpu"] == gpu)]
        lines = []
        for (batch, data), style in _STYLES.items():
            column = rows[(rows["batch_per_rank"] == batch) & (rows["dataset"] == data)]
            curve = speedups.curve(speedups.points(column["ranks"].tolist(), column["value"].tolist()), "size")
            label = f"batch {batch}, {'real' if data == 'imagenet' else data}"
            sizes, values = [point.size for point in curve], [getattr(point, value).value for point in curve]
            lines.append(DrawnLine(label, sizes, values, *style))
        local = plots.local_lines(benchmarks[benchmarks["model"] == model], value=value)
        local = [replace(line, colour=plots.BLACK) for line in local]
        local += bnl.strategy_lines(strategies[strategies["model"] == model], value, _FREE)
        lines += [replace(line, label=line.label.partition(", ")[2]) for line in local]  # the title names the model
        plots.draw(axes, lines)
        axes.set_title(f"{labels.name(model)}, {gpu}")
        plots.doubling(axes, gpus, "GPUs" if axes in panels[2:] else "")
        if value == "efficiency":
            axes.axhline(1, color=plots.GREY, linestyle=":", label="ideal")
        else:
            plots.logarithmic(axes, "", 2 if value == "speedup" else 10)
        if value == "speedup":
            plots.ideal(axes, gpus)
        if value == "rate":
            plots.draw_bounds(axes, points.local[points.local["model"] == model], "ranks", plots.BLACK)
        axes.label_outer() if value != "rate" else None
    fig.supylabel(axis_label, fontsize=7)
    return plots.legend(fig, points.note())


_EIGHT = "os^vDPX*"  # markers


def _comparison(points: FigureData, ratio: str, label: str, speedups: bool) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=82)
    ratios = ratios_of_settings(points.published, ratio, speedups)
    published = [
        DrawnLine(", ".join(names), rows["ranks"].tolist(), rows["ratio"].tolist(), _cell_colour(names), marker)
        for (names, rows), marker in zip(_by_cell(ratios, ratio), _EIGHT, strict=True)
    ]
    median = ratios["ratio"].median()
    axes.axhline(median, color=plots.BLACK, linewidth=0.6, linestyle="--", label=f"median of all, {median:.2f}x")
    drawn = list(_local_ratios(points.local, ratio, speedups))
    plots.draw(axes, published + drawn)
    plots.doubling(axes, [*_GPUS, *(x for line in drawn for x in line.x)], "GPUs")
    axes.set_ylabel(label)
    return plots.legend(fig, points.note() if drawn else "")


def _local_ratios(local: pd.DataFrame, ratio: str, speedups: bool) -> Iterator[DrawnLine]:
    """Yield the ratios of local throughputs or speedups: a line for each strategy and other setting."""
    rows = measured(local, "images_per_s")
    for nth, (_, strategy) in enumerate(rows.groupby(list(labels.STRATEGY), dropna=False, sort=False)):
        exchange = labels.distinctions(strategy, rows, "swept", *KEY)
        for names, ratios in _by_cell(ratios_of_settings(strategy, ratio, speedups), ratio):
            label = ", ".join(["local", *names, labels.n_range(ratios["n"]), *exchange])
            x, y, low, high = (ratios[name].tolist() for name in ("ranks", "ratio", "low", "high"))
            yield DrawnLine(label, x, y, plots.BLACK, plots.nth_marker(nth), plots.nth_style(nth), low, high)


def _by_cell(ratios: pd.DataFrame, ratio: str) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """Yield the ratios of each setting without the compared column, with the names of its values."""
    same = [name for name in KEY[:-1] if name != RATIOS[ratio][0]]
    for cells, rows in ratios.groupby(same):
        yield [_cell_name(name, cell) for name, cell in zip(same, cells, strict=True) if cell], rows


def _cell_name(column: str, cell: object) -> str:
    if column == "batch_per_rank":
        return f"batch {cell}"
    return {"imagenet": "real", "inceptionv3": "Inception", "resnet50": "ResNet50"}.get(str(cell), str(cell))


def _cell_colour(names: list[str]) -> str:
    """Return the colour of the model of a cell; of cells without one, a colour for each GPU."""
    models = [name for name in names if name in ("Inception", "ResNet50")]
    return plots.colour(models[0]) if models else plots.INDIGO if "P100" in names else plots.OLIVE


_QUANTITIES = {
    "throughput": ("rate", "throughput [images/s]"),
    "speedup": ("speedup", "speedup by throughput"),
    "efficiency": ("efficiency", "efficiency by throughput"),
}
_COMPARED = {
    "synthetic-real": ("ratio_synthetic_to_real", "throughput, synthetic / real"),
    "batch": ("ratio_batch_64_to_32", "speedup, batch 64 / batch 32"),
    "p100-k80": ("ratio_p100_to_k80", "throughput, P100 / K80"),
    "models": ("ratio_resnet50_to_inceptionv3", "throughput, ResNet50 / Inception v3"),
}
FIGURES = [
    FigureEntry(f"003-{id}", partial(_columns, value=value, axis_label=label), _PUBLISHED, _WITH_STRATEGIES)
    for id, (value, label) in _QUANTITIES.items()
] + [
    FigureEntry(f"003-{id}", partial(_comparison, ratio=ratio, label=label, speedups=id == "batch"), _PUBLISHED, _LOCAL)
    for id, (ratio, label) in _COMPARED.items()
]
