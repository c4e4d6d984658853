"""Models of wall times, their fits and their points: a fixed cost, and a cost of the steps, known or fitted.

    wall_s = fixed_s + steps_per_rank x batch_per_rank x time per image

The models differ in their assumption on the time per image at each number of ranks. A table of runs has the columns
ranks, images_per_rank (= steps_per_rank x batch_per_rank, of each run), wall_s [s] and images_per_s_per_rank (NaN: not
known).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.explain.linear import Array, Fitted, Linear, System, relative_s2
from analysis.explain.runs import POINT, SPEED, steps_s
from analysis.stats import Number, from_ends, unknown
from analysis.stats.mixture import Mixture
from analysis.thresholds import limit

_MOST_IMAGES_PER_S = 1e9  # of one rank: a faster one does not read its images
_SMALLEST = 1e-18
Columns = Callable[[pd.DataFrame], list[pd.Series]]


@dataclass(frozen=True)
class Model:
    """One model: each of `shapes` returns the factors of each cost that is fitted beside the fixed one.

    With several shapes the model leaves open which of them is right.
    """

    name: str
    assumes: str
    shapes: tuple[Columns, ...]
    speeds: bool = False  # whether it uses measured speeds
    without_factor: bool = False  # whether the speeds give the time of the steps, without a fitted factor
    by_ranks: bool = False  # whether it covers only the numbers of ranks that it was fitted to

    def designs(self, runs: pd.DataFrame) -> Array:
        """Return the factors of the fixed cost and of the other costs, (shapes, runs, costs)."""
        ones = np.ones(len(runs))
        return np.stack(
            [np.column_stack([ones, *(column.to_numpy(float) for column in columns(runs))]) for columns in self.shapes]
        )

    def known_s(self, runs: pd.DataFrame) -> pd.Series:
        """Return the part of each wall time that is known before the fit [s]."""
        return steps_s(runs) if self.without_factor else pd.Series(0.0, runs.index)

    def usable(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return the runs that the model can use."""
        return runs[runs[SPEED].notna()] if self.speeds else runs

    def system(self, runs: pd.DataFrame) -> System:
        """Return the equations of `runs`, all of which the model can use."""
        times_s = runs["wall_s"].to_numpy(float)
        return System(self.designs(runs), times_s - self.known_s(runs).to_numpy(float), times_s, self.speeds)


def _growing(growth: Callable[[pd.Series], pd.Series]) -> Columns:
    return lambda runs: [runs["images_per_rank"], runs["images_per_rank"] * growth(runs["ranks"].astype(float))]


SPEEDS = Model("measured speeds", "the measured speeds are right", (lambda runs: [],), speeds=True, without_factor=True)
FACTOR = Model(
    "speeds up to a factor", "the measured speeds are right but for one factor", (lambda runs: [steps_s(runs)],), True
)
EQUAL = Model(
    "equal time per image", "the time per image is the same at every point", (lambda runs: [runs["images_per_rank"]],)
)
GROWING = Model(
    "time per image grows",
    "the time per image changes alike at each doubling of the ranks, or as the sends of a ring allreduce do",
    (_growing(np.log2), _growing(metrics.hops)),
)


def separate_times(runs: pd.DataFrame) -> Model:
    """Return the model with a separate time per image for each number of ranks in `runs`, the smallest first."""
    ranks = sorted(set(runs["ranks"]))

    def columns(rows: pd.DataFrame) -> list[pd.Series]:
        return [rows["images_per_rank"].where(rows["ranks"].eq(number), 0.0) for number in ranks]

    assumes = "nothing of the time per image: each number of ranks has its own"
    return Model("own time per image", assumes, (columns,), by_ranks=True)


@dataclass(frozen=True)
class Implied:
    """The speed of one rank that wall times imply [images/s]: a numerator over a fitted cost."""

    numerator: float
    cost: Mixture | None  # None: it cannot be fitted

    def speed(self, runs: int) -> Number:
        """Return the speed; NaN for an end that it does not have.

        Wall times that do not grow with the work give a cost of 0, up to rounding, and no speed.
        """
        if self.cost is None:
            return unknown(n=runs)
        cost, numerator = self.cost.number(), self.numerator
        high, value, low = (
            numerator / x if x > numerator / _MOST_IMAGES_PER_S else math.nan for x in (cost.low, cost.value, cost.high)
        )
        return from_ends(value, low, high, "about the fit", cost.n)


@dataclass(frozen=True)
class Fit:
    """One model fitted to the runs of one curve."""

    model: Model
    linear: Linear
    ranks: tuple[int, ...]  # of its runs
    points: tuple[int, ...]  # the point of each run
    times_s: Array
    implied: Implied
    measured_images_per_s: float  # to compare it with: the median measured speed of its runs; NaN: none is used
    # The fits without each point whose misfit is not decidable: intervals span these.
    without_one: tuple[Fit, ...] = ()

    @property
    def runs(self) -> int:
        """Return the number of runs."""
        return len(self.points)

    @cached_property
    def fixed_s(self) -> Number:
        """Return the fixed cost [s]."""
        return spanned(self.linear.coefficient(0).number(), (fit.fixed_s for fit in self.without_one))

    @cached_property
    def images_per_s_per_rank(self) -> Number:
        """Return the speed of one rank that the wall times imply; NaN if there is none."""
        speeds = (fit.images_per_s_per_rank for fit in self.without_one)
        return spanned(self.implied.speed(self.runs), speeds)

    def remaining_ratio(self, points: pd.DataFrame) -> Mixture | None:
        """Return the logarithm of the ratio of two wall times less the fixed cost, the first point over the second.

        None if the fixed cost may be all of a time. Relative errors are propagated to first order (JCGM 100:2008,
        5.2.2). The two `points` are indexed by their numbers, with the columns runs and wall_s (mean).
        """
        basis, wall_s = self.linear.basis, points["wall_s"].to_numpy(float)
        members = (points.index.to_numpy()[:, None] == np.array(self.points)).astype(float)
        members /= np.maximum(members.sum(axis=1, keepdims=True), 1)
        inside, known_s = members.any(axis=1), self.times_s - self.linear.fitted.explained_s
        relative_of_points = np.tile(relative_s2(wall_s, self.times_s), (len(self.model.shapes), 1))
        apart = np.where(inside, 0.0, relative_of_points / points["runs"].to_numpy(float))
        factors = members - basis.estimators[:, :1]
        relative = (factors * basis.relative_s2[:, None]) @ factors.transpose(0, 2, 1) + apart[..., None] * np.eye(2)

        def remaining_s(explained_s: Array, coefficients: Array) -> Array:
            means_s = np.where(inside, (explained_s + known_s) @ members.T, wall_s)
            rest_s = means_s - coefficients[..., :1]
            return np.where((rest_s > 0).all(axis=-1, keepdims=True), rest_s, math.nan)

        def estimate(fitted: Fitted) -> tuple[Array, Array]:
            remaining = remaining_s(fitted.explained_s[..., None, :], fitted.coefficients)
            factors = np.array([1, -1]) / remaining
            variances = np.einsum("...ki,kij,...kj->...k", factors, relative, factors) * fitted.scales_s2
            return _log_ratio(remaining), np.sqrt(np.maximum(variances, _SMALLEST))

        fitted_s = np.einsum("knp,kp->kn", basis.designs, self.linear.coefficients)
        truths = _log_ratio(remaining_s(fitted_s, self.linear.coefficients))
        ratio = self.linear.mixture(estimate, truths if inside.all() else None)
        return ratio if np.isfinite(ratio.centres).all() else None

    def predicted_s(self, points: pd.DataFrame) -> pd.Series:
        """Return the wall time [s] of each of `points`; NaN without a speed that the model needs, or for new ranks.

        `points` has the columns of a table of runs except wall_s.
        """
        designs = self.model.designs(points)
        fitted_s = [
            math.nan if np.isnan(design).any() else self.linear.combination(design).value
            for design in designs.transpose(1, 0, 2)
        ]
        predicted_s = self.model.known_s(points) + np.array(fitted_s)
        return predicted_s.where(points["ranks"].isin(self.ranks) | (not self.model.by_ranks))


def spanned(number: Number, others: Iterable[Number]) -> Number:
    """Return a number with an interval that spans those of the others too; an end is NaN if one of them has none."""
    low, high = np.transpose([(item.low, item.high) for item in (number, *others)])
    return from_ends(number.value, float(low.min()), float(high.max()), "about the fit", number.n)


def _log_ratio(pairs: Array) -> Array:
    return np.asarray(np.log(pairs[..., 0] / pairs[..., 1]))


def fitted(model: Model, runs: pd.DataFrame) -> Fit | None:
    """Return a model fitted to the runs that it can use; None if they do not suffice."""
    usable = model.usable(runs)
    solved = model.system(usable).solve()
    if solved is None:
        return None
    ranks = tuple(int(number) for number in sorted(set(usable["ranks"])))
    measured = float(usable[SPEED].median()) if model.speeds else math.nan
    implied = _implied(model, usable, solved, measured)
    points, times_s = tuple(usable["point"]), usable["wall_s"].to_numpy(float)
    return Fit(model, solved, ranks, points, times_s, implied, measured)


def _implied(model: Model, runs: pd.DataFrame, solved: Linear, measured: float) -> Implied:
    """Return the speed that the wall times imply, without the level of measured speeds.

    With measured speeds it is their median over the factor by which the wall times grow faster than the speeds imply;
    without them it is the speed at the fewest ranks.
    """
    if model.speeds:
        factor = FACTOR.system(runs).solve()
        return Implied(measured, None if factor is None else factor.coefficient(1))
    one_image = model.designs(pd.DataFrame({"ranks": [runs["ranks"].min()], "images_per_rank": [1.0]}))[:, 0]
    return Implied(1.0, solved.combination(one_image * (np.arange(one_image.shape[1]) > 0)))


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

    `misfit_p` is the p value of its difference from all others, if the true one is at most `misfit_negligible` of its
    wall time, times the number of points (Bonferroni). It is the largest over leaving out none and each other point in
    turn; NaN if it cannot be determined. It is below `misfit_level` for a misfit, so for every other point left out. If
    that depends on the point left out, the misfit is undecided. If at least half of the points are misfits, these are
    undecided too: then it cannot be determined which points are wrong.
    """
    usable = model.usable(runs)
    system, run_points = model.system(usable), usable["point"].to_numpy()
    points = sorted(set(run_points))
    ps = [_p_range(system, run_points, point) for point in points]
    tests = pd.DataFrame(ps, points, ["misfit_p", "least_p"])
    tests["misfit"] = tests["misfit_p"].lt(limit("misfit_level"))
    tests["misfit_undecided"] = tests["least_p"].lt(limit("misfit_level")) & ~tests["misfit"]
    if tests["misfit"].sum() * 2 >= len(points):
        tests["misfit_undecided"] |= tests["misfit"]
        tests["misfit"] = False
    return tests.drop(columns="least_p")


def _p_range(system: System, run_points: Array, point: int) -> tuple[float, float]:
    """Return the largest and the smallest p of a point, with no other point, or any one, left out.

    `run_points` (runs,) has the point of each run.
    """
    points, tested = np.unique(run_points), run_points == point
    left_out = [np.zeros(len(run_points), bool), *(run_points == other for other in points if other != point)]
    solutions = [system.with_cost(tested).without(rows).solve() for rows in left_out]
    within_s = limit("misfit_negligible") * float(system.times_s[tested].mean())
    ps = [len(points) * s.coefficient(-1).p(within=within_s) if s is not None else math.nan for s in solutions]
    finite = [min(1.0, p) for p in ps if not math.isnan(p)]
    largest = max(finite) if len(finite) == len(ps) else math.nan
    return largest, min(finite, default=math.nan)


def with_fit(points: pd.DataFrame, fit: Fit) -> pd.DataFrame:
    """Return the points with the columns that `analysis.explain.explain` lists, from `fitted_s` on.

    It needs `used` and `impossible`.
    """
    cost, ranks = fit.fixed_s, points["ranks"].astype(float)
    fitted_s = fit.predicted_s(points)
    share = ((points["wall_s"] - cost.value) / (fitted_s - cost.value)).clip(lower=0)
    base = points.sort_values(["used", "ranks", "images_per_rank"], ascending=[False, True, False]).index[0]
    images = metrics.job_total(points["images_per_rank"], ranks).mask(points["impossible"])
    by_speed = metrics.job_total(points[SPEED], ranks)
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

    Both times have the noise of their wall times and the error of the fixed cost, which they share: the relative error
    of their ratio is propagated to first order (JCGM 100:2008, 5.2.2).
    """
    remaining_s = (points["wall_s"] - fit.fixed_s.value).where(lambda times_s: times_s > 0)
    rate = metrics.rate(images, remaining_s)
    speedup = metrics.speedup(rate, rate[base])
    ends = pd.DataFrame(1.0, points.index, ["low", "high"])
    for point in points.index.difference([base]):
        ends.loc[point] = _ratio_ends(points.loc[[base, point]], fit)
    ends = ends.mul(images / images[base], axis=0).where(speedup.notna())
    return ends.add_prefix("speedup_without_fixed_").assign(speedup_without_fixed=speedup)


def _ratio_ends(pair: pd.DataFrame, fit: Fit) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of two wall times less the fixed cost; NaN: not known."""
    ratios = [each.remaining_ratio(pair) for each in (fit, *fit.without_one)]
    first, *others = [unknown() if ratio is None else ratio.number() for ratio in ratios]
    logarithm = spanned(first, others)
    return math.exp(logarithm.low), math.exp(logarithm.high)


def beyond_ideal(points: pd.DataFrame, column: str) -> pd.Series:
    """Return whether a speedup is more than the ranks can give over the base, by more than rounding."""
    return points["ideal"].gt(1) & points[column].gt(points["ideal"] * (1 + 1e-9))
