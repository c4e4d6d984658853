"""The level at which 95 % intervals of a mixture hold the truth as often as they say, found by simulation.

Which kind of noise is at hand is not known, so a number is a mixture of what several kinds say of it, and how often its
interval holds the truth depends on the kind. So data are drawn from what each kind says. The p value that the mixture
gives to the truth has another distribution under each; it is replaced by the probability of a smaller one, which is the
mean over the kinds, by their weights in the mixture of these data. The p values of the drawn data are replaced in the
same way, by the weights of each draw, and all is repeated, for no weights tell the kind for certain (iterated
prepivoting: Beran 1988, doi 10.1080/01621459.1988.10478649).

The draws are always the same: the same data give the same interval to the last digit.
"""

from __future__ import annotations

import functools

import numpy as np

Array = np.ndarray

# Not 0.05: the choice of the model, the test of each point and the noise of the noise are not in the draws. By
# simulation, these cost some designs two or three in a hundred.
_MISSED = 0.04
_DRAWS = 9600  # of all kinds together
# Each brings the shares that are held under the kinds nearer to each other, by less than the one before, and makes the
# ends depend more on the draws: with 24, other draws change the widths of the intervals of report 000 by 5 % or so.
_STEPS = 24
# P values, evenly spaced by their logarithms, between which it is interpolated.
_LEAST, _LEVELS = 1e-7, 200


@functools.cache
def errors(sources: int, kinds: int, n: int) -> Array:
    """Errors of n values from each source, in all draws of each kind: (sources, kinds, draws, n), standard normal."""
    return np.random.default_rng(0).normal(size=(sources, kinds, _DRAWS // kinds, n))


def level(p: Array, of_draws: Array, weights: Array) -> float:
    """The p value below which a value lies outside of the 95 % interval.

    p: of the truth in the draws of each kind, (kinds, draws), NaN: such a draw has no interval and does not count;
    of_draws: the weights of the kinds in the mixture of each draw, (kinds, draws, kinds); weights: those in the mixture
    of the data, (kinds,).
    """
    known = ~np.isnan(p)
    if not known.any(axis=1).all():
        return _MISSED
    drawn_from, of_draws, p = np.nonzero(known)[0], of_draws[known].T.copy(), p[known]
    asked = levels = np.geomspace(_LEAST, 1, _LEVELS)
    for _ in range(_STEPS):
        position = _position(p)
        shares = _shares(position[0], drawn_from, len(weights))
        p = np.einsum("kd,kd->d", of_draws, _at(shares, *position))
        levels = weights @ _at(shares, *_position(levels))
    return float(np.interp(_MISSED, levels, asked))


def _position(p: Array) -> tuple[Array, Array]:
    """The number of the level before each p value (n,), and how far it is from there to the next: 0 to 1."""
    position = (1 - np.log(np.maximum(p, _LEAST)) / np.log(_LEAST)) * (_LEVELS - 1)
    before = np.minimum(position.astype(int), _LEVELS - 2)
    return before, position - before


def _shares(before: Array, drawn_from: Array, kinds: int) -> Array:
    """The share of the p values of each kind that is below each level, (kinds, levels); `before` as `_position`."""
    counts = np.bincount(drawn_from * _LEVELS + before + 1, minlength=kinds * _LEVELS).reshape(kinds, _LEVELS)
    return np.asarray(counts.cumsum(axis=1) / counts.sum(axis=1, keepdims=True))


def _at(shares: Array, before: Array, beyond: Array) -> Array:
    """The share that is below each p value, between two levels by interpolation: (kinds, n)."""
    lower = shares.take(before, axis=1)
    return np.asarray(lower + beyond * (shares.take(before + 1, axis=1) - lower))
