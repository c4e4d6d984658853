"""Rules over scaling curves: impossible speedups, points that did other work, times that do not fit."""

import math
from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from analysis import metrics
from analysis.audit import noise
from analysis.audit.finding import TABLE_RULES, Finding, graded, rule
from analysis.audit.noise import Known
from analysis.audit.words import at, ranks
from analysis.curves import (
    RATES,
    TIMES,
    Row,
    bases,
    curves,
    efficiencies,
    in_rounds,
    keeps_global_batch,
    lookup,
    measured,
    over_smallest,
    rate_curves,
    report_of,
)  # fmt: skip
from analysis.thresholds import limit

_STEPS = ("steps_per_rank_planned", "steps_per_rank")


def _scaling(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Curves of rates, and of times where the points say that they ran the same epochs."""
    yield from rate_curves(table)
    stated = table[table["quantity"].eq("epochs_planned")]
    if stated.empty:
        return
    planned = lookup(stated)
    for curve in curves(table, *TIMES):
        epochs = [{found["value"] for found in planned(point)} for point in curve.to_dict("records")]
        if len(epochs[0]) == 1 and all(found == epochs[0] for found in epochs):
            yield curve


@rule(TABLE_RULES)
def beyond_ideal(table: pd.DataFrame) -> Iterator[Finding]:
    """A speedup above the number of ranks, or an efficiency above 1: N workers do not do more than N times the work.

    The base is too slow, or the point too fast, or they did other work. The 95 % interval of the efficiency lies above
    1; where none can be given, because each was measured once, how far it is above decides the severity. One finding a
    curve, on its worst point.
    """
    of_repeats = noise.ratios(table)
    for curve in _scaling(table):
        share = efficiencies(curve)
        rows = curve.to_dict("records")
        found = [
            (
                float(share[place]) - 1,
                row,
                of_repeats(share[place], row, rows[0], len(rows) - 1),
                row["ranks"] / rows[0]["ranks"],
            )
            for place, row in enumerate(rows)
            if place and share[place] > 1
        ]
        if in_rounds(rows[0]):
            ends = over_smallest(curve, table)
            found = [
                (
                    ends.loc[row["ranks"], "efficiency"] - 1,
                    row,
                    Known(ends.loc[row["ranks"], "efficiency_low"] > 1),
                    ideal,
                )
                for _, row, _, ideal in found
            ]
        if worst := max((one for one in found if one[2] is None or one[2].apart), key=lambda one: one[0], default=None):
            yield _beyond(*worst)
    rates = lookup(measured(table, "images_per_s"))
    counted = {at(row) for curve in curves(table, *RATES) for row in curve.to_dict("records")}
    stated = table[table["kind"].eq("stated") & table["quantity"].str.startswith("speedup_") & table["ranks"].notna()]
    for row in stated.to_dict("records"):
        ideal = row["nodes"] if not pd.isna(row["nodes"]) and row["nodes"] > 1 else row["ranks"]
        if row["value"] > ideal and not any(at(found) in counted for found in rates(row)):
            yield _beyond(metrics.change_fraction(ideal, row["value"]), row, None, ideal)


def _beyond(excess: float, row: Row, known: Known | None, ideal: float) -> Finding:
    explains = "its 95 % interval lies above 1" if known else noise.UNKNOWN
    return Finding(
        report_of(row),
        at(row),
        "beyond_ideal",
        graded(excess) if known else noise.unknown(excess),
        f"{(1 + excess) * ideal:.3g}x by {row['quantity']}",
        f"at most {ideal:g}x",
        excess,
        f"Efficiency {1 + excess:.1%}: {explains}. Check the smallest point first: it is the base of all others.",
    )


@rule(TABLE_RULES)
def unequal_work(table: pd.DataFrame) -> Iterator[Finding]:
    """Points of one curve that did unequal work: images in all where a fixed work is divided, else images per rank.

    A ratio of times is a speedup for equal work only. Steps divided by the ranks and rounded down lose some. Which of
    the two a curve keeps is seen in its points: the one that varies less.
    """
    for curve in _curves_of_steps(table):
        (off, images), per = max(((_shortfall(images), images), per) for per, images in _work(curve).items())
        if off < 0:
            least = curve.to_dict("records")[images.index(min(images))]
            yield Finding(
                report_of(least),
                at(least),
                "unequal_work",
                graded(off),
                f"{min(images):g} images {per}",
                f"{max(images):g} images {per}, as at other points",
                off,
                "A ratio of times would count work that this point did not do; divide images by time instead.",
            )


def _curves_of_steps(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The steps per rank along each curve, as planned or as done."""
    return curves(table.assign(kind=table["kind"].replace("planned", "measured")), *_STEPS)


def _work(curve: pd.DataFrame) -> dict[str, list[float]]:
    """The images at each point of a curve of steps: in all, and per rank."""
    batches = {"in all": "global_batch", "per rank": "batch_per_rank"}
    return {per: (curve["value"] * curve[batch].astype(float)).tolist() for per, batch in batches.items()}


def _shortfall(images: list[float]) -> float:
    """How much less the point with the fewest images did than that with the most: 0 or negative."""
    return metrics.change_fraction(max(images), min(images))


@rule(TABLE_RULES)
def more_ranks_no_faster(table: pd.DataFrame) -> Iterator[Finding]:
    """More ranks that take longer for the same work, or do less work per second, than fewer did.

    The 95 % interval of their ratio lies below 1; where none can be given, because each was measured once, how far
    apart they are decides the severity.
    """
    of_repeats = noise.ratios(table)
    for curve in [*curves(table, "images_per_s"), *_equal_work(table)]:
        for before, after in pairwise(curve.to_dict("records")):
            old, new = (after, before) if after["unit"] != "s" else (before, after)
            slower = metrics.change_fraction(old["value"], new["value"])
            known = of_repeats(1 + slower, before, after, len(curve) - 1)
            if in_rounds(after):
                ends = over_smallest(curve[curve["ranks"].isin([before["ranks"], after["ranks"]])], table)
                known = Known(ends.loc[after["ranks"], "speedup_high"] < 1)
            if slower > 0 and (known is None or known.apart):
                yield Finding(
                    report_of(after),
                    at(after),
                    "more_ranks_no_faster",
                    graded(slower, serious=math.inf) if known else noise.unknown(slower, worst="warning"),
                    f"{after['quantity']} {after['value']:g} {after['unit']}",
                    f"better than {before['value']:g} {before['unit']} on {ranks(before['ranks'])}",
                    slower,
                    f"{after['ranks'] / before['ranks']:g} times the ranks gain nothing here: a cost that does not "
                    f"shrink with the ranks, or grows with them, dominates{'' if known else '; ' + noise.UNKNOWN}.",
                )


def _equal_work(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Curves of times whose points divide the same work; of training time where it is known, else of the whole job."""
    points = [row for curve in _curves_of_steps(table) if _divides(curve) for row in curve.to_dict("records")]
    divided = lookup(pd.DataFrame(points, columns=table.columns))
    for quantity in ("wall_s", "job_s"):
        yield from (c for c in curves(table, quantity) if all(divided(row) for row in c.to_dict("records")))
    yield from (curve for curve in _scaling(table) if curve["quantity"].iloc[0] in TIMES)


def _divides(curve: pd.DataFrame) -> bool:
    """Whether the points of a curve of steps share out one number of images."""
    return _shortfall(_work(curve)["in all"]) >= -limit("same_work")


@rule(TABLE_RULES)
def strong_beats_weak(table: pd.DataFrame) -> Iterator[Finding]:
    """Strong scaling that scales better than weak scaling of the same model on the same machine.

    With the global batch kept, each rank computes less between two exchanges of the same gradients: it should lose.
    """
    rows = table[table["kind"].isin(["stated", "measured"]) & table["quantity"].eq("speedup_throughput")]
    based = bases(table)
    strong = pd.Series([keeps_global_batch(row, based(row)) for row in rows.to_dict("records")], rows.index, dtype=bool)
    key = ["source", "report", "model", "dataset", "device", "gpu", "machine", "ranks"]
    both = rows[strong].merge(rows[~strong], on=key, suffixes=("", "_weak"))
    if both.empty:
        return
    of_repeats = noise.of_stated(table)
    for row in both.to_dict("records"):
        off = metrics.change_fraction(row["value_weak"], row["value"])
        known = of_repeats(row, off)
        if off > 0 and (known is None or known.apart):
            yield Finding(
                report_of(row),
                at(row),
                "strong_beats_weak",
                "warning" if known else noise.unknown(off, worst="warning"),
                f"{row['value']:g}x with the global batch kept",
                f"no more than {row['value_weak']:g}x, with the batch per rank kept ({row['place_weak']})",
                off,
                f"Less work between the same exchanges should not scale better{'' if known else '; ' + noise.UNKNOWN}.",
            )
