"""Figures of the network: link rates that are limited, and allreduce alone over message sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from analysis import labels
from analysis.experiments.allreduce import hardware_rates, rounds, size_label
from analysis.experiments.arms import link_rates
from analysis.figures import plots
from analysis.figures.entry import WITH_CONTROL, Kind, Points
from analysis.figures.plots import Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _rate_axis(axes: Axes, points: pd.DataFrame, label: str) -> None:
    """Set up an x axis of link rates; no limit comes last."""
    links = list(dict.fromkeys(points.sort_values("position")["link"]))
    axes.set_xticks(range(len(links)), links)
    axes.set_xlim(-0.3, len(links) - 0.7)
    axes.set_xlabel(label)


def _link_lines(panels: list[Axes], rows: pd.DataFrame, nth: int) -> None:
    """Draw share and exposed communication of one series; a logarithmic axis does not show 0 or less."""
    model = rows["model"].iloc[0]
    label = f"{labels.name(model)}, {rows['parameters'].iloc[0] / 1e6:.3g} M parameters, {labels.n_range(rows['n'])}"
    for axes, value in zip(panels, ("share", "exposed_s"), strict=True):
        y, low, high = (rows[f"{value}{end}"].where(rows[value].gt(0)).tolist() for end in ("", "_low", "_high"))
        colour, marker = plots.colour(model), plots.nth_marker(nth)
        plots.draw(
            axes, [Line(label, rows["position"].tolist(), y, colour, marker, "--", low, high, rows["invalid"].tolist())]
        )  # fmt: skip


def _link_rates(points: Points) -> Figure:
    rates = link_rates(points.local)
    measured = points.local[points.local["kind"].eq("measured")]
    if rates.empty:
        fig, (axes,) = plots.canvas(height_mm=40)
        plots.write(axes, 0.5, 0.5, "no control: run the experiment to its end", ha="center")
        return plots.legend(fig, labels.figure_note(measured))
    fig, panels = plots.canvas(2, 1, height_mm=112, sharex=True)
    for nth, ((model, _), rows) in enumerate(rates.groupby(["model", "series"], sort=False)):
        _link_lines(panels, rows.sort_values("position"), nth)
        limited = rows[rows["min_s"].gt(0)]
        panels[1].plot(limited["position"], limited["min_s"], ":", color=plots.colour(model), linewidth=0.9)
    panels[1].plot([], [], ":", color=plots.GREY, label="minimum of the link")
    plots.fraction(panels[0], "throughput / control", ideal=False)
    panels[0].axhline(1, color=plots.GREY, linestyle="-", linewidth=0.5)
    plots.logarithmic(panels[1], "exposed\ncommunication [s/step]")
    panels[1].set_ylim(rates.loc[rates["exposed_s"].gt(0), "exposed_s"].min() / 3, rates["exposed_s"].max() * 2)
    for axes in panels:
        _rate_axis(axes, rates, "link of a node [Mbit/s]" if axes is panels[-1] else "")
    nodes = ", ".join(str(n) for n in sorted(rates["nodes"].unique()))
    panels[0].set_title(f"{nodes} nodes", loc="left")
    return plots.legend(fig, labels.figure_note(measured))


_COLOURS = {"gloo": plots.BLUE, "mpi": plots.RED, "nccl": plots.GREEN}
_MARKERS = {"gloo": "o", "mpi": "s", "nccl": "^"}
_NAMES = {"gloo": "Gloo", "mpi": "MPI", "nccl": "NCCL"}
_STYLES = ("-", (0, (1, 1)), "--", "-.")
_BOUNDS = {
    "tcp_ring_bytes_per_s": (plots.BLACK, "--", "plain TCP, all ranks to the next one"),
    "tcp_stream_bytes_per_s": (plots.BLACK, (0, (1, 1.5)), "plain TCP, one rank to another"),
    "memory_copy_bytes_per_s": (plots.PINK, "-.", "copy in memory, all ranks at once"),
}


def _allreduce_lines(shown: pd.DataFrame, runs: pd.DataFrame, value: str, scale: float) -> list[Line]:
    """Return a line for each backend, cycle time and series of `shown`: mean, lowest and highest of the rounds."""
    cycles = sorted(runs["cycle_time_ms"].unique(), reverse=True)
    key = ["operations", "cycle_time_ms", "series"]
    lines = []
    for names, line_rows in shown.groupby(key):
        everywhere = runs[(runs[key] == list(names)).all(axis=1)]
        operations, cycle_ms = str(names[0]), names[1]
        counts = everywhere.groupby(["ranks", "message_bytes"])["record"].nunique()
        label = [f"{_NAMES[operations]}, cycle {cycle_ms:g} ms", labels.n_range(counts)]
        label += labels.distinctions(line_rows, runs, "cycle_time_ms")
        sizes = line_rows.groupby("message_bytes")
        mean, low, high = ((sizes[value].agg(statistic) * scale).tolist() for statistic in ("mean", "min", "max"))
        lines.append(
            Line(
                ", ".join(label), [int(str(size)) for size in sizes.groups], mean,
                _COLOURS[operations], _MARKERS[operations], _STYLES[cycles.index(cycle_ms) % len(_STYLES)], low, high,
                sizes["cores_shared"].any().tolist(),
            )
        )  # fmt: skip
    return lines


def _sizes(axes: Axes, sizes: pd.Series, label: str) -> None:
    """Set up a logarithmic axis of message sizes in binary units."""
    from matplotlib import ticker

    axes.set_xscale("log", base=2)
    low, high = int(sizes.min()).bit_length() - 1, int(sizes.max()).bit_length() - 1
    axes.xaxis.set_major_locator(ticker.FixedLocator([1 << k for k in range(low, high + 1, max(1, (high - low) // 5))]))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: size_label(x)))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.set_xlabel(label)


def _panels(points: Points, value: str, scale: float, label: str) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """Return one panel for each number of ranks; the axes, each with the rows of the local table that it shows."""
    from matplotlib import ticker

    runs = rounds(points.local)
    ranks = sorted(runs["ranks"].unique())
    fig, panels = plots.canvas(len(ranks), 1, height_mm=40 + 42 * len(ranks), sharex=True, sharey=True)
    shown = []
    for axes, number in zip(panels, ranks, strict=True):
        plots.draw(axes, _allreduce_lines(runs[runs["ranks"] == number], runs, value, scale))
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(10))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
        axes.set_ylabel(label)
        axes.set_title(f"{number} ranks", loc="left")
        _sizes(axes, runs["message_bytes"], "message size" if axes is panels[-1] else "")
        shown.append((axes, points.local[points.local["ranks"] == number]))
    return fig, shown


def _allreduce_note(local: pd.DataFrame) -> str:
    lines = ["; ".join(local["machine"].unique()), "marks: mean of the rounds; bars: from the lowest to the highest"]
    if local["cores_shared"].any():
        lines.append("hollow: more ranks than cores, not valid for the backend")
    return plots.wrapped(*lines)


def _allreduce_time(points: Points) -> Figure:
    fig, _ = _panels(points, "time_s", 1e3, "time [ms]")
    return plots.legend(fig, _allreduce_note(points.local), columns=2)


def _allreduce_bandwidth(points: Points) -> Figure:
    fig, panels = _panels(points, "rate", 1e-9, "bus bandwidth [GB/s]")
    for axes, local in panels:
        for quantity, limit in hardware_rates(local).items():
            colour, style, label = _BOUNDS[quantity]
            axes.axhline(limit.value / 1e9, color=colour, linestyle=style, linewidth=0.8, label=label)
    return plots.legend(fig, _allreduce_note(points.local), columns=2)


LINK_RATES = Kind("link-rates", "", _link_rates, WITH_CONTROL)
ALLREDUCE_TIME = Kind("allreduce-time", "time", _allreduce_time)
ALLREDUCE_BANDWIDTH = Kind("allreduce-bandwidth", "bandwidth", _allreduce_bandwidth)
