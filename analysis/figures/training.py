"""What training over epochs came to: accuracy, time to accuracy, and what it used; from one's own records alone."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import metrics, plots
from analysis.figures import Points, figure

_EXPERIMENTS = {
    "accuracy_digits": "handwritten digits",
    "fruit": "fruit",
    "caltech256": "Caltech256",
    "imdb_wiki": "age estimation",
}
_COLOURS = (plots.BLUE, plots.RED, plots.GREEN, plots.PINK, plots.ORANGE, plots.SKY)


def _ranks(ranks: object) -> str:
    return f"{ranks} rank{'s' * (int(str(ranks)) > 1)}"


def _curves(points: Points) -> Figure:
    """Accuracy on the validation samples (top) and on the training samples (bottom) over the epochs.

    One line a number of ranks, mean over repeats. Training accuracy is that of the steps of the epoch, as the weights
    change; validation accuracy is that of the weights at its end.
    """
    fig, panels = plots.canvas(2, 1, height_mm=100, sharex=True, sharey=True)
    for axes, part in zip(panels, ("validation", "training"), strict=True):
        quantity = f"{part.removesuffix('ing')}_accuracy"
        for nth, (ranks, rows) in enumerate(points.own.groupby("ranks")):
            style = nth % len(plots.OWN_MARKERS)
            plots.epochs(axes, rows, quantity, _ranks(ranks), _COLOURS[nth % len(_COLOURS)], style)
        axes.set_ylabel(f"{part} accuracy")
    panels[-1].set_xlabel("epoch")
    return plots.legend(fig, plots.provenance(points.own, scaling=False))


_PANELS_OVER_RANKS = (
    ("epoch_s", "time per\nepoch [s]", True),
    ("epochs_to_stable", "epochs to\nstable accuracy", False),
    ("time_to_stable_s", "time to stable\naccuracy [s]", True),
)


def _over_ranks(points: Points) -> Figure:
    """Time per epoch, epochs to stable accuracy, and time to stable accuracy, over the ranks.

    Time per epoch: the median over the epochs of a run. Stable: the first epoch from which on the validation accuracy
    stays within 0.01 of its best. Time until then: the sum of these epochs' times, the tracing of the first step with
    them, without evaluation and without the start of the job.
    """
    runs = metrics.training(points.own)
    fig, panels = plots.canvas(3, 1, height_mm=130, sharex=True)
    for axes, (column, label, scaling) in zip(panels, _PANELS_OVER_RANKS, strict=True):
        known = runs[runs[column].notna()]
        for nth, ((model, _), group) in enumerate(known.groupby(["model", "series"], sort=False)):
            words = ", ".join([plots.name(model), *plots.told_apart(group, runs)])
            colour, style = _COLOURS[nth % len(_COLOURS)], nth % len(plots.OWN_MARKERS)
            plots.draw(axes, [plots.over_ranks(group, column, words, colour, style, scaling)])
        plots.doubling(axes, runs["ranks"], "ranks" if axes is panels[-1] else "")
        axes.set_ylim(0)
        axes.set_ylabel(label)
    return plots.legend(fig, plots.provenance(points.own))


_STYLES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)))
_PANELS_OVER_TIME = (
    ("cpu_use_fraction", 1.0, "CPU use of\nits cores"),
    ("gpu_use_fraction", 1.0, "GPU use, share\nof the time"),
    ("memory_bytes", 2.0**-30, "memory [GiB]"),
    ("gpu_memory_bytes", 2.0**-30, "GPU memory [GiB]"),
)
_BEFORE_FIRST_STEP = tuple(f"phase_{name}_s" for name in ("start", "import", "init", "data", "build", "broadcast"))


def _over_time(axes: Axes, rows: pd.DataFrame, scale: float, among: pd.DataFrame) -> None:
    """One line a series and number of ranks, each second the mean over repeats; a dot where the first step begins."""
    for nth, ((ranks, series), _) in enumerate(among.groupby(["ranks", "series"])):
        of_line = rows[(rows["ranks"] == ranks) & (rows["series"] == series)]
        if of_line.empty:  # no samples, or no GPU
            continue
        mean = of_line.groupby("time_s")["value"].mean() * scale
        words = [_ranks(ranks), plots.repeats([of_line["record"].nunique()])]
        colour, x = _COLOURS[nth % len(_COLOURS)], mean.index.astype(float)
        axes.plot(
            x, mean, label=", ".join([*words, *plots.told_apart(of_line, among)]),
            color=colour, linestyle=_STYLES[nth % len(_STYLES)],
        )  # fmt: skip
        before = among[among["record"].isin(of_line["record"]) & among["quantity"].isin(_BEFORE_FIRST_STEP)]
        begin = max(x.min(), before.groupby("record")["value"].sum().mean())
        axes.plot(begin, np.interp(begin, x, mean), "o", color=colour, markersize=4)
    axes.plot([], [], "o", color=plots.GREY, markersize=4, label="dot: the first step begins")


def _usage(points: Points) -> Figure:
    """CPU, memory and GPU use of a rank over the time of the job, one line a number of ranks.

    Mean over the ranks and repeats, of samples taken once a second from when TensorFlow is loaded. CPU: of the cores
    that a rank is bound to. Memory: resident, of one rank. GPU: the share of the time in which any kernel ran on it,
    as nvidia-smi tells it, not how much of the GPU was at work; without a GPU there is no such panel. Before the dots
    the job starts and builds its model; then it traces the first step, trains, evaluates and saves, epoch by epoch.
    """
    own = points.own
    panels = [panel for panel in _PANELS_OVER_TIME if (own["quantity"] == panel[0]).any()]
    fig, drawn = plots.canvas(max(1, len(panels)), 1, height_mm=30 + 32 * max(1, len(panels)), sharex=True)
    if not panels:
        plots.write(drawn[0], 0.5, 0.5, "no samples: measure.usage_period_s=null", ha="center")
    for axes, (quantity, scale, label) in zip(drawn, panels, strict=bool(panels)):
        _over_time(axes, own[own["quantity"] == quantity], scale, own)
        axes.set_ylim(0, max(1.05, axes.get_ylim()[1]) if quantity.endswith("fraction") else 1.1 * axes.get_ylim()[1])
        axes.set_ylabel(label)
    drawn[-1].set_xlim(0)
    drawn[-1].set_xlabel("time since the launch of the job [s]")
    shared = "\nranks shared cores in some of the runs" if own["cores_shared"].any() else ""
    return plots.legend(fig, f"own: {'; '.join(own['machine'].unique())}{shared}")


_OF_TIME = (*(panel[0] for panel in _PANELS_OVER_TIME), *_BEFORE_FIRST_STEP)
_OF_EPOCHS = ("epoch_s", "validation_accuracy", "train_accuracy")

for _experiment, _words in _EXPERIMENTS.items():
    for _kind, _shows, _quantities, _draw in (
        ("curves", "accuracy over epochs", _OF_EPOCHS, _curves),
        ("time-to-accuracy", "time per epoch, epochs and time to stable accuracy", _OF_EPOCHS, _over_ranks),
        ("usage", "CPU, memory and GPU use over time", _OF_TIME, _usage),
    ):
        figure(
            f"own-{_experiment.replace('_', '-')}-{_kind}",
            f"{_shows}, {_words}",
            None,
            {"experiment": _experiment, "quantity": _quantities},
        )(_draw)
