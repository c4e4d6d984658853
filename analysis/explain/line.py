"""Wall times as a line: a fixed cost, and a cost of the steps, by weighted least squares.

Five or six times cannot show whether their noise is a constant time or a share of each time. The weights stand between:
the variance of a time t is proportional to m^2 + t^2, with m the shortest time of the curve (`runs.shortest_s`). The
size of the noise is estimated from the residuals and from `wall_time_noise`, the scatter of repeated points in the
published reports, which counts as `DEGREES` degrees of freedom. So few runs have an interval too, and a line that
happens to go through all of its points has none that is too narrow.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.explain.wall_time_runs import SPEED, shortest_s, steps_s
from analysis.stats import Number
from analysis.stats.student import student
from analysis.thresholds import limit
from record.intervals import LEVEL, student_quantile

Array = NDArray[np.float64]
DEGREES = 2


@dataclass(frozen=True)
class WallTimeNoise:
    """The noise of wall times: its standard deviation over `deviations_s`, and the degrees of freedom of that."""

    share: float
    degrees: int

    def number(self, value: float, unit_error: float, n: int) -> Number:
        """Return a number whose standard error would be `unit_error` if the share were 1."""
        return student(value, self.share * unit_error, self.degrees, n, "about the fit")

    @property
    def half_width(self) -> float:
        """Return half the width of the 95 % interval of a number whose `unit_error` is 1."""
        return self.share * student_quantile(LEVEL, self.degrees)

    @property
    def residual_noise(self) -> "WallTimeNoise | None":
        """Return the noise by the residuals alone, without the expected noise; None without residuals."""
        degrees = self.degrees - DEGREES
        square = self.share**2 * self.degrees - DEGREES * limit("wall_time_noise") ** 2
        return WallTimeNoise(math.sqrt(max(0.0, square) / degrees), degrees) if degrees else None


@dataclass(frozen=True)
class WallTimeLine:
    """Costs fitted to the wall times of n runs: estimators x (times - known times)."""

    runs: pd.Index  # (n,)
    costs: Array  # (p,)
    estimators: Array  # (p, n)
    unit_errors: Array  # (p,): the standard errors if the share of the noise were 1
    noise: WallTimeNoise

    def cost(self, nth: int) -> Number:
        """Return one cost."""
        return self.noise.number(float(self.costs[nth]), float(self.unit_errors[nth]), self.estimators.shape[1])


def deviations_s(runs: pd.DataFrame, others: pd.DataFrame | None = None) -> pd.Series:
    """Return the deviation of each wall time over the share of the noise [s]; `others`: the runs of its curve."""
    return ((shortest_s(runs if others is None else others) ** 2 + runs["wall_s"].astype(float) ** 2) / 2) ** 0.5


def fitted(design: Array, times_s: Array, deviations: Array, runs: pd.Index | None = None) -> WallTimeLine | None:
    """Return the costs of a design (n, p) fitted to times (n,); None if it does not determine each of them."""
    n, p = design.shape
    sizes = np.linalg.norm(design, axis=0)
    if n < p or not sizes.all() or np.linalg.matrix_rank(design / sizes, tol=1e-8) < p:
        return None
    estimators = np.linalg.pinv(design / sizes / deviations[:, None]) / sizes[:, None] / deviations
    costs = estimators @ times_s
    residuals = (times_s - design @ costs) / deviations
    degrees = n - p + DEGREES
    share = math.sqrt((DEGREES * limit("wall_time_noise") ** 2 + residuals @ residuals) / degrees)
    unit_errors = np.linalg.norm(estimators * deviations, axis=1)
    return WallTimeLine(
        pd.RangeIndex(n) if runs is None else runs, costs, estimators, unit_errors, WallTimeNoise(share, degrees)
    )


@dataclass(frozen=True)
class WallTimeModel:
    """What is assumed of the time per image, the runs that it can use, and the columns of the cost of their steps."""

    assumes: str
    usable: Callable[[pd.DataFrame], pd.DataFrame]
    columns: Callable[[pd.DataFrame], list[pd.Series]]
    speeds: bool = False  # whether it uses measured speeds
    known_s: Callable[[pd.DataFrame], pd.Series] = lambda runs: pd.Series(0.0, runs.index)

    def design(self, runs: pd.DataFrame) -> Array:
        """Return the factors of the fixed cost and of the costs of the steps, (n, costs)."""
        return np.column_stack([np.ones(len(runs)), *(column.to_numpy(float) for column in self.columns(runs))])

    def fit(self, runs: pd.DataFrame, others: pd.DataFrame | None = None) -> WallTimeLine | None:
        """Return the line through runs that the model can use, of a curve with `others`."""
        return fitted(*self.equations(runs, others), runs.index)

    def equations(self, runs: pd.DataFrame, others: pd.DataFrame | None = None) -> tuple[Array, Array, Array]:
        """Return the design (n, costs), the times that it explains and their deviations (n,) [s]."""
        explained_s = (runs["wall_s"] - self.known_s(runs)).to_numpy(float)
        return self.design(runs), explained_s, deviations_s(runs, others).to_numpy(float)


def _with_speed(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[runs[SPEED].notna()]


def _several_works(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs whose group has another number of steps, too.

    Whatever recurs with the steps or the epochs is proportional to the work within a group; what is left is paid once.
    """
    return runs[runs.groupby("group")["steps_per_rank"].transform("nunique").gt(1)]


def _images_by_group(runs: pd.DataFrame) -> list[pd.Series]:
    return [runs["images_per_rank"].where(runs["group"].eq(group), 0.0) for group in sorted(set(runs["group"]))]


SPEEDS = WallTimeModel("the measured speeds are right", _with_speed, lambda runs: [], True, steps_s)
FACTOR = WallTimeModel(
    "the measured speeds are right but for one factor", _with_speed, lambda runs: [steps_s(runs)], True
)
OWN = WallTimeModel("nothing of the time per image: each number of ranks has its own", _several_works, _images_by_group)
EQUAL = WallTimeModel(
    "the time per image is the same at every point", lambda runs: runs, lambda runs: [runs["images_per_rank"]]
)


def predicted_s(model: WallTimeModel, line: WallTimeLine, points: pd.DataFrame, usable: pd.DataFrame) -> pd.Series:
    """Return the wall time [s] of each point by a line through the runs `usable`; NaN where it predicts none."""
    if model is not OWN:
        return model.known_s(points) + model.design(points) @ line.costs
    costs = dict(zip(sorted(set(usable["group"])), line.costs[1:], strict=True))
    return line.costs[0] + points["images_per_rank"] * points["group"].map(costs)


def misfits(model: WallTimeModel, runs: pd.DataFrame) -> pd.DataFrame:
    """Return for each `point` of `runs` whether the others predict it: misfit_p, misfit.

    `misfit_p` is the p value of its difference from them, if the true one is at most `misfit_negligible` of its wall
    time, times the number of points (Bonferroni). It is the largest over leaving out none and each other point in turn;
    NaN if that leaves too few. If at least half of the points are misfits, none is: then it cannot be determined which
    are wrong. A point that has other works at its number of ranks is compared with these alone: speeds may leave a cost
    there that recurs. An equal time per image is an assumption: it contradicts no point.
    """
    works = OWN.usable(runs)
    tests = [_tested(OWN, works, sorted(set(works["point"])))] if len(works) else []
    if model.speeds:
        usable = model.usable(runs)
        tests.append(_tested(model, usable, sorted({*usable["point"]} - {*works["point"]})))
    ps = pd.concat([*tests, pd.Series(dtype=float)])
    result = pd.DataFrame({"misfit_p": (len(ps) * ps).clip(upper=1)})
    result["misfit"] = result["misfit_p"].lt(limit("misfit_level"))
    result["misfit"] &= result["misfit"].sum() * 2 < len(ps)
    return result


def _tested(model: WallTimeModel, runs: pd.DataFrame, points: Sequence[int]) -> pd.Series:
    """Return the p value of each of `points` among all `runs`, the largest over the other point that is left out."""
    equations, run_points = model.equations(runs), runs["point"].to_numpy()
    within_s = limit("misfit_negligible") * runs.groupby("point")["wall_s"].mean()
    others = sorted(set(run_points))
    ps = [max(_misfit_p(equations, run_points, point, other, within_s[point]) for other in others) for point in points]
    return pd.Series(ps, pd.Index(points), float)


def _misfit_p(equations: tuple[Array, Array, Array], points: Array, point: int, other: int, within_s: float) -> float:
    """Return the p value of one point without another one; without none if they are the same."""
    design, times_s, deviations = equations
    rows = (points != other) | (points == point)
    one_more = np.column_stack([design, points == point])[rows]
    line = fitted(one_more, times_s[rows], deviations[rows])
    if line is None or line.noise.degrees == DEGREES:
        return math.nan
    return p(line.cost(-1), line.costs[-1] - max(abs(line.costs[-1]) - within_s, 0.0))


def p(number: Number, truth: float) -> float:
    """Return the two-sided p value of a number with Student's t if its true value is `truth`."""
    from scipy.special import stdtr  # it takes longer to import than most commands to run

    return float(2 * stdtr(number.degrees, -abs(number.value - truth) / number.standard_error))


def paid_once(runs: pd.DataFrame) -> WallTimeLine | None:
    """Return the line of OWN through the runs of a curve; None without several works at one number of ranks.

    Its noise is the one with the widest interval: of its residuals and the expected noise, of its residuals alone, or
    about a time per image that is measured or changes smoothly with the ranks. The expected noise may be too small, and
    a single long run may be late. A change of the time of a step by `step_drift` at each doubling of the steps is added
    to it.
    """
    line = OWN.fit(works, runs) if len(works := OWN.usable(runs)) else None
    if line is None:
        return None
    steps_s = OWN.design(works)[:, 1:] @ line.costs[1:]
    doublings = np.log2(works["steps_per_rank"].astype(float))
    drift_s = limit("step_drift") * float(line.estimators[0] @ (steps_s * doublings))
    own = [line.noise, residuals] if (residuals := line.noise.residual_noise) else []
    noise = max(filter(None, (*own, _smooth_noise(runs))), key=lambda noise: noise.half_width, default=line.noise)
    unit_errors = np.array([math.hypot(line.unit_errors[0], drift_s / noise.share), *line.unit_errors[1:]])
    return replace(line, noise=noise, unit_errors=unit_errors)


def _smooth_noise(runs: pd.DataFrame) -> WallTimeNoise | None:
    """Return the noise about a line whose time per image is measured, or changes with the ranks and their logarithm."""
    ranks, times_s = runs["ranks"].to_numpy(float), runs["wall_s"].to_numpy(float)
    images = (steps_s(runs) if runs[SPEED].notna().all() else runs["images_per_rank"]).to_numpy(float)
    columns = np.column_stack([np.ones(len(runs)), images, images * ranks, images * np.log2(ranks)])
    lines = (fitted(columns[:, :number], times_s, deviations_s(runs).to_numpy(float)) for number in (4, 3))
    return next((line.noise for line in lines if line and line.noise.degrees > DEGREES), None)
