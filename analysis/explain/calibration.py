"""The level at which intervals of a mixture hold the truth as often as they say, found by simulation.

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

_MISSED = 0.05
_DRAWS = 2400  # of all kinds together: a share of 0.05 of them has a standard error of 0.004
# Each brings the shares that are held under the kinds nearer to each other, by less than the one before. With more of
# them the ends depend on the draws: with 8, other draws changed the width of some intervals of report 000 by half.
_STEPS = 4
_LEVELS = np.geomspace(1e-7, 1, 200)  # p values in steps of 8 %, between which it is interpolated


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
    levels = _LEVELS
    for _ in range(_STEPS):
        levels = weights @ [_share(levels, np.sort(of)[: n.sum()]) for of, n in zip(p, known, strict=True)]
        p = np.where(known, np.einsum("...k,...k->...", of_draws, _shares(p, known)), np.nan)
    return float(np.interp(_MISSED, levels, _LEVELS))


def _share(of: Array, ordered: Array) -> Array:
    """The share of `ordered` values that is smaller, between two of them by linear interpolation."""
    shares = np.concatenate([[0], (np.arange(len(ordered)) + 0.5) / len(ordered), [1]])
    return np.interp(of, np.concatenate([[0], ordered, [1]]), shares)


def _shares(p: Array, known: Array) -> Array:
    """The share of the known p values of each kind that is smaller than each p value: (kinds, draws, kinds)."""
    order = np.argsort(p, axis=None)
    of_kind = (order // p.shape[1] == np.arange(len(p))[:, None]) & known.ravel()[order]
    found = np.empty((p.size, len(p)))
    found[order] = ((np.cumsum(of_kind, axis=1) - 0.5 * of_kind) / known.sum(axis=1)[:, None]).T
    return found.reshape(*p.shape, len(p))
