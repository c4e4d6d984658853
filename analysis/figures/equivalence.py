"""Does averaging gradients lose precision? The loss curves of the experiment `equivalence`."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import equivalence, plots
from analysis.equivalence import Pair
from analysis.figures import Points, figure

_COLOURS = {1: plots.BLACK, 2: plots.SKY, 4: plots.RED}
_STYLES = {1: "-", 2: "--", 4: ":"}


def _look(ranks: int) -> dict[str, Any]:
    """One rank as a wide pale line, so that others that lie on it can be seen."""
    first = {"color": "0.7", "linewidth": 3.0, "linestyle": "-"}
    return first if ranks == 1 else {"color": _COLOURS.get(ranks, plots.GREEN), "linestyle": _STYLES.get(ranks, "-.")}


def _losses(axes: Axes, pairs: list[Pair], title: str, over_images: bool) -> None:
    drawn = [(1, p.one_global_batch, p.one_losses) for p in pairs[:1]]
    drawn += [(p.ranks, p.global_batch, p.losses) for p in pairs]
    for ranks, global_batch, losses in drawn:
        x = losses.index * global_batch / 1000 if over_images else losses.index
        axes.plot(x, losses, label=f"{ranks} rank{'s' * (ranks > 1)}", **_look(ranks))
    axes.set_title(title)
    axes.set_xlabel("images [thousands]" if over_images else "step")
    axes.set_ylabel("loss")


@figure("own-equivalence", "does averaging gradients lose precision: loss curves", None, {"experiment": "equivalence"})
def loss_curves(points: Points) -> Figure:
    """Training loss of one rank and of several on handwritten digits, a network without batch normalisation, n = 1.

    Top left: the same global batch, the same samples in each step, the same learning rate. Top right: the batch per
    rank kept, so that the global batch grows with the ranks and there are fewer updates for the same images. Bottom
    left: the same, with Adam and a learning rate of 0.1 x ranks, as report 004 has it. Bottom right: the difference
    from one rank's loss at each step, over that loss, for the upper two; dotted the tolerance within which curves count
    as the same. A difference of 0 is not drawn.
    """
    fig, (same, kept, as_report, off) = plots.canvas(2, 2, height_mm=108)
    found = [p for p in equivalence.pairs(points.own) if p.repeat == 0]
    groups = {
        "the same steps": (same, [p for p in found if p.same_steps]),
        "batch per rank kept": (kept, [p for p in found if not p.same_steps and p.same_rate]),
    }
    for title, (axes, pairs) in groups.items():
        _losses(axes, pairs, title, over_images=axes is kept)
        axes.set_ylim(0)
        for pair in pairs:
            differs = pair.off[pair.off > 0]
            off.plot(differs.index, differs, marker=".", markersize=2, linewidth=0.6, **_look(pair.ranks))
        if pairs:
            highest = max(pair.off.max() for pair in pairs)
            off.text(2, 3 * highest, title, fontsize=5.5, color=plots.GREY)
    if scaled := [p for p in found if not p.same_rate]:
        title = f"{scaled[0].optimizer.capitalize()}, rate {scaled[0].one_learning_rate:g} x ranks"
        _losses(as_report, scaled, title, over_images=True)
        as_report.set_yscale("log")
    off.set_yscale("log")
    off.margins(y=0.15)
    off.axhline(equivalence.TOLERANCE, color=plots.GREY, linestyle=":")
    off.set_title("difference from 1 rank")
    off.set_xlabel("step")
    off.set_ylabel("of its loss [fraction]")
    return plots.legend(fig, f"own: {'; '.join(points.own['machine'].unique())}; one run each")
