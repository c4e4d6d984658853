"""A linear model of times whose noise is additive, proportional to the time, or both: which of them is not known.

With variance `a^2 (1 + mix x (time / geometric mean of the times)^2)` a small `mix` is noise of the same size at every
time, a large one noise of the same share. Five or six times do not tell which. So the model is fitted with each of
`MIXES`, and every number is a mixture of what these fits say of it (Student's t each): the weight of a fit is its
restricted likelihood (Patterson and Thompson 1971), leaning to the fits that are less sure of this number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.metrics import Statistic

Array = np.ndarray

MIXES = (1e-4, 1e-2, 1.0, 1e2, 1e4)
# Set by simulation, so that the intervals hold the truth about 95 times in 100 whether the noise is additive,
# proportional or both (docs/explain.md): the power of the likelihood and of the standard error in the weight of a fit,
# and what is left out at each end. A plain mixture holds it 92 to 98 times.
_OF_LIKELIHOOD, _OF_ERROR = 1.5, 0.5
TAIL = 0.020
# Rounding leaves times on a perfect line about 1e-13 apart: that is no distance.
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Marginal:
    """What is known of one number: for each mix of noise its centre, standard error and weight; `n` times."""

    centres: Array
    errors: Array
    weights: Array
    degrees: int
    n: int

    def below(self, value: float) -> float:
        """The probability that the number is below `value`."""
        from scipy.special import stdtr  # it takes longer to import than most commands to run

        return float((self.weights * stdtr(self.degrees, (value - self.centres) / self.errors)).sum())

    def quantile(self, probability: float) -> float:
        """The value that the number is below with this probability."""
        from scipy.optimize import brentq
        from scipy.special import stdtrit

        ends = self.centres + self.errors * stdtrit(self.degrees, probability)
        low, high = float(ends.min()), float(ends.max())
        if self.below(low) >= probability or self.below(high) <= probability:  # all of them alike
            return (low + high) / 2
        return float(brentq(lambda value: self.below(value) - probability, low, high))

    def p(self, within: float = 0.0, of: float = 0.0) -> float:
        """How likely the number would be found so far from `of`, on either side, if it were `within` of it.

        NaN without a degree of freedom.
        """
        if self.degrees < 1:
            return math.nan
        return min(1.0, 2 * min(self.below(of + within), 1 - self.below(of - within)))

    @property
    def statistic(self) -> Statistic:
        """The number with its 95 % interval, which is not known without a degree of freedom."""
        if self.degrees < 1:
            return Statistic(float(self.centres @ self.weights), n=self.n)
        return Statistic(self.quantile(0.5), self.quantile(TAIL), self.quantile(1 - TAIL), self.n)


@dataclass(frozen=True)
class Linear:
    """The model as each mix of noise fits it."""

    coefficients: Array  # (mixes, p)
    covariances: Array  # (mixes, p, p)
    estimators: Array  # (mixes, p, n): the coefficients are these times what is explained
    likelihoods: Array  # (mixes,), the logarithm
    variances_s2: Array  # (mixes, n) of the noise of each time
    degrees: int
    n: int

    def number(self, of: Array) -> Marginal:
        """What is known of a combination of the coefficients: `of` (p,) has their factors."""
        errors = np.sqrt(np.einsum("p,kpq,q->k", of, self.covariances, of))
        return self.marginal(self.coefficients @ of, errors)

    def coefficient(self, position: int) -> Marginal:
        """What is known of one coefficient."""
        return self.number(np.eye(self.coefficients.shape[1])[position])

    def left_covariance_s2(self, members: Array, apart_s2: Array) -> Array:
        """The covariance of what the first coefficient leaves of k means of times [s^2], (mixes, k, k).

        `members` (k, n) has the weight of each time of the fit in each mean; `apart_s2` (mixes, k) is the variance of
        the means that have no part in the fit, 0 for the others.
        """
        noise = self.variances_s2[:, None, :] * members  # (mixes, k, n)
        of_means = noise @ members.T + np.eye(len(members)) * apart_s2[:, None, :]
        with_first = (noise @ self.estimators[:, 0, :, None])[..., 0]
        return np.asarray(of_means - with_first[:, :, None] - with_first[:, None, :] + self.covariances[:, :1, :1])

    def marginal(self, centres: Array, errors: Array) -> Marginal:
        """What is known of a number of which each mix has a centre and a standard error, (mixes,)."""
        return Marginal(centres, errors, self._weights(np.log(errors)), self.degrees, self.n)

    def _weights(self, log_errors: Array) -> Array:
        if self.degrees < 1:
            return np.full(len(MIXES), 1 / len(MIXES))
        weights = _OF_LIKELIHOOD * self.likelihoods + _OF_ERROR * log_errors
        weights = np.exp(weights - weights.max())
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class System:
    """The equations of n runs: the factors of p costs (n, p), what they explain [s], the wall times [s] (n,)."""

    design: Array
    explained_s: Array
    times_s: Array

    def without(self, rows: Array) -> System:
        """The equations of the runs that `rows` (n,) does not mark."""
        return System(self.design[~rows], self.explained_s[~rows], self.times_s[~rows])

    def apart(self, rows: Array) -> System:
        """The same with one more cost, of the runs that `rows` (n,) marks alone: how they differ from all others."""
        return System(np.column_stack([self.design, rows.astype(float)]), self.explained_s, self.times_s)

    def solve(self) -> Linear | None:
        """The costs; None where there are fewer runs than costs, or these cannot be told apart."""
        n, p = self.design.shape
        sizes = np.linalg.norm(self.design, axis=0)
        if n < p or not sizes.all() or np.linalg.matrix_rank(self.design / sizes, tol=1e-8) < p:
            return None
        return _least_squares(self, sizes)


def relative_s2(times_s: Array, of: Array) -> Array:
    """The variance of the noise of each of `times_s` (n,) for each mix, over that of the additive part, (mixes, n).

    `of`: the times of the fit.
    """
    middle_s = math.exp(float(np.log(of).mean()))
    return np.asarray(1 + np.array(MIXES)[:, None] * (times_s / middle_s) ** 2)


def _least_squares(system: System, sizes: Array) -> Linear:
    """The costs by least squares, weighted for each mix of noise."""
    relative = relative_s2(system.times_s, system.times_s)
    n, p = system.design.shape
    weight = 1 / np.sqrt(relative)
    weighted, target = system.design / sizes * weight[..., None], system.explained_s * weight
    transposed = weighted.transpose(0, 2, 1)
    inverse = np.linalg.inv(transposed @ weighted)
    estimators = inverse @ transposed
    coefficients = (estimators @ target[..., None])[..., 0]
    squares = ((target - (weighted @ coefficients[..., None])[..., 0]) ** 2).sum(axis=1)
    squares = np.maximum(squares, ((_NEGLIGIBLE * system.times_s * weight) ** 2).sum(axis=1))
    scales = squares / max(n - p, 1)
    determinants = np.linalg.slogdet(inverse)[1]
    likelihoods = 0.5 * (determinants - np.log(relative).sum(axis=1) - (n - p) * np.log(squares))
    covariances = inverse * scales[:, None, None] / np.outer(sizes, sizes)
    estimators = estimators * weight[:, None, :] / sizes[:, None]
    variances = scales[:, None] * relative
    return Linear(coefficients / sizes, covariances, estimators, likelihoods, variances, n - p, n)
