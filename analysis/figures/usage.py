"""What training over epochs used of its cores, memory and GPUs, from one's own records."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import plots
from analysis.figures import Points, figure

_EXPERIMENTS = {
    "accuracy_digits": "handwritten digits",
    "fruit": "fruit",
    "caltech256": "Caltech256",
    "imdb_wiki": "age estimation",
}
_COLOURS = (plots.BLUE, plots.RED, plots.GREEN, plots.PINK, plots.ORANGE, plots.SKY)
_STYLES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)))
_PANELS = (
    ("cpu_use_fraction", 1.0, "CPU use of\nits cores"),
    ("gpu_use_fraction", 1.0, "GPU use, share\nof the time"),
    ("memory_bytes", 2.0**-30, "memory [GiB]"),
    ("gpu_memory_bytes", 2.0**-30, "GPU memory [GiB]"),
)


def _over_time(axes: Axes, rows: pd.DataFrame, scale: float, among: pd.DataFrame) -> None:
    """One line a series and number of ranks, each second the mean over repeats."""
    for nth, ((ranks, series), _) in enumerate(among.groupby(["ranks", "series"])):
        of_line = rows[(rows["ranks"] == ranks) & (rows["series"] == series)]
        mean = of_line.groupby("time_s")["value"].mean() * scale
        words = [f"{ranks} rank{'s' * (int(str(ranks)) > 1)}", plots.repeats([of_line["record"].nunique()])]
        axes.plot(
            mean.index.astype(float), mean, label=", ".join([*words, *plots.told_apart(of_line, among)]),
            color=_COLOURS[nth % len(_COLOURS)], linestyle=_STYLES[nth % len(_STYLES)],
        )  # fmt: skip


def _usage(points: Points) -> Figure:
    """CPU, memory and GPU use of a rank over the time of the job, one line a number of ranks.

    Mean over the ranks and repeats, of samples taken once a second from when TensorFlow is loaded. CPU: of the cores
    that a rank is bound to. Memory: resident, of one rank. GPU: the share of the time in which any kernel ran on it,
    as nvidia-smi tells it, not how much of the GPU was at work; without a GPU there is no such panel.
    """
    own = points.own
    panels = [panel for panel in _PANELS if (own["quantity"] == panel[0]).any()]
    fig, drawn = plots.canvas(len(panels), 1, height_mm=30 + 32 * len(panels), sharex=True)
    for axes, (quantity, scale, label) in zip(drawn, panels, strict=True):
        _over_time(axes, own[own["quantity"] == quantity], scale, own)
        axes.set_ylim(0, max(1.05, axes.get_ylim()[1]) if quantity.endswith("fraction") else 1.1 * axes.get_ylim()[1])
        axes.set_ylabel(label)
    drawn[-1].set_xlim(0)
    drawn[-1].set_xlabel("time since the launch of the job [s]")
    shared = "\nranks shared cores in some of the runs" if own["cores_shared"].any() else ""
    return plots.legend(fig, f"own: {'; '.join(own['machine'].unique())}{shared}")


for _experiment, _words in _EXPERIMENTS.items():
    figure(
        f"own-{_experiment.replace('_', '-')}-usage",
        f"CPU, memory and GPU use over time, {_words}",
        None,
        {"experiment": _experiment, "quantity": tuple(quantity for quantity, _, _ in _PANELS)},
    )(_usage)
