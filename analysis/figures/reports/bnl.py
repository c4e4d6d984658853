"""Report 002: AlexNet, GoogLeNet and ResNet50 with Horovod on up to 256 GPUs. Only its abstract is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis import labels
from analysis.figures import plots
from analysis.figures.entry import Entry, Points
from analysis.figures.reports import strategies

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# No model of the report has these colours.
_FREE = (plots.BLACK, plots.BLUE, plots.GREEN, plots.SKY, plots.INDIGO, plots.OLIVE)


def _throughput(points: Points) -> Figure:
    own, several = strategies.split(points.local)
    fig, (axes,) = plots.canvas(height_mm=76)
    largest = int(points.published["value"].max())
    gpus = [1, 4, 16, 64, largest, *points.local["ranks"]]
    plots.ideal(axes, gpus)
    plots.draw(axes, plots.local_lines(own, value="speedup"))
    plots.draw(axes, strategies.lines(several, "speedup", _FREE))
    plots.doubling(axes, gpus, "GPUs (local: ranks)")
    plots.logarithmic(axes, "throughput / that of the smallest point", 4)
    plots.write(
        axes, 0.03, 0.97, f'the report: "almost linear [...] up to {largest} GPUs";\nits points are not known', va="top"
    )
    return plots.legend(fig, labels.figure_note(points.local))


FIGURES = [
    Entry(
        "002-throughput",
        _throughput,
        {"report": "002", "quantity": "largest_ranks"},
        {"experiment": ("bnl_throughput", strategies.EXPERIMENT)},
    )
]
