"""Rules over wall times: points that a fixed cost and a cost per step do not explain, speedups that a fixed cost hides.

The verdicts are those of `make explain`.
"""

import contextlib
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import pandas as pd

from analysis import TableError, explain, metrics
from analysis.audit.findings import TABLE_RULES, finding, graded, rule
from analysis.curves import Row, cached_by_table
from analysis.explain import runs as explain_runs
from analysis.explain import text
from analysis.finding import Finding, Severity
from analysis.thresholds import limit


@rule(TABLE_RULES)
def wall_time_misfit(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a wall time that the other points of its curve do not predict: something else took time (or less) there.

    The prediction is the regression of `analysis.explain`.
    """
    for explained, rows in _explained(table):
        for point in explained.misfits.to_dict("records"):
            off = metrics.change_fraction(point["fitted_s"], point["wall_s"])
            severity = graded(off, serious=limit("apart_serious"))
            follows = f"{point['fitted_s']:.3g} s from the other points"
            meaning = f"{text.misfit(point)} Measure this point again."
            yield finding(_row(point, rows), severity, f"{point['wall_s']:.4g} s", follows, off, meaning)


@rule(TABLE_RULES)
def fixed_cost(table: pd.DataFrame) -> Iterator[Finding]:
    """Report speedups by speed and by wall time that disagree: a fixed cost weighs more the shorter the run."""
    for explained, rows in _explained(table):
        fitting = explained.points[~explained.points["misfit"]].dropna(subset=["speedup_throughput"])
        if fitting.empty:
            continue
        last = fitting.iloc[-1]
        by_speed, by_time = last["speedup_throughput"], last["speedup_wall_time"]
        lost = metrics.change_fraction(by_speed, by_time)
        if lost < -limit("graded_serious") and explained.model.speeds and explained.has_cost_beyond_steps:
            row = _row(last.to_dict(), rows)
            grade: Severity = (
                "note" if not row["report"] else "serious" if lost < -limit("apart_serious") else "warning"
            )
            stated, follows = f"{by_speed:.3g}x by speed", f"{by_time:.3g}x by wall time"
            off = metrics.change_fraction(by_time, by_speed)
            yield finding(row, grade, stated, follows, off, text.sentences(explained)[0])


@rule(TABLE_RULES)
def too_short(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a wall time that is too short for the work at the measured speed."""
    yield from _contradictory(table, "too_short")


@rule(TABLE_RULES)
def speed_times_off(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a measured speed that is several times the one that the wall time allows: another unit or quantity."""
    yield from _contradictory(table, "speed_times_off")


@rule(TABLE_RULES)
def speed_of_the_job(table: pd.DataFrame) -> Iterator[Finding]:
    """Report a speed given as that of one rank which grows with the ranks: it is that of the whole job."""
    yield from _contradictory(table, "speed_of_the_job")


def _contradictory(table: pd.DataFrame, name: str) -> Iterator[Finding]:
    for pair, run, rows in _contradictions(table):
        if pair.rule == name:
            yield finding(_row(run, rows), "serious", pair.stated, pair.follows, pair.off, pair.meaning)


@cached_by_table
def _contradictions(table: pd.DataFrame) -> list[tuple[explain_runs.Contradiction, Row, pd.DataFrame]]:
    """Return the contradictions, each with its last run and the rows of the wall times of its curve."""
    results: list[tuple[explain_runs.Contradiction, Row, pd.DataFrame]] = []
    for _, curve, rows in _curves(table):
        runs = explain_runs.prepared(curve)
        results += [(pair, runs.loc[pair.runs[-1]].to_dict(), rows) for pair in explain_runs.contradictions(runs)]
    return results


def _row(run: Mapping[Hashable, Any], rows: pd.DataFrame) -> Row:
    """Return the row with the wall time of a run, or the first row of a point."""
    same = rows["ranks"].eq(run["ranks"]) & rows["batch_per_rank"].eq(run["batch_per_rank"])
    exact = same & rows["value"].eq(run["wall_s"])
    return rows[exact if exact.any() else same].to_dict("records")[0]


@cached_by_table
def _curves(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Return each curve of wall times: its name, its runs for `analysis.explain`, and the rows of its wall times."""
    results = []
    # A user's table has no report: its curves differ in data and device too.
    condition = (table["dataset"] + "\0" + table["gpu"] + "\0" + table["machine"]).where(
        table["report"].eq("") & table["source"].eq("published"), ""
    )
    key = [table["source"], table["report"], condition]
    for _, rows in table[table["quantity"].ne("")].groupby(key, sort=False):
        try:
            points, _ = explain_runs.points(rows, "table")
        except TableError:
            continue
        for name, curve in explain_runs.curves(points):
            walls = rows[rows["quantity"].eq("wall_s") & rows["model"].isin(curve["model"])]
            if "series" in curve:
                walls = walls[walls["series"].isin(curve["series"])]
            results.append((name, curve, walls))
    return results


@cached_by_table
def _explained(table: pd.DataFrame) -> list[tuple[explain.Explanation, pd.DataFrame]]:
    """Return each curve of wall times that splits into a fixed cost and a cost per step, with its rows."""
    results = []
    for name, curve, rows in _curves(table):
        with contextlib.suppress(TableError):
            results.append((explain.explain(curve, name), rows))
    return results
