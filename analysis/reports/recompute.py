"""Every derived number that the reports print, recomputed from their primary numbers, each with its verdict.

`tables`, the audit and the claims take from here whether a printed number follows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.curves import SETTING, Row, bases, lookup, measured, times_as_fast
from analysis.derived import RATIOS, Derived, pairs, stated
from analysis.point_noise import noises
from analysis.reports import training
from analysis.stats.noise import with_noise
from analysis.stats.number import Number, between, combined, exact, unknown
from analysis.stats.verdict import Outcome, Verdict, together
from analysis.table.stated import number, reading

Derivation = Callable[[pd.DataFrame], Iterator[Derived]]
_AGREES: dict[Outcome, bool | None] = {"inside": True, "outside": False, "undecided": None}


def speedups(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield speedup and efficiency by throughput, over the fewest ranks whose throughput the report prints.

    The nearest of several bases counts. A base that is printed for another experiment is of another run: then the noise
    of the report on that device and at that scale decides, if it is known.
    """
    rows = stated(table, "speedup_throughput", "efficiency_throughput")
    if not rows:
        return
    rates, base, noisy = lookup(measured(table, "images_per_s")), bases(table), functools.cache(lambda: noises(table))
    for row in rows:
        if pd.isna(row["ranks"]):
            continue
        over = base(row) or (rates(row)[:1] if row["ranks"] == 1 else [])
        if not rates(row) or not over:
            yield Derived(row, unknown(), "its throughputs are not printed")
            continue
        share, rate = row["quantity"] == "efficiency_throughput", rates(row)[0]
        candidates = [_speedup(row, rate, first, share) for first in over]
        nearest = min(candidates, key=lambda one: abs(one.computed.value - row["value"]))
        if nearest.base and nearest.base["experiment"] != row["experiment"]:
            other = with_noise(nearest.computed, [(noisy().at(rate), 1.0), (noisy().at(nearest.base), -1.0)])
            formula = f"{nearest.formula}, the base from {nearest.base['place']}: that of its curve is not printed"
            nearest = Derived(row, other, formula, nearest.base)
        yield nearest


def _speedup(row: Row, rate: Row, first: Row, share: bool) -> Derived:
    """Return a speedup over one base, or an efficiency."""
    times = row["ranks"] / first["ranks"]
    ratio = combined(
        lambda rate, one: metrics.efficiency(metrics.speedup(rate, one), times if share else 1.0),
        {"rate": number(rate), "one": number(first)},
    )
    if rate is first:
        ratio = exact(ratio.value)
    formula = f"{rate['value']:g} / {first['value']:g} images/s" + (f" / {times:g}" if share else "")
    return Derived(row, ratio, formula, first)


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
            yield Derived(row, _median([d.computed for d in block]), f"median of {len(block)}")


def _median(numbers: Sequence[Number]) -> Number:
    value, low, high = np.median([(n.value, n.low, n.high) for n in numbers], axis=0).tolist()
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
        both = {"here": number(row), "there": number(first)}
        ratio_over = combined(lambda here, there, over=over: times_as_fast(row, first, here, there) / over, both)
        if row is first:
            ratio_over = exact(ratio_over.value)
        shown: Row = {"quantity": f"{name}_{by}", "value": np.nan, "unit": unit, "place": "plots", "note": ""}
        yield Derived(
            {**row, **shown}, ratio_over, f"from {row['quantity']}: {first['value']:g}, {row['value']:g}", first
        )


def bounds(table: pd.DataFrame, shares: Sequence[Derived]) -> Iterator[Derived]:
    """Yield what a report states about a whole block: the lowest efficiency of all models, or of one; a baseline."""
    wanted = ("efficiency_throughput", "efficiency_wall_time")
    for row in (row for row in stated(table, *wanted) if pd.isna(row["ranks"])):
        block = [d for d in shares if (d.row["quantity"], d.row["experiment"]) == (row["quantity"], row["experiment"])]
        block = [d for d in block if row["model"] in ("", d.row["model"])]
        least = min(block, key=lambda d: d.computed.value)
        low, high = (min(getattr(d.computed, end) for d in block) for end in ("low", "high"))
        formula = f"the minimum of {len(block)}, of {least.row['model']} on {least.row['ranks']} ranks"
        yield Derived(row, between(least.computed.value, low, high, len(block)), formula)
    for row in stated(table, "images_per_s"):
        cells = measured(table, "images_per_s")
        same = [cells[name].eq(row[name]) for name in ("model", "gpu", "ranks")]
        rates = [number(cell) for cell in cells[np.logical_and.reduce(same)].to_dict("records")]
        if rates:
            yield Derived(row, _median(rates), f"median of {len(rates)} cells")


# What a stated change is of.
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
            fall = combined(
                lambda old, new: -metrics.change_fraction(old, new), {"old": number(old), "new": number(new)}
            )
            speed = metrics.faster_fraction(old["value"], new["value"])
            formula = f"({old['value']:g} - {new['value']:g}) / {old['value']:g} s; as speed {speed:+.1%}"
            yield Derived(row, fall, formula, old)


def sizes(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield the bytes of a model (its parameters in 32 bits), images of a class, the batch of all ranks together."""
    parameters = lookup(table[table["quantity"].eq("parameters")], ["report", "model"])
    for row in table[table["quantity"].eq("model_bytes")].to_dict("records"):
        for count in parameters(row):
            size = combined(lambda count: 4 * count, {"count": number(count)})
            yield Derived(row, size, f"4 x {count['value']:.0f}", count)
    images, classes = (
        lookup(table[table["quantity"].eq(f"dataset_{what}")], ["report", "dataset", "run"])
        for what in ("images", "classes")
    )
    for row in table[table["quantity"].eq("dataset_images_per_class_mean")].to_dict("records"):
        for all_images, all_classes in zip(images(row), classes(row), strict=False):
            numbers = {"images": number(all_images), "classes": number(all_classes)}
            formula = f"{all_images['value']:g} / {all_classes['value']:g}"
            yield Derived(row, combined(lambda images, classes: images / classes, numbers), formula)
    for effective in stated(table, "effective_batch"):
        ranks, batch = effective["ranks"], effective["batch_per_rank"]
        yield Derived(effective, exact(float(batch * ranks)), f"{ranks} x {batch}")


DERIVATIONS: tuple[Derivation, ...] = (
    changes, training.epochs, training.times, training.predictions, training.spread, sizes,
)  # fmt: skip


def derived_numbers(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield every derived number of one report that can be recomputed, each once."""
    cells, plotted = [*speedups(table), *ratios(table)], [*scaling_of_times(table)]
    yield from cells
    yield from medians(table, cells)
    yield from bounds(table, [*cells, *plotted])
    yield from plotted
    for derive in DERIVATIONS:
        yield from derive(table)


def verdict(lines: Iterable[Derived]) -> Verdict:
    """Return the verdict on a sentence that states several derived numbers: all of them must follow."""
    return together([line.verdict for line in lines])


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
