"""Report 004: fruit and Caltech256 on 1 to 8 GPUs. Its accuracy curves and its plot of GPU use are lost."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import labels, metrics
from analysis.experiments import training_runs
from analysis.figures import Entry, Points, plots
from analysis.figures.plots import Line, SeriesStyle

_EPOCHS = {"fruit": 10, "caltech256": 30}


_FINAL = ("validation_accuracy", "train_accuracy", "epochs_to_stable")


def _local(experiment: str, ranks: int | None = None) -> dict[str, object]:
    return {"experiment": experiment} | ({} if ranks is None else {"ranks": ranks})


_CURVES = (("validation_accuracy", "validation", plots.BLUE, "o"), ("train_accuracy", "training", plots.ORANGE, "s"))


def _accuracy(points: Points) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=72)
    last = _EPOCHS[points.published["experiment"].iloc[0]]
    lines = []
    for quantity, name, colour, marker in _CURVES:
        lines += plots.epochs(points.local, quantity, SeriesStyle(f"{name}, local", colour))
        final = points.published[points.published["quantity"] == quantity]
        if final.empty:
            plots.write(axes, 0.97, 0.1, f"final {name} accuracy: not printed", ha="right")
        else:
            value = final["value"].item()
            lines.append(Line(f"{name}, printed: {value:.4f}", [last], [value], colour, marker, ""))
    plots.draw(axes, lines)
    for epoch in points.published[points.published["quantity"] == "epochs_to_stable"]["value"]:
        axes.axvline(epoch, color=plots.GREY, linestyle="--", label=f"stable from epoch {epoch:g} (the report, by eye)")
    axes.set_xlim(0, last + 1)
    axes.set_xlabel("epoch")
    axes.set_ylim(0, 1)
    axes.set_ylabel("accuracy")
    plots.write(axes, 0.03, 0.03, "the report's curves are lost")
    return plots.legend(fig, labels.figure_note(points.local, scaling=False))


def _gpu_use(points: Points) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=48)
    value = points.published.set_index("quantity")["value"]
    bars = [("model 2", value["job_s"], _EPOCHS["fruit"] * value["epoch_s"], False)]
    for number, (_, rows) in enumerate(points.local.groupby("record"), start=1):
        values = rows[rows["epoch"].isna()].set_index("quantity")["value"]
        shared = bool(rows["cores_shared"].fillna(False).any())
        bars.append((f"local, run {number}", values["job_s"], values["phase_timed_s"], shared))
    for row, (_, whole, busy, shared) in enumerate(bars):
        axes.barh(row, whole, color="0.85", label="the rest of the job" if row == 0 else "")
        bar = axes.barh(row, busy, color=plots.BLUE, label="epochs (local: timed steps)" if row == 0 else "")
        if shared:
            bar[0].set(edgecolor="white", linewidth=0.3, hatch="////")
        axes.text(busy + whole * 0.02, row, f"{busy / whole:.0%} of {whole:.0f} s", va="center", fontsize=6)
    axes.set_yticks(range(len(bars)), [label for label, *_ in bars])
    axes.set_xlabel("time [s]")
    axes.grid(False, axis="y")
    return plots.legend(fig, labels.figure_note(points.local, stacked=True))


_NAMES = {"fruit": "fruit", "caltech256": "Caltech256"}
_COLOURS = {"T4": (plots.BLUE, "o"), "V100": (plots.RED, "s")}


def _over_gpus(rows: pd.DataFrame, style: str = "-") -> list[Line]:
    lines = []
    for (experiment, gpu), group in rows.groupby(["experiment", "gpu"], sort=False):
        colour, marker = _COLOURS[str(gpu)]
        name = _NAMES[str(experiment)]
        fill = ":" if experiment == "fruit" else style
        group = group.sort_values("ranks")
        lines.append(Line(f"{name}, {gpu}", group["ranks"].tolist(), group["value"].tolist(), colour, marker, fill))
    return lines


# Local runs of the two experiments differ in colour, marker and line style.
_LOCAL_STYLES = {"caltech256": (plots.BLACK, 0), "fruit": (plots.GREEN, 1)}


def _local_over_ranks(runs: pd.DataFrame, value: str, scaling: bool = True) -> list[Line]:
    """Return local values, mean and interval over repeats; `runs` has one row a run."""
    lines = []
    for (experiment, _), group in runs.groupby(["experiment", "series"], sort=False):
        colour, nth = _LOCAL_STYLES[str(experiment)]
        label = ", ".join([f"{_NAMES[str(experiment)]}, local", *labels.distinctions(group, runs)])
        lines.append(plots.means(group, value, "ranks", SeriesStyle(label, colour, nth), scaling))
    return lines


def _times(points: Points, quantity: str, local: pd.DataFrame, label: str) -> Figure:
    """`local` has one row a run, with the column `quantity`."""
    fig, (axes,) = plots.canvas(height_mm=80)
    rows = points.published[points.published["quantity"] == quantity]
    measured, predicted = rows[rows["kind"] == "measured"], rows[rows["kind"] == "predicted"]
    plots.draw(axes, _over_gpus(measured) + _local_over_ranks(local, quantity))
    _prediction(axes, predicted)
    plots.doubling(axes, [*rows["ranks"], *local["ranks"]], "GPUs (local: ranks)")
    plots.logarithmic(axes, label)
    return plots.legend(fig, labels.figure_note(points.local))


def _prediction(axes: Axes, rows: pd.DataFrame) -> None:
    for row in rows.to_dict("records"):
        axes.plot(row["ranks"], row["value"], "*", color=plots.PINK, markersize=6, label="predicted for 16 V100")


def _epoch_time(points: Points) -> Figure:
    return _times(points, "epoch_s", training_runs(points.local), "time per epoch [s]")


def _job_time(points: Points) -> Figure:
    local = points.local[points.local["quantity"] == "job_s"]
    return _times(points, "job_s", local.assign(job_s=local["value"]), "job time [s]")


def _epochs_to_stable(points: Points) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=76)
    rows, local = points.published, training_runs(points.local)
    measured = _over_gpus(rows[rows["kind"] == "measured"], style="")
    plots.draw(axes, measured + _local_over_ranks(local, "epochs_to_stable", scaling=False))
    rule = rows[rows["kind"].isin(["stated", "predicted"])].sort_values("ranks")
    axes.plot(rule["ranks"].astype(float), rule["value"], ":", color=plots.GREY, label="the report's rule")
    _prediction(axes, rows[rows["kind"] == "predicted"])
    plots.doubling(axes, [*rows["ranks"], *local["ranks"]], "GPUs (local: ranks)")
    axes.set_ylim(0)
    axes.set_ylabel("epochs to stable accuracy")
    return plots.legend(fig, labels.figure_note(points.local, scaling=False))


def _time_to_stable(points: Points) -> Figure:
    fig, (axes,) = plots.canvas(height_mm=76)
    wide = points.published.pivot_table(
        "value", ["experiment", "run", "gpu", "ranks", "kind"], "quantity"
    ).reset_index()
    until_s = metrics.time_to_stable_s(wide["job_s"], wide["epochs_to_stable"], _EPOCHS["caltech256"])
    wide["value"] = until_s / 60
    local = training_runs(points.local)
    in_minutes = local.assign(minutes=local["time_to_stable_s"] / 60)
    plots.draw(axes, _over_gpus(wide[wide["kind"] == "measured"]) + _local_over_ranks(in_minutes, "minutes"))
    _prediction(axes, wide[wide["kind"] == "predicted"])
    plots.doubling(axes, [*wide["ranks"], *local["ranks"]], "GPUs (local: ranks)")
    axes.set_ylim(0)
    axes.set_ylabel("time to stable accuracy [min]")
    return plots.legend(fig, labels.figure_note(points.local))


_MODELS = (("fruit", 2), ("fruit", 4), ("caltech256", 2), ("caltech256", 4), ("caltech256", 4), ("caltech256", 8))
_TO_STABLE = (*(f"model {nth}" for nth in (3, 4, 5, 6)), "prediction")


def _published(quantity: str | tuple[str, ...], *kinds: str, **more: object) -> dict[str, object]:
    return {"report": "004", "quantity": quantity, "kind": kinds, **more}


FIGURES = [
    *(
        Entry(f"004-model-{nth}", _accuracy, _published(_FINAL, "measured", run=f"model {nth}"), _local(*model))
        for nth, model in enumerate(_MODELS, 1)
    ),
    Entry("004-gpu-use", _gpu_use, _published(("job_s", "epoch_s"), "measured", run="model 2"), _local("fruit", 4)),
    *(
        Entry(
            id, draw, _published(quantity, "measured", "predicted"), {"experiment": tuple(_NAMES), "quantity": quantity}
        )
        for id, draw, quantity in (("004-epoch-time", _epoch_time, "epoch_s"), ("004-job-time", _job_time, "job_s"))
    ),
    Entry(
        "004-epochs-to-stable",
        _epochs_to_stable,
        _published("epochs_to_stable", "measured", "predicted", "stated"),
        _local("caltech256"),
    ),
    Entry(
        "004-time-to-stable",
        _time_to_stable,
        _published(("epochs_to_stable", "job_s"), "measured", "predicted", run=_TO_STABLE),
        _local("caltech256"),
    ),
]
