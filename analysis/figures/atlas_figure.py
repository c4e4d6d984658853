"""The figure of the atlas: efficiency over the ratio of sizes, published curves in grey, the user's on top."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import atlas
from analysis.figures import FigureData, FigureKind, plots

NAMED = "curve: "  # begins the id of a published curve in the SVG, before its name
_LARGEST = 64.0  # ratio of sizes that is drawn
_GREYS = {"weak": ("0.45", "-"), "strong": ("0.7", "--"), "": ("0.75", ":")}
_LEGEND = {"weak": "weak scaling", "strong": "strong scaling", "": "neither batch is kept"}


def names(points: FigureData) -> list[dict[str, str]]:
    """Return the published curves of the figure, each with its scaling, its sizes and where it was published."""
    over = next((mine["over"] for _, mine, _ in atlas.local_curves(points.local)), "nodes")
    largest = atlas.from_smallest(over).groupby("curve").tail(1)
    sizes = [f"{base:g} to {size:g}" for base, size in zip(largest["base"], largest["size"], strict=True)]
    rows = zip(largest["curve"], largest["scaling"], sizes, largest["place"], strict=True)
    return [dict(zip(("curve", "scaling", over, "place"), row, strict=True)) for row in rows]


def _draw(points: FigureData) -> Figure:
    """Draw the families of the local curves, one panel each; without a local curve that of images."""
    local = [*atlas.local_curves(points.local)]
    over = local[0][1]["over"] if local else "nodes"
    published = atlas.from_smallest(over)
    families = [*dict.fromkeys([mine["family"] for _, mine, _ in local] or ["image"])]
    is_simulation = published["family"].eq("simulation")
    is_other = ~published["family"].isin(families) & ~is_simulation
    panels = {f"{family} models": published["family"].eq(family) for family in families}
    panels |= {"other training": is_other, "simulation": is_simulation}
    figure, all_axes = plots.canvas(len(panels), 1, height_mm=20 + 40 * len(panels), sharex=True)
    for axes, (title, chosen) in zip(all_axes, panels.items(), strict=True):
        _published(axes, published[chosen])
        axes.set_title(f"{title}, {published[chosen]['curve'].nunique()} published curves")
        plots.fraction(axes, "efficiency")
        axes.set_ylim(0, 1.25)
    for nth, (name, mine, curve) in enumerate(local):
        axes = all_axes[families.index(mine["family"])]
        style = plots.nth_colour(nth), plots.nth_marker(nth), plots.nth_style(nth)
        efficiencies = {point.size / mine["base"]: point.efficiency for point in curve}
        plots.draw(axes, [plots.through(plots.DrawnLine(f"{name}, local", [], [], *style), efficiencies)])
    plots.doubling(all_axes[-1], [2.0**n for n in range(7)], f"{over}, times those of the smallest point")
    return plots.legend(figure)


def _published(axes: Axes, pairs: pd.DataFrame) -> None:
    for (curve, scaling), rows in pairs[pairs["ratio"].le(_LARGEST)].groupby(["curve", "scaling"]):
        colour, style = _GREYS[str(scaling)]
        x, y = [1.0, *rows["ratio"]], [1.0, *rows["efficiency"]]
        axes.plot(x, y, linestyle=style, color=colour, linewidth=0.5, zorder=1, gid=f"{NAMED}{curve}")
    for scaling in pairs["scaling"].unique():
        colour, style = _GREYS[scaling]
        axes.plot([], [], linestyle=style, color=colour, label=_LEGEND[scaling])


ATLAS = FigureKind("atlas", "atlas", _draw)
