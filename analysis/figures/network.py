"""One's own records of network_sweep: what slow links do to models of few and of many parameters."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import network, plots
from analysis.figures import Points, figure
from analysis.plots import Line


def _rates(axes: Axes, points: pd.DataFrame, label: str) -> None:
    """An x axis of link rates. Without a limit stands last, apart from the numbers."""
    places = list(dict.fromkeys(points.sort_values("place")["link"]))
    axes.set_xticks(range(len(places)), places)
    axes.set_xlim(-0.3, len(places) - 0.7)
    axes.set_xlabel(label)


@figure(
    "own-network-sweep",
    "throughput and exposed communication over the rate of the links",
    None,
    {"experiment": "network_sweep", "kind": ("measured", "control")},
)
def network_sweep(points: Points) -> Figure:
    """Throughput as a share of the control's (top) and exposed communication of a step (bottom), over the link rate.

    Each emulated node has a network of its own with a link of this rate in each direction. The control are the same
    nodes without allreduce; exposed communication is what a step takes longer than theirs. Dotted: the least time that
    the link needs for a ring allreduce, 2 (n - 1) / n x 4 bytes x parameters / rate. A time below 0 is noise, and not
    on the axis.
    """
    found = network.sweep(points.own)
    measured = points.own[points.own["kind"].eq("measured")]
    if found.empty:
        fig, (axes,) = plots.canvas(height_mm=40)
        plots.write(axes, 0.5, 0.5, "no control: run the experiment to its end", ha="center")
        return plots.legend(fig, plots.provenance(measured))
    fig, panels = plots.canvas(2, 1, height_mm=112, sharex=True)
    for nth, (model, rows) in enumerate(found.groupby("model", sort=False)):
        rows = rows.sort_values("place")
        label = f"{plots.name(model)}, {rows['parameters'].iloc[0] / 1e6:.3g} M parameters, {plots.repeats(rows['n'])}"
        for axes, value in zip(panels, ("share", "exposed_s"), strict=True):
            # No curve on a logarithmic axis has a place for 0 or less.
            y, low, high = (rows[f"{value}{end}"].where(rows[value].gt(0)).tolist() for end in ("", "_low", "_high"))
            colour, mark = plots.colour(model), plots.OWN_MARKERS[nth % len(plots.OWN_MARKERS)]
            hollow = rows["lost"].tolist()
            plots.draw(axes, [Line(label, rows["place"].tolist(), y, colour, mark, "--", low, high, hollow)])
        limited = rows[rows["least_s"].gt(0)]
        panels[1].plot(limited["place"], limited["least_s"], ":", color=plots.colour(model), linewidth=0.9)
    panels[1].plot([], [], ":", color=plots.GREY, label="least that the link needs")
    plots.fraction(panels[0], "throughput / control", ideal=False)
    panels[0].axhline(1, color=plots.GREY, linestyle="-", linewidth=0.5)
    plots.logarithmic(panels[1], "exposed\ncommunication [s/step]")
    panels[1].set_ylim(found.loc[found["exposed_s"].gt(0), "exposed_s"].min() / 3, found["exposed_s"].max() * 2)
    for axes in panels:
        _rates(axes, found, "link of a node [Mbit/s]" if axes is panels[-1] else "")
    nodes = ", ".join(str(n) for n in sorted(found["nodes"].unique()))
    panels[0].set_title(f"{nodes} nodes", loc="left")
    return plots.legend(fig, plots.provenance(measured))
