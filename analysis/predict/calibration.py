"""Calibration of predictions on published curves: how far they are off.

The points of each curve after its second one, its third, ..., are held out and predicted. Curves over one network are
not independent: each network counts as much as any other, and is predicted with the calibration from all others.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.predict import LEVEL, MIN_SIZES, Curve, continued, doublings, predict, reading, why_not
from analysis.stats.repeats import proportion


def held_out(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return a row for each point beyond a cut of its curve, if the points up to the cut support its prediction.

    Columns: curve (its position), source, lower (the curve up to the cut), is_next (the cut is before the last point),
    ranks, measured and predicted images/s, doublings (beyond the cut).
    """
    rows = []
    for number, curve in enumerate(curves):
        for size in np.unique(curve.ranks)[MIN_SIZES - 1 : -1]:
            lower = curve.only(curve.ranks <= size)
            beyond = curve.only(np.array([n > size and not why_not(lower, n) for n in curve.ranks.tolist()]))
            predicted, away = continued(lower, beyond.ranks), doublings(lower, beyond.ranks)
            points = {"ranks": beyond.ranks, "measured": beyond.images_per_s, "predicted": predicted, "doublings": away}
            is_next = len(lower.ranks) == len(curve.ranks) - 1
            same = {"curve": number, "source": curve.source, "lower": lower, "is_next": is_next}
            rows += [same | dict(zip(points, point, strict=True)) for point in zip(*points.values(), strict=True)]
    return pd.DataFrame(rows)


def learn(points: pd.DataFrame) -> float:
    """Return the error of curves at one doubling: the least that LEVEL of their points held out do not exceed.

    It is a logarithm of images/s; an error beyond one doubling counts divided by the doublings (conformal prediction,
    Vovk, Gammerman, Shafer 2005). Each network counts as much as any other, each of its curves equally, each point of a
    curve equally. Raises ValueError without any point. points: of `held_out`.
    """
    if points.empty:
        raise ValueError(f"no curve has points beyond its first {MIN_SIZES} that these support")
    errors = np.abs(np.log(points["predicted"] / points["measured"])) / points["doublings"].clip(lower=1)
    curves = points.groupby("source")["curve"].transform("nunique")
    shares = 1 / points["source"].nunique() / curves / points.groupby("curve")["curve"].transform("size")
    order = np.argsort(errors.to_numpy())
    enough = int(np.searchsorted(np.cumsum(shares.to_numpy()[order]), LEVEL - 1e-9))
    return float(errors.iloc[order[enough]])


@dataclass(frozen=True, eq=False)
class PublishedCurves:
    """The published curves, with the calibration from them."""

    curves: list[Curve]  # of the reports
    others: list[Curve]  # only for calibration

    @functools.cached_property
    def held_out(self) -> pd.DataFrame:
        """The points that are held out of all curves."""
        return held_out([*self.curves, *self.others])

    def learned_for(self, curve: Curve) -> float:
        """Return the calibration for a curve: without the curves of its network."""
        return learn(self.held_out[self.held_out["source"].ne(curve.source)])

    @functools.cached_property
    def checks(self) -> pd.DataFrame:
        """The points held out, checked with the calibration for their network."""
        by_source = self.held_out.groupby("source", sort=False)
        return pd.concat([checked(points, self.learned_for(points["lower"].iloc[0])) for _, points in by_source])


def checked(points: pd.DataFrame, learned: float) -> pd.DataFrame:
    """Return points of `held_out` with the ends of their interval, and whether it holds them."""
    predicted = [predict(lower, [n], learned) for lower, n in zip(points["lower"], points["ranks"], strict=True)]
    low, high = (np.array([getattr(each, end)[0] for each in predicted]) for end in ("low", "high"))
    return points.assign(low=low, high=high, held=points["measured"].between(low, high))


def published_curves(published: pd.DataFrame) -> PublishedCurves:
    """Return the published curves, and their calibration."""
    return PublishedCurves(reading.published(published), reading.azure())


# Predictions of so few ranks are not counted: users ask for more ranks than one machine has.
ABOVE = 8


def accuracy_sentence(checks: pd.DataFrame) -> str:
    """Return how good predictions above 8 ranks were, over all published curves with such points."""
    above = checks[checks["ranks"].gt(ABOVE)]
    errors = (above["predicted"] / above["measured"] - 1).abs()
    nearest, held, points = errors[above["is_next"]].median(), int(above["held"].sum()), len(above)
    low, high = proportion(held, points).interval
    return (
        f"Checked on the {above['curve'].nunique()} published curves with points above {ABOVE} ranks, each calibrated "
        f"on the curves of other networks: the largest point was predicted from all below it within {nearest:.1%} "
        f"(median), and the {LEVEL:.0%} interval held {held} of {points} points ({held / points:.0%}; {low:.0%} to "
        f"{high:.0%}, were they independent), on {above['source'].nunique()} networks."
    )


def unknown_network_sentence(checks: pd.DataFrame) -> str:
    """Return that an interval was not calibrated on the network of a user's curve, and what it held on others so."""
    near = checks[checks["doublings"].le(1)].groupby("source", sort=False)["held"]
    held, points = near.sum(), near.size()
    worst = str((held / points).idxmin())
    return (
        "No public curve is known to be of what was measured: the interval may be too narrow. On networks left out "
        f"of the calibration it held {held.sum()} of {points.sum()} points at the next doubling; {held[worst]} of "
        f"{points[worst]} on the worst ({worst})."
    )
