"""Rules on how numbers were measured: clocks, windows, repeats, and totals that their parts contradict."""

import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from analysis import atlas, metrics
from analysis.audit.findings import finding, graded, point_label, point_location, rows_rule
from analysis.curves import PER_RANK, RATES, SETTING, SIZE, Row, configurations, lookup, measured
from analysis.finding import Finding
from analysis.thresholds import limit
from common.grouping import grouped

_PRINTED_SUM_S = 0.011  # two times with two decimals are off by 0.01 s, and their rounded sum by 0.005 s


@rows_rule
def measured_twice(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a configuration measured twice in a report with different results: the difference is its noise floor.

    No smaller difference in the report means anything. Numbered repeats do not count. One finding a report, on the
    widest pair.
    """
    unnumbered = table[table["source"].eq("published") & table["repeat"].isna()]
    twice = [rows for rows in configurations(measured(unnumbered, "images_per_s")) if len(rows) > 1]
    for several in grouped(twice, lambda rows: rows["report"].iloc[0]).values():
        extremes = [rows.sort_values("value").to_dict("records")[:: len(rows) - 1] for rows in several]
        first, second = max(extremes, key=lambda ends: metrics.change_fraction(*(end["value"] for end in ends)))
        off = metrics.change_fraction(first["value"], second["value"])
        stated = f"{first['value']:g} and {second['value']:g} {first['unit']}"
        meaning = (
            f"The widest of {len(several)} configurations measured twice: no difference below {off:.1%} means anything "
            "in this report."
        )
        location = f"{first['place']} and {second['place']}: {point_label(first)}"
        yield finding(first, graded(off, serious=math.inf), stated, "one number", off, meaning, location)


@rows_rule
def copied_values(table: pd.DataFrame) -> Iterator[Finding]:
    """Report measurements that are equal in all of their many digits: one is a copy, not a measurement.

    They are repeats of one point, or points of one setting. One finding a setting and quantity, on the first pair.
    """
    rows = _many_digits(table)
    for _, group in rows.groupby([*SETTING, "quantity"], dropna=False, sort=False):
        twice = group[group.duplicated("value", keep=False)].to_dict("records")
        if twice:
            first, second = [row for row in twice if row["value"] == twice[0]["value"]][:2]
            stated = f"{second['quantity']} {second['value']:.12g} {second['unit']}"
            follows = f"not the number of {point_location(first)} to the last digit"
            meaning = "Two measurements do not agree in so many digits: measure this point again."
            yield finding(second, "serious", stated, follows, None, meaning)


@rows_rule
def copied_curves(table: pd.DataFrame) -> Iterator[Finding]:
    """Report measurements of two models, data sets or devices that are equal in all of their many digits.

    One is a copy of the other under another name. One equal point may be chance, two on the same ranks are not. One
    finding a pair of settings and quantity, on the first point that they share.
    """
    rows = _many_digits(table).reset_index(drop=True)
    settings = rows.groupby(SETTING, dropna=False, sort=False).ngroup()
    if settings.nunique() < 2:
        return
    rows = rows.assign(setting=settings, row=rows.index)
    same = rows.merge(rows, on=["report", "quantity", "ranks", "value"], suffixes=("", "_first"))
    same = same[same["setting_first"] < same["setting"]]
    same = same[same["repeat"].isna().eq(same["repeat_first"].isna())]  # medians of the repeats beside them are no copy
    lines = [same[name].str.extract(r", (line \d+)", expand=False) for name in ("place", "place_first")]
    same = same[lines[0].isna() | lines[0].ne(lines[1])]  # a line of several rates has one time
    for _, pairs in same.groupby(["setting_first", "setting", "quantity"], sort=False):
        if pairs["ranks"].nunique() > 1:
            first, second = (rows.loc[pairs[name].iloc[0]].to_dict() for name in ("row_first", "row"))
            stated = f"{second['quantity']} {second['value']:.12g} {second['unit']}, and {len(pairs) - 1} more"
            follows = f"not the numbers of {point_location(first)} to the last digit"
            meaning = "One of them is a copy under another name: measure it."
            yield finding(second, "serious", stated, follows, None, meaning)


def _many_digits(table: pd.DataFrame) -> pd.DataFrame:
    """Return the published measurements with so many digits that two do not agree in all of them by chance.

    A rate that a table gives per rank has the digits of that number, not those of the product.
    """
    rows = measured(table[table["source"].eq("published")], *RATES, *PER_RANK, "wall_s", "job_s")
    per_rank = rows["value"] / rows["ranks"].where(rows["quantity"].isin(RATES), 1)
    digits = np.minimum(_digits(rows["value"]), _digits(per_rank))
    return rows[digits >= limit("copied_digits")]


def _digits(values: pd.Series) -> np.ndarray:
    """Return the number of significant digits of each value."""
    return np.array([len(f"{value:.15g}".partition("e")[0].replace(".", "").strip("-0")) for value in values], int)


@rows_rule
def zero_speed(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a speed of 0 for a run that took time: the meter never reported, so nothing was measured."""
    walls, steps = lookup(measured(table, "wall_s")), lookup(table[table["quantity"].eq("steps_per_rank_planned")])
    speeds = measured(table, *RATES, *PER_RANK)
    for row in speeds[speeds["value"].eq(0)].to_dict("records"):
        follows, meaning = "more than 0", "Not a measured speed; no speedup can be computed from it."
        if walls(row) and steps(row):
            seconds, count = walls(row)[0]["value"], steps(row)[0]["value"]
            follows = f"{metrics.throughput(row['batch_per_rank'], count, seconds):.3g} {row['unit']} or more"
            meaning += f" {count:g} steps in {seconds:g} s: too few for the meter to report once."
        yield finding(row, "serious", f"{row['value']:g} {row['unit']}", follows, None, meaning)


@rows_rule
def few_steps(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a speed over too few steps: a single slow step changes the mean over such a short window."""
    steps = table[table["quantity"].isin(["steps_per_rank", "steps_per_rank_planned"])]
    for _, rows in steps[steps["value"].lt(limit("few_steps"))].groupby("report", sort=False):
        if "measure" in rows and rows["measure"].eq("quick").all():
            continue
        least = rows.sort_values("value").to_dict("records")[0]
        location = point_location(least) + (f", and {len(rows) - 1} more" if len(rows) > 1 else "")
        meaning = f"{_time_of_steps(least, table)}The mean over so few steps still includes the first, slower ones."
        follows = f"{limit('few_steps'):g} or more"
        yield finding(least, "warning", f"{least['value']:g} steps", follows, None, meaning, location)


def _time_of_steps(steps: Row, table: pd.DataFrame) -> str:
    """Return how long the steps of a row took, by the speed of their point, or at most, by its wall time; else ""."""
    for speed in lookup(measured(table, *PER_RANK, *RATES))(steps):
        batch = steps["global_batch"] if speed["quantity"] in RATES else steps["batch_per_rank"]
        if speed["value"] > 0 and not pd.isna(batch):
            return f"They took about {metrics.step_s(batch, speed['value']) * steps['value']:.2g} s. "
    for wall in lookup(measured(table, "wall_s"))(steps):
        return f"They took at most {wall['value']:.3g} s, the wall time. "
    return ""


@rows_rule
def coarse_clock(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a time read from a clock whose tick is a large part of it: no repeat shows the error of half a tick.

    The tick is one second if every value of a quantity is a whole number. One finding a curve, on the worst.
    """
    for quantity in ("wall_s", "epoch_s", "init_s"):
        rows = measured(table[table["source"].eq("published")], quantity)
        for _, curve in rows.groupby([*SETTING, "experiment"], dropna=False, sort=False):
            if len(curve) < 2 or (curve["value"] % 1 != 0).any():
                continue
            least = curve.sort_values("value").to_dict("records")[0]
            share = 0.5 / least["value"]
            if share >= limit("coarse_clock"):
                grade = graded(share, warning=limit("same"), serious=limit("apart_serious"))
                follows = f"{least['value'] - 0.5:g} to {least['value'] + 0.5:g} s"
                meaning = (
                    "All values of this curve are whole seconds: this one, and each speedup made from it, is known "
                    f"to {share:.1%} at best."
                )
                yield finding(least, grade, f"{quantity} {least['value']:g} s", follows, share, meaning)


@rows_rule
def parts_and_total(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a total time that is not the sum of initialisation and training beside it."""
    parts = [lookup(measured(table, quantity)) for quantity in ("init_s", "wall_s")]
    for row in measured(table, "job_s").to_dict("records"):
        if not all(part(row) for part in parts):
            continue
        follows = sum(float(part(row)[0]["value"]) for part in parts)
        if abs(follows - row["value"]) > _PRINTED_SUM_S:
            off = metrics.change_fraction(follows, row["value"])
            meaning = "The total was not computed from these parts, or one of the three is wrong."
            yield finding(row, graded(off), f"{row['value']:g} s", f"{follows:g} s", off, meaning)


@rows_rule
def epochs_and_job(table: pd.DataFrame) -> Iterator[Finding]:
    """Report epochs x time of an epoch that exceed the time of the job, or are a small part of it.

    More than the job: the time of the epoch is not typical. Far less: the job did something else most of the time.
    """
    jobs, planned = lookup(measured(table, "job_s")), lookup(table[table["quantity"].eq("epochs_planned")])
    for row in measured(table, "epoch_s").to_dict("records"):
        if not jobs(row) or not planned(row):
            continue
        total, count = float(jobs(row)[0]["value"]), float(planned(row)[0]["value"])
        epochs_s = count * row["value"]
        off = metrics.change_fraction(total, epochs_s)
        stated = f"{count:g} epochs of {row['value']:g} s = {epochs_s:g} s"
        if off > count * 0.5 / total:  # an epoch's time is printed in whole seconds
            meaning = (
                "The epochs alone take longer than the whole job: the printed epoch time is not a mean, but that of a "
                "slow epoch (often the first, which reads the data)."
            )
            yield finding(
                row, graded(off, serious=limit("same")), stated, f"at most the job's {total:g} s", off, meaning
            )
        elif off < -limit("elsewhere"):
            meaning = (
                f"The epochs account for {epochs_s / total:.0%} of the job; {total - epochs_s:.0f} s went elsewhere "
                "(start, loading, a second round of training). A speedup of the job is then not one of the training."
            )
            yield finding(row, "warning", stated, f"most of the job's {total:g} s", off, meaning)


@rows_rule
def faster_device(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a faster device that is not faster: something else (input, host, network) limits both.

    The minimum to expect is the smaller of the ratios of peak arithmetic and of memory bandwidth (accelerators.csv);
    the rule fires if not even half of that gain shows.
    """
    stated = pd.read_csv(atlas.ACCELERATORS, index_col="part")[["fp32_tflops", "memory_gb_per_s"]].dropna()
    devices = stated.T.to_dict("list")
    rows = measured(table, "images_per_s", "epoch_s")
    # "Tesla V100-SXM2-16GB", as a machine names it, is a V100.
    rows = rows.assign(gpu=[next((n for n in re.split(r"[\s-]+", name) if n in devices), "") for name in rows["gpu"]])
    rows = rows[rows["gpu"].ne("")]
    key = [name for name in [*SETTING, *SIZE] if name not in ("gpu", "machine")] + ["experiment", "quantity"]
    rows = rows.assign(speed=rows["value"].where(rows["quantity"].ne("epoch_s"), metrics.rate(1.0, rows["value"])))
    for _, rates in rows.groupby(key, dropna=False, sort=False):
        best: Sequence[Row] = rates.sort_values("speed").drop_duplicates("gpu", keep="last").to_dict("records")
        for slow in best:
            for fast in best:
                expected = min(b / a for a, b in zip(devices[slow["gpu"]], devices[fast["gpu"]], strict=True))
                gain = metrics.speedup(fast["speed"], slow["speed"])
                if expected > 1 + limit("single_runs") and gain - 1 < limit("device_share") * (expected - 1):
                    yield _no_faster(slow, fast, expected, gain)


def _no_faster(slow: Row, fast: Row, expected: float, gain: float) -> Finding:
    stated = f"{gain:.2f}x ({slow['value']:g} and {fast['value']:g} {fast['unit']})"
    follows = f"{expected:.1f}x or more by peak arithmetic and memory bandwidth"
    meaning = (
        "The device is not what limits this training; reading and preparing the input on the host is the usual reason: "
        "`make input-bench` shows how many cores a device needs for it. Then speedups here are those of the input, not "
        "of the training."
    )
    off = metrics.change_fraction(expected, gain)
    return finding(fast, "serious", stated, follows, off, meaning, f"{point_location(fast)}, against {slow['gpu']}")
