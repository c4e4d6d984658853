"""One's own records alone: the same three figures for each scaling experiment, and one for each other experiment."""

import textwrap
from collections.abc import Callable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import control, metrics, plots
from analysis.figures import Points, figure

_SCALING = {
    "weak_scaling": ("weak scaling", "nodes"),
    "strong_scaling": ("strong scaling", "nodes"),
    "fixed_work": ("fixed work", "ranks"),
    "bnl_throughput": ("synthetic throughput", "ranks"),
}
# The order of a job. Phases of a second or less in most jobs share a colour with their neighbours.
_PHASES = {
    "start, import": (("start", "import"), "0.82"),
    "init": (("init",), plots.PINK),
    "data, build": (("data", "build"), plots.ORANGE),
    "broadcast": (("broadcast",), plots.GREEN),
    "first step": (("first_step",), plots.RED),
    "warm-up": (("warm_up",), plots.SKY),
    "timed": (("timed",), plots.BLUE),
    "evaluate, checkpoint, exit": (("evaluate", "checkpoint", "exit"), "0.55"),
}


def _throughput(over: str) -> Callable[[Points], Figure]:
    def draw(points: Points) -> Figure:
        """Throughput of the timed steps, with the ideal from each curve's smallest point (dotted). Both axes double."""
        fig, (axes,) = plots.canvas(height_mm=76)
        lines = plots.own_lines(points.own, over=over)
        for line in lines:
            axes.plot(line.x, [line.y[0] * x / line.x[0] for x in line.x], ":", color=line.colour, linewidth=0.7)
        plots.draw(axes, lines)
        axes.plot([], [], ":", color=plots.GREY, label="ideal")
        plots.doubling(axes, points.own[over], over)
        plots.logarithmic(axes, "throughput [images/s]")
        return plots.legend(fig, plots.provenance(points.own))

    return draw


def _efficiency(over: str) -> Callable[[Points], Figure]:
    def draw(points: Points) -> Figure:
        """Efficiency by throughput of the timed steps (top) and by wall time (bottom).

        Both are shares of the ideal against the smallest point. The wall time runs from the broadcast to the last timed
        step: the cost that each run pays once counts too. Where nodes are emulated, their control is below: how fast a
        node is among others, without allreduce, over how fast it is alone; the band is what the configuration allows.
        """
        emulated = points.own["control_off"].notna().any()
        fig, panels = plots.canvas(3 if emulated else 2, 1, height_mm=140 if emulated else 108, sharex=True)
        for axes, by in zip(panels, ("throughput", "wall time"), strict=False):
            plots.draw(axes, plots.own_lines(points.own, by, "efficiency", over))
            plots.fraction(axes, f"efficiency by {by}")
        if emulated:
            _control(panels[2], points.own, over)
        for axes in panels:
            plots.doubling(axes, points.own[over], over if axes is panels[-1] else "")
        return plots.legend(fig, plots.provenance(points.own))

    return draw


def _control(axes: Axes, own: pd.DataFrame, over: str) -> None:
    """How fast a node is among others, over how fast it is alone, both without allreduce, and the band allowed."""
    bound = own["flat_within_fraction"].max()
    axes.axhspan(1 - bound, 1 + bound, color="0.9", label=f"allowed to the control: {bound:.0%}")
    lines = []
    for (model, _), rows in own.groupby(["model", "series"], sort=False):
        at = 1 + rows.groupby(over)["control_off"].first().dropna()
        lines.append(plots.Line("", at.index.tolist(), at.tolist(), plots.colour(model), plots.OWN_MARKER, "-"))
    plots.draw(axes, lines)
    axes.set_ylim(min(0.7, axes.get_ylim()[0]), max(1.3, axes.get_ylim()[1]))
    axes.set_ylabel("control / one node")


def _phases(over: str) -> Callable[[Points], Figure]:
    def draw(points: Points) -> Figure:
        """Where the time of the job went, phase by phase: mean over repeats, of the rank with the longest wall time.

        The wall time of `efficiency by wall time` runs from broadcast to timed.
        """
        own = points.own.assign(name=points.own["model"].map(plots.name))
        curves = list(own.groupby(["name", "series"], sort=False))
        fig, panels = plots.canvas(
            (len(curves) + 2) // 3, min(3, len(curves)), 45 + 42 * ((len(curves) + 2) // 3), sharey=True
        )
        for axes, ((model, _), rows) in zip(panels, curves, strict=False):
            mean = rows.groupby([over, "quantity"])["value"].mean().unstack("quantity")
            parts = pd.DataFrame({label: _sum(mean, names) for label, (names, _) in _PHASES.items()})
            shared = control.lost(rows).groupby(rows[over]).any().tolist()
            plots.stacked(axes, parts, {label: shade for label, (_, shade) in _PHASES.items()}, shared)
            n = rows[rows["quantity"] == "job_s"].groupby(over)["repeat"].nunique()
            axes.set_xticks(range(len(parts)), [f"{x}" for x in parts.index])
            title = ", ".join([str(model), plots.repeats(n), *plots.told_apart(rows, own)])
            axes.set_title(textwrap.fill(title, 18))
            axes.set_xlabel(over)
            axes.grid(False, axis="x")
        for axes in panels[len(curves) :]:
            axes.set_visible(False)
        panels[0].set_ylabel("time of the job [s]")
        return plots.legend(fig, plots.provenance(points.own))

    return draw


def _sum(mean: pd.DataFrame, phases: tuple[str, ...]) -> pd.Series:
    return mean.reindex(columns=[f"phase_{name}_s" for name in phases]).sum(axis=1)


for _experiment, (_words, _over) in _SCALING.items():
    _id = f"own-{_experiment.replace('_', '-')}"
    for _kind, _shows, _make in (
        ("throughput", "throughput against ideal", _throughput),
        ("efficiency", "efficiency by throughput and by wall time", _efficiency),
        ("phases", "where the time of the job went", _phases),
    ):
        figure(f"{_id}-{_kind}", f"{_words}: {_shows}", None, {"experiment": _experiment})(_make(_over))


@figure("own-batch-sweep", "throughput over batch size on one node", None, {"experiment": "batch_sweep"})
def batch_sweep(points: Points) -> Figure:
    """Throughput of the timed steps over the global batch, on one node."""
    fig, (axes,) = plots.canvas(height_mm=72)
    plots.draw(axes, plots.own_lines(points.own, over="global_batch"))
    plots.doubling(axes, points.own["global_batch"], "global batch [images]")
    axes.set_ylim(0)
    axes.set_ylabel("throughput [images/s]")
    return plots.legend(fig, plots.provenance(points.own))


@figure("own-ranks-threads", "throughput over ranks x threads on one node", None, {"experiment": "ranks_threads"})
def ranks_threads(points: Points) -> Figure:
    """Throughput of the timed steps over the ranks that share one node, threads per rank such that they fill it."""
    fig, (axes,) = plots.canvas(height_mm=72)
    plots.draw(axes, plots.own_lines(points.own, over="ranks_per_node"))
    plots.doubling(axes, points.own["ranks_per_node"], "ranks per node x threads per rank")
    named = points.own.drop_duplicates("ranks_per_node").sort_values("ranks_per_node")
    ticks = [f"{r} x {t}" for r, t in zip(named["ranks_per_node"], named["threads_per_rank"], strict=True)]
    axes.set_xticks(named["ranks_per_node"].tolist(), ticks)
    axes.set_ylim(0)
    axes.set_ylabel("throughput [images/s]")
    return plots.legend(fig, plots.provenance(points.own))


_ARMS = (
    ("1 rank: with Horovod / without", 1, ("horovod", True), ("none", None)),
    ("2 ranks: with allreduce / without", 2, ("horovod", True), ("horovod", False)),
)


def _arm(runs: pd.DataFrame, ranks: int, arm: tuple[str, bool | None]) -> pd.Series:
    rows = runs[(runs["ranks"] == ranks) & (runs["backend"] == arm[0])]
    rows = rows if arm[1] is None else rows[rows["allreduce"] == arm[1]]
    return rows.groupby("repeat")["rate"].mean()


@figure("own-overhead", "what Horovod and its allreduce cost, as ratios", None, {"experiment": "overhead"})
def overhead(points: Points) -> Figure:
    """Throughput with over throughput without: Horovod on one rank, allreduce on two.

    The arms are measured in turn; a dot is the ratio of the two runs of one repeat, the mark their mean with its 95 %
    interval. 1 would be no cost.
    """
    runs = metrics.rates(points.own)
    found = [
        (model, [f"{plots.name(model)}, {words}", ", ".join(plots.told_apart(rows, runs))], ratios)
        for (model, _), rows in runs.groupby(["model", "arms"], sort=False)
        for words, ranks, over, under in _ARMS
        if not (ratios := (_arm(rows, ranks, over) / _arm(rows, ranks, under)).dropna()).empty
    ]
    fig, (axes,) = plots.canvas(height_mm=34 + 10 * len(found))
    labels: list[str] = []
    for y, (model, words, ratios) in enumerate(found):
        e = metrics.estimate(ratios.tolist())
        axes.plot(ratios, [y - 0.22] * len(ratios), ".", color=plots.GREY, markersize=3)
        if e.n > 1:
            axes.plot([e.low, e.high], [y, y], color=plots.colour(model))
        axes.plot(e.value, y, plots.OWN_MARKER, color=plots.colour(model))
        numbers = f"mean {e.value:.3f}, median {ratios.median():.3f}, n={e.n}"
        labels.append("\n".join(line for line in (*words, numbers) if line))
    axes.axvline(1, color=plots.GREY, linestyle=":")
    axes.set_yticks(range(len(labels)), labels, fontsize=5.5)
    axes.set_ylim(max(len(labels), 1) - 0.4, -0.5)
    axes.set_xlabel("ratio of throughputs")
    return plots.legend(fig, plots.provenance(points.own))
