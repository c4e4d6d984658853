"""Rules over scaling curves: impossible speedups, points that did other work, times that do not fit."""

from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from analysis import metrics
from analysis.audit.findings import (
    TABLE_RULES,
    Finding,
    at,
    because,
    faster,
    faster_with_noise,
    graded,
    outside,
    rule,
    severity,
    share,
)
from analysis.curves import (
    RATES,
    SETTING,
    SIZE,
    TIMES,
    Row,
    bases,
    cached_by_table,
    curves,
    in_rounds,
    keeps_global_batch,
    lookup,
    measured,
    over_smallest,
    ranks_in_words,
    rate_curves,
    report_of,
    row_dicts,
)  # fmt: skip
from analysis.point_noise import Noises, noises, other_points_noise
from analysis.stats.noise import Noise, with_noise
from analysis.stats.number import Number, combined
from analysis.stats.verdict import Bounds
from analysis.table.stated import number
from analysis.thresholds import limit

_STEPS = ("steps_per_rank_planned", "steps_per_rank")


def _of_equal_epochs(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Curves of times whose points say that they ran the same epochs."""
    stated = table[table["quantity"].eq("epochs_planned")]
    if stated.empty:
        return
    planned = lookup(stated)
    for curve in curves(table, *TIMES):
        epochs = [{found["value"] for found in planned(point)} for point in row_dicts(curve)]
        if len(epochs[0]) == 1 and all(found == epochs[0] for found in epochs):
            yield curve


@rule(TABLE_RULES)
def beyond_ideal(table: pd.DataFrame) -> Iterator[Finding]:
    """A speedup above the number of ranks, or an efficiency above 1: N workers do not do more than N times the work.

    The base is too slow, or the point too fast, or they did other work. The 95 % interval of the efficiency lies above
    1, of all points of the curve together. Where none can be given, because each was measured once, the scatter of the
    other points may tell that it does; else it is a note, unless it is further above than noise can be. One finding a
    curve, on its worst point.
    """
    noisy = noises(table)
    for curve in [*rate_curves(table), *_of_equal_epochs(table)]:
        base, *points = row_dicts(curve)
        ideals = [row["ranks"] / base["ranks"] for row in points]
        shares = [share(of, ideal) for of, ideal in zip(_speedups(curve, table, noisy), ideals, strict=True)]
        shares = _told_by_others(shares, curve)
        found = zip(shares, points, ideals, _alleged(shares, base, _NO_MORE), strict=True)
        beyond = [(of, row, ideal) for of, row, ideal, is_outside in found if is_outside]
        if worst := max(beyond, key=lambda one: one[0].value, default=None):
            yield _beyond(*worst)
    rates = lookup(measured(table, "images_per_s"))
    counted = {at(row) for curve in curves(table, *RATES) for row in row_dicts(curve)}
    stated = table[table["kind"].eq("stated") & table["quantity"].str.startswith("speedup_") & table["ranks"].notna()]
    for row in row_dicts(stated):
        ideal = _ideal(row, stated)
        of = share(with_noise(number(row), [(noisy.of(row), 1.0), (noisy.of_base(row), -1.0)]), ideal)
        if not any(at(found) in counted for found in rates(row)) and outside([of], _NO_MORE)[0]:
            yield _beyond(of, row, ideal)


def _ideal(row: Row, stated: pd.DataFrame) -> float:
    """The speedup at which a point would lose nothing: its nodes or ranks.

    In a user's table, whose base may be another program or setting, over what the smallest point of its setting states.
    """
    ranks = float(row["nodes"] if not pd.isna(row["nodes"]) and row["nodes"] > 1 else row["ranks"])
    if row["report"]:
        return ranks
    same = stated[stated["quantity"].eq(row["quantity"])]
    smallest = min(lookup(same, SETTING)(row), key=lambda one: one["ranks"])
    return float(smallest["value"]) * row["ranks"] / smallest["ranks"]


_NO_MORE, _NO_LESS = Bounds(high=1.0), Bounds(low=1.0)


def _differ(of: Number) -> str:
    return f"their ratio is {of}, whose 95 % interval leaves out 1"


def _alleged(numbers: list[Number], row: Row, bounds: Bounds) -> list[bool]:
    """Whether each number of a curve is outside of the bounds; of too few rounds for that `few_rounds` says so."""
    found = outside(numbers, bounds)
    return [is_so and (of.has_interval or not in_rounds(row)) for of, is_so in zip(numbers, found, strict=True)]


def _told_by_others(shares: list[Number], curve: pd.DataFrame) -> list[Number]:
    """The efficiencies of a curve, those without an interval with one where the scatter of its other points suffices.

    Of each point that of all others but the first, over which it is. It suffices where the interval lies above 1.
    """
    base, *points = row_dicts(curve)
    if in_rounds(base) or all(of.has_interval for of in shares):
        return shares
    told = []
    for row in points:
        noise = other_points_noise(curve, row["ranks"], base["ranks"])
        told.append(share(faster_with_noise(row, base, noise, noise), row["ranks"] / base["ranks"]))
    above = outside(told, _NO_MORE)
    return [
        by_others if not of.has_interval and by_others.has_interval and is_above else of
        for of, by_others, is_above in zip(shares, told, above, strict=True)
    ]


def _speedups(curve: pd.DataFrame, table: pd.DataFrame, noisy: Noises) -> list[Number]:
    """The speedup of each point of a curve but the first, over that one, with its interval."""
    base, *points = row_dicts(curve)
    if in_rounds(base):
        paired = over_smallest(curve, table)
        return [paired[float(row["ranks"])]["speedup"] for row in points]
    return [faster(row, base, noisy) for row in points]


def _beyond(of: Number, row: Row, ideal: float) -> Finding:
    excess = of.value - 1
    explains = because(of, excess, "its 95 % interval lies above 1")
    return Finding(
        report_of(row),
        at(row),
        "beyond_ideal",
        severity(of, excess),
        f"{of.value * ideal:.3g}x by {row['quantity']}",
        f"at most {ideal:g}x",
        excess,
        f"Efficiency {of}: {explains}. Check the smallest point first: it is the base of all others.",
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
            least = row_dicts(curve)[images.index(min(images))]
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


@cached_by_table
def _curves_of_steps(table: pd.DataFrame) -> list[pd.DataFrame]:
    """The steps per rank along each curve, as planned or as done.

    Where several works were measured on purpose at one number of ranks, there is no work of that point.
    """
    steps = table[table["quantity"].isin(_STEPS)]
    same = steps.groupby([*SETTING, *SIZE, "experiment", "quantity"], dropna=False)["value"]
    steps = steps[~(steps["source"].eq("published") & same.transform("nunique").gt(1))]
    return [*curves(steps.assign(kind=steps["kind"].replace("planned", "measured")), *_STEPS)]


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

    The 95 % interval of their ratio lies below 1; where none can be given, because each was measured once, it is a note
    unless they are further apart than noise can make them.
    """
    noisy = noises(table)
    for curve in [*curves(table, "images_per_s"), *_equal_work(table)]:
        pairs = [*pairwise(row_dicts(curve))]
        ratios = [_ratio(curve, before, after, table, noisy) for before, after in pairs]
        alleged = _alleged(ratios, pairs[0][0], _NO_LESS)
        for (before, after), of, slower in zip(pairs, ratios, alleged, strict=True):
            if slower:
                lost = metrics.change_fraction(of.value, 1.0)
                yield Finding(
                    report_of(after),
                    at(after),
                    "more_ranks_no_faster",
                    severity(of, lost, "warning"),
                    f"{after['quantity']} {after['value']:g} {after['unit']}",
                    f"better than {before['value']:g} {before['unit']} on {ranks_in_words(before['ranks'])}",
                    metrics.change_fraction(before["value"], after["value"]),
                    f"{after['ranks'] / before['ranks']:g} times the ranks gain nothing here: a cost that does not "
                    f"shrink with the ranks, or grows with them, dominates; {because(of, lost, _differ(of))}.",
                )


def _ratio(curve: pd.DataFrame, before: Row, after: Row, table: pd.DataFrame, noisy: Noises) -> Number:
    """How many times the work per second of the point before one of a curve does, with its interval."""
    both = curve[curve["ranks"].isin([before["ranks"], after["ranks"]])]
    return _speedups(both, table, noisy)[0]


def _equal_work(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Curves of times whose points divide the same work; of training time where it is known, else of the whole job."""
    points = [row for curve in _curves_of_steps(table) if _divides(curve) for row in row_dicts(curve)]
    divided = lookup(pd.DataFrame(points, columns=table.columns))
    for quantity in ("wall_s", "job_s"):
        yield from (c for c in curves(table, quantity) if all(divided(row) for row in row_dicts(c)))
    yield from _of_equal_epochs(table)


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
    strong = pd.Series([keeps_global_batch(row, based(row)) for row in row_dicts(rows)], rows.index, dtype=bool)
    key = ["source", "report", "model", "dataset", "device", "gpu", "machine", "ranks"]
    if not strong.any():
        return
    weak_of, noisy = lookup(rows[~strong], key), noises(table)
    for row in row_dicts(rows[strong]):
        for weak in weak_of(row):
            of = _over(row, weak, noisy)
            if outside([of], _NO_MORE)[0]:
                off = of.value - 1
                yield Finding(
                    report_of(row),
                    at(row),
                    "strong_beats_weak",
                    severity(of, off, "warning"),
                    f"{row['value']:g}x with the global batch kept",
                    f"no more than {weak['value']:g}x, with the batch per rank kept ({weak['place']})",
                    off,
                    f"Less work between the same exchanges should not scale better; {because(of, off, _differ(of))}.",
                )


def _over(one: Row, other: Row, noisy: Noises) -> Number:
    """One stated speedup over another, in any runs: each is made from two throughputs."""
    found = combined(lambda one, other: metrics.speedup(one, other), {"one": number(one), "other": number(other)})
    made_of = [(noise, power) for row, power in ((one, 1.0), (other, -1.0)) for noise in _noise_of_both(row, noisy)]
    return with_noise(found, made_of)


def _noise_of_both(stated: Row, noisy: Noises) -> tuple[Noise | None, Noise | None]:
    """The noise of the two throughputs that a stated speedup was made from."""
    return noisy.of(stated), noisy.of_base(stated)
