"""Rules over wall times: points that a fixed cost and a cost per step do not explain, speedups that a fixed cost hides.

The verdicts are those of `make explain`.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import pandas as pd

from analysis import metrics
from analysis.audit.audited_table import AuditedTable
from analysis.audit.findings import TABLE_RULES, finding, graded, rule
from analysis.curves import Row
from analysis.explain import explanation_text
from analysis.finding import Finding, Severity
from analysis.thresholds import limit


@rule(TABLE_RULES)
def wall_time_misfit(table: AuditedTable) -> Iterator[Finding]:
    """Report a wall time that the other points of its curve do not predict: something else took time (or less) there.

    The prediction is the regression of `analysis.explain`.
    """
    for explained, rows in table.explained:
        for point in explained.misfits.to_dict("records"):
            off = metrics.change_fraction(point["fitted_s"], point["wall_s"])
            severity = graded(off, serious=limit("apart_serious"))
            follows = f"{point['fitted_s']:.3g} s from the other points"
            meaning = f"{explanation_text.misfit(point)} Measure this point again."
            yield finding(_row(point, rows), severity, f"{point['wall_s']:.4g} s", follows, off, meaning)


@rule(TABLE_RULES)
def fixed_cost(table: AuditedTable) -> Iterator[Finding]:
    """Report speedups by speed and by wall time that disagree: a fixed cost weighs more the shorter the run."""
    for explained, rows in table.explained:
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
            yield finding(row, grade, stated, follows, off, explanation_text.sentences(explained)[0])


@rule(TABLE_RULES)
def too_short(table: AuditedTable) -> Iterator[Finding]:
    """Report a wall time that is too short for the work at the measured speed."""
    yield from _contradictory(table, "too_short")


@rule(TABLE_RULES)
def speed_times_off(table: AuditedTable) -> Iterator[Finding]:
    """Report a measured speed that is several times the one that the wall time allows: another unit or quantity."""
    yield from _contradictory(table, "speed_times_off")


@rule(TABLE_RULES)
def speed_of_the_job(table: AuditedTable) -> Iterator[Finding]:
    """Report a speed given as that of one rank which grows with the ranks: it is that of the whole job."""
    yield from _contradictory(table, "speed_of_the_job")


def _contradictory(table: AuditedTable, name: str) -> Iterator[Finding]:
    for pair, run, rows in table.contradictions:
        if pair.rule == name:
            yield finding(_row(run, rows), "serious", pair.stated, pair.follows, pair.off, pair.meaning)


def _row(run: Mapping[Hashable, Any], rows: pd.DataFrame) -> Row:
    """Return the row with the wall time of a run, or the first row of a point."""
    same = rows["ranks"].eq(run["ranks"]) & rows["batch_per_rank"].eq(run["batch_per_rank"])
    exact = same & rows["value"].eq(run["wall_s"])
    return rows[exact if exact.any() else same].to_dict("records")[0]
