"""Rules over wall times: what a fixed cost and a cost per step do not explain, and speedups that a fixed cost hides."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis import TableError, metrics
from analysis.audit.finding import TABLE_RULES, Finding, graded, rule
from analysis.audit.words import at
from analysis.curves import SETTING, SIZE, Row, lookup, measured, report_of
from analysis.explain import fit, tidy, words
from analysis.thresholds import limit


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
                graded(off, serious=limit("apart_serious")),
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
        if cost.low > 0 and off < -limit("hidden_speedup"):
            row = rows[rows["ranks"].eq(last["ranks"])].to_dict("records")[0]
            yield Finding(
                report_of(row),
                at(row),
                "fixed_cost",
                "note" if not row["report"] else "serious" if off < -limit("apart_serious") else "warning",
                f"{last['speedup_throughput']:.3g}x by speed",
                f"{last['speedup_wall_time']:.3g}x by wall time",
                off,
                " ".join(words.sentences(explained)[:1]),
            )


@rule(TABLE_RULES)
def too_short(table: pd.DataFrame) -> Iterator[Finding]:
    """A wall time in which the work cannot have been done at the speed that was measured, whatever else it holds.

    Steps per rank x batch per rank / measured speed of a rank is more than the wall time, in the means over repeats.
    """
    steps, planned = (lookup(table[table["quantity"].eq(f"steps_per_rank{end}")]) for end in ("", "_planned"))
    speeds = lookup(measured(table[table["value"].gt(0)], "images_per_s_per_rank"))
    walls = measured(table[table["source"].eq("published") & table["batch_per_rank"].notna()], "wall_s")
    for _, same in walls.groupby([*SETTING, *SIZE, "experiment"], dropna=False, sort=False):
        row = same.to_dict("records")[0]
        counts = {one["value"] for one in _of_experiment(row, steps(row) or planned(row))}
        rates = [one["value"] for one in _of_experiment(row, speeds(row))]
        if len(counts) == 1 and rates:
            count, rate, wall_s = counts.pop(), float(np.mean(rates)), float(same["value"].mean())
            least_s = count * row["batch_per_rank"] / rate
            off = metrics.change_fraction(least_s, wall_s)
            if off < -limit("impossible"):
                work = f"{count:g} steps of {row['batch_per_rank']} images at {rate:.4g} images/s"
                yield Finding(
                    report_of(row), at(row), "too_short", "serious", f"{wall_s:.4g} s",
                    f"{least_s:.4g} s or more: {work}", off, "One of the three is wrong, or of another unit.",
                )  # fmt: skip


def _of_experiment(row: Row, found: list[Row]) -> list[Row]:
    """Those of the rows of one configuration that are of the experiment of a row, where any is."""
    return [one for one in found if one["experiment"] == row["experiment"]] or found


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
