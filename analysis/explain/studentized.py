"""An error over its estimated standard error, where part of it is a residual of the fit that estimates the noise.

Student's t is for errors that are independent of the residuals, as those of the coefficients. A residual itself is
not: it can be no longer than all residuals together, from which its standard error is made, and Student's t would make
its interval far too wide where these are few.
"""

from __future__ import annotations

import functools
import math

import numpy as np

Array = np.ndarray
_NODES = 32
_WHOLE = 1 - 1e-9  # the rest is rounding
_SMALLEST = 1e-6


def below(times: Array, degrees: int, share: Array) -> Array:
    """The probability that an error is less than `times` its estimated standard error.

    share: what part of its variance is of residuals. Without any it is Student's t; a residual alone has Thompson's tau
    (Thompson 1935, doi 10.1214/aoms/1177732567). Their sum in between: the direction of the residuals is independent of
    their length and of the coefficients, so both terms are independent.
    """
    from scipy.special import stdtr  # it takes longer to import than most commands to run

    if not share.any():
        return np.asarray(stdtr(degrees, times))
    if share.min() > _WHOLE:
        return _tau_below(times, degrees)
    of_rest, of_residual = np.sqrt(1 - share)[..., None], np.sqrt(share)[..., None]
    (t, t_weights), (tau, tau_weights) = _student(degrees), _thompson(degrees)
    # It is integrated over the smaller part, the other is smooth; with one degree of freedom tau is two values.
    over_tau = stdtr(degrees, (times[..., None] - of_residual * tau) / np.maximum(of_rest, _SMALLEST)) @ tau_weights
    over_t = _tau_below((times[..., None] - of_rest * t) / np.maximum(of_residual, _SMALLEST), degrees) @ t_weights
    return np.asarray(np.where((share < 0.5) | (degrees == 1), over_tau, over_t))


def _tau_below(tau: Array, degrees: int) -> Array:
    """The distribution of Thompson's tau: sqrt(degrees) times one coordinate of a random direction."""
    from scipy.special import stdtr

    cosine = np.clip(tau / math.sqrt(degrees), -1, 1)
    if degrees == 1:
        return np.asarray((1 + np.trunc(cosine)) / 2)
    with np.errstate(divide="ignore"):  # at the ends it is infinite, as it should be
        return np.asarray(stdtr(degrees - 1, cosine * np.sqrt((degrees - 1) / (1 - cosine**2))))


@functools.cache
def _angles() -> tuple[Array, Array]:
    """Angles between -90 and 90 degrees, and their weights (Gauss and Legendre)."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes * math.pi / 2, weights


@functools.cache
def _student(degrees: int) -> tuple[Array, Array]:
    """Values of Student's t with their weights."""
    angles, weights = _angles()
    weights = weights * np.cos(angles) ** (degrees - 1)
    return math.sqrt(degrees) * np.tan(angles), weights / weights.sum()


@functools.cache
def _thompson(degrees: int) -> tuple[Array, Array]:
    """Values of Thompson's tau with their weights; with one degree of freedom it is 1 or -1."""
    if degrees == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    angles, weights = _angles()
    weights = weights * np.cos(angles) ** (degrees - 2)
    return math.sqrt(degrees) * np.sin(angles), weights / weights.sum()
