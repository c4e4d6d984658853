"""The five reports, and every derived number that they print, recomputed from their primary ones, with its verdict.

`tables`, the audit and the claims use these verdicts.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.curves import SETTING, Row, bases, lookup, measured, noises, times_as_fast
from analysis.derived import RATIOS, Derived, pairs, reading, stated, stated_number
from analysis.stats import Number, between, combined, exact, student, unknown
from analysis.stats.verdict import Outcome

TITLES = {
    "000": "report 000, HackSA: VGG, Inception and ResNet with Horovod",
    "001": "report 001, OSU: TensorFlow and Horovod on Owens",
    "002": "report 002, BNL: distributed TensorFlow on a GPU cluster",
    "003": "report 003, spreadsheet over the TensorFlow benchmarks of 2017",
    "004": "report 004, MSOE: multi-GPU training with Horovod",
    "local": "local records",
}

_AGREES: dict[Outcome, bool | None] = {"inside": True, "outside": False, "undecided": None}


def speedups(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield speedup and efficiency by throughput, over the fewest ranks whose throughput the report prints.

    The nearest of several bases counts. A base that is printed for another experiment is of another run: then the noise
    of the report on that device and at that scale decides, if it is known.
    """
    rows = stated(table, "speedup_throughput", "efficiency_throughput")
    if not rows:
        return
    rates, base, noise = lookup(measured(table, "images_per_s")), bases(table), functools.cache(lambda: noises(table))
    for row in rows:
        if pd.isna(row["ranks"]):
            continue
        over = base(row) or (rates(row)[:1] if row["ranks"] == 1 else [])
        if not rates(row) or not over:
            yield Derived(row, unknown(), "its throughputs are not printed")
            continue
        share, rate = row["quantity"] == "efficiency_throughput", rates(row)[0]
        candidates = [_speedup(row, rate, first, share) for first in over]
        nearest = min(candidates, key=lambda speedup: abs(speedup.computed.value - row["value"]))
        if nearest.base and nearest.base["experiment"] != row["experiment"]:
            ratio = student.with_noise(nearest.computed, [(noise().at(rate), 1.0), (noise().at(nearest.base), -1.0)])
            formula = f"{nearest.formula}, the base from {nearest.base['place']}: that of its curve is not printed"
            nearest = Derived(row, ratio, formula, nearest.base)
        yield nearest


def _speedup(row: Row, rate: Row, first: Row, share: bool) -> Derived:
    times = row["ranks"] / first["ranks"]
    over = times if share else 1.0
    ratio = _combined(lambda rate, base: metrics.efficiency(metrics.speedup(rate, base), over), rate=rate, base=first)
    if rate is first:
        ratio = exact(ratio.value)
    formula = f"{rate['value']:g} / {first['value']:g} images/s" + (f" / {times:g}" if share else "")
    return Derived(row, ratio, formula, first)


def _combined(formula: Callable[..., float], **rows: Row) -> Number:
    """Return the result of a formula for the numbers of rows, which have the names of its arguments."""
    return combined(formula, {name: stated_number(row) for name, row in rows.items()})


def ratios(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield ratios of the throughputs of two settings, or of their speedups over their bases if the note says so."""
    for name in RATIOS:
        rows = stated(table, name)
        scaled = [row["note"].startswith("speedup") for row in rows]
        cells_by_base = {normalised: lookup(pairs(table, name, normalised)) for normalised in set(scaled)}
        for row, normalised in zip(rows, scaled, strict=True):
            cells = cells_by_base[normalised](row)
            if len(cells) == 1:
                value, off = cells[0]["follows"], cells[0]["follows"] * cells[0]["off"]
                formula = f"{cells[0]['upper']:.4g} / {cells[0]['lower']:.4g}"
                yield Derived(row, between(value, value - off, value + off), formula)


def medians(table: pd.DataFrame, cells: Sequence[Derived]) -> Iterator[Derived]:
    """Yield medians of blocks, or of rows if the report prints one for each number of GPUs, from unrounded cells."""
    names = [name for name in table["quantity"].unique() if name.startswith("median_")]
    for row in stated(table, *names):
        block = [d for d in cells if d.row["quantity"] == row["quantity"].removeprefix("median_")]
        if not pd.isna(row["ranks"]):
            block = [d for d in block if d.row["ranks"] == row["ranks"]]
        if block:
            yield Derived(row, _average(np.median, [d.computed for d in block]), f"median of {len(block)}")


def _average(statistic: Callable[..., Any], numbers: Sequence[Number]) -> Number:
    """Return the mean or median of numbers, and of both ends of their intervals."""
    value, low, high = statistic([(n.value, n.low, n.high) for n in numbers], axis=0).tolist()
    return between(value, low, high, len(numbers))


def scaling_of_times(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield speedup and efficiency by speed and by wall time that a report only plots, with no number to compare."""
    rows = measured(table, "images_per_s_per_rank", "wall_s")
    key = ["experiment", "model", "quantity"]
    for (_, _, quantity), curve in rows[rows["value"] > 0].groupby(key, sort=False):
        points: Sequence[Row] = curve.sort_values("ranks").to_dict("records")
        for row in points:
            yield from _plotted(row, points[0], "wall_time" if quantity == "wall_s" else "throughput")


def _plotted(row: Row, first: Row, by: str) -> Iterator[Derived]:
    """Yield speedup and efficiency of one point over another: from times of the same work, or from speeds of a rank."""
    ratio = row["ranks"] / first["ranks"]
    for name, unit, over in (("speedup", "x", 1.0), ("efficiency", "fraction", ratio)):
        times = _combined(
            lambda value, base, over=over: times_as_fast(row, first, value, base) / over, value=row, base=first
        )
        if row is first:
            times = exact(times.value)
        cells: Row = {"quantity": f"{name}_{by}", "value": np.nan, "unit": unit, "place": "plots", "note": ""}
        formula = f"from {row['quantity']}: {first['value']:g}, {row['value']:g}"
        yield Derived({**row, **cells}, times, formula, first)


def bounds(table: pd.DataFrame, shares: Sequence[Derived]) -> Iterator[Derived]:
    """Yield what a report states about a whole block: the lowest efficiency of all models, or of one; a baseline."""
    quantities = ("efficiency_throughput", "efficiency_wall_time")
    for row in (row for row in stated(table, *quantities) if pd.isna(row["ranks"])):
        block = [d for d in shares if (d.row["quantity"], d.row["experiment"]) == (row["quantity"], row["experiment"])]
        block = [d for d in block if row["model"] in ("", d.row["model"])]
        least = min(block, key=lambda d: d.computed.value)
        low, high = (min(getattr(d.computed, end) for d in block) for end in ("low", "high"))
        formula = f"the minimum of {len(block)}, of {least.row['model']} on {least.row['ranks']} ranks"
        yield Derived(row, between(least.computed.value, low, high, len(block)), formula)
    for row in stated(table, "images_per_s"):
        cells = measured(table, "images_per_s")
        same = [cells[name].eq(row[name]) for name in ("model", "gpu", "ranks")]
        rates = [stated_number(cell) for cell in cells[np.logical_and.reduce(same)].to_dict("records")]
        if rates:
            yield Derived(row, _average(np.median, rates), f"median of {len(rates)} cells")


# The quantity of each stated change.
CHANGES = {"job_s_improvement_fraction": "job_s", "epoch_s_decrease_fraction": "epoch_s"}


def changes(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield percentages by which a time fell, from that of the next smaller point of its curve."""
    for name, quantity in CHANGES.items():
        times = measured(table, quantity)
        same, curve = lookup(times), lookup(times, [*SETTING, "experiment"])
        for row in stated(table, name):
            before = sorted((p for p in curve(row) if p["ranks"] < row["ranks"]), key=lambda point: -point["ranks"])
            if not before or not same(row):
                continue
            old, new = before[0], same(row)[0]
            fall = _combined(lambda old, new: -metrics.change_fraction(old, new), old=old, new=new)
            speed = metrics.faster_fraction(old["value"], new["value"])
            formula = f"({old['value']:g} - {new['value']:g}) / {old['value']:g} s; as speed {speed:+.1%}"
            yield Derived(row, fall, formula, old)


def sizes(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield the bytes of a model (its parameters in 32 bits), images of a class, the batch of all ranks together."""
    parameters = lookup(table[table["quantity"].eq("parameters")], ["report", "model"])
    for row in table[table["quantity"].eq("model_bytes")].to_dict("records"):
        for count in parameters(row):
            size = _combined(lambda count: 4 * count, count=count)
            yield Derived(row, size, f"4 x {count['value']:.0f}", count)
    key = ["report", "dataset", "run"]
    images, classes = (lookup(table[table["quantity"].eq(f"dataset_{name}")], key) for name in ("images", "classes"))
    for row in table[table["quantity"].eq("dataset_images_per_class_mean")].to_dict("records"):
        for total, count in zip(images(row), classes(row), strict=False):
            mean = _combined(lambda total, count: total / count, total=total, count=count)
            yield Derived(row, mean, f"{total['value']:g} / {count['value']:g}")
    for effective in stated(table, "effective_batch"):
        ranks, batch = effective["ranks"], effective["batch_per_rank"]
        yield Derived(effective, exact(float(batch * ranks)), f"{ranks} x {batch}")


def epochs_to_stable(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield epochs until the accuracy is stable: at one number of ranks, and how many more at each doubling.

    The latter is the slope that the curves of all devices have in common, with its interval.
    """
    for row in stated(table, "epochs_to_stable"):
        if row["kind"] == "stated":
            same = measured(_experiment(table, row), "epochs_to_stable")
            counts = [stated_number(at) for at in same[same["ranks"].eq(row["ranks"])].to_dict("records")]
            if counts:
                yield Derived(row, _average(np.mean, counts), f"mean of {len(counts)}")
    for row in stated(table, "epochs_to_stable_per_doubling"):
        curves = _curves(_experiment(table, row), "epochs_to_stable")
        if any(len(curve) > 1 for curve in curves):
            slope = student.trend([_points(curve) for curve in curves]).slope
            formula = f"slope over log2 of the ranks, from {slope.n} points of {len(curves)} curves"
            yield Derived(row, slope, formula)


def training_times(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield the time until the accuracy is stable, and that of a training from its epochs, images and speed."""
    jobs, planned = lookup(measured(table, "job_s")), lookup(table[table["quantity"].eq("epochs_planned")])
    for row in stated(table, "time_to_stable_s"):
        points = measured(_experiment(table, row), "epochs_to_stable")
        times = [
            (_combined(metrics.time_to_stable_s, job_s=job, epochs=point, planned_epochs=epochs), point["run"])
            for point in points[points["ranks"].eq(row["ranks"])].to_dict("records")
            for job, epochs in zip(jobs(point), planned(point), strict=False)
        ]
        if times:
            least, run = min(times, key=lambda time: time[0].value)
            yield Derived(row, least, f"epochs until then / all epochs x time of the job ({run})")
    for row in stated(table, "job_s"):
        if row["kind"] == "stated":
            yield Derived(row, *_training_s(table, row))


def _training_s(table: pd.DataFrame, row: Row) -> tuple[Number, str]:
    """Return the time of a training: epochs x images / images/s; unknown if one of them is not printed."""
    planned = lookup(table[table["quantity"].eq("epochs_planned")], [*SETTING])
    images = lookup(table[table["quantity"].eq("dataset_images")], ["report", "dataset"])
    speed = lookup(measured(table, "images_per_s"), [*SETTING, "ranks"])
    factors = {"epochs": planned(row), "images": images(row), "images_per_s": speed(row)}
    if absent := [name for name, rows in factors.items() if not rows]:
        return unknown(), f"{', '.join(absent)} of this training are not printed"
    first = {name: rows[0] for name, rows in factors.items()}
    training_s = _combined(lambda epochs, images, images_per_s: epochs * images / images_per_s, **first)
    return training_s, "epochs x images / speed"


def predictions(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield what a report predicts for more ranks than it has, from the trend of all its curves of that quantity.

    The interval is that of a new measurement. Times are assumed to fall by the same factor at each doubling, counts to
    rise by the same number.
    """
    for row in stated(table, "job_s", "epoch_s", "epochs_to_stable"):
        if row["kind"] != "predicted":
            continue
        curves = _curves(_experiment(table, row), row["quantity"])
        on_device = [nth for nth, curve in enumerate(curves) if curve[0]["gpu"] == row["gpu"] and len(curve) > 1]
        if not on_device:
            yield Derived(row, unknown(), "no curve of two points on this device is printed")
            continue
        log = row["unit"] == "s"
        trend = student.trend([_points(curve, log) for curve in curves])
        expected = trend.at(on_device[0], math.log2(row["ranks"]), len(curves[on_device[0]]))
        formula = f"the trend of {trend.slope.n} points of {len(curves)} curves, on {row['ranks']} ranks"
        yield Derived(row, student.exponential(expected) if log else expected, formula)


def accuracy_spreads(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield how far apart final accuracies are, and the loss of accuracy against one rank."""
    for row in stated(table, "validation_accuracy_loss_fraction"):
        yield Derived(row, *_loss(table, row))
    for final in ("train_accuracy", "validation_accuracy"):
        for row in stated(table, f"{final}_spread_fraction"):
            same = [stated_number(at) for at in measured(_experiment(table, row), final).to_dict("records")]
            if len(same) > 1:
                values, low, high = ([getattr(n, end) for n in same] for end in ("value", "low", "high"))
                difference = between(max(values) - min(values), max(low) - min(high), max(high) - min(low), len(same))
                yield Derived(row, difference, f"the largest less the smallest of {len(same)}")


def _loss(table: pd.DataFrame, row: Row) -> tuple[Number, str]:
    """Return how much less accurate a run is than the run on one rank."""
    final = measured(_experiment(table, row), "validation_accuracy")
    rows, base = (final[final["ranks"].eq(ranks)].to_dict("records") for ranks in (row["ranks"], 1))
    if not rows or not base:
        return unknown(), "the accuracy on one GPU is not printed"
    loss = _combined(lambda base, value: base - value, base=base[0], value=rows[0])
    return loss, f"{base[0]['value']:g} - {rows[0]['value']:g}"


def _experiment(table: pd.DataFrame, row: Row) -> pd.DataFrame:
    return table[table["experiment"].eq(row["experiment"])]


def _curves(table: pd.DataFrame, quantity: str) -> list[list[Row]]:
    """Return the measured points of each setting, by ranks."""
    rows = measured(table, quantity).sort_values("ranks", kind="stable")
    return [[*curve.to_dict("records")] for _, curve in rows.groupby(SETTING, dropna=False, sort=False)]


def _points(curve: Sequence[Row], log: bool = False) -> list[tuple[float, float]]:
    return [(math.log2(row["ranks"]), math.log(row["value"]) if log else float(row["value"])) for row in curve]


def derived_numbers(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield every derived number of one report that can be recomputed, each once."""
    cells, plotted = [*speedups(table), *ratios(table)], [*scaling_of_times(table)]
    yield from cells
    yield from medians(table, cells)
    yield from bounds(table, [*cells, *plotted])
    yield from plotted
    for derive in (changes, epochs_to_stable, training_times, predictions, accuracy_spreads, sizes):
        yield from derive(table)


def recompute(published: pd.DataFrame) -> pd.DataFrame:
    """Return every derived number of the reports with the computed one.

    Columns: report, place, model, run, gpu, dataset, batch_per_rank, ranks, quantity, unit, stated (NaN: the report
    only plots it), read_as, computed, computed_low and computed_high (the ends of what rounding, noise or scatter leave
    open; NaN: not known), difference (computed - stated), agrees (<NA>: not decidable, or one of the two is not known),
    formula.
    """
    names = ["report", "place", "model", "run", "gpu", "dataset", "batch_per_rank", "ranks", "quantity", "unit"]
    rows = []
    for _, table in published.groupby("report"):
        for d in derived_numbers(table):
            agrees = None if math.isnan(d.row["value"]) else _AGREES[d.verdict.outcome]
            rows.append(
                {name: d.row[name] for name in names}
                | {"stated": d.row["value"], "read_as": reading(d.row["note"]), "computed": d.computed.value}
                | {"computed_low": d.computed.low, "computed_high": d.computed.high}
                | {"difference": d.computed.value - d.row["value"], "agrees": agrees, "formula": d.formula}
            )
    return pd.DataFrame(rows).astype({"agrees": "boolean", "ranks": "Int64", "batch_per_rank": "Int64"})


def text_row(row: Row) -> dict[str, str]:
    """Return a row of `recompute` as text, with the range that the primary numbers leave open."""
    stated, value, low, high = (
        "" if math.isnan(row[name]) else f"{row[name]:.5g}"
        for name in ("stated", "computed", "computed_low", "computed_high")
    )
    answers = {True: "yes", False: "no"}
    return {
        "place": row["place"],
        "of": row["model"] or row["run"],
        "quantity": row["quantity"],
        "stated": f"{row['read_as']} {stated}".strip(),
        "computed": value + (f" ({low} to {high})" if low and low != high else ""),
        "agrees": answers.get(row["agrees"], "not decidable") if stated else "",
        "formula": row["formula"],
    }


def counts(rows: pd.DataFrame) -> str:
    """Return how many numbers of a report follow from others; rows: those of `recompute`."""
    stated = rows[rows["stated"].notna()]
    yes, no = (int(stated["agrees"].eq(answer).sum()) for answer in (True, False))
    return (
        f"{yes} of {len(stated)} stated numbers follow from its primary ones, {no} do not, "
        f"{len(stated) - yes - no} are not decidable"
    )
