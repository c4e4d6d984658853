"""The points of a curve: means over repeats, points that the others do not predict, and speedups without fixed cost."""

import math

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.explain.linear import Array, System
from analysis.explain.models import Fit, Model, spanned, steps_s
from analysis.explain.runs import POINT, SPEED
from analysis.stats.number import unknown
from analysis.thresholds import limit


def means(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row a point, indexed by its number: POINT, images_per_rank, runs, and the means of wall_s and speed.

    The speed is the harmonic mean: all runs of a point do the same work. `runs` has the column `point`.
    """
    by_point = runs.assign(seconds=1 / runs[SPEED]).groupby("point")
    points = (
        by_point[[*POINT, "images_per_rank"]].first().assign(runs=by_point.size(), wall_s=by_point["wall_s"].mean())
    )
    return points.assign(**{SPEED: 1 / by_point["seconds"].mean()})


def misfits(model: Model, runs: pd.DataFrame) -> pd.DataFrame:
    """Return for each `point` of `runs` whether the others predict it: misfit_p, misfit, misfit_undecided.

    `misfit_p` is how likely its difference from all others would be so large by chance, were it no more than
    `misfit_negligible` of its wall time, times the number of points (Bonferroni). It is the largest over leaving out
    none and each other point in turn; NaN where it cannot be determined. A misfit has it below `misfit_level`: leaving
    out another point would not change that. It is undecided where that depends on which other point is left out; and
    where at least half of the points were misfits, because then it cannot be determined which are wrong.
    """
    usable = model.usable(runs)
    system, run_points = model.system(usable), usable["point"].to_numpy()
    points = sorted(set(run_points))
    ps = [_p_whichever_is_left_out(system, run_points, point) for point in points]
    tests = pd.DataFrame(ps, points, ["misfit_p", "least_p"])
    tests["misfit"] = tests["misfit_p"].lt(limit("misfit_level"))
    tests["misfit_undecided"] = tests["least_p"].lt(limit("misfit_level")) & ~tests["misfit"]
    if tests["misfit"].sum() * 2 >= len(points):
        tests["misfit_undecided"] |= tests["misfit"]
        tests["misfit"] = False
    return tests.drop(columns="least_p")


def _p_whichever_is_left_out(system: System, run_points: Array, point: int) -> tuple[float, float]:
    """Return the largest and the smallest p of a point, with no other point, or any one, left out.

    `run_points` (runs,) has the point of each run.
    """
    points, tested = np.unique(run_points), run_points == point
    left_out = [np.zeros(len(run_points), bool), *(run_points == other for other in points if other != point)]
    solutions = [system.apart(tested).without(rows).solve() for rows in left_out]
    last, within_s = system.costs, limit("misfit_negligible") * float(system.times_s[tested].mean())
    ps = [math.nan if one is None else len(points) * one.coefficient(last).p(within=within_s) for one in solutions]
    finite = [min(1.0, p) for p in ps if not math.isnan(p)]
    largest = max(finite) if len(finite) == len(ps) else math.nan
    return largest, min(finite, default=math.nan)


def with_fit(points: pd.DataFrame, fit: Fit) -> pd.DataFrame:
    """Return the points with the columns that `analysis.explain.fit.explain` lists, from `fitted_s` on.

    It needs `used` and `impossible`.
    """
    cost, ranks = fit.fixed_s, points["ranks"].astype(float)
    fitted_s = fit.predicted_s(points)
    share = ((points["wall_s"] - cost.value) / (fitted_s - cost.value)).clip(lower=0)
    base = points.sort_values(["used", "ranks", "images_per_rank"], ascending=[False, True, False]).index[0]
    images = metrics.whole_job(points["images_per_rank"], ranks).mask(points["impossible"])
    by_speed = metrics.whole_job(points[SPEED], ranks)
    by_time = metrics.rate(images, points["wall_s"])
    return points.assign(
        fitted_s=fitted_s,
        steps_that_fit=points["steps_per_rank"] * share,
        fixed_fraction=cost.value / points["wall_s"],
        beyond_speed_s=points["wall_s"] - steps_s(points),
        ideal=ranks / ranks[base],
        speedup_throughput=metrics.speedup(by_speed, by_speed[base]),
        speedup_wall_time=metrics.speedup(by_time, by_time[base]),
    ).join(_without_fixed(points, fit, base, images))


def _without_fixed(points: pd.DataFrame, fit: Fit, base: int, images: pd.Series) -> pd.DataFrame:
    """Return the speedup by wall time less the fixed cost over the point `base`, and its 95 % interval.

    The times that are left of a point and of the base are uncertain by the noise of their wall times and by the fixed
    cost, which they share: the relative error of their ratio is propagated to first order (JCGM 100:2008, 5.2.2).
    """
    left_s = (points["wall_s"] - fit.fixed_s.value).where(lambda left: left > 0)
    rate = metrics.rate(images, left_s)
    speedup = metrics.speedup(rate, rate[base])
    ends = pd.DataFrame(1.0, points.index, ["low", "high"])
    for point in points.index.difference([base]):
        ends.loc[point] = _ratio_ends(points.loc[[base, point]], fit)
    ends = ends.mul(images / images[base], axis=0).where(speedup.notna())
    return ends.add_prefix("speedup_without_fixed_").assign(speedup_without_fixed=speedup)


def _ratio_ends(pair: pd.DataFrame, fit: Fit) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of what the fixed cost leaves of two points; NaN: not known."""
    ratios = [one.left_ratio(pair) for one in (fit, *fit.without_one)]
    first, *others = [unknown() if ratio is None else ratio.number() for ratio in ratios]
    logarithm = spanned(first, others)
    return math.exp(logarithm.low), math.exp(logarithm.high)


def beyond_ideal(points: pd.DataFrame, column: str) -> pd.Series:
    """Return whether a speedup is more than the ranks can give over the base; rounding apart."""
    return points["ideal"].gt(1) & points[column].gt(points["ideal"] * (1 + 1e-9))
