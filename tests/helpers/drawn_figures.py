"""Figures drawn for a test, and the lines in them."""

import matplotlib as mpl
import numpy as np

from analysis import plots, registry
from analysis.table import loading


def lines(figure):
    """All drawn lines of a figure as (label or "", x, y)."""
    return [
        (line.get_label(), np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float))
        for axes in figure.axes
        for line in axes.get_lines()
    ]


def drawn(id, local, published=None):
    """The figure `id`, drawn from a local table and the published numbers."""
    entry = registry.figures(local)[id]
    with mpl.rc_context(fname=plots.STYLE):
        return entry.draw(entry.points(loading.published() if published is None else published, local))
