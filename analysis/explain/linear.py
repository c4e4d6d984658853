"""A linear model of times whose noise is additive, proportional to the time, or both, which is not known.

With variance `a^2 (1 + mix x (time / geometric mean of the times)^2)` a small `mix` is noise of the same size at every
time, a large one noise of the same share. Five or six times cannot show which. So the model is fitted with each of
`MIXES`, and every number is a mixture of the results of these fits, each by Student's t. The weight of a fit is its
restricted likelihood (Patterson and Thompson 1971), times a power of the standard error that it gives to the number.
Simulation determines how much of the mixture an interval must hold (`calibrated_level`).

A model may leave open the shape of one of its costs: then there is a design for each shape, and each is fitted with
each mix. An axis called mixes has all of them: the mixes of the first shape, then those of the second, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.mixture import Array, Mixture, below, calibrated_level, normal_errors

MIXES = (1e-4, 1.0, 1e4)
_LEVEL = 0.05  # the p value of the ends of a 95 % interval, without calibration of the mixture
# The power of the standard error in the weight of a fit, which favours the less certain fits. By simulation: with 0 the
# kind of noise that determines a number least has too little weight, for which its calibration cannot compensate.
_ERROR_POWER = 0.5
_CALIBRATED_DEGREES = 2  # of freedom at least
# The part of the variance that measured speeds contribute, for each of MIXES. Their errors are proportional, so they
# contribute nothing to additive noise. The others are from simulation: with less and with more of it the intervals of
# the speedup without the fixed cost cover the truth more often.
_SPEED_NOISE = (0.0, 0.25, 0.25)
# Relative residuals below this are rounding errors, which are about 1e-13 for times on a perfect line.
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Fitted:
    """The costs of any number of sets of times, fitted with each mix of noise: leading axes are those of the sets."""

    explained_s: Array  # (..., n)
    coefficients: Array  # (..., mixes, p)
    scales_s2: Array  # (..., mixes): the variance of noise of relative variance 1
    likelihoods: Array  # (..., mixes), the logarithm


# Returns the centre and standard error of a number by each mix, both (..., mixes), for sets of times (...).
Estimate = Callable[[Fitted], tuple[Array, Array]]


@dataclass(frozen=True)
class Basis:
    """The part of a fit that depends on the design alone: weighted least squares with the weights of each mix."""

    designs: Array  # (mixes, n, p)
    relative_s2: Array  # (mixes, n): the variance of the noise of each time, over the scale
    covariances: Array  # (mixes, p, p): of the coefficients, over the scale
    estimators: Array  # (mixes, p, n): the coefficients are these times the explained times
    residual_makers: Array  # (mixes, n, n): the weighted residuals are these times the explained times
    constants: Array  # (mixes,): the part of the likelihood that depends on the design
    least_s2: Array  # (mixes,): the sum of squares that rounding leaves

    @property
    def degrees(self) -> int:
        """Return the degrees of freedom."""
        return int(self.designs.shape[1] - self.designs.shape[2])

    def fit(self, explained_s: Array) -> Fitted:
        """Return the costs of sets of times. explained_s: (..., n)."""
        coefficients = np.tensordot(explained_s, self.estimators, axes=(-1, -1))
        residuals = np.tensordot(explained_s, self.residual_makers, axes=(-1, -1))
        squares = np.maximum(np.einsum("...kn,...kn->...k", residuals, residuals), self.least_s2)
        likelihoods = self.constants - 0.5 * self.degrees * np.log(squares)
        return Fitted(explained_s, coefficients, squares / max(self.degrees, 1), likelihoods)


@dataclass(frozen=True)
class Linear:
    """The model fitted to one set of times with each mix of noise."""

    basis: Basis
    fitted: Fitted
    by_speeds: bool  # whether measured speeds are in it, which are noisy too

    @property
    def coefficients(self) -> Array:
        """Return the costs, (mixes, p)."""
        return self.fitted.coefficients

    @property
    def degrees(self) -> int:
        """Return the degrees of freedom."""
        return self.basis.degrees

    def combination(self, factors: Array) -> Mixture:
        """Return the sum of the coefficients times `factors` (shapes, p)."""
        each = np.repeat(factors, len(self.coefficients) // len(factors), axis=0)
        unit_s2 = np.einsum("kp,kpq,kq->k", each, self.basis.covariances, each)
        truths = (each * self.coefficients).sum(axis=1)
        return self.mixture(
            lambda fitted: ((each * fitted.coefficients).sum(axis=-1), np.sqrt(unit_s2 * fitted.scales_s2)), truths
        )

    def coefficient(self, position: int) -> Mixture:
        """Return one coefficient."""
        return self.combination(np.eye(self.coefficients.shape[1])[[position]])

    def mixture(self, estimate: Estimate, truths: Array | None) -> Mixture:
        """Return a number as a mixture. truths: its value if a mix were right, (mixes,).

        None: the draws cannot show how often its interval covers the truth, because it has further noise. They cannot
        with one degree of freedom either: then the noise of the draws is as large as one residual.
        """
        centres, errors = estimate(self.fitted)
        weights, n = self._weights(self.fitted, errors), len(self.fitted.explained_s)
        if truths is None or self.degrees < _CALIBRATED_DEGREES:
            return Mixture(centres, errors, weights, self.degrees, n, lambda: _LEVEL)
        return Mixture(centres, errors, weights, self.degrees, n, lambda: self._level(estimate, truths, weights))

    def _weights(self, fitted: Fitted, errors: Array) -> Array:
        if self.degrees < 1:
            return np.full(errors.shape, 1 / errors.shape[-1])
        weights = fitted.likelihoods + _ERROR_POWER * np.log(errors)
        weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def _level(self, estimate: Estimate, truths: Array, weights: Array) -> float:
        """Return the p value of the ends of the 95 % interval of a number."""
        centres, errors = estimate(self._draws)
        finite = np.isfinite(centres).all(axis=-1) & np.isfinite(truths)[:, None]
        centres, errors = (np.where(finite[..., None], values, 1.0) for values in (centres, errors))
        draw_weights = self._weights(self._draws, errors)
        smaller = below(truths[:, None], centres, errors, draw_weights, self.degrees)
        p = np.where(finite, 2 * np.minimum(smaller, 1 - smaller), math.nan)
        return calibrated_level(p, draw_weights, weights)

    @cached_property
    def _draws(self) -> Fitted:
        """Return the fits of sets of times that are drawn from the fit with each mix: (mixes, draws, ...).

        Measured speeds have noise too, which the fit takes for noise of the wall times. Numbers made from wall times
        depend on the difference, which cannot be determined. So a part of the drawn noise belongs to the speeds;
        `explained_s` has only that of the wall times.
        """
        fitted_s = np.einsum("knp,kp->kn", self.basis.designs, self.coefficients)
        noise_s = np.sqrt(self.fitted.scales_s2[:, None] * self.basis.relative_s2)
        wall_errors, speed_errors = normal_errors(2, *fitted_s.shape)
        part = np.tile(_SPEED_NOISE, len(fitted_s) // len(MIXES))[:, None] * self.by_speeds
        walls_s = fitted_s[:, None] + (np.sqrt(1 - part) * noise_s)[:, None] * wall_errors
        speeds_s = (np.sqrt(part) * noise_s)[:, None] * speed_errors
        return replace(self.basis.fit(walls_s + speeds_s), explained_s=walls_s)


@dataclass(frozen=True)
class System:
    """The equations of n runs: factors of p costs (shapes, n, p), the explained and the wall times [s] (n,)."""

    designs: Array
    explained_s: Array
    times_s: Array
    by_speeds: bool = False  # whether measured speeds are in them

    def without(self, rows: NDArray[np.bool_]) -> System:
        """Return the equations of the runs that `rows` (n,) does not mark."""
        return replace(
            self, designs=self.designs[:, ~rows], explained_s=self.explained_s[~rows], times_s=self.times_s[~rows]
        )

    def with_cost(self, column: ArrayLike) -> System:
        """Return the equations with one more cost, the last one, which run i has `column[i]` times; `column` (n,).

        With a mask of runs it is the difference of their times from the others.
        """
        cost = np.broadcast_to(np.asarray(column, float)[:, None], (*self.designs.shape[:2], 1))
        return replace(self, designs=np.concatenate([self.designs, cost], axis=2))

    def solve(self) -> Linear | None:
        """Return the costs; None with fewer runs than costs, or if a design does not determine them."""
        if not all(_is_determined(design) for design in self.designs):
            return None
        basis = _basis(self.designs, self.times_s)
        return Linear(basis, basis.fit(self.explained_s), self.by_speeds)


def _is_determined(design: Array) -> bool:
    """Return whether a design (n, p) determines all of its costs."""
    (n, p), sizes = design.shape, np.linalg.norm(design, axis=0)
    return bool(n >= p and sizes.all() and np.linalg.matrix_rank(design / sizes, tol=1e-8) == p)


def relative_s2(times_s: Array, fit_times_s: Array) -> Array:
    """Return the variance of the noise of each of `times_s` (n,) for each of MIXES, over its additive part, (mixes, n).

    `fit_times_s`: the times of the fit, whose geometric mean is that of the formula.
    """
    middle_s = math.exp(float(np.log(fit_times_s).mean()))
    return np.asarray(1 + np.array(MIXES)[:, None] * (times_s / middle_s) ** 2)


def _basis(designs: Array, times_s: Array) -> Basis:
    """Return least squares with each design (shapes, n, p), weighted for each mix of noise."""
    relative = np.tile(relative_s2(times_s, times_s), (len(designs), 1))
    designs = np.repeat(designs, len(MIXES), axis=0)
    sizes = np.linalg.norm(designs, axis=1)
    weight = 1 / np.sqrt(relative)
    weighted = designs / sizes[:, None] * weight[..., None]
    transposed = weighted.transpose(0, 2, 1)
    inverses = np.linalg.inv(transposed @ weighted)
    estimators = inverses @ transposed * weight[:, None] / sizes[..., None]
    residual_makers = (np.eye(len(times_s)) - designs @ estimators) * weight[..., None]
    constants = 0.5 * (np.linalg.slogdet(inverses)[1] - np.log(relative).sum(axis=1))
    least_s2 = ((_NEGLIGIBLE * times_s * weight) ** 2).sum(axis=1)
    covariances = inverses / sizes[:, :, None] / sizes[:, None]
    return Basis(designs, relative, covariances, estimators, residual_makers, constants, least_s2)
