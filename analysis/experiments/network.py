"""What links of limited rates cost: throughput and step times over the rate of the links, against the control."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import metrics, plots, speedups
from analysis.figures import Points
from analysis.plots import Line
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.table import controls

_COLUMNS = ["model", "series", "nodes", "parameters", "link", "place", "n", "step_s", "control_s", "min_s", "lost"]
_COLUMNS += [name + end for name in ("share", "exposed_s") for end in ("", "_low", "_high")]
# What a series and its control share beside the model.
_SAME = ["model", "nodes", "batch_per_rank", "machine"]


def sweep(local: pd.DataFrame) -> pd.DataFrame:
    """One row a model and link rate of local records that swept the rate of the links.

    Columns: model, series, nodes, parameters, link (its rate in words), place (0 for the slowest), n, step_s and
    control_s (time of a step with allreduce, and of the control) [s], min_s (`metrics.ring_allreduce_min_s`), share
    (throughput over that of the control) and exposed_s (the step less that of the control) [s], medians over pairs of a
    round or a repeat, with the ends of their 95 % intervals (`_low`, `_high`); lost: the nodes disturbed each other.
    Models without a control are left out.
    """
    runs = speedups.rates(local)
    runs = runs.assign(step_s=metrics.step_s(runs["global_batch"].astype(float), runs["rate"]))
    measured, alone = (runs[runs["kind"].eq(kind)] for kind in ("measured", "control"))
    links = plots.ordered_values(measured["link_mbit_per_s"])
    found = []
    for _, rows in measured.groupby(["model", "series"], sort=False):
        control = alone[(alone[_SAME] == rows[_SAME].iloc[0]).all(axis=1)]
        for place, link in enumerate(links if len(control) else []):
            at = rows[rows["link_mbit_per_s"].isna() if math.isnan(link) else rows["link_mbit_per_s"].eq(link)]
            if len(at):
                found.append(_point(at, control, link) | {"place": place})
    return pd.DataFrame(found, columns=_COLUMNS)


def _point(at: pd.DataFrame, control: pd.DataFrame, link: float) -> dict[str, Any]:
    """The rounds, or repeats, of one model at one link rate against their control in the same round or repeat."""
    nodes, parameters = int(at["nodes"].iloc[0]), int(at["parameters"].iloc[0])
    step, control_step = (repeats.arithmetic_mean([of["step_s"].tolist()]) for of in (at, control))
    share = repeats.median(speedups.paired_ratios(at, control))
    exposed = repeats.median(speedups.paired_differences(at, control, "step_s"))
    return {
        "model": at["model"].iloc[0],
        "series": at["series"].iloc[0],
        "nodes": nodes,
        "parameters": parameters,
        "link": "no limit" if math.isnan(link) else f"{link:g}",
        "n": step.n,
        "step_s": step.value,
        "control_s": control_step.value,
        "min_s": metrics.ring_allreduce_min_s(parameters, nodes, link),
        "lost": bool(controls.lost(at).any()),
        **_interval("share", share),
        **_interval("exposed_s", exposed),
    }


def _interval(name: str, e: Number) -> dict[str, float]:
    return {name: e.value, f"{name}_low": e.low, f"{name}_high": e.high}


def _rates(axes: Axes, points: pd.DataFrame, label: str) -> None:
    """An x axis of link rates; no limit comes last."""
    places = list(dict.fromkeys(points.sort_values("place")["link"]))
    axes.set_xticks(range(len(places)), places)
    axes.set_xlim(-0.3, len(places) - 0.7)
    axes.set_xlabel(label)


def _lines(panels: list[Axes], rows: pd.DataFrame, nth: int) -> None:
    """Share and exposed communication of one series. A logarithmic axis has no place for 0 or less."""
    model = rows["model"].iloc[0]
    label = f"{plots.name(model)}, {rows['parameters'].iloc[0] / 1e6:.3g} M parameters, {plots.repeats(rows['n'])}"
    for axes, value in zip(panels, ("share", "exposed_s"), strict=True):
        y, low, high = (rows[f"{value}{end}"].where(rows[value].gt(0)).tolist() for end in ("", "_low", "_high"))
        colour, marker = plots.colour(model), plots.nth_marker(nth)
        plots.draw(
            axes, [Line(label, rows["place"].tolist(), y, colour, marker, "--", low, high, rows["lost"].tolist())]
        )  # fmt: skip


def figure(points: Points) -> Figure:
    """Throughput as a share of the control's (top) and exposed communication of a step (bottom), over the link rate.

    Each emulated node has a network of its own with a link of this rate in each direction. The control are the same
    nodes without allreduce; exposed communication is how much longer a step takes than theirs. Dotted: the
    shortest time in which the link can carry a ring allreduce, 2 (n - 1) / n x 4 bytes x parameters / rate. A time
    below 0 is noise, and not on the axis.
    """
    found = sweep(points.local)
    measured = points.local[points.local["kind"].eq("measured")]
    if found.empty:
        fig, (axes,) = plots.canvas(height_mm=40)
        plots.write(axes, 0.5, 0.5, "no control: run the experiment to its end", ha="center")
        return plots.legend(fig, plots.provenance(measured))
    fig, panels = plots.canvas(2, 1, height_mm=112, sharex=True)
    for nth, ((model, _), rows) in enumerate(found.groupby(["model", "series"], sort=False)):
        _lines(panels, rows.sort_values("place"), nth)
        limited = rows[rows["min_s"].gt(0)]
        panels[1].plot(limited["place"], limited["min_s"], ":", color=plots.colour(model), linewidth=0.9)
    panels[1].plot([], [], ":", color=plots.GREY, label="minimum of the link")
    plots.fraction(panels[0], "throughput / control", ideal=False)
    panels[0].axhline(1, color=plots.GREY, linestyle="-", linewidth=0.5)
    plots.logarithmic(panels[1], "exposed\ncommunication [s/step]")
    panels[1].set_ylim(found.loc[found["exposed_s"].gt(0), "exposed_s"].min() / 3, found["exposed_s"].max() * 2)
    for axes in panels:
        _rates(axes, found, "link of a node [Mbit/s]" if axes is panels[-1] else "")
    nodes = ", ".join(str(n) for n in sorted(found["nodes"].unique()))
    panels[0].set_title(f"{nodes} nodes", loc="left")
    return plots.legend(fig, plots.provenance(measured))
