"""What a job pays once, from the wall times of a curve: the only place that asks `explain` for it."""

from __future__ import annotations

import contextlib
import math

import pandas as pd

from analysis import TableError
from analysis.explain import fit, tidy
from analysis.explain.phases import phases
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.stats.repeats import singles
from analysis.user_table.table import UserTable

Costs = dict[tuple[str, str], Number]  # by model, and series of local records ("" of others)


def of_table(table: pd.DataFrame, where: str) -> Costs:
    """The fixed cost [s] of each curve of wall times in a tidy table; none where there are none."""
    found: Costs = {}
    for _, rows in table.groupby("report", sort=False):
        with contextlib.suppress(TableError):  # no wall times
            found |= _of_points(tidy.points(rows, where)[0])
    return found


def of_user(table: UserTable) -> Costs:
    """The same from a user's table, where it has the columns that `explain` needs."""
    try:
        points, _ = tidy.read(table)
    except TableError:
        return {}
    return _of_points(points)


def _of_points(points: pd.DataFrame) -> Costs:
    found = {}
    for _, rows in tidy.curves(points):
        series = str(rows["series"].iloc[0]) if "series" in rows else ""
        cost = _fixed_s(rows)
        if cost:
            found[str(rows["model"].iloc[0]), series] = cost
    return found


def _fixed_s(rows: pd.DataFrame) -> Number | None:
    """The fixed cost of one curve: as its phases show it, else from the regression over its wall times."""
    measured = phases(rows)
    if not measured.empty:
        return repeats.arithmetic_mean(singles(measured["fixed_s"].tolist()))
    try:
        cost = fit.explain(rows).fit.fixed_s
    except TableError:
        return None
    return cost if math.isfinite(cost.value) else None
