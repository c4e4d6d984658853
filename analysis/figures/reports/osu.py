"""Report 001: ResNet50, InceptionV3 and VGG16 on OSC Owens. Its plots are lost; its text states points."""

from functools import partial

from matplotlib import patches
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import labels
from analysis.figures import FigureData, FigureEntry, plots
from analysis.figures.plots import DrawnLine

_NODES = [1, 2, 4, 8]
_STATED = "the report's text states only these points"


def _published(figure: str, quantity: tuple[str, ...] = ("images_per_s",)) -> dict[str, object]:
    parts = {"2": 4, "3": 4, "4": 4, "5": 5, "6": 5, "7": 6}
    return {"report": "001", "place": f"text, part {parts[figure]} (figure {figure})", "quantity": quantity}


def _local(experiment: str, device: str) -> dict[str, object]:
    return {"experiment": experiment, "device": device}


def _points(points: FigureData, over: str, quantity: str = "images_per_s") -> list[DrawnLine]:
    """Return the stated points, unconnected: the points between them are lost."""
    rows = points.published[points.published["quantity"] == quantity]
    return [
        DrawnLine(labels.name(m), r[over].tolist(), r["value"].tolist(), plots.colour(m), plots.marker(m), "")
        for m, r in rows.groupby("model")
    ]


def _stack(points: FigureData) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=62)
    axes.set(xlim=(-0.1, 10.1), ylim=(-0.2, 10.6))
    axes.axis("off")

    def box(x: float, y: float, width: float, text: str, colour: str) -> None:
        axes.add_patch(patches.FancyBboxPatch((x, y), width, 1.5, "round,pad=0.08", fc=colour, ec="0.3", lw=0.6))
        axes.text(x + width / 2, y + 0.75, text, ha="center", va="center", fontsize=6.5)

    for start, title in ((0.1, "CPU node: 4 ranks"), (5.2, "GPU node: 1 rank a GPU")):
        axes.text(start + 2.35, 10.1, title, ha="center", va="center", weight="bold")
        box(start, 8, 4.7, "TensorFlow", "#CFE3F1")
        box(start, 6, 4.7, "Horovod", "#CBE8DC")
    box(0.1, 4, 4.7, "MVAPICH2 (MPI)", "#F8DCCB")
    box(5.2, 4, 2.2, "NCCL", "#F3DBE8")
    box(7.7, 4, 2.2, "MVAPICH2 (MPI)", "#F8DCCB")
    box(0.1, 2, 9.8, "interconnect: InfiniBand, Omni-Path, Ethernet/iWARP or RoCE", "0.92")
    box(0.1, 0, 9.8, "OSC Owens parallel file system: the images", "0.97")
    return fig


def _ranks_threads(points: FigureData) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=76)
    plots.throughput(axes, points.local, "ranks_per_node", _points(points, "ranks_per_node"), log=True)
    plots.doubling(axes, [1, 2, 4, *points.local["ranks_per_node"]], "ranks per node (the report's ranks x threads)")
    ticks = {1: "1\n(1 x 28)", 2: "2\n(2 x 14)", 4: "4\n(4 x 7)"}
    ticks = {int(ranks): str(ranks) for ranks in sorted(points.local["ranks_per_node"].unique())} | ticks
    axes.set_xticks(list(ticks), list(ticks.values()))
    plots.write(axes, 0.03, 0.06, _STATED)
    return plots.legend(fig, points.note())


def _batches(axes: Axes, points: FigureData, published: list[DrawnLine]) -> None:
    plots.throughput(axes, points.local, "global_batch", published)
    plots.doubling(axes, [1, 2, 4, 8, 16, 32, 64, 128, *points.local["global_batch"]], "global batch [images]")


def _batch_cpu(points: FigureData) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=70)
    stated = points.published.set_index("quantity")["value"]
    flat, chosen = stated["flat_from_global_batch"], stated["best_global_batch"]
    axes.axvline(flat, color=plots.GREY, linestyle="--", label="the report: rises to 8, then flat")
    axes.axvline(chosen, color=plots.GREY, linestyle=":", label="the report: 128 chosen")
    _batches(axes, points, [])
    if points.local.empty:
        axes.set_yticks([])
        plots.write(axes, 0.72, 0.5, "the report's\npoints are lost", ha="center")
    return plots.legend(fig, points.note(), columns=1)


def _batch_gpu(points: FigureData) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=70)
    _batches(axes, points, _points(points, "global_batch"))
    plots.write(axes, 0.03, 0.06, _STATED)
    return plots.legend(fig, points.note())


def _weak(points: FigureData) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=90)
    rate = points.published[points.published["quantity"] == "images_per_s"]
    stated = points.published[points.published["quantity"] == "speedup_throughput"].set_index("model")["value"]
    ends: dict[str, float] = {}
    for model, rows in rate.groupby("model"):
        colour, on_one_node = plots.colour(model), rows[rows["nodes"] == 1]["value"]
        implied = rows[rows["nodes"] == 8]["value"].item() / stated[model]
        start = on_one_node.item() if len(on_one_node) else implied
        axes.plot(_NODES, [start * n for n in _NODES], ":", color=colour, linewidth=0.7)
        if on_one_node.empty:
            axes.plot([1], [implied], "x", color=colour)
        ends[str(model)] = rows[rows["nodes"] == 8]["value"].item()
    for nth, model in enumerate(sorted(ends, key=ends.__getitem__)):
        below = nth < len(ends) - 1  # the highest label is above its point: the points are close together
        axes.annotate(
            f"{stated[model]:g}x", (8, ends[model]), (4, -5 if below else 2), textcoords="offset points", fontsize=6,
            color=plots.colour(model),
        )  # fmt: skip
    plots.throughput(axes, points.local, "nodes", _points(points, "nodes"), log=True)
    plots.doubling(axes, [*_NODES, *points.local["nodes"]], "nodes")
    axes.set_xlim(right=max([8, *points.local["nodes"]]) * 1.45)
    axes.plot([], [], ":", color=plots.GREY, label="ideal, from 1 node")
    plots.write(axes, 0.97, 0.06, _STATED, ha="right")
    if not (rate["nodes"] == 1).any():
        axes.plot([], [], "x", color=plots.GREY, label="at 8 / stated speedup")
    return plots.legend(fig, points.note())


_WEAK = ("images_per_s", "speedup_throughput")


def _strong(points: FigureData, remark: str) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=76)
    nodes = [*_NODES, *points.local["nodes"]]
    plots.ideal(axes, nodes)
    stated = _points(points, "nodes", "speedup_throughput")
    plots.draw(axes, stated + plots.local_lines(points.local, value="speedup", over="nodes"))
    plots.doubling(axes, nodes, "nodes")
    plots.logarithmic(axes, "speedup by throughput", 2)
    plots.write(axes, 0.03, 0.97, remark, va="top")
    return plots.legend(fig, points.note())


_STRONG_GPU = 'the report, without numbers:\nInception v3 scales best;\nResNet50 "not that linear\nafter 4 nodes"'

FIGURES = [
    FigureEntry("001-figure-1", _stack),
    FigureEntry("001-figure-2", _ranks_threads, _published("2"), _local("ranks_threads", "cpu")),
    FigureEntry(
        "001-figure-3",
        _batch_cpu,
        _published("3", ("flat_from_global_batch", "best_global_batch")),
        _local("batch_sweep", "cpu"),
    ),
    FigureEntry("001-figure-4", _batch_gpu, _published("4"), _local("batch_sweep", "gpu")),
    FigureEntry("001-figure-5", _weak, _published("5", _WEAK), _local("weak_scaling", "cpu")),
    FigureEntry("001-figure-6", _weak, _published("6", _WEAK), _local("weak_scaling", "gpu")),
    FigureEntry(
        "001-figure-7",
        partial(_strong, remark="the report states only 8 nodes"),
        _published("7", ("speedup_throughput",)),
        _local("strong_scaling", "cpu"),
    ),
    FigureEntry("001-figure-8", partial(_strong, remark=_STRONG_GPU), None, _local("strong_scaling", "gpu")),
]
