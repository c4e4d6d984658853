"""Report 002: AlexNet, GoogLeNet and ResNet50 with Horovod on up to 256 GPUs. Only its abstract is known.

Own measurements of several strategies are further series of this figure and of those of report 003: a line a strategy.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import FigureData, FigureEntry, plots
from analysis.figures.plots import DrawnLine

EXPERIMENT = "strategies"


def split_strategies(local: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the local rows of a figure: those of the report's own experiment, and those of the strategies."""
    is_strategy = local["experiment"].eq(EXPERIMENT)
    return local[~is_strategy], local[is_strategy]


def strategy_lines(rows: pd.DataFrame, value: str, colours: Sequence[str]) -> list[DrawnLine]:
    """Return a line for each model and strategy, in these colours in turn, which the figure has for nothing else.

    rows: the local rows of the strategies. value: as for `plots.local_lines`; the base of a ratio is left out.
    """
    series = plots.local_lines(rows, value=value)
    alone = min((x for line in series for x in line.x), default=0)
    several = [line for line in series if max(line.x) > alone]
    drawn = [replace(line, colour=colours[n % len(colours)]) for n, line in enumerate(several)]
    return drawn + [replace(line, colour=plots.GREY) for line in series if value == "rate" and max(line.x) == alone]


# No model of the report has these colours.
_FREE = (plots.BLACK, plots.BLUE, plots.GREEN, plots.SKY, plots.INDIGO, plots.OLIVE)


def _throughput(points: FigureData) -> Figure:
    experiment, strategies = split_strategies(points.local)
    fig, (axes,) = plots.canvas(height_mm=76)
    largest = int(points.published["value"].max())
    gpus = [1, 4, 16, 64, largest, *points.local["ranks"]]
    plots.ideal(axes, gpus)
    plots.draw(axes, plots.local_lines(experiment, value="speedup") + strategy_lines(strategies, "speedup", _FREE))
    plots.doubling(axes, gpus, "GPUs (local: ranks)")
    plots.logarithmic(axes, "throughput / that of the smallest point", 4)
    plots.write(
        axes, 0.03, 0.97, f'the report: "almost linear [...] up to {largest} GPUs";\nits points are not known', va="top"
    )
    return plots.legend(fig, points.note())


FIGURES = [
    FigureEntry(
        "002-throughput",
        _throughput,
        {"report": "002", "quantity": "largest_ranks"},
        {"experiment": ("bnl_throughput", EXPERIMENT)},
    )
]
