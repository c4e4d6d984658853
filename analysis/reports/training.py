"""Derived numbers of training over epochs: epochs and time to a stable accuracy, spreads, predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.curves import SETTING, Row, lookup, measured
from analysis.derived import Derived, computed, stated
from analysis.stats import trend as trends
from analysis.stats.number import Number, between, combined, unknown
from analysis.stats.student import exponential
from analysis.table.stated import number

_FINAL = ("train_accuracy", "validation_accuracy")


def epochs(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield epochs until the accuracy is stable: at one number of ranks, and how many more at each doubling.

    The latter is the slope that the curves of all devices have in common, with its interval.
    """
    for row in stated(table, "epochs_to_stable"):
        if row["kind"] == "stated":
            same = measured(_experiment(table, row), "epochs_to_stable")
            counts = [number(at) for at in same[same["ranks"].eq(row["ranks"])].to_dict("records")]
            if counts:
                yield Derived(row, _mean(counts), f"mean of {len(counts)}")
    for row in stated(table, "epochs_to_stable_per_doubling"):
        curves = _curves(_experiment(table, row), "epochs_to_stable")
        if any(len(curve) > 1 for curve in curves):
            slope = trends.fit([_points(curve) for curve in curves]).slope
            formula = f"slope over log2 of the ranks, from {slope.n} points of {len(curves)} curves"
            yield Derived(row, slope, formula)


def times(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield the time until the accuracy is stable, and that of a training from its epochs, images and speed."""
    rows = stated(table, "time_to_stable_s")
    derived = computed(table) if rows else table
    for row in rows:
        at = derived[derived["quantity"].eq("time_to_stable_s") & derived["kind"].eq("computed")]
        at = at[at["experiment"].eq(row["experiment"]) & at["ranks"].eq(row["ranks"])]
        if not at.empty:
            least = min(at.to_dict("records"), key=lambda point: point["value"])
            yield Derived(row, number(least), f"epochs until then / all epochs x time of the job ({least['run']})")
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
    numbers = {name: number(rows[0]) for name, rows in factors.items()}
    return combined(
        lambda epochs, images, images_per_s: epochs * images / images_per_s, numbers
    ), "epochs x images / speed"


def predictions(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield what a report predicts for more ranks than it has, from the trend of all its curves of that quantity.

    The interval is that of a new measurement. Times are assumed to fall by the same factor at each doubling, counts to
    rise by the same number.
    """
    for row in stated(table, "job_s", "epoch_s", "epochs_to_stable"):
        if row["kind"] != "predicted":
            continue
        curves = _curves(_experiment(table, row), row["quantity"])
        mine = [nth for nth, curve in enumerate(curves) if curve[0]["gpu"] == row["gpu"] and len(curve) > 1]
        if not mine:
            yield Derived(row, unknown(), "no curve of two points on this device is printed")
            continue
        log = row["unit"] == "s"
        trend = trends.fit([_points(curve, log) for curve in curves])
        expected = trend.at(mine[0], math.log2(row["ranks"]), len(curves[mine[0]]))
        formula = f"the trend of {trend.slope.n} points of {len(curves)} curves, on {row['ranks']} ranks"
        yield Derived(row, exponential(expected) if log else expected, formula)


def spread(table: pd.DataFrame) -> Iterator[Derived]:
    """Yield how far apart final accuracies are, and the loss of accuracy against one rank."""
    for row in stated(table, "validation_accuracy_loss_fraction"):
        yield Derived(row, *_loss(table, row))
    for final in _FINAL:
        for row in stated(table, f"{final}_spread_fraction"):
            same = [number(at) for at in measured(_experiment(table, row), final).to_dict("records")]
            if len(same) > 1:
                low, high = _ends(same)
                value = max(n.value for n in same) - min(n.value for n in same)
                difference = between(value, max(low) - min(high), max(high) - min(low), len(same))
                yield Derived(row, difference, f"the largest less the smallest of {len(same)}")


def _ends(numbers: Sequence[Number]) -> tuple[list[float], list[float]]:
    return [n.low for n in numbers], [n.high for n in numbers]


def _loss(table: pd.DataFrame, row: Row) -> tuple[Number, str]:
    """Return how much less accurate a run is than that on one rank."""
    final = measured(_experiment(table, row), "validation_accuracy")
    mine, one = (final[final["ranks"].eq(ranks)].to_dict("records") for ranks in (row["ranks"], 1))
    if not mine or not one:
        return unknown(), "the accuracy on one GPU is not printed"
    both = {"one": number(one[0]), "here": number(mine[0])}
    return combined(lambda one, here: one - here, both), f"{one[0]['value']:g} - {mine[0]['value']:g}"


def _experiment(table: pd.DataFrame, row: Row) -> pd.DataFrame:
    return table[table["experiment"].eq(row["experiment"])]


def _mean(numbers: Sequence[Number]) -> Number:
    value, low, high = np.mean([(n.value, n.low, n.high) for n in numbers], axis=0).tolist()
    return between(value, low, high, len(numbers))


def _curves(table: pd.DataFrame, quantity: str) -> list[list[Row]]:
    """Return the measured points of each setting, by ranks."""
    rows = measured(table, quantity).sort_values("ranks", kind="stable")
    return [[*curve.to_dict("records")] for _, curve in rows.groupby(SETTING, dropna=False, sort=False)]


def _points(curve: Sequence[Row], log: bool = False) -> list[tuple[float, float]]:
    return [(math.log2(row["ranks"]), math.log(row["value"]) if log else float(row["value"])) for row in curve]
