"""Report 004: fruit and Caltech256 on 1 to 8 GPUs. Its accuracy curves and its plot of GPU use are lost."""

import pandas as pd
from matplotlib.figure import Figure

from analysis import labels, metrics
from analysis.experiments import training_runs
from analysis.figures import FigureData, FigureEntry, plots
from analysis.figures.plots import DrawnLine

_EPOCHS = {"fruit": 10, "caltech256": 30}
_FINAL = ("validation_accuracy", "train_accuracy", "epochs_to_stable")


_CURVES = (("validation_accuracy", "validation", plots.BLUE, "o"), ("train_accuracy", "training", plots.ORANGE, "s"))


def _accuracy(points: FigureData) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=72)
    last = _EPOCHS[points.published["experiment"].iloc[0]]
    lines = []
    for quantity, name, colour, marker in _CURVES:
        lines += plots.epochs(points.local, quantity, plots.empty_line(f"{name}, local", colour))
        final = points.published[points.published["quantity"] == quantity]
        if final.empty:
            plots.write(axes, 0.97, 0.1, f"final {name} accuracy: not printed", ha="right")
        else:
            value = final["value"].item()
            lines.append(DrawnLine(f"{name}, printed: {value:.4f}", [last], [value], colour, marker, ""))
    plots.draw(axes, lines)
    for epoch in points.published[points.published["quantity"] == "epochs_to_stable"]["value"]:
        axes.axvline(epoch, color=plots.GREY, linestyle="--", label=f"stable from epoch {epoch:g} (the report, by eye)")
    axes.set_xlim(0, last + 1)
    axes.set_xlabel("epoch")
    axes.set_ylim(0, 1)
    axes.set_ylabel("accuracy")
    plots.write(axes, 0.03, 0.03, "the report's curves are lost")
    return plots.legend(fig, points.note(scaling=False))


def _gpu_use(points: FigureData) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=48)
    value = points.published.set_index("quantity")["value"]
    bars = [("model 2", value["job_s"], _EPOCHS["fruit"] * value["epoch_s"])]
    for number, (_, rows) in enumerate(points.local.groupby("record"), start=1):
        values = rows[rows["epoch"].isna()].set_index("quantity")["value"]
        shared = bool(rows["cores_shared"].fillna(False).any())
        bars.append((f"local, run {number}{'*' * shared}", values["job_s"], values["phase_timed_s"]))
    for row, (_, whole, busy) in enumerate(bars):
        axes.barh(row, whole, color="0.85", label="the rest of the job" if row == 0 else "")
        axes.barh(row, busy, color=plots.BLUE, label="epochs (local: timed steps)" if row == 0 else "")
        axes.text(busy + whole * 0.02, row, f"{busy / whole:.0%} of {whole:.0f} s", va="center", fontsize=6)
    axes.set_yticks(range(len(bars)), [label for label, *_ in bars])
    axes.set_xlabel("time [s]")
    axes.grid(False, axis="y")
    return plots.legend(fig, points.note(stacked=True))


_NAMES = {"fruit": "fruit", "caltech256": "Caltech256"}
_COLOURS = {"T4": (plots.BLUE, "o"), "V100": (plots.RED, "s")}


def _over_gpus(rows: pd.DataFrame, style: str = "-") -> list[DrawnLine]:
    lines = []
    for (experiment, gpu), group in rows.groupby(["experiment", "gpu"], sort=False):
        colour, marker = _COLOURS[str(gpu)]
        name = _NAMES[str(experiment)]
        fill = ":" if experiment == "fruit" else style
        group = group.sort_values("ranks")
        lines.append(
            DrawnLine(f"{name}, {gpu}", group["ranks"].tolist(), group["value"].tolist(), colour, marker, fill)
        )
    return lines


# Local runs of the two experiments differ in colour, marker and line style.
_LOCAL_STYLES = {"caltech256": (plots.BLACK, 0), "fruit": (plots.GREEN, 1)}


def _local_over_ranks(runs: pd.DataFrame, value: str, scaling: bool = True) -> list[DrawnLine]:
    """Return local values, mean and interval over repeats; `runs` has one row a run."""
    lines = []
    for (experiment, _), group in runs.groupby(["experiment", "series"], sort=False):
        colour, nth = _LOCAL_STYLES[str(experiment)]
        label = ", ".join([f"{_NAMES[str(experiment)]}, local", *labels.distinctions(group, runs)])
        lines.append(plots.means(group, value, "ranks", plots.empty_line(label, colour, nth), scaling))
    return lines


def _over_ranks(
    points: FigureData, rows: pd.DataFrame, local: pd.DataFrame, quantity: str, label: str,
    epochs: bool = False, log: bool = False,
) -> Figure:  # fmt: skip
    """Draw rows of the report, and local runs with the quantity, one row a run. epochs: shared cores change none."""
    fig, (axes,) = plots.canvas(height_mm=78)
    measured, predicted = (rows[rows["kind"] == kind] for kind in ("measured", "predicted"))
    published = _over_gpus(measured, style="" if epochs else "-")
    plots.draw(axes, published + _local_over_ranks(local, quantity, scaling=not epochs))
    if rows["kind"].eq("stated").any():
        rule = rows[rows["kind"] != "measured"].sort_values("ranks")
        axes.plot(rule["ranks"].astype(float), rule["value"], ":", color=plots.GREY, label="the report's rule")
    for row in predicted.to_dict("records"):
        axes.plot(row["ranks"], row["value"], "*", color=plots.PINK, markersize=6, label="predicted for 16 V100")
    plots.doubling(axes, [*rows["ranks"], *local["ranks"]], "GPUs (local: ranks)")
    if log:
        plots.logarithmic(axes, label)
    else:
        axes.set_ylim(0)
        axes.set_ylabel(label)
    return plots.legend(fig, points.note(scaling=not epochs))


def _epoch_time(points: FigureData) -> Figure:
    runs = training_runs(points.local)
    return _over_ranks(points, points.published, runs, "epoch_s", "time per epoch [s]", log=True)


def _job_time(points: FigureData) -> Figure:
    runs = points.local.rename(columns={"value": "job_s"})
    return _over_ranks(points, points.published, runs, "job_s", "job time [s]", log=True)


def _epochs_to_stable(points: FigureData) -> Figure:
    runs = training_runs(points.local)
    return _over_ranks(points, points.published, runs, "epochs_to_stable", "epochs to stable accuracy", epochs=True)


def _time_to_stable(points: FigureData) -> Figure:
    wide = points.published.pivot_table("value", ["experiment", "run", "gpu", "ranks", "kind"], "quantity")
    until_s = metrics.time_to_stable_s(wide["job_s"], wide["epochs_to_stable"], _EPOCHS["caltech256"])
    runs = training_runs(points.local)
    runs = runs.assign(minutes=runs["time_to_stable_s"] / 60)
    rows = (until_s / 60).rename("value").reset_index()
    return _over_ranks(points, rows, runs, "minutes", "time to stable accuracy [min]")


_MODELS = (("fruit", 2), ("fruit", 4), ("caltech256", 2), ("caltech256", 4), ("caltech256", 4), ("caltech256", 8))
_TO_STABLE = (*(f"model {nth}" for nth in (3, 4, 5, 6)), "prediction")


def _published(quantity: str | tuple[str, ...], *kinds: str, **more: object) -> dict[str, object]:
    return {"report": "004", "quantity": quantity, "kind": kinds, **more}


def _local(experiment: str | tuple[str, ...], **more: object) -> dict[str, object]:
    return {"experiment": experiment, **more}


FIGURES = [
    *(
        FigureEntry(
            f"004-model-{nth}", _accuracy, _published(_FINAL, "measured", run=f"model {nth}"), _local(name, ranks=n)
        )
        for nth, (name, n) in enumerate(_MODELS, 1)
    ),
    FigureEntry(
        "004-gpu-use",
        _gpu_use,
        _published(("job_s", "epoch_s"), "measured", run="model 2"),
        _local("fruit", ranks=4),
    ),
    *(
        FigureEntry(id, draw, _published(name, "measured", "predicted"), _local(tuple(_NAMES), quantity=name))
        for id, draw, name in (("004-epoch-time", _epoch_time, "epoch_s"), ("004-job-time", _job_time, "job_s"))
    ),
    FigureEntry(
        "004-epochs-to-stable",
        _epochs_to_stable,
        _published("epochs_to_stable", "measured", "predicted", "stated"),
        _local("caltech256"),
    ),
    FigureEntry(
        "004-time-to-stable",
        _time_to_stable,
        _published(("epochs_to_stable", "job_s"), "measured", "predicted", run=_TO_STABLE),
        _local("caltech256"),
    ),
]
