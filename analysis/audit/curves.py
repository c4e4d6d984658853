"""Rules over scaling curves: impossible speedups, points that did other work, times that do not fit."""

import math
from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from analysis import TableError, metrics
from analysis.audit.finding import TABLE_RULES, Finding, graded, rule
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
    scatter,
)  # fmt: skip
from analysis.explain import fit, tidy, words

_STEPS = ("steps_per_rank_planned", "steps_per_rank")
# Points whose images in all differ by no more divide one work: steps are rounded down to whole numbers.
_SAME_WORK = 0.05


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

    The base is too slow, or the point too fast, or they did other work. Of a curve in rounds the whole 95 % interval is
    above the ideal; others are compared with the scatter that the same report shows elsewhere. One finding a curve, on
    its worst point.
    """
    noise = scatter(table)
    for curve in _scaling(table):
        share = efficiencies(curve)
        if in_rounds(curve.to_dict("records")[0]):
            share = over_smallest(curve, table)["efficiency_low"].fillna(0)
        worst = curve.to_dict("records")[int(share.argmax())]
        excess = float(share.max()) - 1
        if excess > 1e-9:
            first = curve.to_dict("records")[0]
            yield _beyond(worst, excess, noise, worst["ranks"] / first["ranks"])
    rates = lookup(measured(table, "images_per_s"))
    counted = {at(row) for curve in curves(table, *RATES) for row in curve.to_dict("records")}
    stated = table[table["kind"].eq("stated") & table["quantity"].str.startswith("speedup_") & table["ranks"].notna()]
    for row in stated.to_dict("records"):
        ideal = row["nodes"] if not pd.isna(row["nodes"]) and row["nodes"] > 1 else row["ranks"]
        if row["value"] > ideal and not any(at(found) in counted for found in rates(row)):
            yield _beyond(row, metrics.change_fraction(ideal, row["value"]), noise, ideal)


def _beyond(row: Row, excess: float, noise: dict[str, float], ideal: float) -> Finding:
    seen = noise.get(report_of(row))
    if in_rounds(row):
        explains, severity = "the 95 % interval begins there", graded(excess)
    elif seen is None:
        explains, severity = "no repeat tells how large the noise is", graded(excess)
    elif seen >= excess:
        explains, severity = f"noise as seen elsewhere here ({seen:.1%}) could explain it", "note"
    else:
        explains, severity = f"noise as seen elsewhere here ({seen:.1%}) does not explain it", graded(excess)
    return Finding(
        report_of(row),
        at(row),
        "beyond_ideal",
        severity,
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

    Of a curve in rounds the whole 95 % interval of their ratio is below 1.
    """
    for curve in [*curves(table, "images_per_s"), *_equal_work(table)]:
        for before, after in pairwise(curve.to_dict("records")):
            old, new = (after, before) if after["unit"] != "s" else (before, after)
            slower = metrics.change_fraction(old["value"], new["value"])
            if in_rounds(after):
                ends = over_smallest(curve[curve["ranks"].isin([before["ranks"], after["ranks"]])], table)
                slower = slower if ends.loc[after["ranks"], "speedup_high"] < 1 else 0.0
            if slower > 0:
                yield Finding(
                    report_of(after),
                    at(after),
                    "more_ranks_no_faster",
                    graded(slower, serious=math.inf),
                    f"{after['quantity']} {after['value']:g} {after['unit']}",
                    f"better than {before['value']:g} {before['unit']} on {ranks(before['ranks'])}",
                    slower,
                    f"{after['ranks'] / before['ranks']:g} times the ranks gain nothing here: a cost that does not "
                    "shrink with the ranks, or grows with them, dominates.",
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
    return _shortfall(_work(curve)["in all"]) >= -_SAME_WORK


@rule(TABLE_RULES)
def wall_time_misfit(table: pd.DataFrame) -> Iterator[Finding]:
    """A wall time that the other points of its curve do not predict: something else took time (or less) in that run.

    The prediction is the regression of `analysis.explain.fit`.
    """
    for explained, rows in _explained(table):
        for point in explained.misfits.to_dict("records"):
            row = rows[rows["ranks"].eq(point["ranks"])].to_dict("records")[0]
            off = metrics.change_fraction(point["fitted_s"], point["wall_s"])
            yield Finding(
                report_of(row),
                at(row),
                "wall_time_misfit",
                graded(off, serious=0.25),
                f"{point['wall_s']:.4g} s",
                f"{point['fitted_s']:.3g} s from the other points",
                off,
                f"{abs(point['wall_s'] - point['fitted_s']):.2g} s {'more' if off > 0 else 'less'} than a fixed cost "
                f"and a cost per step explain (p = {point['misfit_p']:.2g}): measure this point again.",
            )


@rule(TABLE_RULES)
def fixed_cost(table: pd.DataFrame) -> Iterator[Finding]:
    """Speedup by speed and by wall time that disagree because a cost paid once weighs more the shorter the run."""
    for explained, rows in _explained(table):
        cost, last = explained.fit.fixed_s, explained.points.dropna(subset=["speedup_throughput"]).iloc[-1]
        off = metrics.change_fraction(last["speedup_throughput"], last["speedup_wall_time"])
        if cost.low > 0 and off < -0.1:
            row = rows[rows["ranks"].eq(last["ranks"])].to_dict("records")[0]
            yield Finding(
                report_of(row),
                at(row),
                "fixed_cost",
                "note" if row["source"] == "local" else "serious" if off < -0.25 else "warning",
                f"{last['speedup_throughput']:.3g}x by speed",
                f"{last['speedup_wall_time']:.3g}x by wall time",
                off,
                " ".join(words.sentences(explained)[:1]),
            )


def _explained(table: pd.DataFrame) -> Iterator[tuple[fit.Explanation, pd.DataFrame]]:
    """Each curve of wall times that can be split into a fixed cost and a cost per step, and its rows."""
    for _, rows in table[table["quantity"].ne("")].groupby(["source", "report"], sort=False):
        try:
            points, _ = tidy.points(rows, "table")
        except TableError:
            continue
        for name, curve in tidy.curves(points):
            its = rows[rows["quantity"].eq("wall_s") & rows["model"].isin(curve["model"])]
            if "series" in curve:
                its = its[its["series"].isin(curve["series"])]
            try:
                yield fit.explain(curve, name), its
            except TableError:
                continue


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
    noise = {} if both.empty else scatter(table)
    for row in both.to_dict("records"):
        off = metrics.change_fraction(row["value_weak"], row["value"])
        if off > 0:
            seen = noise.get(report_of(row))
            known = (
                f"the noise of the report is {seen:.1%}" if seen else "the report has no repeat to estimate its noise"
            )
            yield Finding(
                report_of(row),
                at(row),
                "strong_beats_weak",
                "note" if seen and seen >= off else "warning",
                f"{row['value']:g}x with the global batch kept",
                f"no more than {row['value_weak']:g}x, with the batch per rank kept ({row['place_weak']})",
                off,
                f"Less work between the same exchanges should not scale better; {known}.",
            )
