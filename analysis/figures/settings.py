"""Figures over a setting: throughput, energy, rates of links, allreduce over sizes; and of arms over their base."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import labels, speedups
from analysis.experiments import ENERGY_LABELS, joules, point_bounds
from analysis.experiments.allreduce_points import hardware_rates, rounds, size_label
from analysis.experiments.arms import link_rates, ratios
from analysis.figures import WITH_CONTROL, FigureData, FigureKind, plots
from analysis.figures.plots import DrawnLine
from analysis.stats import Number, repeats
from analysis.table import controls
from analysis.table.swept_axis import SCALING
from common.terminal import counted


def _over(points: FigureData, column: str, x_axis: Callable[[Axes], None]) -> Figure:
    """Return the throughput over a column, with its bounds, in a panel for each unit.

    x_axis: sets up the axis of the column.
    """
    units = labels.by_rate_unit(points.local)
    fig, panels = plots.canvas(len(units), 1, height_mm=24 + 48 * len(units))
    for axes, rows in zip(panels, units, strict=True):
        plots.throughput(axes, rows, column)
        x_axis(axes)
    return plots.legend(fig, points.note())


def _throughput(points: FigureData) -> Figure:
    local, values = positioned(points.local)
    return _over(
        replace(points, local=local), "position", lambda axes: plots.setting(axes, values, str(local["axis"].iloc[0]))
    )


def _batch(points: FigureData) -> Figure:
    batches = points.local["global_batch"]
    return _over(points, "global_batch", lambda axes: plots.doubling(axes, batches, "global batch [images]"))


def _division(points: FigureData) -> Figure:
    divisions = points.local.drop_duplicates("ranks_per_node").sort_values("ranks_per_node")
    ranks = divisions["ranks_per_node"].tolist()

    def x_axis(axes: Axes) -> None:
        plots.doubling(axes, ranks, "ranks per node x threads per rank")
        axes.set_xticks(ranks, [f"{r} x {t}" for r, t in zip(ranks, divisions["threads_per_rank"], strict=True)])

    return _over(points, "ranks_per_node", x_axis)


def positioned(table: pd.DataFrame, column: str = "axis_value") -> tuple[pd.DataFrame, list[float]]:
    """Return the table with the column `position`, of its value in a column on an axis, and the values in order."""
    values = labels.ordered_values(table[column])
    # By text, as NaN does not equal NaN.
    positions = dict(zip(map(str, values), labels.positions(values)[0], strict=True))
    return table.assign(position=[positions[str(float(value))] for value in table[column]]), values


def along_axis(local: pd.DataFrame) -> tuple[pd.DataFrame, Callable[[Axes, bool], None]]:
    """Return the table with the column `x`, and a function that gives panels this axis, the last one with its label.

    Over the ranks, or over the values of the swept key where that is no number of ranks or nodes.
    """
    axis = str(local["axis"].iloc[0]) if len(local) else ""
    if axis in ("", *SCALING):
        ranks = local["ranks"].astype(float)
        return local.assign(x=ranks), lambda axes, last: plots.doubling(axes, ranks, "ranks" if last else "")
    table, values = positioned(local)
    return table.assign(x=table["position"]), lambda axes, last: plots.setting(axes, values, axis if last else "")


def _row(
    axes: Axes, y: float, dots: list[float], number: Number, model: object, face: str | None = None,
    size: float | None = None,
) -> None:  # fmt: skip
    """Draw one number along the x axis, with its interval and the values behind it. face, size: of the marker."""
    colour = plots.colour(model)
    axes.plot(dots, [y - 0.22] * len(dots), ".", color=plots.GREY, markersize=3)
    axes.plot([number.low, number.high], [y, y], color=colour)
    axes.plot(number.value, y, plots.local_marker(model), color=colour, mfc=face or colour, markersize=size)


def _row_axis(axes: Axes, names: list[str], below: float = 0.5) -> None:
    """Set up a y axis of named rows, the first one on top."""
    axes.set_yticks(range(len(names)), names, fontsize=5.5)
    axes.set_ylim(max(len(names), 1) - below, -0.5)


def _side_by_side(points: FigureData) -> Figure:
    runs = speedups.rates(points.local)
    series = list(runs.groupby(["model", "series"], sort=False))
    fig, (axes,) = plots.canvas(height_mm=34 + 9 * len(series))
    ticks: list[str] = []
    for y, ((model, _), rows) in enumerate(series):
        rate = speedups.rate_of(rows)
        face = "white" if rows["cores_shared"].any() else plots.colour(model)
        _row(axes, y, rows["rate"].tolist(), rate, model, face)
        plots.mark_bounds(axes, point_bounds(speedups.rows_of_point(points.local, rows)), y)
        ticks.append("\n".join([f"{labels.name(model)}, n={rate.n}", *labels.distinctions(rows, runs)]))
    _row_axis(axes, ticks)
    axes.set_xlim(0)
    axes.set_xlabel("throughput [images/s]")
    return plots.legend(fig, points.note())


def _overhead(points: FigureData) -> Figure:
    compared = list(ratios(points.local))
    fig, (axes,) = plots.canvas(height_mm=34 + 10 * len(compared))
    ticks: list[str] = []
    for y, ratio in enumerate(compared):
        e = ratio.number
        _row(axes, y, ratio.values, e, ratio.model, size=4)
        numbers = f"{e.text('.3f')}, n={counted(e.n, ratio.unit)}"
        ticks.append("\n".join(line for line in (*ratio.label, numbers) if line))
    axes.axvline(1, color=plots.GREY, linestyle=":")
    _row_axis(axes, ticks, below=0.4)
    axes.set_xlabel("ratio of throughputs")
    return plots.legend(fig, points.note())


def _energy_over_axis(points: FigureData) -> Figure:
    local, finish = along_axis(points.local)
    runs = speedups.rates(local)
    quantities = _measured_quantities(local)
    fig, panels = plots.canvas(len(quantities), 1, height_mm=36 + 38 * len(quantities), sharex=True)
    for axes, quantity in zip(panels, quantities, strict=True):
        plots.draw(axes, _energy_lines(local, runs, quantity))
        finish(axes, axes is panels[-1])
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.set_ylabel(ENERGY_LABELS[quantity])
    return plots.legend(fig, points.note())


def _measured_quantities(local: pd.DataFrame) -> list[str]:
    return [quantity for quantity in ENERGY_LABELS if local["quantity"].eq(quantity).any()]


def _energy_lines(local: pd.DataFrame, runs: pd.DataFrame, quantity: str) -> list[DrawnLine]:
    """Return a line for each series that has the quantity; runs: of all points, with their position `x`."""
    lines = []
    for _, rows in runs.groupby(["model", "series"], sort=False):
        joules_at = {float(str(x)): joules(speedups.rows_of_point(local, at), quantity) for x, at in rows.groupby("x")}
        launches = {x: values for x, values in joules_at.items() if values}
        if not launches:
            continue
        medians = {x: repeats.typical(values) for x, values in launches.items()}
        raw = [(x, value) for x, values in launches.items() for launch in values for value in launch]
        line = plots.series_line(rows, runs, "local", labels.n_range(median.n for median in medians.values()))
        invalid = controls.invalid(rows).groupby(rows["x"]).any()
        dots = ([x for x, _ in raw], [y for _, y in raw]) if len(raw) > len(launches) else ((), ())
        lines.append(plots.through(line, medians, shared=[bool(invalid[x]) for x in launches], raw=dots))
    return lines


def _energy_side_by_side(points: FigureData) -> Figure:
    runs, quantities = speedups.rates(points.local), _measured_quantities(points.local)
    at_points = [at for _, at in runs.groupby(["model", "series", "ranks"], sort=False)]
    fig, panels = plots.canvas(1, len(quantities), height_mm=34 + 9 * len(at_points), sharey=True)
    for axes, quantity in zip(panels, quantities, strict=True):
        for y, at in enumerate(at_points):
            if values := joules(speedups.rows_of_point(points.local, at), quantity):  # else its energy is not known
                dots = [value for launch in values for value in launch]
                _row(axes, y, dots, repeats.typical(values), at["model"].iloc[0])
        axes.set_xlim(0, 1.05 * axes.get_xlim()[1])
        axes.set_xlabel(ENERGY_LABELS[quantity])
    ticks = []
    for at in at_points:
        name = f"{labels.name(at['model'].iloc[0])}, {counted(at['ranks'].iloc[0], 'rank')}, n={len(at)}"
        ticks.append("\n".join([name, *labels.distinctions(at, runs)]))
    _row_axis(panels[0], ticks)
    return plots.legend(fig, points.note())


def _link_line(rows: pd.DataFrame, value: str) -> DrawnLine:
    """Return share or exposed communication of one series; a logarithmic axis does not show 0 or less."""
    model = rows["model"].iloc[0]
    label = f"{labels.name(model)}, {rows['parameters'].iloc[0] / 1e6:.3g} M parameters, {labels.n_range(rows['n'])}"
    style = plots.colour(model), plots.local_marker(model), "--"
    y, low, high = (rows[f"{value}{end}"].where(rows[value].gt(0)).tolist() for end in ("", "_low", "_high"))
    return DrawnLine(label, rows["position"].tolist(), y, *style, low, high, rows["invalid"].tolist())


def _link_rates(points: FigureData) -> Figure:
    rates = link_rates(points.local)
    if rates.empty:
        fig, (axes,) = plots.canvas(height_mm=40)
        plots.write(axes, 0.5, 0.5, "no control: run the experiment to its end", ha="center")
        return plots.legend(fig, points.note())
    fig, panels = plots.canvas(2, 1, height_mm=112, sharex=True)
    rates, values = positioned(rates, "link_mbit_per_s")
    series = [rows for _, rows in rates.groupby(["model", "series"], sort=False)]
    for axes, value in zip(panels, ("share", "exposed_s"), strict=True):
        plots.draw(axes, [_link_line(rows, value) for rows in series])
    for rows in series:
        limited, colour = rows[rows["min_s"].gt(0)], plots.colour(rows["model"].iloc[0])
        panels[1].plot(limited["position"], limited["min_s"], ":", color=colour, linewidth=0.9)
    panels[1].plot([], [], ":", color=plots.GREY, label="minimum of the link")
    plots.fraction(panels[0], "throughput / control", ideal=False)
    panels[0].axhline(1, color=plots.GREY, linestyle="-", linewidth=0.5)
    plots.logarithmic(panels[1], "exposed\ncommunication [s/step]")
    panels[1].set_ylim(rates.loc[rates["exposed_s"].gt(0), "exposed_s"].min() / 3, rates["exposed_s"].max() * 2)
    for axes in panels:
        plots.setting(axes, values, "limit of a node's link [Mbit/s]" if axes is panels[-1] else "")
    nodes = ", ".join(str(n) for n in sorted(rates["nodes"].unique()))
    panels[0].set_title(f"{nodes} nodes", loc="left")
    return plots.legend(fig, points.note())


_OPERATIONS = {"gloo": ("Gloo", plots.BLUE, "o"), "mpi": ("MPI", plots.RED, "s"), "nccl": ("NCCL", plots.GREEN, "^")}
_STYLES = ("-", (0, (1, 1)), "--", "-.")
_BOUNDS = {
    "tcp_ring_bytes_per_s": (plots.BLACK, "--", "plain TCP, all ranks to the next one"),
    "tcp_stream_bytes_per_s": (plots.BLACK, (0, (1, 1.5)), "plain TCP, one rank to another"),
    "memory_copy_bytes_per_s": (plots.PINK, "-.", "copy in memory, all ranks at once"),
}


def _allreduce_lines(panel_runs: pd.DataFrame, runs: pd.DataFrame, value: str, scale: float) -> list[DrawnLine]:
    """Return a line for each backend, cycle time and series of `panel_runs`: mean, lowest and highest of the rounds."""
    cycles = sorted(runs["cycle_time_ms"].unique(), reverse=True)
    key = ["operations", "cycle_time_ms", "series"]
    lines = []
    for names, line_rows in panel_runs.groupby(key):
        everywhere = runs[(runs[key] == list(names)).all(axis=1)]
        operations, colour, marker = _OPERATIONS[str(names[0])]
        cycle_ms = names[1]
        counts = everywhere.groupby(["ranks", "message_bytes"])["record"].nunique()
        label = [f"{operations}, cycle {cycle_ms:g} ms", labels.n_range(counts)]
        label += labels.distinctions(line_rows, runs, "cycle_time_ms")
        sizes = line_rows.groupby("message_bytes")
        mean, low, high = ((sizes[value].agg(statistic) * scale).tolist() for statistic in ("mean", "min", "max"))
        lines.append(
            DrawnLine(
                ", ".join(label), [int(str(size)) for size in sizes.groups], mean,
                colour, marker, _STYLES[cycles.index(cycle_ms) % len(_STYLES)], low, high,
                sizes["cores_shared"].any().tolist(),
            )
        )  # fmt: skip
    return lines


def _sizes(axes: Axes, sizes: pd.Series, label: str) -> None:
    low, high = int(sizes.min()).bit_length() - 1, int(sizes.max()).bit_length() - 1
    ticks = [1 << k for k in range(low, high + 1, max(1, (high - low) // 5))]
    plots.log_axis(axes, "x", 2, ticks=ticks, name=size_label)
    axes.set_xlabel(label)


def _allreduce(points: FigureData, value: str, scale: float, label: str) -> Figure:
    """Return one panel for each number of ranks; of rates, with the bounds of the hardware."""
    local, runs = points.local, rounds(points.local)
    ranks = sorted(runs["ranks"].unique())
    fig, panels = plots.canvas(len(ranks), 1, height_mm=40 + 42 * len(ranks), sharex=True, sharey=True)
    for axes, number in zip(panels, ranks, strict=True):
        plots.draw(axes, _allreduce_lines(runs[runs["ranks"] == number], runs, value, scale))
        plots.log_axis(axes, "y")
        axes.set_ylabel(label)
        axes.set_title(f"{number} ranks", loc="left")
        _sizes(axes, runs["message_bytes"], "message size" if axes is panels[-1] else "")
        bounds = hardware_rates(local[local["ranks"] == number]) if value == "rate" else {}
        for quantity, limit in bounds.items():
            colour, style, name = _BOUNDS[quantity]
            axes.axhline(limit.value * scale, color=colour, linestyle=style, linewidth=0.8, label=name)
    lines = ["; ".join(local["machine"].unique()), "marks: mean of the rounds; bars: from the lowest to the highest"]
    if local["cores_shared"].any():
        lines.append("hollow: more ranks than cores, not valid for the backend")
    return plots.legend(fig, "\n".join(lines), columns=2)


_allreduce_time = partial(_allreduce, value="time_s", scale=1e3, label="time [ms]")
_allreduce_bandwidth = partial(_allreduce, value="rate", scale=1e-9, label="bus bandwidth [GB/s]")

DIVISION = FigureKind("division", "", _division)
BATCH = FigureKind("batch", "", _batch)
SETTING = FigureKind("setting", "throughput", _throughput)
ARMS = FigureKind("arms", "", _overhead)
SIDE_BY_SIDE = FigureKind("side-by-side", "throughput", _side_by_side)
ENERGY = FigureKind("energy", "energy", _energy_over_axis)
ENERGY_SIDE_BY_SIDE = FigureKind("energy-side-by-side", "energy", _energy_side_by_side)
LINK_RATES = FigureKind("link-rates", "", _link_rates, WITH_CONTROL)
ALLREDUCE_TIME = FigureKind("allreduce-time", "time", _allreduce_time)
ALLREDUCE_BANDWIDTH = FigureKind("allreduce-bandwidth", "bandwidth", _allreduce_bandwidth)
