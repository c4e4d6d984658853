"""A linear model of times whose noise is additive, proportional to the time, or both: which of them is not known.

With variance `a^2 (1 + mix x (time / geometric mean of the times)^2)` a small `mix` is noise of the same size at every
time, a large one noise of the same share. Five or six times do not tell which. So the model is fitted with each of
`MIXES`, and every number is a mixture of what these fits say of it (`analysis.explain.studentized`): the weight of a
fit is its restricted likelihood (Patterson and Thompson 1971), leaning to the fits that are less sure of this number.

A model may leave open the shape of one of its costs: then there is a design for each shape, and each is fitted with
each mix. Where this file says mixes, it means all of them: shape by shape, the mixes of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.explain import studentized
from analysis.metrics import Statistic

Array = np.ndarray

MIXES = (1e-4, 1e-2, 1.0, 1e2, 1e4)
# Set by simulation, so that the intervals hold the truth about 95 times in 100 whether the noise is additive,
# proportional or both (docs/explain.md): the power of the likelihood and of the standard error in the weight of a fit,
# and what is left out at each end. A plain mixture holds it 90 to 99 times; so do the reference prior of Berger, De
# Oliveira and Sanso (2001) for the mix, and noise as a power of the time. Narrower is not to be had by weights: with
# those for which the worst mix is held 95 times (found by simulation for each design), others are held 98 to 100 times
# too, for nearly all of the weight is then on one kind of noise.
_OF_LIKELIHOOD, _OF_ERROR = 1.5, 0.5
TAIL = 0.020
# The same for a speed, whose noise is mostly proportional: with TAIL it is held 92 times in 100 in some designs.
TAIL_OF_SPEED = 0.012
# Rounding leaves times on a perfect line about 1e-13 apart: that is no distance.
_NEGLIGIBLE = 1e-9
_SMALLEST = 1e-18


@dataclass(frozen=True)
class Marginal:
    """What is known of one number: for each mix of noise its centre, standard error and weight; `n` times.

    of_residuals: the share of its variance that is of residuals of the fit.
    """

    centres: Array
    errors: Array
    weights: Array
    degrees: int
    n: int
    of_residuals: Array

    def below(self, value: float) -> float:
        """The probability that the number is below `value`."""
        found = studentized.below((value - self.centres) / self.errors, self.degrees, self.of_residuals)
        return float((self.weights * found).sum())

    def quantile(self, probability: float) -> float:
        """The value that the number is below with this probability."""
        from scipy.optimize import brentq  # it takes longer to import than most commands to run
        from scipy.special import stdtrit

        times = float(stdtrit(self.degrees, probability))
        far = np.array([times])
        if self.of_residuals.any():  # it is at most so much further from the centre, on either side
            far = (abs(times) + math.sqrt(self.degrees)) * np.array([-1.0, 1.0])
        ends = self.centres + self.errors * far[:, None]
        low, high = float(ends.min()), float(ends.max())
        if self.below(low) >= probability or self.below(high) <= probability:  # all of them alike
            return (low + high) / 2
        return float(brentq(lambda value: self.below(value) - probability, low, high, xtol=_NEGLIGIBLE * (high - low)))

    def p(self, within: float = 0.0, of: float = 0.0) -> float:
        """How likely the number would be found so far from `of`, on either side, if it were `within` of it.

        NaN without a degree of freedom.
        """
        if self.degrees < 1:
            return math.nan
        return min(1.0, 2 * min(self.below(of + within), 1 - self.below(of - within)))

    @property
    def value(self) -> float:
        """The median; without a degree of freedom the mean of the mixes."""
        return float(self.centres @ self.weights) if self.degrees < 1 else self.quantile(0.5)

    @property
    def statistic(self) -> Statistic:
        """The number with its 95 % interval, which is not known without a degree of freedom."""
        return self.within(TAIL)

    def within(self, tail: float) -> Statistic:
        """The number with the interval that leaves out so much at each end."""
        if self.degrees < 1:
            return Statistic(self.value, n=self.n)
        return Statistic(self.value, self.quantile(tail), self.quantile(1 - tail), self.n)


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
        """What is known of a combination of the coefficients: `of` (shapes, p) has their factors."""
        each = np.repeat(of, len(self.coefficients) // len(of), axis=0)
        errors = np.sqrt(np.einsum("kp,kpq,kq->k", each, self.covariances, each))
        return self.marginal((each * self.coefficients).sum(axis=1), errors)

    def coefficient(self, position: int) -> Marginal:
        """What is known of one coefficient."""
        return self.number(np.eye(self.coefficients.shape[1])[[position]])

    def marginal(self, centres: Array, errors: Array, of_residuals: Array | None = None) -> Marginal:
        """What is known of a number of which each mix has a centre and a standard error, (mixes,)."""
        shares = np.zeros(len(centres)) if of_residuals is None else of_residuals
        return Marginal(centres, errors, self._weights(np.log(errors)), self.degrees, self.n, shares)

    def _weights(self, log_errors: Array) -> Array:
        if self.degrees < 1:
            return np.full(len(log_errors), 1 / len(log_errors))
        weights = _OF_LIKELIHOOD * self.likelihoods + _OF_ERROR * log_errors
        weights = np.exp(weights - weights.max())
        return np.asarray(weights / weights.sum())

    def left(self, members: Array, apart_s2: Array, factors: Array) -> tuple[Array, Array]:
        """The variance of a sum of what the first coefficient leaves of k means of times, and its share of residuals.

        Both (mixes,). `members` (k, n) has the weight of each time of the fit in each mean; `apart_s2` (mixes, k) is
        the variance of the means that have no part in the fit [s^2], 0 for the others; `factors` (mixes, k) are those
        of the sum. What the coefficients do not explain of it is of residuals.
        """
        of_times = factors @ members - factors.sum(axis=1, keepdims=True) * self.estimators[:, 0]
        inside, outside = (of_times**2 * self.variances_s2).sum(axis=1), (factors**2 * apart_s2).sum(axis=1)
        shared = (self.estimators @ (self.variances_s2 * of_times)[..., None])[..., 0]
        explained = (shared * np.linalg.solve(self.covariances, shared[..., None])[..., 0]).sum(axis=1)
        whole = np.maximum(inside + outside, _SMALLEST)
        return whole, np.clip((inside - explained) / whole, 0, 1)


@dataclass(frozen=True)
class System:
    """The equations of n runs: the factors of p costs (shapes, n, p), what they explain and the wall times [s] (n,)."""

    designs: Array
    explained_s: Array
    times_s: Array

    @property
    def costs(self) -> int:
        """How many there are."""
        return int(self.designs.shape[2])

    def without(self, rows: Array) -> System:
        """The equations of the runs that `rows` (n,) does not mark."""
        return System(self.designs[:, ~rows], self.explained_s[~rows], self.times_s[~rows])

    def apart(self, rows: Array) -> System:
        """The same with one more cost, of the runs that `rows` (n,) marks alone: how they differ from all others."""
        more = np.broadcast_to(rows.astype(float)[:, None], (*self.designs.shape[:2], 1))
        return System(np.concatenate([self.designs, more], axis=2), self.explained_s, self.times_s)

    def solve(self) -> Linear | None:
        """The costs; None where there are fewer runs than costs, or these cannot be told apart in some shape."""
        found = [_least_squares(design, self.explained_s, self.times_s) for design in self.designs]
        known = [one for one in found if one is not None]
        return _together(known) if len(known) == len(found) else None


def _together(shapes: Sequence[Linear]) -> Linear:
    """The fits of all shapes as one, each with its mixes."""
    if len(shapes) == 1:
        return shapes[0]
    names = ("coefficients", "covariances", "estimators", "likelihoods", "variances_s2")
    return replace(shapes[0], **{name: np.concatenate([getattr(one, name) for one in shapes]) for name in names})


def relative_s2(times_s: Array, of: Array) -> Array:
    """The variance of the noise of each of `times_s` (n,) for each of MIXES, over its additive part, (mixes, n).

    `of`: the times of the fit.
    """
    middle_s = math.exp(float(np.log(of).mean()))
    return np.asarray(1 + np.array(MIXES)[:, None] * (times_s / middle_s) ** 2)


def _least_squares(design: Array, explained_s: Array, times_s: Array) -> Linear | None:
    """The costs of one design (n, p) by least squares, weighted for each mix of noise; None: they cannot be told."""
    (n, p), sizes = design.shape, np.linalg.norm(design, axis=0)
    if n < p or not sizes.all() or np.linalg.matrix_rank(design / sizes, tol=1e-8) < p:
        return None
    relative = relative_s2(times_s, times_s)
    weight = 1 / np.sqrt(relative)
    weighted, target = design / sizes * weight[..., None], explained_s * weight
    transposed = weighted.transpose(0, 2, 1)
    inverse = np.linalg.inv(transposed @ weighted)
    estimators = inverse @ transposed
    coefficients = (estimators @ target[..., None])[..., 0]
    squares = ((target - (weighted @ coefficients[..., None])[..., 0]) ** 2).sum(axis=1)
    squares = np.maximum(squares, ((_NEGLIGIBLE * times_s * weight) ** 2).sum(axis=1))
    scales = squares / max(n - p, 1)
    determinants = np.linalg.slogdet(inverse)[1]
    likelihoods = 0.5 * (determinants - np.log(relative).sum(axis=1) - (n - p) * np.log(squares))
    covariances = inverse * scales[:, None, None] / np.outer(sizes, sizes)
    estimators = estimators * weight[:, None, :] / sizes[:, None]
    variances = scales[:, None] * relative
    return Linear(coefficients / sizes, covariances, estimators, likelihoods, variances, n - p, n)
