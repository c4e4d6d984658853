"""The forms that the time of a step may have over the ranks, each fitted to the points of one curve.

All coefficients are at least 0, so that no form predicts a negative time, or a rate that grows faster than the ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.metrics import hops
from analysis.predict.points import Curve, Sizes

# Exponents with which computing and exchanging may overlap: 1 is one after the other, 10 nearly all at once. The range
# is Pollux's (Qiao et al., OSDI'21, section 3.2).
_OVERLAPS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0)

# A share of a time that is rounding.
_NOTHING = 1e-9

# Returns the columns of a form for the sizes of one curve: one column a coefficient.
Columns = Callable[[Curve, Curve | Sizes], np.ndarray]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A form with its coefficients. `row` returns the derivatives of the logarithm of its time by them."""

    seconds: Callable[[Sizes], np.ndarray]
    row: Callable[[Sizes], np.ndarray]
    covariance: np.ndarray  # of the coefficients, for points whose relative error is 1

    def ln_s(self, at: Sizes) -> np.ndarray:
        """Return the logarithm of the time of a step at each size."""
        return np.log(self.seconds(at))

    def variance(self, at: Sizes) -> np.ndarray:
        """Return the variance of that logarithm from the error of the points alone, for a relative error of 1."""
        rows = self.row(at)
        return np.einsum("ij,jk,ik->i", rows, self.covariance, rows)


def _exchange(curve: Curve, ranks: np.ndarray) -> np.ndarray:
    """Return columns of the slowest of n ranks (log2 n), and of the exchange within a node and between nodes."""
    per_node = 1.0 if math.isnan(curve.ranks_per_node) else curve.ranks_per_node
    return np.column_stack([np.log2(ranks), hops(np.minimum(ranks, per_node)), hops(curve.nodes(ranks))])


def _compute(curve: Curve, at: Curve | Sizes) -> np.ndarray:
    """Return columns of the computing of a rank: a constant, and where batches vary the batch."""
    ones = np.ones(len(at.ranks))
    return np.column_stack([ones, at.batch]) if curve.strong else ones[:, None]


def _linear(columns: Columns) -> Callable[[Curve, np.ndarray], Fitted]:
    """Return a fit of columns: non-negative least squares of the relative residuals."""

    def fit_linear(curve: Curve, error: np.ndarray) -> Fitted:
        weighted = columns(curve, curve) / (curve.step_s * error)[:, None]
        coefficients = _at_least_0(weighted, 1 / error)
        active = coefficients > 0

        def seconds(at: Sizes) -> np.ndarray:
            return columns(curve, at) @ coefficients

        def row(at: Sizes) -> np.ndarray:
            return columns(curve, at)[:, active] / seconds(at)[:, None]

        return Fitted(seconds, row, _inverse(weighted[:, active]))

    return fit_linear


def _at_least_0(columns: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the coefficients of the columns, at least 0, whose sum is nearest to `wanted` (least squares)."""
    from scipy.optimize import nnls  # it takes longer to import than most commands to run

    # Columns of one length: the solver's tolerance is absolute, and seconds may be of any size.
    length = np.linalg.norm(columns, axis=0)
    length[length == 0] = 1.0
    coefficients = nnls(columns / length, wanted)[0]
    # The rounding error of an absent term would count as a term, and widen the interval.
    coefficients[coefficients <= _NOTHING * np.linalg.norm(wanted)] = 0.0
    return coefficients / length


def _inverse(rows: np.ndarray) -> np.ndarray:
    """Return the covariance of coefficients whose rows have an error of 1."""
    return np.linalg.pinv(rows.T @ rows)


def _power_law(curve: Curve, error: np.ndarray) -> Fitted:
    """Fit t = a n^p with p of at least 0: a line through the logarithms."""
    x, y, weight = np.log(curve.ranks), np.log(curve.step_s), 1 / error**2
    middle, level = np.average(x, weights=weight), np.average(y, weights=weight)
    across = float(weight @ (x - middle) ** 2)
    slope = max(float(weight @ ((x - middle) * (y - level))) / across, 0.0)
    covariance = np.diag([1 / weight.sum(), 1 / across if slope > _NOTHING else 0.0])

    def row(at: Sizes) -> np.ndarray:
        return np.column_stack([np.ones(len(at.ranks)), np.log(at.ranks) - middle])

    return Fitted(lambda at: np.exp(level + slope * (np.log(at.ranks) - middle)), row, covariance)


def _step(curve: Curve, at: Curve | Sizes) -> np.ndarray:
    return np.column_stack([_compute(curve, at), _exchange(curve, at.ranks)])


def _logarithm(curve: Curve, at: Curve | Sizes) -> np.ndarray:
    return np.column_stack([_compute(curve, at), np.log2(at.ranks)])


def _server(curve: Curve, at: Curve | Sizes) -> np.ndarray:
    return np.column_stack([_compute(curve, at), np.log2(at.ranks), at.ranks])


def _even(curve: Curve, at: Curve | Sizes) -> np.ndarray:
    """Return columns of the logarithm, and with several ranks a node of the exchange between nodes.

    The exchange sets in at the second node: that is a step in the curve, no bend.
    """
    between = hops(curve.nodes(at.ranks))[:, None] if curve.ranks_per_node > 1 else np.empty((len(at.ranks), 0))
    return np.column_stack([_logarithm(curve, at), between])


def _bent(curve: Curve, at: Curve | Sizes) -> np.ndarray:
    return np.column_stack([_even(curve, at), at.ranks])


def _overlapped(curve: Curve, error: np.ndarray) -> Fitted:
    """Fit t = (T^p + C(n)^p)^(1/p): the exchange C hides behind the step without allreduce, T, which was measured."""
    fits = [_with_overlap(curve, error, power) for power in _OVERLAPS]
    at = Sizes(curve.ranks, curve.batch)
    return min(fits, key=lambda fit: float(np.sum(((fit.ln_s(at) - np.log(curve.step_s)) / error) ** 2)))


def _with_overlap(curve: Curve, error: np.ndarray, power: float) -> Fitted:
    # Rounding or noise can put a point below T: its exchange then is 0. The floor keeps its weight finite.
    hidden = np.maximum(curve.step_s**power - curve.compute_s**power, 0) ** (1 / power)
    weight = np.maximum(hidden / curve.step_s, 0.1) ** (power - 1)
    weight /= curve.step_s * error
    coefficients = _at_least_0(_exchange(curve, curve.ranks) * weight[:, None], hidden * weight)
    active = coefficients > 0

    def seconds(at: Sizes) -> np.ndarray:
        return (curve.compute_s**power + (_exchange(curve, at.ranks) @ coefficients) ** power) ** (1 / power)

    def row(at: Sizes) -> np.ndarray:
        columns = _exchange(curve, at.ranks)
        share = (columns @ coefficients) ** (power - 1) / seconds(at) ** power
        return columns[:, active] * share[:, None]

    return Fitted(seconds, row, _inverse(row(Sizes(curve.ranks, curve.batch)) / error[:, None]))


# The forms that are averaged: the step of an allreduce in a ring; t = a + b log2 n; a power law; and Ernest's
# (Venkataraman et al., NSDI'16), whose term in n is also what one server costs that all ranks send to.
STEP, SERVER, LOGARITHM, POWER_LAW = "step", "server", "logarithm", "power law"
FORMS = (STEP, LOGARITHM, POWER_LAW, SERVER)
# The forms that are tested for a bend, and not averaged: a curve that goes on evenly, and one with a cost in n besides.
EVEN, BENT = "even", "bent"
_FITS = {
    STEP: _linear(_step),
    LOGARITHM: _linear(_logarithm),
    POWER_LAW: _power_law,
    SERVER: _linear(_server),
    EVEN: _linear(_even),
    BENT: _linear(_bent),
}


def fit(name: str, curve: Curve, error: np.ndarray) -> Fitted:
    """Return one form fitted to a curve whose points have these relative errors.

    Where the step without allreduce was measured, the step overlaps computing and exchange.
    """
    if name == STEP and np.isfinite(curve.compute_s) and not curve.strong:
        return _overlapped(curve, error)
    return _FITS[name](curve, error)


def fits(curve: Curve, error: np.ndarray) -> dict[str, Fitted]:
    """Return each form fitted to a curve whose points have these relative errors; no power law where batches vary."""
    return {name: fit(name, curve, error) for name in FORMS if not (curve.strong and name == POWER_LAW)}
