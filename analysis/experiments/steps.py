"""Step times as distributions: every timed step of each point, as its records hold them."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from analysis import plots, speedups
from analysis.figures import Points
from analysis.plots import Look
from train.record import batch
from train.record.record import RunRecord

Times = NDArray[np.float64]
PERCENTILES = (5, 50, 95, 99)
_DRAWN = 300  # points of a line


def _slowest(of_ranks: list[list[float]]) -> list[float]:
    """Each step on its slowest rank; of rank 0 where elastic training changed the ranks on the way."""
    if len({len(times) for times in of_ranks}) > 1:
        return of_ranks[0]
    return np.max(of_ranks, axis=0).tolist()


def times(run: RunRecord, point: pd.Series) -> list[float]:
    """The timed steps [s] of a launch, each on its slowest rank; of one in rounds those of one point, window by window.

    `point`: a row of the local table. Empty where the launch has no such arm.
    """
    arms: list[dict[str, Any]] = run.config.get("rounds", [])
    if not arms:
        return _slowest([rank.step_times_s for rank in run.ranks])
    wanted = [point["nodes"], point["batch_per_rank"], point["allreduce"], point["role"]]
    windows = defaultdict(list)
    for window in (window for rank in run.ranks for window in rank.windows):
        arm = arms[window.arm]
        if [arm["nodes"], batch.of_arm(arm), arm["allreduce"], arm["role"]] == wanted:
            windows[window.round].append(window.step_times_s)
    return [time_s for of_ranks in windows.values() for time_s in _slowest(of_ranks)]


def distributions(local: pd.DataFrame, records: Mapping[str, RunRecord]) -> pd.DataFrame:
    """One row a launch and point whose throughput counts: its identity, and `times` [s], its timed steps.

    records: by path.
    """
    at = speedups.rates(local).drop_duplicates(["record", "series", "axis_value", "batch_per_rank"])
    found = at.assign(
        times=pd.Series({i: times(records[row["record"]], row) for i, row in at.iterrows()}, dtype=object)
    )
    return found[found["times"].str.len() > 0]


def figure(points: Points) -> Figure:
    """Distribution of the step times, a panel a series: the share of the timed steps that took at most so long.

    Every timed step of every launch, on its slowest rank; each line goes from the shortest to the longest step, over a
    logarithmic axis. Marked are the 5th, 50th, 95th and 99th percentile. Dashed: the same ranks without allreduce.
    """
    found = distributions(points.local, points.records)
    over = str(points.local["axis"].iloc[0])
    sizes = sorted(found[over].unique())
    measured = found[found["kind"].eq("measured")]
    series = list(measured.groupby(["model", "series"], sort=False))
    fig, panels = plots.canvas(len(series), 1, height_mm=24 + 34 * len(series))
    for axes, ((model, _), rows) in zip(panels, series, strict=True):
        shown = found[found["record"].isin(rows["record"])]
        for (size, control), at in shown.groupby([over, shown["kind"].eq("control")]):
            words = f"{size} {over.replace('_', ' ')}".removesuffix("s" if size == 1 else "")
            look = Look(f"{words}, without allreduce" if control else words, plots.nth_colour(sizes.index(size)))
            _line(axes, np.concatenate(at["times"].tolist()), look, "--" if control else "-")
        counts = [sum(map(len, at["times"])) for _, at in shown.groupby([over, "kind"])]
        title = [plots.name(model), f"{plots.repeats(counts)} steps", *plots.told_apart(rows, measured)]
        axes.set_title(textwrap.fill(", ".join(title), 60), loc="left")
        _finish(axes, axes is panels[-1])
    panels[0].plot([], [], "o", color=plots.GREY, markersize=3, label="5th, 50th, 95th, 99th percentile")
    return plots.legend(fig, "\n".join(textwrap.wrap("local: " + "; ".join(points.local["machine"].unique()), 78)))


def _line(axes: Axes, times: Times, look: Look, style: str) -> None:
    """The distribution of the times [s] of one point, in ms."""
    shares = np.linspace(0, 1, _DRAWN)
    axes.plot(np.quantile(times, shares) * 1e3, shares, color=look.colour, linestyle=style, label=look.label)
    marked = np.array(PERCENTILES) / 100
    face = look.colour if style == "-" else "white"
    axes.plot(np.quantile(times, marked) * 1e3, marked, "o", color=look.colour, mfc=face, markersize=3)


def _finish(axes: Axes, last: bool) -> None:
    """Axes of a distribution over times in ms."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    subs = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if high / low < 3 else (1, 2, 3, 5) if high / low < 10 else (1, 2, 5)
    axes.xaxis.set_major_locator(LogLocator(10, subs=subs if high / low < 100 else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-0.02, 1.02)
    axes.set_yticks([0.05, 0.5, 0.95])
    axes.set_ylabel("share of the steps")
    axes.set_xlabel("step time [ms]" if last else "")
