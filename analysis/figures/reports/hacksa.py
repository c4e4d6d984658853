"""Report 000: VGG, ResNet and Inception with Horovod on CIFAR10, total steps shared out among the GPUs."""

from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis import explain, labels, metrics, speedups
from analysis.explain import wall_time_runs
from analysis.figures import FigureData, FigureEntry, plots
from analysis.figures.plots import DrawnLine

_QUANTITIES = ("wall_s", "images_per_s_per_rank")
_GPUS = "GPUs (local: ranks)"


def _published(model: str | tuple[str, ...]) -> dict[str, object]:
    return {"report": "000", "model": model, "quantity": _QUANTITIES, "kind": "measured"}


def _local(model: str | tuple[str, ...]) -> dict[str, object]:
    return {"experiment": ("fixed_work", "cifar10"), "model": model}


def _line(published: pd.DataFrame, quantity: str, value: str, template: DrawnLine) -> DrawnLine:
    """Return speedups or efficiencies: GPUs x speed in parallel / in serial, or time in serial / in parallel."""
    rows = published[(published["quantity"] == quantity) & (published["value"] > 0)]
    times = quantity == "wall_s"
    rate = metrics.rate(1.0, rows["value"]) if times else metrics.job_total(rows["value"], rows["ranks"])
    curve = speedups.curve(speedups.points(rows["ranks"].tolist(), rate.tolist()), "size")
    return replace(template, x=[point.size for point in curve], y=[getattr(point, value).value for point in curve])


def _missing(published: pd.DataFrame) -> str:
    """Return which points of the report are not drawn, and why; "" if all are."""
    zero = published[published["value"].eq(0)]
    reasons = [
        f"{labels.name(row['model'])} on {row['ranks']} GPUs: printed as 0.00 images/s" for _, row in zero.iterrows()
    ]
    largest = published.groupby("model")["ranks"].max()
    reasons += [f"{labels.name(model)} on 32 GPUs: no run in the report" for model in largest.index[largest < 32]]
    return f"not drawn of the report: {'; '.join(reasons)}" if reasons else ""


def _speedup(points: FigureData) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=88)
    gpus = [*points.published["ranks"], *points.local["ranks"]]
    plots.ideal(axes, gpus, label="theoretical")
    model = points.published["model"].iloc[0]
    by_speed = DrawnLine("by speed", [], [], plots.colour(model), plots.marker(model))
    templates = [by_speed, DrawnLine("by wall time", [], [], plots.BLACK, "*", "--")]
    lines = [
        _line(points.published, quantity, "speedup", template)
        for quantity, template in zip(("images_per_s_per_rank", "wall_s"), templates, strict=True)
    ]
    for by, template in zip(("throughput", "wall time"), templates, strict=True):
        for line in plots.local_lines(points.local, by, "speedup"):
            label = line.label.replace(f"{labels.name(model)}, local", f"local, {template.label}", 1)
            lines.append(replace(line, label=label, colour=template.colour))
    plots.draw(axes, lines)
    plots.doubling(axes, gpus, _GPUS)
    plots.logarithmic(axes, "speedup", 2)
    time = axes.twinx()
    times = points.published[points.published["quantity"] == "wall_s"]
    plots.draw(
        time, [DrawnLine("training time", times["ranks"].tolist(), times["value"].tolist(), plots.GREY, "x", "-.")]
    )
    plots.logarithmic(time, "training time [s]")
    time.grid(False)
    time.spines["right"].set_visible(True)
    return plots.legend(fig, points.note(_missing(points.published)))


_MODELS = ("vgg19", "resnet101v2", "inceptionv4")


def _efficiency(points: FigureData, quantity: str, by: str, stated: float) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=76)
    lines = []
    for model in _MODELS:
        rows = points.published[points.published["model"] == model]
        template = DrawnLine(labels.name(model), [], [], plots.colour(model), plots.marker(model))
        lines.append(_line(rows, quantity, "efficiency", template))
    plots.draw(axes, lines + plots.local_lines(points.local, by, "efficiency"))
    axes.axhline(stated, color=plots.BLACK, linewidth=0.6, linestyle="--", label=f"the report's bound, {stated:g}")
    plots.doubling(axes, [*points.published["ranks"], *points.local["ranks"]], _GPUS)
    plots.fraction(axes, f"efficiency by {'speed' if by == 'throughput' else by}")
    return plots.legend(fig, points.note(_missing(points.published[points.published["quantity"] == quantity])))


def _at(gpus: pd.Series, values: pd.Series, template: DrawnLine) -> DrawnLine:
    """Return the values of some rows as a line over their GPUs."""
    return replace(template, x=gpus.tolist(), y=values[gpus.index].tolist())


def _explained(points: FigureData) -> Figure:
    fig, (top, bottom) = plots.canvas(2, 1, height_mm=120)
    table, _ = wall_time_runs.points(points.published, "report 000")
    costs, shares = list[DrawnLine](), list[DrawnLine]()
    for model in _MODELS:
        explained = explain.explain(table[table["model"] == model], model)
        rows, colour, mark = explained.points, plots.colour(model), plots.marker(model)
        gpus, cost, fits = rows["ranks"].astype(float), explained.fixed_s, ~rows["misfit"]
        label = f"{labels.name(model)}: fixed {cost.value:.1f} s ({cost.low:.1f} to {cost.high:.1f})"
        filled, crosses = DrawnLine("", [], [], colour, mark), DrawnLine("", [], [], colour, "x", "")
        hollow = replace(filled, style=":", shared=[True] * len(gpus))
        beyond_s = rows["beyond_speed_s"]
        costs.append(_at(gpus[fits], beyond_s, replace(filled, label=label, style="")))
        costs.append(_at(gpus[~fits], beyond_s, crosses))
        top.axhline(cost.value, color=colour, linewidth=0.8)
        top.axhspan(cost.low, cost.high, color=colour, alpha=0.12, linewidth=0)
        measured, without = (metrics.efficiency(rows[f"speedup_{name}"], gpus, gpus.iloc[0])
                             for name in ("wall_time", "without_fixed"))  # fmt: skip
        shares += [_at(gpus, measured, hollow), _at(gpus[fits], without, filled), _at(gpus[~fits], without, crosses)]
        for gpu, beyond in zip(gpus[~fits], beyond_s[~fits], strict=True):
            where: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "top"}
            top.annotate(labels.name(model), (gpu, beyond), (-3, -3), fontsize=6, color=colour, **where)
    plots.draw(top, costs)
    plots.draw(bottom, shares)
    for axes in (top, bottom):
        plots.doubling(axes, points.published["ranks"], "GPUs")
    plots.write(top, 0.03, 0.06, "lines: fixed cost; cross: left out, the others do not predict it")
    top.set_ylabel("wall time not in the speed [s]")
    top.set_ylim(0)
    plots.fraction(bottom, "efficiency by wall time", ideal=False)
    bottom.axhline(1, color=plots.GREY, linestyle=":")
    plots.write(bottom, 0.03, 0.06, "filled: without the fixed cost; open: with it")
    return plots.legend(fig)


FIGURES = [
    *(FigureEntry(f"000-{model}", _speedup, _published(model), _local(model)) for model in _MODELS),
    *(
        FigureEntry(id, partial(_efficiency, quantity=name, by=by, stated=bound), _published(_MODELS), _local(_MODELS))
        for id, name, by, bound in (
            ("000-efficiency-speed", "images_per_s_per_rank", "throughput", 0.94),
            ("000-efficiency-wall-time", "wall_s", "wall time", 0.4),
        )
    ),
    FigureEntry(
        "000-explained",
        _explained,
        {"report": "000", "quantity": (*_QUANTITIES, "steps_per_rank_planned"), "kind": ("measured", "planned")},
    ),
]
