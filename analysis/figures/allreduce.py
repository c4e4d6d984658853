"""One's own allreduce sweeps: time and bus bandwidth over message sizes, beside what link and memory carry."""

import textwrap

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from analysis import allreduce, plots
from analysis.figures import Points, figure
from analysis.plots import Line

_COLOURS = {"gloo": plots.BLUE, "mpi": plots.RED, "nccl": plots.GREEN}
_MARKERS = {"gloo": "o", "mpi": "s", "nccl": "^"}
_NAMES = {"gloo": "Gloo", "mpi": "MPI", "nccl": "NCCL"}
_STYLES = ("-", (0, (1, 1)), "--", "-.")
_LIMITS = {
    "tcp_ring_bytes_per_s": (plots.BLACK, "--", "plain TCP, all ranks to their next one"),
    "tcp_stream_bytes_per_s": (plots.BLACK, (0, (1, 1.5)), "plain TCP, one rank to another"),
    "memory_copy_bytes_per_s": (plots.PINK, "-.", "copy in memory, all ranks at once"),
}
_OWN = {"experiment": "allreduce_bench"}


def _lines(shown: pd.DataFrame, runs: pd.DataFrame, value: str, scale: float) -> list[Line]:
    """One line a backend, cycle time and series of `shown`, which stand among `runs`: mean, lowest, highest launch."""
    cycles = sorted(runs["cycle_time_ms"].unique(), reverse=True)
    key = ["operations", "cycle_time_ms", "series"]
    lines = []
    for names, of_line in shown.groupby(key):
        everywhere = runs[(runs[key] == list(names)).all(axis=1)]
        operations, cycle_ms = str(names[0]), names[1]
        counts = everywhere.groupby(["ranks", "message_bytes"])["record"].nunique()
        words = [f"{_NAMES[operations]}, cycle {cycle_ms:g} ms", plots.repeats(counts)]
        words += plots.told_apart(of_line, runs, "cycle_time_ms")
        sizes = of_line.groupby("message_bytes")
        mean, low, high = ((sizes[value].agg(of) * scale).tolist() for of in ("mean", "min", "max"))
        lines.append(
            Line(
                ", ".join(words), [int(str(size)) for size in sizes.groups], mean,
                _COLOURS[operations], _MARKERS[operations], _STYLES[cycles.index(cycle_ms) % len(_STYLES)], low, high,
                sizes["cores_shared"].any().tolist(),
            )
        )  # fmt: skip
    return lines


def _sizes(axes: Axes, sizes: pd.Series, label: str) -> None:
    """A logarithmic axis of message sizes in binary units."""
    axes.set_xscale("log", base=2)
    least, most = int(sizes.min()).bit_length() - 1, int(sizes.max()).bit_length() - 1
    axes.xaxis.set_major_locator(FixedLocator([1 << k for k in range(least, most + 1, max(1, (most - least) // 5))]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: allreduce.size_words(x)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(label)


def _panels(points: Points, value: str, scale: float, label: str) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A panel a number of ranks, with its lines; the axes, each with the rows of one's own table that it shows."""
    runs = allreduce.points(points.own)
    ranks = sorted(runs["ranks"].unique())
    fig, panels = plots.canvas(len(ranks), 1, height_mm=40 + 42 * len(ranks), sharex=True, sharey=True)
    shown = []
    for axes, number in zip(panels, ranks, strict=True):
        plots.draw(axes, _lines(runs[runs["ranks"] == number], runs, value, scale))
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(10))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.set_ylabel(label)
        axes.set_title(f"{number} ranks", loc="left")
        _sizes(axes, runs["message_bytes"], "message size" if axes is panels[-1] else "")
        shown.append((axes, points.own[points.own["ranks"] == number]))
    return fig, shown


def _note(own: pd.DataFrame) -> str:
    said = ["; ".join(own["machine"].unique()), "marks: mean of the launches; bars: from the lowest to the highest"]
    if own["cores_shared"].any():
        said.append("hollow: more ranks than cores, no measurement of the backend")
    return "\n".join("\n".join(textwrap.wrap(line, 78)) for line in said)


@figure("own-allreduce-bench-time", "time of an allreduce over message size", None, _OWN)
def time(points: Points) -> Figure:
    """Time of one Horovod allreduce over the size of the message, fp32, a panel a number of ranks.

    Median of the timed allreduces of a launch, each until its slowest rank had the sum. Small messages wait for
    Horovod's cycle: its background thread looks for work once a cycle, so the flat part is the cycle, not the network.
    """
    fig, _ = _panels(points, "time_s", 1e3, "time [ms]")
    return plots.legend(fig, _note(points.own), columns=2)


@figure("own-allreduce-bench-bandwidth", "bus bandwidth of an allreduce over message size", None, _OWN)
def bandwidth(points: Points) -> Figure:
    """Bus bandwidth of Horovod's allreduce over the size of the message, beside what link and memory carry.

    Bus bandwidth as nccl-tests defines it: size / time x 2 (n - 1) / n for n ranks, the bytes/s that each link has to
    carry for it. Horizontal lines: plain TCP and a copy in memory, measured in the same launches, mean over them.
    """
    fig, panels = _panels(points, "rate", 1e-9, "bus bandwidth [GB/s]")
    for axes, own in panels:
        for quantity, limit in allreduce.limits(own).items():
            colour, style, words = _LIMITS[quantity]
            axes.axhline(limit.value / 1e9, color=colour, linestyle=style, linewidth=0.8, label=words)
    return plots.legend(fig, _note(points.own), columns=2)
