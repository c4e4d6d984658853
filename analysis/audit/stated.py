"""Rules over derived numbers as reports print them: whether they follow from primary numbers, and their meaning."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis import derived, metrics, reports
from analysis.audit.findings import finding, graded, point_label, point_location, rows_rule
from analysis.curves import SETTING, SIZE, SOURCE_RUN, Row, bases, lookup, measured, row_dicts
from analysis.derived import RATIOS, pairs
from analysis.finding import Finding, Severity
from analysis.stats import Number, combined, rounded
from analysis.stats.verdict import Verdict
from analysis.thresholds import limit
from common.terminal import counted


@rows_rule
def stated_speedup(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a speedup or efficiency in a report that does not follow from its throughputs, within the printed digits.

    The base that a speedup implies (throughput / speedup) is compared with the base that the report states. It is a
    note if that base is from another run, and the noise between runs is not known.
    """
    for line in reports.speedups(table):
        row, base, follows = line.row, line.base, line.computed.value
        if line.verdict.outcome == "inside" or base is None:
            continue
        off, undecided = metrics.change_fraction(follows, row["value"]), line.verdict.outcome == "undecided"
        stated, text = f"{row['value']:.2%}", f"{follows:.2%} = {line.formula}"
        meaning = "It does not follow from the throughputs beside it."
        if row["quantity"] == "speedup_throughput":
            rate = follows * base["value"]
            stated, text = f"{row['value']:g}x", f"{follows:.4g}x = {rate:g} / {base['value']:g} {base['unit']}"
            meaning = (
                f"It implies a base of {rate / row['value']:.4g} {base['unit']}; {base['place']} states "
                f"{base['value']:g} for this configuration, which gives {follows:.2f}x."
            )
        if undecided:
            meaning += " Whether runs differ by so much is not decidable: their noise is not known."
        yield finding(row, "note" if undecided else graded(off), stated, text, off, meaning)


@rows_rule
def normalised_ratio(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a printed ratio of speedups under the name of a ratio of throughputs.

    Such a ratio is always 1 at the smallest point, and hides any effect that all points share. A conclusion of "no
    effect" drawn from it says nothing about speed. Ratios that follow from neither are named as such.
    """
    for ratio in [name for name in RATIOS if table["quantity"].eq(name).any()]:
        for report, cells in table[table["quantity"].eq(ratio) & table["kind"].eq("stated")].groupby("report"):
            rows = table[table["report"].eq(str(report))]
            raw, scaled = _agreement(cells, pairs(rows, ratio)), _agreement(cells, pairs(rows, ratio, True))
            if raw.empty or raw["fits"].all():
                continue
            meaning = f"{(~raw['fits']).sum()} of {len(raw)} cells do not follow from the throughputs"
            if not scaled.empty and scaled["fits"].all():
                low, high, median = (getattr(raw["follows"], name)() for name in ("min", "max", "median"))
                meaning += (
                    "; all follow from speedups, each over its throughput on 1 rank. The block shows how the two sides "
                    f"scale, not which is faster: of throughputs, the ratio is {low:.2f} to {high:.2f}, median "
                    f"{median:.2f}."
                )
            else:
                meaning += ", nor from speedups."
            worst = raw.loc[[raw["follows"].sub(raw["value"]).abs().idxmax()]].to_dict("records")[0]
            off = metrics.change_fraction(worst["follows"], worst["value"])
            cell = f"{ratio} {worst['value']:.2f} ({point_label(worst)})"
            follows = f"{worst['follows']:.3g} = {worst['upper']:g} / {worst['lower']:g} images/s"
            place = f"{cells['place'].iloc[0]} and below"
            yield finding(worst, graded(off), cell, follows, off, meaning, place)


def _agreement(cells: pd.DataFrame, ratios: pd.DataFrame) -> pd.DataFrame:
    """Return printed cells with the ratios that follow; `fits` if rounding can explain the difference."""
    both = cells.merge(ratios[[*SETTING, *SIZE, "upper", "lower", "follows", "off"]], on=[*SETTING, *SIZE])
    fits = [
        derived.follows(cell, rounded(cell["follows"], cell["follows"] * cell["off"])).outcome != "outside"
        for cell in both.to_dict("records")
    ]
    return both.assign(fits=pd.Series(fits, both.index, dtype=bool))


@rows_rule
def median_of_two_groups(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a median that represents no value: the values fall into two groups, and it is in the gap between them.

    Fires if the gap around the median is the widest between any two neighbours, and wider than half of either group;
    once, however often the median is printed.
    """
    stated = table[table["quantity"].str.startswith("median_") & table["kind"].eq("stated") & table["ranks"].isna()]
    for ratio, (column, *_) in RATIOS.items() if len(stated) else ():
        medians = stated[stated["quantity"].eq(f"median_{ratio}")]
        for row in medians.drop_duplicates("report").to_dict("records"):
            cells = table[table["quantity"].eq(ratio) & table["report"].eq(row["report"])].sort_values("value")
            values, half = cells["value"].to_numpy(), len(cells) // 2
            if len(values) < 6 or len(values) % 2:
                continue
            gaps, low, high = np.diff(values), values[:half], values[half:]
            if gaps.argmax() == half - 1 and gaps[half - 1] > 0.5 * max(np.ptp(low), np.ptp(high)):
                groups = _groups(cells.iloc[:half], cells.iloc[half:], column)
                meaning = f"No cell is between {low.max():.2f} and {high.min():.2f}, where the median is. " + (
                    f"The groups are {groups}: quote both." if groups else "Quote both groups."
                )
                follows = f"{low.mean():.2f} and {high.mean():.2f}"
                median = f"{row['quantity']} {row['value']:g}"
                yield finding(row, "warning", median, follows, None, meaning, row["place"])


def _groups(lower: pd.DataFrame, upper: pd.DataFrame, column: str) -> str:
    """Return the values of the first other column that separates two groups of cells, with the range of each."""
    for by in ("gpu", "model", "dataset", "batch_per_rank", "ranks"):
        if by != column and not set(lower[by]) & set(upper[by]):
            return " and ".join(
                f"{', '.join(map(str, sorted(set(group[by]))))} "
                f"({group['value'].min():.2f} to {group['value'].max():.2f})"
                for group in (lower, upper)
            )
    return ""


@rows_rule
def percentage_base(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a percentage that follows from its two numbers on no base, or only on another than the one named.

    From old to new a time falls by (old - new) / old, and the speed rises by old / new - 1; both are tried over each
    smaller point of the same curve. The point named is the next smaller one.
    """
    for line in reports.changes(table):
        row = line.row
        if line.verdict.outcome == "inside":
            continue
        readings = list(_readings(table, row))
        fitting = [(text, named) for text, _, named, verdict in readings if verdict.outcome == "inside"]
        if any(named for _, named in fitting):
            continue
        less_time, more_speed = readings[0][1].value, readings[1][1].value
        meaning = f"No base gives it: {'; '.join(f'{value.value:.1%} ({text})' for text, value, *_ in readings)}."
        if fitting:
            meaning = f"Its base is another point: {fitting[0][0]}."
        grade: Severity = "serious" if line.verdict.outcome == "outside" else "note"
        follows = f"{less_time:.1%} less time, {more_speed:.1%} more speed"
        off = metrics.change_fraction(less_time, row["value"])
        yield finding(row, grade, f"{row['quantity']} {row['value']:.0%}", follows, off, meaning)


def _readings(table: pd.DataFrame, row: Row) -> Iterator[tuple[str, Number, bool, Verdict]]:
    """Yield each way to read a stated change: its text, its value, whether over the point named, its verdict."""
    times = measured(table, reports.CHANGES[row["quantity"]])
    new = lookup(times)(row)[0]
    before = [point for point in lookup(times, [*SETTING, "experiment"])(row) if point["ranks"] < row["ranks"]]
    before.sort(key=lambda point: -point["ranks"])
    for old in before:
        both = {"old": derived.stated_number(old), "new": derived.stated_number(new)}
        ends = f"{old['value']:g} to {new['value']:g} {old['unit']}, over {counted(old['ranks'], 'rank')}"
        for text, formula in (
            ("the time falls from", lambda old, new: -metrics.change_fraction(old, new)),
            ("the speed rises, with times from", lambda old, new: metrics.faster_fraction(old, new)),
        ):
            value = combined(formula, both)
            yield f"{text} {ends}", value, old is before[0], derived.follows(row, value)


@rows_rule
def label(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a number of ranks printed beside values that would exceed their ideal speedup on so many.

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
        least, most = min(shares, default=math.nan) - 1, max(shares, default=math.nan) - 1
        meaning = (
            f"Read as labelled, {sum(share > 1 for share in shares)} of {len(shares)} cells would be beyond ideal, by "
            f"{least:.0%} to {most:.0%}; the blocks that are computed from this row label it {row['ranks']}."
        )
        off = metrics.change_fraction(row["ranks"], row["value"])
        stated, follows = f"{row['value']:g} GPUs", f"{row['ranks']} GPUs"
        yield finding(row, "warning", stated, follows, off, meaning, row["place"])


@rows_rule
def primary_source(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a number that differs from the source that it was copied from.

    A copying error is one finding a cell, with the effect of the correct number; cells that were only rounded are one
    finding together, since a rounded base changes every speedup over it.
    """
    not_copied = {"nodes", "ranks_per_node", "threads_per_rank"}
    key = [name for name in (*SETTING, *SIZE, "quantity") if name not in not_copied]
    source = table[table["run"].eq(SOURCE_RUN)]
    if source.empty:
        return
    copied = measured(table, *source["quantity"].unique())
    both = copied.merge(source[[*key, "value", "place"]], on=key, suffixes=("", "_source"))
    both = both[both["value"].ne(both["value_source"])]
    both = both.assign(off=metrics.change_fraction(both["value_source"], both["value"]))
    halves = [derived.half_unit(row) + 1e-9 for row in both.to_dict("records")]
    rounded_cells = both[(both["value"] - both["value_source"]).abs() <= halves]
    base = bases(table)
    for row in both.drop(rounded_cells.index).to_dict("records"):
        yield _miscopied(row, base(row)[:1])
    for _, rows in rounded_cells.groupby("report"):
        yield _rounded_in_copying(rows)


def _miscopied(row: Row, base: list[Row]) -> Finding:
    """Return the finding on a cell with another number than its source; `base`: the point that its speedup is over."""
    swapped = sorted(f"{row['value']:g}") == sorted(f"{row['value_source']:g}")
    meaning = "Two digits were swapped in copying." if swapped else "It was not copied correctly."
    for first in base:
        right, wrong = (metrics.speedup(row[name], first["value"]) for name in ("value_source", "value"))
        meaning += f" Its speedup is {right:.2f}x, not {wrong:.2f}x."
    copied, follows = f"{row['value']:g} {row['unit']}", f"{row['value_source']:g} in the source"
    return finding(row, "serious", copied, follows, row["off"], meaning)


def _rounded_in_copying(rows: pd.DataFrame) -> Finding:
    """Return the finding on all cells of a report that were rounded in copying, on the worst."""
    off = rows["off"].abs()
    worst = rows.loc[[off.idxmax()]].to_dict("records")[0]
    is_base = worst["ranks"] == rows["ranks"].min() and off.max() > 0.01
    meaning = (
        f"{len(rows)} cells were rounded to fewer digits. This one is the base of its column: every speedup over it is "
        f"off by {metrics.change_fraction(worst['value'], worst['value_source']):+.1%}."
    )
    copied, follows = f"{worst['value']:g} {worst['unit']}", f"{worst['value_source']:g} in the source"
    location = f"{point_location(worst)}, and {len(rows) - 1} more"
    return finding(worst, "warning" if is_base else "note", copied, follows, worst["off"], meaning, location)


@rows_rule
def size_in_bytes(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a model size that its parameters do not have, at 4 bytes each: a unit of 2^20 bytes printed as 10^6."""
    for line in reports.sizes(table):
        row, follows = line.row, line.computed.value
        if row["quantity"] != "model_bytes" or line.verdict.outcome != "outside" or line.base is None:
            continue
        binary = derived.follows({**row, "note": ""}, combined(lambda b: b / 1.048576, {"b": line.computed}))
        meaning = "Size and parameters do not agree."
        if binary.outcome == "inside":
            meaning = "The number is right in MiB (2^20 bytes), not in MB."
        size = f"{follows / 1e6:.0f} MB = 4 x {line.base['value']:.0f}"
        off = metrics.change_fraction(follows, row["value"])
        yield finding(row, "note", f"{row['value'] / 1e6:g} MB", size, off, meaning)


def logged_throughput(rows: pd.DataFrame) -> Iterator[Finding]:
    """Report, of each published curve, the logged throughput that is furthest from its samples over the logged times.

    rows: of the atlas. It is a note: which of the two a log means otherwise, it does not say.
    """
    rates = rows[rows["quantity"].eq("rate")]
    both = rates[rates["kind"].eq("stated")].merge(
        rates[rates["kind"].eq("measured")], on=["curve", "place"], suffixes=("", "_2")
    )
    both["off"] = metrics.change_fraction(both["value_2"], both["value"])
    both = both[both["off"].abs().gt(limit("apart_serious"))].sort_values("off", key=abs, ascending=False)
    for row in row_dicts(both.drop_duplicates("curve")):
        meaning = "The throughput, the samples of an epoch and the times in one log do not agree: use the times alone."
        stated, follows = f"throughput {row['value']:g} in the log", f"{row['value_2']:g} {row['unit']} from its times"
        yield replace(finding(row, "note", stated, follows, row["off"], meaning), rule="logged_throughput")
