"""Rules over wall times: what a fixed cost and a cost per step do not explain, and speedups that a fixed cost hides.

The verdicts are those of `make explain`: both say the same of the same point.
"""

import contextlib
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import pandas as pd

from analysis import TableError, metrics
from analysis.audit.findings import TABLE_RULES, Finding, at, graded, rule
from analysis.curves import Row, cached_by_table, report_of
from analysis.explain import contradictions, fit, text
from analysis.explain import runs as explain_runs
from analysis.thresholds import limit


@rule(TABLE_RULES)
def wall_time_misfit(table: pd.DataFrame) -> Iterator[Finding]:
    """A wall time that the other points of its curve do not predict: something else took time (or less) in that run.

    The prediction is the regression of `analysis.explain.fit`.
    """
    for explained, rows in _explained(table):
        for point in explained.misfits.to_dict("records"):
            row = _row(point, rows)
            off = metrics.change_fraction(point["fitted_s"], point["wall_s"])
            yield Finding(
                report_of(row),
                at(row),
                "wall_time_misfit",
                graded(off, serious=limit("apart_serious")),
                f"{point['wall_s']:.4g} s",
                f"{point['fitted_s']:.3g} s from the other points",
                off,
                f"{text.misfit(point)} Measure this point again.",
            )


@rule(TABLE_RULES)
def fixed_cost(table: pd.DataFrame) -> Iterator[Finding]:
    """Speedup by speed and by wall time that disagree because a cost paid once weighs more the shorter the run."""
    for explained, rows in _explained(table):
        fitting = explained.points[~explained.points["misfit"]].dropna(subset=["speedup_throughput"])
        if fitting.empty:
            continue
        last = fitting.iloc[-1]
        off = metrics.change_fraction(last["speedup_throughput"], last["speedup_wall_time"])
        if off < -limit("hidden_speedup") and explained.has_fixed_cost:
            row = _row(last.to_dict(), rows)
            yield Finding(
                report_of(row),
                at(row),
                "fixed_cost",
                "note" if not row["report"] else "serious" if off < -limit("apart_serious") else "warning",
                f"{last['speedup_throughput']:.3g}x by speed",
                f"{last['speedup_wall_time']:.3g}x by wall time",
                metrics.change_fraction(last["speedup_wall_time"], last["speedup_throughput"]),
                " ".join(text.sentences(explained)[:1]),
            )


@rule(TABLE_RULES)
def too_short(table: pd.DataFrame) -> Iterator[Finding]:
    """A wall time in which the work cannot have been done at the speed that was measured, whatever else it holds."""
    yield from _contradictory(table, "impossible", "too_short")


@rule(TABLE_RULES)
def speed_times_off(table: pd.DataFrame) -> Iterator[Finding]:
    """A measured speed that is several times what the wall time allows: of another unit, or of something else."""
    yield from _contradictory(table, "speed_off", "speed_times_off")


@rule(TABLE_RULES)
def speed_of_the_job(table: pd.DataFrame) -> Iterator[Finding]:
    """A speed given as that of one rank which grows with the ranks: it is that of the whole job."""
    yield from _contradictory(table, "whole_job", "speed_of_the_job")


def _contradictory(table: pd.DataFrame, kind: str, name: str) -> Iterator[Finding]:
    """What `analysis.explain.contradictions` finds of one kind."""
    for found, run, rows in _contradictions(table):
        if found.kind == kind:
            row = _row(run, rows)
            yield Finding(report_of(row), at(row), name, "serious", found.stated, found.follows, found.off, found.says)


@cached_by_table
def _contradictions(table: pd.DataFrame) -> list[tuple[contradictions.Finding, Row, pd.DataFrame]]:
    """Return the contradictions, each with its last run and the rows of the wall times of its curve."""
    found: list[tuple[contradictions.Finding, Row, pd.DataFrame]] = []
    for _, curve, rows in _curves(table):
        runs = explain_runs.prepared(curve)
        found += [(one, runs.loc[one.runs[-1]].to_dict(), rows) for one in contradictions.check(runs)]
    return found


def _row(run: Mapping[Hashable, Any], rows: pd.DataFrame) -> Row:
    """The row with the wall time of a run, or of one of a point."""
    same = rows["ranks"].eq(run["ranks"]) & rows["batch_per_rank"].eq(run["batch_per_rank"])
    exact = same & rows["value"].eq(run["wall_s"])
    return rows[exact if exact.any() else same].to_dict("records")[0]


@cached_by_table
def _curves(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Each curve of wall times: its name, its runs as `analysis.explain` reads them, and the rows of its wall times."""
    found = []
    for _, rows in table[table["quantity"].ne("")].groupby(["source", "report"], sort=False):
        try:
            points, _ = explain_runs.points(rows, "table")
        except TableError:
            continue
        for name, curve in explain_runs.curves(points):
            its = rows[rows["quantity"].eq("wall_s") & rows["model"].isin(curve["model"])]
            if "series" in curve:
                its = its[its["series"].isin(curve["series"])]
            found.append((name, curve, its))
    return found


@cached_by_table
def _explained(table: pd.DataFrame) -> list[tuple[fit.Explanation, pd.DataFrame]]:
    """Each curve of wall times that can be split into a fixed cost and a cost per step, and its rows."""
    found = []
    for name, curve, rows in _curves(table):
        with contextlib.suppress(TableError):
            found.append((fit.explain(curve, name), rows))
    return found
