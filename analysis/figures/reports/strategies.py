"""Own measurements of several strategies as further series of a report's figure: a line a strategy."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from analysis.figures import plots
from analysis.figures.plots import Line

EXPERIMENT = "strategies"
_BESIDE = 1.07  # as of `plots.side_by_side`: the axes of the reports have many doublings


def split(local: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the local rows of a figure: those of the report's own experiment, and those of the strategies."""
    ours = local["experiment"].eq(EXPERIMENT)
    return local[~ours], local[ours]


def lines(rows: pd.DataFrame, value: str, colours: Sequence[str]) -> list[Line]:
    """Return a line for each model and strategy, in these colours in turn, which the figure has for nothing else.

    rows: local ones of the strategies. value: as of `plots.local_lines`; of a ratio to one rank alone that rank is left
    out.
    """
    series = plots.local_lines(rows, value=value)
    alone = min((x for line in series for x in line.x), default=0)
    several = plots.side_by_side([line for line in series if max(line.x) > alone], _BESIDE)
    drawn = [
        replace(line, colour=colours[n % len(colours)], marker=plots.nth_marker(n), style=plots.nth_style(n))
        for n, line in enumerate(several)
    ]
    return drawn + [replace(line, colour=plots.GREY) for line in series if value == "rate" and max(line.x) == alone]
