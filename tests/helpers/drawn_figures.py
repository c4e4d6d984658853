"""Figures drawn for a test, and the lines in them."""

from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.figures import plots, registry
from analysis.study import Study


def lines(figure):
    """Return all lines of a figure as (label or "", x, y)."""
    return [
        (line.get_label(), np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float))
        for axes in figure.axes
        for line in axes.get_lines()
    ]


def make_study(local, published=None):
    """Return a study with this local table and the records that it names. published: None for the true numbers."""
    study = Study(*map(Path, local["record"].unique() if "record" in local else ())).narrowed(local)
    if published is not None:
        study.published = published
    return study


def draw_quickly(patch: pytest.MonkeyPatch) -> None:
    """Let commands draw the figures of local records alone, and save them empty: all else takes minutes."""
    patch.setattr(registry, "figures", experiment_figures)
    patch.setattr(Figure, "savefig", lambda figure, path, **options: Path(path).write_text("<svg></svg>"))


def experiment_figures(local):
    """Return the figures of local records alone, by id: those of the reports take long to draw."""
    return {entry.id: entry for entry in registry.experiment_figures(local)}


@contextmanager
def only_figures(*ids):
    """Let these be all figures: others take long to draw."""
    every = registry.figures
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "figures", lambda local: {id: entry for id, entry in every(local).items() if id in ids})
        yield


def draw(id, local):
    """Return the figure `id`, drawn from a local table and the published numbers."""
    entry = registry.figures(local)[id]
    with mpl.rc_context(fname=plots.STYLE):
        return entry.draw(entry.points(make_study(local)))
