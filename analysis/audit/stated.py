"""Rules over derived numbers as reports print them: do they follow from the primary numbers, and mean what is said?"""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.audit.findings import TABLE_RULES, Finding, at, called, graded, rule
from analysis.curves import SETTING, SIZE, SOURCE_RUN, Row, bases, lookup, measured, ranks_in_words, report_of
from analysis.derived import RATIOS, pairs
from analysis.reports import recompute
from analysis.stats.number import Number, combined, rounded
from analysis.stats.verdict import Verdict
from analysis.table import stated


@rule(TABLE_RULES)
def stated_speedup(table: pd.DataFrame) -> Iterator[Finding]:
    """A stated speedup that does not follow from its throughputs, within the digits that are printed.

    The base that it implies (throughput / speedup) is compared with the base that the report states. A note where that
    base is of another run, and no noise is known that tells whether it could be so.
    """
    for found in recompute.speedups(table):
        row, base = found.row, found.base
        if row["quantity"] != "speedup_throughput" or found.verdict.outcome == "inside" or base is None:
            continue
        off = metrics.change_fraction(found.computed.value, row["value"])
        rate = found.computed.value * base["value"]
        implied = f"It implies a base of {rate / row['value']:.4g} images/s; {base['place']} states {base['value']:g}"
        open_ = found.verdict.outcome == "undecided"
        yield Finding(
            report_of(row),
            at(row),
            "stated_speedup",
            "note" if open_ else graded(off),
            f"{row['value']:g}x",
            f"{found.computed.value:.4g}x = {rate:g} / {base['value']:g} images/s",
            off,
            f"{implied} for this configuration, which gives {found.computed.value:.2f}x."
            + (" Whether runs differ by so much is not decidable: their noise is not known." if open_ else ""),
        )


@rule(TABLE_RULES)
def stated_efficiency(table: pd.DataFrame) -> Iterator[Finding]:
    """A stated efficiency that is not the share of the ideal throughput, within the digits that are printed."""
    for found in recompute.speedups(table):
        row = found.row
        if row["quantity"] == "efficiency_throughput" and found.verdict.outcome == "outside":
            off = metrics.change_fraction(found.computed.value, row["value"])
            yield Finding(
                report_of(row),
                at(row),
                "stated_efficiency",
                graded(off),
                f"{row['value']:.2%}",
                f"{found.computed.value:.2%}",
                off,
                "The efficiency does not follow from the throughputs beside it.",
            )


@rule(TABLE_RULES)
def normalised_ratio(table: pd.DataFrame) -> Iterator[Finding]:
    """A printed ratio of speedups, not of throughputs: each side was first divided by its base.

    Such a ratio is 1 at the smallest point whatever was measured, and hides any effect that all points share. A
    conclusion of "no effect" drawn from it says nothing about speed. Ratios that follow from neither are named as such.
    """
    for ratio in RATIOS:
        for report, said in table[table["quantity"].eq(ratio) & table["kind"].eq("stated")].groupby("report"):
            rows = table[table["report"].eq(str(report))]
            raw, scaled = _agreement(said, pairs(rows, ratio)), _agreement(said, pairs(rows, ratio, True))
            if raw.empty or raw["fits"].all():
                continue
            worst = raw.loc[[raw["follows"].sub(raw["value"]).abs().idxmax()]].to_dict("records")[0]
            base = {"report": str(report), "rule": "normalised_ratio", "place": f"{said['place'].iloc[0]} and below"}
            off = metrics.change_fraction(worst["follows"], worst["value"])
            count = f"{(~raw['fits']).sum()} of {len(raw)} cells do not follow from the throughputs"
            meaning = (
                f"{count}; all follow from speedups, each over its throughput on 1 rank. The block shows how the two "
                f"sides scale, not which is faster: of throughputs, the ratio is {raw['follows'].min():.2f} to "
                f"{raw['follows'].max():.2f}, median {raw['follows'].median():.2f}."
                if not scaled.empty and scaled["fits"].all()
                else f"{count}, nor from speedups."
            )
            yield Finding(
                base["report"],
                base["place"],
                base["rule"],
                graded(off),
                f"{ratio} {worst['value']:.2f} ({called(worst)})",
                f"{worst['follows']:.3g} = {worst['upper']:g} / {worst['lower']:g} images/s",
                off,
                meaning,
            )


def _agreement(said: pd.DataFrame, computed: pd.DataFrame) -> pd.DataFrame:
    """Printed cells beside what follows; `fits` where rounding can explain the difference."""
    key = [*SETTING, *SIZE]
    both = said.merge(computed[[*key, "upper", "lower", "follows", "off"]], on=key)
    fits = [stated.follows(row, _ratio(row)).outcome != "outside" for row in both.to_dict("records")]
    return both.assign(fits=pd.Series(fits, both.index, dtype=bool))


def _ratio(cell: Row) -> Number:
    return rounded(cell["follows"], cell["follows"] * cell["off"])


@rule(TABLE_RULES)
def median_of_two_groups(table: pd.DataFrame) -> Iterator[Finding]:
    """A median that represents no value: the values fall into two groups, and it is in the gap between them.

    Fires where the gap around the median is the widest between any two neighbours, and wider than half of either group;
    once, however often the median is printed.
    """
    for ratio, (column, *_) in RATIOS.items():
        name = f"median_{ratio}"
        said = table[table["quantity"].eq(name) & table["kind"].eq("stated") & table["ranks"].isna()]
        for row in said.drop_duplicates("report").to_dict("records"):
            cells = table[table["quantity"].eq(ratio) & table["report"].eq(row["report"])].sort_values("value")
            values = cells["value"].to_numpy()
            if len(values) < 6:
                continue
            gaps = np.diff(values)
            middle = len(values) // 2 - 1
            low, high = values[: middle + 1], values[middle + 1 :]
            if len(values) % 2 == 0 and gaps.argmax() == middle and gaps[middle] > 0.5 * max(np.ptp(low), np.ptp(high)):
                lower, upper = cells.iloc[: middle + 1], cells.iloc[middle + 1 :]
                splits = [
                    f"{', '.join(map(str, sorted(set(lower[by]))))} ({low.min():.2f} to {low.max():.2f}) and "
                    f"{', '.join(map(str, sorted(set(upper[by]))))} ({high.min():.2f} to {high.max():.2f})"
                    for by in ("gpu", "model", "dataset", "batch_per_rank", "ranks")
                    if by != column and not set(lower[by]) & set(upper[by])
                ]
                yield Finding(
                    report_of(row),
                    row["place"],
                    "median_of_two_groups",
                    "warning",
                    f"{name} {row['value']:g}",
                    f"{low.mean():.2f} and {high.mean():.2f}",
                    None,
                    f"No cell is between {low.max():.2f} and {high.min():.2f}, where the median is. "
                    + (f"The groups are {splits[0]}: quote both." if splits else "Quote both groups."),
                )


@rule(TABLE_RULES)
def percentage_base(table: pd.DataFrame) -> Iterator[Finding]:
    """A percentage that does not follow from its two numbers on any base, or only on another base than the one named.

    From old to new a time falls by (old - new) / old, and the speed rises by old / new - 1; both are tried over each
    smaller point of the same curve. The point named is the next smaller one.
    """
    for found in recompute.changes(table):
        row = found.row
        if found.verdict.outcome == "inside":
            continue
        readings = list(_readings(table, row))
        said = [(text, value, named) for text, value, named, verdict in readings if verdict.outcome == "inside"]
        if any(named for *_, named in said):
            continue
        follows, faster = readings[0][1].value, readings[1][1].value
        yield Finding(
            report_of(row),
            at(row),
            "percentage_base",
            "serious" if found.verdict.outcome == "outside" else "note",
            f"{row['quantity']} {row['value']:.0%}",
            f"{follows:.1%} less time, {faster:.1%} more speed",
            metrics.change_fraction(follows, row["value"]),
            f"Its base is another point: {said[0][0]}."
            if said
            else "No base gives it: " + "; ".join(f"{value.value:.1%} ({text})" for text, value, *_ in readings) + ".",
        )


def _readings(table: pd.DataFrame, row: Row) -> Iterator[tuple[str, Number, bool, Verdict]]:
    """Each way to read a stated change: in words, its value, whether over the point that is named, its verdict."""
    times = measured(table, recompute.CHANGES[row["quantity"]])
    new = lookup(times)(row)[0]
    before = [point for point in lookup(times, [*SETTING, "experiment"])(row) if point["ranks"] < row["ranks"]]
    before.sort(key=lambda point: -point["ranks"])
    for old in before:
        both = {"old": stated.number(old), "new": stated.number(new)}
        ends = f"{old['value']:g} to {new['value']:g} {old['unit']}, over {ranks_in_words(old['ranks'])}"
        for words, formula in (
            ("the time falls from", lambda old, new: -metrics.change_fraction(old, new)),
            ("the speed rises, with times from", lambda old, new: metrics.faster_fraction(old, new)),
        ):
            value = combined(formula, both)
            yield f"{words} {ends}", value, old is before[0], stated.follows(row, value)


@rule(TABLE_RULES)
def label(table: pd.DataFrame) -> Iterator[Finding]:
    """A number of ranks printed beside values that cannot be of so many: their speedup would exceed it.

    One finding for all cells of a place that carry the same label.
    """
    base, rates = bases(table), measured(table, "images_per_s")
    rows = table[table["quantity"].eq("ranks_as_printed")]
    for row in rows[rows["value"].ne(rows["ranks"].astype(float))].to_dict("records"):
        same = rates[rates["report"].eq(row["report"]) & rates["ranks"].eq(row["ranks"])]
        shares = [
            metrics.efficiency(metrics.speedup(rate["value"], first["value"]), row["value"])
            for rate in same.to_dict("records")
            for first in base(rate)[:1]
        ]
        beyond = sum(share > 1 for share in shares)
        yield Finding(
            report_of(row),
            row["place"],
            "label",
            "warning",
            f"{row['value']:g} GPUs",
            f"{row['ranks']} GPUs",
            metrics.change_fraction(row["ranks"], row["value"]),
            f"Read as labelled, {beyond} of {len(shares)} cells would be beyond ideal, by "
            f"{min(shares, default=math.nan) - 1:.0%} to {max(shares, default=math.nan) - 1:.0%}; the blocks that are "
            f"computed from this row label it {row['ranks']}.",
        )


@rule(TABLE_RULES)
def primary_source(table: pd.DataFrame) -> Iterator[Finding]:
    """A number that differs from the source that it was copied from.

    A copying error is one finding a cell, with the effect of the correct number; cells that were only rounded are one
    finding together, since a rounded base changes every speedup over it.
    """
    key = [name for name in [*SETTING, *SIZE] if name not in ("nodes", "ranks_per_node", "threads_per_rank")] + [
        "quantity"
    ]
    source = table[table["run"].eq(SOURCE_RUN)]
    copied = measured(table, *source["quantity"].unique())
    both = copied.merge(source[[*key, "value", "place"]], on=key, suffixes=("", "_source"))
    both = both[both["value"].ne(both["value_source"])]
    base = bases(table)
    halves = [stated.half_unit(row) + 1e-9 for row in both.to_dict("records")]
    rounded = both[(both["value"] - both["value_source"]).abs() <= halves]
    for row in both.drop(rounded.index).to_dict("records"):
        off = metrics.change_fraction(row["value_source"], row["value"])
        swapped = sorted(f"{row['value']:g}") == sorted(f"{row['value_source']:g}")
        speedup = "".join(
            f" Its speedup is {metrics.speedup(row['value_source'], first['value']):.2f}x, not "
            f"{metrics.speedup(row['value'], first['value']):.2f}x."
            for first in base(row)[:1]
        )
        yield Finding(
            report_of(row),
            at(row),
            "primary_source",
            "serious",
            f"{row['value']:g} {row['unit']}",
            f"{row['value_source']:g} in the source",
            off,
            ("Two digits were swapped in copying." if swapped else "It was not copied correctly.") + speedup,
        )
    for report, rows in rounded.groupby("report"):
        off = metrics.change_fraction(rows["value_source"], rows["value"]).abs()
        worst = rows.loc[[off.idxmax()]].to_dict("records")[0]
        yield Finding(
            str(report),
            f"{at(worst)}, and {len(rows) - 1} more",
            "primary_source",
            "warning" if worst["ranks"] == rows["ranks"].min() and off.max() > 0.01 else "note",
            f"{worst['value']:g} {worst['unit']}",
            f"{worst['value_source']:g} in the source",
            metrics.change_fraction(worst["value_source"], worst["value"]),
            f"{len(rows)} cells were rounded to fewer digits. This one is the base of its column: every speedup over "
            f"it is off by {metrics.change_fraction(worst['value'], worst['value_source']):+.1%}.",
        )


@rule(TABLE_RULES)
def size_in_bytes(table: pd.DataFrame) -> Iterator[Finding]:
    """A model size that its parameters do not have, at 4 bytes each: a unit of 2^20 bytes printed as 10^6."""
    for found in recompute.sizes(table):
        row, follows = found.row, found.computed.value
        if row["quantity"] != "model_bytes" or found.verdict.outcome != "outside" or found.base is None:
            continue
        binary = stated.follows({**row, "note": ""}, combined(lambda b: b / 1.048576, {"b": found.computed}))
        yield Finding(
            report_of(row),
            at(row),
            "size_in_bytes",
            "note",
            f"{row['value'] / 1e6:g} MB",
            f"{follows / 1e6:.0f} MB = 4 x {found.base['value']:.0f}",
            metrics.change_fraction(follows, row["value"]),
            "The number is right in MiB (2^20 bytes), not in MB."
            if binary.outcome == "inside"
            else "Size and parameters do not agree.",
        )
