"""Rules over scaling curves: speedups that cannot be, points that did other work, times that do not fit."""

import math
from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from analysis import TableError, explain
from analysis.audit.finding import TABLE_RULES, Finding, graded, rule
from analysis.audit.points import SETTING, SIZE, Row, at, curves, lookup, measured, ranks, report_of

# Work done per second is 1 / value for a time (of equal work), value itself for a rate.
_RATES = ("images_per_s",)
_PER_RANK = ("images_per_s_per_rank",)
_TIMES = ("epoch_s", "job_s")


def _rates(curve: pd.DataFrame) -> pd.Series:
    """Work per second of all ranks at each point of a curve, in any unit."""
    quantity = curve["quantity"].iloc[0]
    if quantity in _TIMES:
        return 1 / curve["value"]
    return curve["value"] * (curve["ranks"].astype(float) if quantity in _PER_RANK else 1.0)


def _efficiencies(curve: pd.DataFrame) -> pd.Series:
    rate, ranks = _rates(curve), curve["ranks"].astype(float)
    return (rate / rate.iloc[0]) / (ranks / ranks.iloc[0])


def _scaling(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Curves of rates, and of times where the points say that they ran the same epochs."""
    yield from _rate_curves(table)
    stated = table[table["quantity"].eq("epochs_planned")]
    if stated.empty:
        return
    planned = lookup(stated)
    for curve in curves(table, *_TIMES):
        epochs = [{found["value"] for found in planned(point)} for point in curve.to_dict("records")]
        if len(epochs[0]) == 1 and all(found == epochs[0] for found in epochs):
            yield curve


def _rate_curves(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Curves of throughput; of throughput per rank where that is all that is known."""
    yield from curves(table, *_RATES)
    whole = lookup(measured(table, *_RATES))
    yield from (curve for curve in curves(table, *_PER_RANK) if not whole(curve.to_dict("records")[0]))


def scatter(table: pd.DataFrame) -> dict[str, float]:
    """For each report, how far two measurements that should agree lie apart, as a fraction; absent where none can tell.

    Either one configuration measured twice, or an efficiency that rises with the ranks (no machine does that, below
    1): the largest of them.
    """
    seen: dict[str, float] = {}
    key = [*SETTING, *SIZE, *(["series"] if "series" in table else [])]
    rates = measured(table, *_RATES).groupby(key, dropna=False)["value"].agg(["min", "max"]).reset_index("report")
    for report, ratio in rates["max"].div(rates["min"]).groupby(rates["report"]).max().items():
        if ratio > 1:
            seen[report_of({"report": report})] = float(ratio) - 1
    for curve in _rate_curves(table):
        share = _efficiencies(curve)
        rises = [after / before - 1 for before, after in pairwise(share) if after <= 1]
        name = report_of(curve.to_dict("records")[0])
        if rises and max(rises) > 0:
            seen[name] = max(seen.get(name, 0.0), max(rises))
    return seen


@rule(TABLE_RULES)
def beyond_ideal(table: pd.DataFrame) -> Iterator[Finding]:
    """A speedup above the number of ranks, or an efficiency above 1: N workers do not do more than N times the work.

    The base is too slow, or the point too fast, or they did other work. Held against the scatter that the same report
    shows elsewhere; one finding a curve, on its worst point.
    """
    noise = scatter(table)
    for curve in _scaling(table):
        share = _efficiencies(curve)
        worst = curve.to_dict("records")[int(share.argmax())]
        excess = float(share.max()) - 1
        if excess > 1e-9:
            first = curve.to_dict("records")[0]
            yield _beyond(worst, excess, noise, worst["ranks"] / first["ranks"], worst["quantity"])
    rates = lookup(measured(table, "images_per_s"))
    counted = {at(row) for curve in curves(table, *_RATES) for row in curve.to_dict("records")}
    stated = table[table["kind"].eq("stated") & table["quantity"].str.startswith("speedup_") & table["ranks"].notna()]
    for row in stated.to_dict("records"):
        ideal = row["nodes"] if not pd.isna(row["nodes"]) and row["nodes"] > 1 else row["ranks"]
        if row["value"] > ideal and not any(at(found) in counted for found in rates(row)):
            yield _beyond(row, row["value"] / ideal - 1, noise, ideal, row["quantity"])


def _beyond(row: Row, excess: float, noise: dict[str, float], ideal: float, quantity: str) -> Finding:
    seen = noise.get(report_of(row))
    if seen is None:
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
        f"{(1 + excess) * ideal:.3g}x by {quantity}",
        f"at most {ideal:g}x",
        excess,
        f"Efficiency {1 + excess:.1%}: {explains}. Look at the smallest point first: it is the base of all others.",
    )


@rule(TABLE_RULES)
def unequal_work(table: pd.DataFrame) -> Iterator[Finding]:
    """Points of one curve that did unequal work: images in all where a fixed work is divided, else images a rank.

    A ratio of times is a speedup for equal work only. Steps divided by the ranks and rounded down lose some.
    """
    steps = table.assign(kind=table["kind"].replace("planned", "measured"))
    for curve in curves(steps, "steps_per_rank_planned", "steps_per_rank"):
        divided = curve["experiment"].isin(["fixed_work", "strong_scaling"]).all()
        batch = curve["global_batch" if divided else "batch_per_rank"].astype(float)
        images = (curve["value"] * batch).tolist()
        off = min(images) / max(images) - 1
        if off < 0:
            least = curve.to_dict("records")[images.index(min(images))]
            per = "in all" if divided else "a rank"
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


@rule(TABLE_RULES)
def more_ranks_no_faster(table: pd.DataFrame) -> Iterator[Finding]:
    """More ranks that take longer for the same work, or do less work per second, than fewer did."""
    for curve in [*curves(table, "images_per_s"), *_equal_work(table)]:
        for before, after in pairwise(curve.to_dict("records")):
            change = after["value"] / before["value"]
            slower = (change if after["unit"] == "s" else 1 / change) - 1
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
                    "shrink with the ranks, or grows with them, has taken over.",
                )


def _equal_work(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Curves of times whose points divide the same work; of training time where it is known, else of the whole job."""
    for quantity in ("wall_s", "job_s"):
        yield from curves(table[table["experiment"].eq("fixed_work")], quantity)
    yield from (curve for curve in _scaling(table) if curve["quantity"].iloc[0] in _TIMES)


@rule(TABLE_RULES)
def wall_time_misfit(table: pd.DataFrame) -> Iterator[Finding]:
    """A wall time that the other points of its curve do not predict: something else took time (or less) in that run.

    The prediction is the regression of `analysis.explain`.
    """
    for explained, rows in _explained(table):
        for point in explained.misfits.to_dict("records"):
            row = rows[rows["ranks"].eq(point["ranks"])].to_dict("records")[0]
            off = point["wall_s"] / point["fitted_s"] - 1
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
        off = last["speedup_wall_time"] / last["speedup_throughput"] - 1
        if cost.low > 0 and off < -0.1:
            row = rows[rows["ranks"].eq(last["ranks"])].to_dict("records")[0]
            yield Finding(
                report_of(row),
                at(row),
                "fixed_cost",
                "note" if row["source"] == "own" else "serious" if off < -0.25 else "warning",
                f"{last['speedup_throughput']:.3g}x by speed",
                f"{last['speedup_wall_time']:.3g}x by wall time",
                off,
                " ".join(explain.sentences(explained)[:1]),
            )


def _explained(table: pd.DataFrame) -> Iterator[tuple[explain.Explanation, pd.DataFrame]]:
    """Each curve of wall times that can be split into a fixed cost and a cost per step, and its rows."""
    for _, rows in table[table["quantity"].ne("")].groupby(["source", "report"], sort=False):
        try:
            points, _ = explain.from_tidy(rows, "table")
        except TableError:
            continue
        for name, curve in explain.curves(points):
            its = rows[rows["quantity"].eq("wall_s") & rows["model"].isin(curve["model"])]
            if "series" in curve:
                its = its[its["series"].isin(curve["series"])]
            try:
                yield explain.explain(curve, name), its
            except TableError:
                continue


@rule(TABLE_RULES)
def strong_beats_weak(table: pd.DataFrame) -> Iterator[Finding]:
    """Strong scaling that scales better than weak scaling of the same model on the same machine.

    With the global batch kept, each rank computes less between two exchanges of the same gradients: it should lose.
    """
    rows = table[table["kind"].isin(["stated", "measured"]) & table["quantity"].eq("speedup_throughput")]
    strong, weak = (rows[rows["experiment"].eq(name)] for name in ("strong_scaling", "weak_scaling"))
    key = ["source", "report", "model", "dataset", "device", "gpu", "machine", "ranks"]
    both = strong.merge(weak, on=key, suffixes=("", "_weak"))
    noise = {} if both.empty else scatter(table)
    for row in both.to_dict("records"):
        off = row["value"] / row["value_weak"] - 1
        if off > 0:
            seen = noise.get(report_of(row))
            known = f"the report's own noise is {seen:.1%}" if seen else "the report has no repeat to tell its noise"
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
