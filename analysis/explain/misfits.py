"""Points of a curve that the others do not predict, whichever other point is left out."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from analysis.explain.linear import Array, System
from analysis.explain.models import Model
from analysis.thresholds import limit


def test(model: Model, runs: pd.DataFrame) -> pd.DataFrame:
    """Each `point` of `runs`: whether the others predict it. Columns: misfit_p, misfit, misfit_undecided.

    A point has a difference from all others of its own; `misfit_p` is how likely it would be so large by chance, were
    it no more than `misfit_negligible` of its wall time, times the number of points (Bonferroni): the largest over
    leaving out none and each other point in turn; NaN where that cannot be told. A misfit has it below `misfit_level`:
    leaving out another point would not change that. It is undecided where that depends on which other point is left
    out; and where at least half of the points were misfits, for then nothing says which are wrong.
    """
    usable = model.usable(runs)
    points = sorted(set(usable["point"]))
    system, of = model.system(usable), usable["point"].to_numpy()
    found = pd.DataFrame(
        [_whichever_is_left_out(system, of, point) for point in points], points, ["misfit_p", "least_p"]
    )
    found["misfit"] = found["misfit_p"].lt(limit("misfit_level"))
    found["misfit_undecided"] = found["least_p"].lt(limit("misfit_level")) & ~found["misfit"]
    if found["misfit"].sum() * 2 >= len(points):
        found["misfit_undecided"] |= found["misfit"]
        found["misfit"] = False
    return found.drop(columns="least_p")


def _whichever_is_left_out(system: System, of: Array, point: int) -> tuple[float, float]:
    """The largest p of a point with no other point, or any one, left out; and the smallest.

    `of` (runs,) has the point of each run.
    """
    points = np.unique(of)
    left_out = [np.zeros(len(of), bool), *(of == other for other in points if other != point)]
    solved = [system.apart(of == point).without(rows).solve() for rows in left_out]
    last, within_s = system.costs, limit("misfit_negligible") * float(system.times_s[of == point].mean())
    ps = [math.nan if one is None else len(points) * one.coefficient(last).p(within=within_s) for one in solved]
    known = [min(1.0, p) for p in ps if not math.isnan(p)]
    largest = max(known) if len(known) == len(ps) else math.nan
    return largest, min(known, default=math.nan)
