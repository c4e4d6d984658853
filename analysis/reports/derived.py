"""Every derived number that the reports print, recomputed from their primary numbers, side by side."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.curves import Row, bases, lookup, measured
from analysis.ratios import RATIOS, pairs

Derivation = Callable[[pd.DataFrame], Iterator["Derived"]]

# How a report states a number, as its note begins: it decides what counts as agreement.
READINGS = ("at least", "at most", "about")
_ABOUT = 0.05  # what "about" and "approximately" allow, relative to the stated number
_SHEET_DECIMALS = {"x": 2, "fraction": 4}


@dataclass(frozen=True)
class Derived:
    """A number computed from the primary numbers of a report; `row`: as the report states it, NaN if only plotted."""

    row: Row
    computed: float
    formula: str


def _stated(table: pd.DataFrame, *quantities: str) -> Sequence[Row]:
    rows = table[table["kind"].isin(["stated", "predicted"]) & table["quantity"].isin(quantities)]
    return rows.to_dict("records")


def speedups(table: pd.DataFrame) -> Iterator[Derived]:
    """Speedup and efficiency by throughput, over the fewest ranks whose throughput the report prints."""
    rates, base = lookup(measured(table, "images_per_s")), bases(table)
    for row in _stated(table, "speedup_throughput", "efficiency_throughput"):
        if pd.isna(row["ranks"]):
            continue
        if not rates(row):
            yield Derived(row, np.nan, "its throughputs are not printed")
            continue
        first = (base(row) or rates(row))[0]
        rate, one, times = rates(row)[0]["value"], first["value"], row["ranks"] / first["ranks"]
        share = row["quantity"] == "efficiency_throughput"
        formula = f"{rate:g} / {one:g} images/s" + (f" / {times:g}" if share else "")
        if first["experiment"] != row["experiment"]:
            formula += f", the base from {first['place']}: that of its curve is not printed"
        speedup = metrics.speedup(rate, one)
        yield Derived(row, metrics.efficiency(speedup, times) if share else speedup, formula)


def ratios(table: pd.DataFrame) -> Iterator[Derived]:
    """The spreadsheet's four comparisons. Batch 64 against 32 compares speedups, the other three throughputs."""
    for name in RATIOS:
        both = pairs(table, name, normalised=name == "ratio_batch_64_to_32")
        cells = lookup(both)
        for row in _stated(table, name):
            (cell,) = cells(row)
            yield Derived(row, cell["follows"], f"{cell['upper']:.4g} / {cell['lower']:.4g}")


def medians(table: pd.DataFrame) -> Iterator[Derived]:
    """Medians of the blocks, of a row where the report prints one for each number of GPUs, from unrounded cells."""
    names = [name for name in table["quantity"].unique() if name.startswith("median_")]
    cells = pd.DataFrame([{**d.row, "computed": d.computed} for d in (*speedups(table), *ratios(table))])
    for row in _stated(table, *names):
        block = cells[
            (cells["quantity"] == row["quantity"].removeprefix("median_")) & (cells["report"] == row["report"])
        ]
        if not pd.isna(row["ranks"]):
            block = block[block["ranks"] == row["ranks"]]
        yield Derived(row, float(block["computed"].median()), f"median of {len(block)}")


def scaling_of_times(table: pd.DataFrame) -> Iterator[Derived]:
    """Speedup and efficiency by speed and by wall time, which a report only plots, and the bounds that it states."""
    best: dict[str, list[tuple[float, str]]] = {"efficiency_throughput": [], "efficiency_wall_time": []}
    rows = measured(table[table["experiment"] == "fixed_work"], "images_per_s_per_rank", "wall_s")
    for (model, quantity), curve in rows[rows["value"] > 0].groupby(["model", "quantity"], sort=False):
        by = "wall_time" if quantity == "wall_s" else "throughput"
        points: Sequence[Row] = curve.sort_values("ranks").to_dict("records")
        first = points[0]
        for row in points:
            rates = [
                metrics.rate(1.0, at["value"]) if by == "wall_time" else metrics.whole_job(at["value"], at["ranks"])
                for at in (row, first)
            ]
            faster = metrics.speedup(*rates)
            for name, value in (
                ("speedup", faster),
                ("efficiency", metrics.efficiency(faster, row["ranks"], first["ranks"])),
            ):
                unit = "x" if name == "speedup" else "fraction"
                plotted = {
                    **row,
                    "quantity": f"{name}_{by}",
                    "value": np.nan,
                    "unit": unit,
                    "place": "plots",
                    "note": "",
                }
                yield Derived(plotted, value, f"from {quantity}: {first['value']:g}, {row['value']:g}")
                if name == "efficiency":
                    best[f"efficiency_{by}"].append((value, str(model)))
    for row in _stated(table[table["experiment"] == "fixed_work"], *best):
        value, model = min(found for found in best[row["quantity"]] if row["model"] in ("", found[1]))
        yield Derived(row, value, f"the minimum, of {model}")


def bounds(table: pd.DataFrame) -> Iterator[Derived]:
    """What a report says of a whole block: the lowest efficiency, a baseline."""
    rows = table[(table["experiment"] == "tf_benchmarks") & table["ranks"].isna()]
    for row in _stated(rows, "efficiency_throughput"):
        shares = [d.computed for d in speedups(table) if d.row["quantity"] == "efficiency_throughput"]
        yield Derived(row, min(shares), f"the minimum of {len(shares)}")
    for row in _stated(table, "images_per_s"):
        cells = measured(table, "images_per_s")
        cells = cells[
            (cells["model"] == row["model"]) & (cells["gpu"] == row["gpu"]) & (cells["ranks"] == row["ranks"])
        ]
        yield Derived(row, float(cells["value"].median()), f"median of {len(cells)} cells")


def changes(table: pd.DataFrame) -> Iterator[Derived]:
    """A percentage by which a time fell, on the base that the report names: the run before."""
    for name, quantity in (("job_s_improvement_fraction", "job_s"), ("epoch_s_decrease_fraction", "epoch_s")):
        for row in _stated(table, name):
            times = measured(table, quantity)
            curve = times[times["experiment"] == row["experiment"]].set_index("run")["value"]
            old, new = curve["model 1"], curve[row["run"]]
            formula = f"({old:g} - {new:g}) / {old:g} s; as speed {metrics.faster_fraction(old, new):+.1%}"
            yield Derived(row, -metrics.change_fraction(old, new), formula)


def epochs(table: pd.DataFrame) -> Iterator[Derived]:
    """Epochs and time until the accuracy is stable, and what the report predicts for twice the GPUs."""
    names = ("epochs_to_stable", "epochs_to_stable_per_doubling", "time_to_stable_s", "job_s", "epoch_s")
    said = _stated(table[table["experiment"] == "caltech256"], *names)
    if not said:
        return
    models = measured(table[table["experiment"] == "caltech256"], "epochs_to_stable", "job_s", "epoch_s")
    wide = models.pivot_table("value", ["run", "ranks"], "quantity").reset_index()
    planned = table[(table["quantity"] == "epochs_planned") & (table["experiment"] == "caltech256")]["value"].max()
    wide["until"] = metrics.time_to_stable_s(wide["job_s"], wide["epochs_to_stable"], planned)
    mean = wide.groupby("ranks")["epochs_to_stable"].mean()
    for row in said:
        at, name = row["ranks"], row["quantity"]
        last = wide[wide["ranks"] == wide["ranks"].max()].iloc[0]
        doublings = np.log2(mean.index.max() / mean.index.min())
        step = (mean.iloc[-1] - mean.iloc[0]) / doublings
        if name == "epochs_to_stable_per_doubling":
            yield Derived(row, step, f"({mean.iloc[-1]:g} - {mean.iloc[0]:g}) / {doublings:g} doublings")
        elif name == "time_to_stable_s":
            until = wide[wide["ranks"] == at].sort_values("until").iloc[0]
            formula = (
                f"{until['epochs_to_stable']:g} / {planned:g} x {until['job_s']:g} s, the minimum ({until['run']})"
            )
            yield Derived(row, until["until"], formula)
        elif row["kind"] == "stated":
            yield Derived(row, mean[at], f"mean of {(wide['ranks'] == at).sum()}")
        elif name == "epochs_to_stable":
            yield Derived(row, last[name] + step, f"{last[name]:g} + {step:g}")
        else:
            yield Derived(row, last[name] / 2, f"{last[name]:g} s / 2")


def spread(table: pd.DataFrame) -> Iterator[Derived]:
    """How far apart final accuracies are: the wider of training and validation; a loss against one not printed."""
    for row in _stated(table, "validation_accuracy_loss_fraction"):
        yield Derived(row, np.nan, "the accuracy on one GPU is not printed")
    for row in _stated(table, "accuracy_spread_fraction"):
        runs = measured(table[table["experiment"] == row["experiment"]], "train_accuracy", "validation_accuracy")
        ranges = runs.groupby("quantity")["value"].agg(lambda values: values.max() - values.min())
        formula = ", ".join(f"{name} {value:.4f}" for name, value in ranges.items())
        yield Derived(row, float(ranges.max()), formula)


def sizes(table: pd.DataFrame) -> Iterator[Derived]:
    """The bytes of a model: its parameters in 32 bits."""
    count = table[(table["quantity"] == "parameters")].set_index(["report", "model"])["value"]
    for row in table[table["quantity"] == "model_bytes"].to_dict("records"):
        parameters = count[row["report"], row["model"]]
        yield Derived(row, 4 * parameters, f"4 x {parameters:.0f}")


DERIVATIONS: tuple[Derivation, ...] = (
    speedups, ratios, medians, bounds, scaling_of_times, changes, epochs, spread, sizes,
)  # fmt: skip


def reading(note: str) -> str:
    """How the report states the number: "at least", "at most", "about", or "" where it gives it as it is."""
    return next((words for words in READINGS if note.startswith(words)), "about" if note.startswith("approx") else "")


def decimals(row: Row) -> int:
    """The decimals that the report prints; a spreadsheet prints the same in every cell of a block."""
    if row["place"].startswith("row "):
        return _SHEET_DECIMALS[row["unit"]]
    return len(f"{row['value']:g}".partition(".")[2])


def agrees(row: Row, computed: float) -> bool:
    """Whether the stated number follows from the primary ones, in the digits that are printed, or within its bound."""
    value = row["value"]
    match reading(row["note"]):
        case "at least":
            return computed >= value
        case "at most":
            return computed <= value
        case "about":
            return abs(computed - value) <= _ABOUT * value
        case _:
            return abs(computed - value) <= 0.5 * 10.0 ** -decimals(row) + 1e-9


def recompute(published: pd.DataFrame) -> pd.DataFrame:
    """Returns every derived number of the reports with the computed one.

    Columns: report, place, model, run, gpu, dataset, batch_per_rank, ranks, quantity, unit, stated (NaN: the report
    only plots it), read_as, computed, difference (computed - stated), agrees (<NA>: one of the two is not known),
    formula.
    """
    kept = ["report", "place", "model", "run", "gpu", "dataset", "batch_per_rank", "ranks", "quantity", "unit"]
    rows = []
    for _, table in published.groupby("report"):
        for derive in DERIVATIONS:
            for d in derive(table):
                both = not np.isnan(d.row["value"] + d.computed)
                rows.append(
                    {name: d.row[name] for name in kept}
                    | {"stated": d.row["value"], "read_as": reading(d.row["note"]), "computed": d.computed}
                    | {"difference": d.computed - d.row["value"], "agrees": agrees(d.row, d.computed) if both else None}
                    | {"formula": d.formula}
                )
    return pd.DataFrame(rows).astype({"agrees": "boolean", "ranks": "Int64", "batch_per_rank": "Int64"})
