"""The points of a curve, and what a fit makes of them: shares of the wall time, steps that would fit, speedups."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.explain.linear import Array, System
from analysis.explain.models import Fit, Model, spanned, steps_s
from analysis.explain.runs import POINT
from analysis.stats.number import unknown
from analysis.thresholds import limit


def means(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a point, indexed by its number: POINT, images_per_rank, runs, and means: wall_s, images_per_s_per_rank.

    The speed is the harmonic mean: all runs of a point do the same work. `runs` has the column `point`.
    """
    by_point = runs.assign(seconds=1 / runs["images_per_s_per_rank"]).groupby("point")
    found = by_point[[*POINT, "images_per_rank"]].first().assign(runs=by_point.size())
    return found.assign(wall_s=by_point["wall_s"].mean(), images_per_s_per_rank=1 / by_point["seconds"].mean())


def with_fit(found: pd.DataFrame, fit: Fit) -> pd.DataFrame:
    """The points with the columns that `analysis.explain.fit.explain` lists, from `fitted_s` on.

    It needs `used` and `impossible`.
    """
    cost, ranks = fit.fixed_s, found["ranks"].astype(float)
    fitted_s = fit.predicted_s(found)
    share = ((found["wall_s"] - cost.value) / (fitted_s - cost.value)).clip(lower=0)
    base = found.sort_values(["used", "ranks", "images_per_rank"], ascending=[False, True, False]).index[0]
    images = metrics.whole_job(found["images_per_rank"], ranks).mask(found["impossible"])
    by_speed = metrics.whole_job(found["images_per_s_per_rank"], ranks)
    by_time = metrics.rate(images, found["wall_s"])
    return found.assign(
        fitted_s=fitted_s,
        steps_that_fit=found["steps_per_rank"] * share,
        fixed_fraction=cost.value / found["wall_s"],
        beyond_speed_s=found["wall_s"] - steps_s(found),
        ideal=ranks / ranks[base],
        speedup_throughput=metrics.speedup(by_speed, by_speed[base]),
        speedup_wall_time=metrics.speedup(by_time, by_time[base]),
    ).join(_without_fixed(found, fit, base, images))


def _without_fixed(found: pd.DataFrame, fit: Fit, base: int, images: pd.Series) -> pd.DataFrame:
    """The speedup by wall time less the fixed cost over the point `base`, and its 95 % interval.

    The times that are left of a point and of the base are uncertain by the noise of their wall times and by the fixed
    cost, which they share: the relative error of their ratio is propagated to first order (JCGM 100:2008, 5.2.2).
    """
    left_s = (found["wall_s"] - fit.fixed_s.value).where(lambda left: left > 0)
    rate = metrics.rate(images, left_s)
    speedup = metrics.speedup(rate, rate[base])
    ends = pd.DataFrame(1.0, found.index, ["low", "high"])
    for point in found.index.difference([base]):
        ends.loc[point] = _ends(found, fit, base, point)
    ends = ends.mul(images / images[base], axis=0).where(speedup.notna())
    return ends.add_prefix("speedup_without_fixed_").assign(speedup_without_fixed=speedup)


def _ends(found: pd.DataFrame, fit: Fit, base: int, point: int) -> tuple[float, float]:
    """The 95 % interval of the ratio of what the fixed cost leaves of the base and of a point; NaN: not known."""
    known = [one.left_ratio(found.loc[[base, point]]) for one in (fit, *fit.without_one)]
    first, *others = [unknown() if one is None else one.number() for one in known]
    logarithm = spanned(first, others)
    return math.exp(logarithm.low), math.exp(logarithm.high)


def misfits(model: Model, runs: pd.DataFrame) -> pd.DataFrame:
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
