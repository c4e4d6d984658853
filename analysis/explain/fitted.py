"""One model through the runs of one curve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.explain import models
from analysis.explain.linear import TAIL_OF_SPEED, Array, Linear, Marginal, relative_s2
from analysis.explain.models import Model
from analysis.metrics import Statistic

_MOST_IMAGES_PER_S = 1e9  # of one rank: what is faster does not read its images


@dataclass(frozen=True)
class Fit:
    """What one model says of the runs of one curve."""

    model: Model
    linear: Linear
    ranks: tuple[int, ...]  # of the runs it was made from
    points: tuple[int, ...]  # the point of each run
    times_s: Array
    fixed_s: Statistic
    images_per_s_per_rank: Statistic  # that the wall times imply; NaN: nothing implies one
    measured_images_per_s: float  # what to compare it with: the median measured speed of its runs; NaN: none is used

    @property
    def runs(self) -> int:
        """How many runs it was made from."""
        return len(self.points)

    def left_ratio(self, points: pd.DataFrame) -> Marginal | None:
        """The logarithm of what the fixed cost leaves of the wall time of the first of two points over the second.

        None where nothing may be left. Relative errors are propagated to first order (JCGM 100:2008, 5.2.2). The two
        `points` are indexed by their numbers, with the columns runs and wall_s (mean).
        """
        wall_s = points["wall_s"].to_numpy(float)
        members = (points.index.to_numpy()[:, None] == np.array(self.points)).astype(float)
        members /= np.maximum(members.sum(axis=1, keepdims=True), 1)
        apart = np.where(members.any(axis=1), 0.0, 1 / points["runs"].to_numpy(float))
        here, first = (self._relative_s2(times_s) for times_s in (wall_s, self.times_s[:1]))
        noise_s2 = self.linear.variances_s2[:, :1] / first * here
        left_s = wall_s - self.linear.coefficients[:, :1]
        if (left_s <= 0).any():
            return None
        variances, shares = self.linear.left(members, noise_s2 * apart, np.array([1, -1]) / left_s)
        return self.linear.marginal(np.log(left_s[:, 0] / left_s[:, 1]), np.sqrt(variances), shares)

    def _relative_s2(self, times_s: Array) -> Array:
        """As `linear.relative_s2`, for the mixes of each shape."""
        return np.tile(relative_s2(times_s, self.times_s), (len(self.model.shapes), 1))

    def predicted_s(self, points: pd.DataFrame) -> pd.Series:
        """The wall time [s] of each of `points`; NaN where the model needs a speed, or knows not the number of ranks.

        `points` has the columns of `analysis.explain.models`.
        """
        designs = self.model.designs(points)
        fitted_s = [
            math.nan if np.isnan(design).any() else self.linear.number(design).value
            for design in designs.transpose(1, 0, 2)
        ]
        predicted_s = self.model.known_s(points) + np.array(fitted_s)
        return predicted_s.where(points["ranks"].isin(self.ranks) | (not self.model.by_ranks))


def through(model: Model, runs: pd.DataFrame) -> Fit | None:
    """A model through the runs that it can use; None where they do not suffice."""
    usable = model.usable(runs)
    solved = model.system(usable).solve()
    if solved is None:
        return None
    ranks = tuple(int(one) for one in sorted(set(usable["ranks"])))
    measured = float(usable["images_per_s_per_rank"].median()) if model.speeds else math.nan
    implied = _implied(model, usable, solved, measured)
    points, times_s = tuple(usable["point"]), usable["wall_s"].to_numpy(float)
    return Fit(model, solved, ranks, points, times_s, solved.coefficient(0).statistic, implied, measured)


def _implied(model: Model, runs: pd.DataFrame, solved: Linear, measured: float) -> Statistic:
    """The speed of one rank that the wall times imply [images/s], without the level of measured speeds.

    With measured speeds it is their median over the factor by which the wall times grow faster than they say; without
    them it is that at the fewest ranks.
    """
    if model.speeds:
        factor = models.FACTOR.system(runs).solve()
        return Statistic(math.nan, n=len(runs)) if factor is None else _over(measured, factor, np.array([[0.0, 1.0]]))
    of_one = model.designs(pd.DataFrame({"ranks": [runs["ranks"].min()], "images_per_rank": [1.0]}))[:, 0]
    return _over(1.0, solved, of_one * (np.arange(of_one.shape[1]) > 0))


def _over(numerator: float, solved: Linear, of: Array) -> Statistic:
    """A numerator over a combination of coefficients, a speed; NaN for an end that it does not have.

    Wall times that do not grow with the work give a cost of 0, but for rounding: no speed.
    """
    cost = solved.number(of).within(TAIL_OF_SPEED)
    high, value, low = (
        numerator / x if x > numerator / _MOST_IMAGES_PER_S else math.nan for x in (cost.low, cost.value, cost.high)
    )
    return Statistic(value, low, high, cost.n)
