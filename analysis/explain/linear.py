"""A linear model of times whose noise is additive, proportional to the time, or both: which of them is not known.

With variance `a^2 (1 + mix x (time / geometric mean of the times)^2)` a small `mix` is noise of the same size at every
time, a large one noise of the same share. Five or six times do not tell which. So the model is fitted with each of
`MIXES`, and every number is a mixture of what these fits say of it, each by Student's t: the weight of a fit is its
restricted likelihood (Patterson and Thompson 1971), leaning to the fits that are less sure of this number. How much of
the mixture an interval must hold is found by simulation (`calibrated_level`).

A model may leave open the shape of one of its costs: then there is a design for each shape, and each is fitted with
each mix. Where this file says mixes, it means all of them: shape by shape, the mixes of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from analysis.stats.mixture import Array, Mixture, below, calibrated_level, normal_errors

MIXES = (1e-4, 1.0, 1e4)
_LEVEL = 0.05  # the p value of the ends of a 95 % interval, if the mixture is taken at its word
# The power of the standard error in the weight of a fit: it leans to the fits that are less sure. By simulation: with 0
# the kind of noise that says least of a number is weighed too little for its calibration to make up for it.
_OF_ERROR = 0.5
_CALIBRATED_DEGREES = 2  # of freedom at least
# The part of the variance that is of measured speeds, for each of MIXES. They are measured to a share of themselves, so
# that in additive noise they have none. In the others, by simulation: with less and with more of it the intervals of
# the speedup without the fixed cost hold the truth more often.
_OF_SPEEDS = (0.0, 0.25, 0.25)
# Rounding leaves times on a perfect line about 1e-13 apart: that is no distance.
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Fitted:
    """The costs of any number of sets of times, as each mix of noise fits them: leading axes are those of the sets."""

    explained_s: Array  # (..., n)
    coefficients: Array  # (..., mixes, p)
    scales_s2: Array  # (..., mixes): the variance of noise of relative variance 1
    likelihoods: Array  # (..., mixes), the logarithm


# What each mix says of a number: its centre and standard error, both (..., mixes), of sets of times (...).
Number = Callable[[Fitted], tuple[Array, Array]]


@dataclass(frozen=True)
class Basis:
    """What all sets of times of one design share: weighted least squares with the weights of each mix."""

    designs: Array  # (mixes, n, p)
    relative_s2: Array  # (mixes, n): the variance of the noise of each time, over the scale
    covariances: Array  # (mixes, p, p): of the coefficients, over the scale
    estimators: Array  # (mixes, p, n): the coefficients are these times what is explained
    residual_makers: Array  # (mixes, n, n): the weighted residuals are these times what is explained
    constants: Array  # (mixes,): what the likelihood has of the design
    least_s2: Array  # (mixes,): the sum of squares that rounding leaves

    @property
    def degrees(self) -> int:
        """The degrees of freedom."""
        return int(self.designs.shape[1] - self.designs.shape[2])

    def fit(self, explained_s: Array) -> Fitted:
        """The costs of sets of times. explained_s: (..., n)."""
        coefficients = np.tensordot(explained_s, self.estimators, axes=(-1, -1))
        residuals = np.tensordot(explained_s, self.residual_makers, axes=(-1, -1))
        squares = np.maximum(np.einsum("...kn,...kn->...k", residuals, residuals), self.least_s2)
        likelihoods = self.constants - 0.5 * self.degrees * np.log(squares)
        return Fitted(explained_s, coefficients, squares / max(self.degrees, 1), likelihoods)


@dataclass(frozen=True)
class Linear:
    """The model as each mix of noise fits it."""

    basis: Basis
    fitted: Fitted
    by_speeds: bool  # whether measured speeds are in it, which have noise of their own

    @property
    def coefficients(self) -> Array:
        """The costs, (mixes, p)."""
        return self.fitted.coefficients

    @property
    def degrees(self) -> int:
        """The degrees of freedom."""
        return self.basis.degrees

    @property
    def n(self) -> int:
        """How many times it was made from."""
        return len(self.fitted.explained_s)

    def number(self, of: Array) -> Mixture:
        """What is known of a combination of the coefficients: `of` (shapes, p) has their factors."""
        each = np.repeat(of, len(self.coefficients) // len(of), axis=0)
        unit_s2 = np.einsum("kp,kpq,kq->k", each, self.basis.covariances, each)
        truths = (each * self.coefficients).sum(axis=1)
        return self.marginal(
            lambda fitted: ((each * fitted.coefficients).sum(axis=-1), np.sqrt(unit_s2 * fitted.scales_s2)), truths
        )

    def coefficient(self, position: int) -> Mixture:
        """What is known of one coefficient."""
        return self.number(np.eye(self.coefficients.shape[1])[[position]])

    def marginal(self, number: Number, truths: Array | None) -> Mixture:
        """What is known of a number. truths: what it would be if a mix were right, (mixes,).

        None: the draws do not tell how often an interval of it holds the truth, for it has noise of its own. Neither do
        they with one degree of freedom: then one residual tells how large the noise of the draws is.
        """
        centres, errors = number(self.fitted)
        weights = self._weights(self.fitted, errors)
        if truths is None or self.degrees < _CALIBRATED_DEGREES:
            return Mixture(centres, errors, weights, self.degrees, self.n, lambda: _LEVEL)
        return Mixture(centres, errors, weights, self.degrees, self.n, lambda: self._level(number, truths, weights))

    def _weights(self, fitted: Fitted, errors: Array) -> Array:
        if self.degrees < 1:
            return np.full(errors.shape, 1 / errors.shape[-1])
        weights = fitted.likelihoods + _OF_ERROR * np.log(errors)
        weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def _level(self, number: Number, truths: Array, weights: Array) -> float:
        """The p value of the ends of the 95 % interval of a number."""
        centres, errors = number(self._drawn)
        known = np.isfinite(centres).all(axis=-1) & np.isfinite(truths)[:, None]
        centres, errors = (np.where(known[..., None], of, 1.0) for of in (centres, errors))
        of_draws = self._weights(self._drawn, errors)
        smaller = below(truths[:, None], centres, errors, of_draws, self.degrees)
        p = np.where(known, 2 * np.minimum(smaller, 1 - smaller), math.nan)
        return calibrated_level(p, of_draws, weights)

    @cached_property
    def _drawn(self) -> Fitted:
        """The fits of sets of times that were drawn from what each mix says: (mixes, draws, ...).

        Measured speeds have noise too, which the fit sees in what is explained as if it were of the wall times. For
        numbers that are made from wall times it matters which of them it is, and nothing tells. So a part of the drawn
        noise is of the speeds; `explained_s` has that of the wall times alone.
        """
        fitted_s = np.einsum("knp,kp->kn", self.basis.designs, self.coefficients)
        noise_s = np.sqrt(self.fitted.scales_s2[:, None] * self.basis.relative_s2)
        of_walls, of_speeds = normal_errors(2, len(fitted_s), self.n)
        part = np.tile(_OF_SPEEDS, len(fitted_s) // len(MIXES))[:, None] * self.by_speeds
        walls_s = fitted_s[:, None] + (np.sqrt(1 - part) * noise_s)[:, None] * of_walls
        speeds_s = (np.sqrt(part) * noise_s)[:, None] * of_speeds
        return replace(self.basis.fit(walls_s + speeds_s), explained_s=walls_s)


@dataclass(frozen=True)
class System:
    """The equations of n runs: the factors of p costs (shapes, n, p), what they explain and the wall times [s] (n,)."""

    designs: Array
    explained_s: Array
    times_s: Array
    by_speeds: bool = False  # whether measured speeds are in them

    @property
    def costs(self) -> int:
        """How many there are."""
        return int(self.designs.shape[2])

    def without(self, rows: Array) -> System:
        """The equations of the runs that `rows` (n,) does not mark."""
        return replace(
            self, designs=self.designs[:, ~rows], explained_s=self.explained_s[~rows], times_s=self.times_s[~rows]
        )

    def apart(self, rows: Array) -> System:
        """The same with one more cost, of the runs that `rows` (n,) marks alone: how they differ from all others."""
        more = np.broadcast_to(rows.astype(float)[:, None], (*self.designs.shape[:2], 1))
        return replace(self, designs=np.concatenate([self.designs, more], axis=2))

    def solve(self) -> Linear | None:
        """The costs; None where there are fewer runs than costs, or these cannot be told apart in some shape."""
        if not all(_can_be_told(design) for design in self.designs):
            return None
        basis = _basis(self.designs, self.times_s)
        return Linear(basis, basis.fit(self.explained_s), self.by_speeds)


def _can_be_told(design: Array) -> bool:
    """Whether the costs of a design (n, p) can be told from each other."""
    (n, p), sizes = design.shape, np.linalg.norm(design, axis=0)
    return bool(n >= p and sizes.all() and np.linalg.matrix_rank(design / sizes, tol=1e-8) == p)


def relative_s2(times_s: Array, of: Array) -> Array:
    """The variance of the noise of each of `times_s` (n,) for each of MIXES, over its additive part, (mixes, n).

    `of`: the times of the fit.
    """
    middle_s = math.exp(float(np.log(of).mean()))
    return np.asarray(1 + np.array(MIXES)[:, None] * (times_s / middle_s) ** 2)


def _basis(designs: Array, times_s: Array) -> Basis:
    """Least squares with each design (shapes, n, p), weighted for each mix of noise."""
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
