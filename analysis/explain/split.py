"""The points of a curve, and what a fit makes of them: shares of the wall time, steps that would fit, speedups."""

from __future__ import annotations

import math

import pandas as pd

from analysis import metrics
from analysis.explain import models
from analysis.explain.fitted import Fit, spanned
from analysis.explain.inputs import POINT
from analysis.stats.number import unknown


def of_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a point, indexed by its number: POINT, images_per_rank, runs, and means: wall_s, images_per_s_per_rank.

    The speed is the harmonic mean: all runs of a point do the same work. `runs` has the column `point`.
    """
    by_point = runs.assign(seconds=1 / runs["images_per_s_per_rank"]).groupby("point")
    found = by_point[[*POINT, "images_per_rank"]].first().assign(runs=by_point.size())
    return found.assign(wall_s=by_point["wall_s"].mean(), images_per_s_per_rank=1 / by_point["seconds"].mean())


def add(found: pd.DataFrame, fit: Fit) -> pd.DataFrame:
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
        beyond_speed_s=found["wall_s"] - models.steps_s(found),
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
