"""Calibration of predictions on published curves: how far they are off.

The points of each curve after its second one, its third, ..., are held out and predicted. Curves over one network are
not independent: each network counts as much as any other, and is predicted with the calibration from all others.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.predict import LEVEL, MIN_SIZES, Curve, Prediction, continued, doublings, predict, reading, why_not
from analysis.stats.repeats import proportion


@dataclass(frozen=True, eq=False)
class Holdout:
    """A curve, its points up to a size, and the larger ones that a prediction from those supports."""

    curve: Curve
    lower: Curve
    ranks: np.ndarray
    measured: np.ndarray  # images/s at each number of ranks


def holdouts(curves: Sequence[Curve]) -> list[Holdout]:
    """Return the holdouts of the curves: those that leave enough points to predict the ones beyond."""
    result = []
    for curve in curves:
        for size in np.unique(curve.ranks)[MIN_SIZES - 1 : -1]:
            lower = curve.only(curve.ranks <= size)
            beyond = np.array([n > size and not why_not(lower, n) for n in curve.ranks.tolist()])
            if beyond.any():
                result.append(Holdout(curve, lower, curve.ranks[beyond], curve.images_per_s[beyond]))
    return result


def learn(curves: Sequence[Curve]) -> float:
    """Return the error of these curves at one doubling: the least that LEVEL of the points held out do not exceed.

    It is a logarithm of images/s; an error beyond one doubling counts divided by the doublings (conformal prediction,
    Vovk, Gammerman, Shafer 2005). Each network counts as much as any other, each of its curves equally, each point of a
    curve equally. Raises ValueError without any holdout.
    """
    all_holdouts = holdouts(curves)
    if not all_holdouts:
        raise ValueError(f"no curve has points beyond its first {MIN_SIZES} that these support")
    points = Counter[int]()
    for holdout in all_holdouts:
        points[id(holdout.curve)] += len(holdout.ranks)
    networks = Counter({id(holdout.curve): holdout.curve.source for holdout in all_holdouts}.values())
    errors, shares = [], []
    for holdout in all_holdouts:
        far = np.abs(np.log(continued(holdout.lower, holdout.ranks) / holdout.measured))
        errors += (far / np.maximum(doublings(holdout.lower, holdout.ranks), 1)).tolist()
        share = 1 / len(networks) / networks[holdout.curve.source] / points[id(holdout.curve)]
        shares += [share] * len(far)
    order = np.argsort(errors)
    enough = int(np.searchsorted(np.cumsum(np.array(shares)[order]), LEVEL - 1e-9))
    return float(errors[order[enough]])


@dataclass(frozen=True, eq=False)
class AccuracyCheck:
    """The predictions of the points held out of a curve."""

    holdout: Holdout
    predicted: Prediction

    @property
    def error(self) -> np.ndarray:
        """The error of the prediction, as a fraction of the measured value, at each number of ranks."""
        return metrics.change_fraction(self.holdout.measured, self.predicted.images_per_s)

    @property
    def held(self) -> np.ndarray:
        """Whether the interval holds the measured value, at each number of ranks."""
        return (self.predicted.low <= self.holdout.measured) & (self.holdout.measured <= self.predicted.high)


def by_source(curves: Sequence[Curve]) -> dict[str, float]:
    """Return the calibration from all other networks, for each network whose curves have holdouts."""
    sources = dict.fromkeys(holdout.curve.source for holdout in holdouts(curves))
    return {source: learn([curve for curve in curves if curve.source != source]) for source in sources}


def checks(curves: Sequence[Curve], by_source: Mapping[str, float]) -> list[AccuracyCheck]:
    """Return each holdout of each curve, predicted with the calibration from other networks (`by_source`)."""
    return [
        AccuracyCheck(holdout, predict(holdout.lower, holdout.ranks, by_source[holdout.curve.source]))
        for holdout in holdouts(curves)
        if holdout.curve.source in by_source
    ]


@dataclass(frozen=True)
class PublishedCurves:
    """The published curves, the calibration from all of them, and by network that from all other networks."""

    curves: list[Curve]  # of the reports
    others: list[Curve]  # only for calibration
    in_general: float
    by_source: dict[str, float]

    def learned_for(self, curve: Curve) -> float:
        """Return the calibration for a curve: without the curves of its network."""
        return self.by_source.get(curve.source, self.in_general)

    @functools.cached_property
    def checks(self) -> list[AccuracyCheck]:
        """The predictions of the published curves, each with the calibration from other networks."""
        return checks([*self.curves, *self.others], self.by_source)


def published_curves(published: pd.DataFrame) -> PublishedCurves:
    """Return the published curves, and their calibration."""
    curves, others = reading.published(published), reading.azure()
    all_curves = [*curves, *others]
    return PublishedCurves(curves, others, learn(all_curves), by_source(all_curves))


# Predictions of so few ranks are not counted: users ask for more ranks than one machine has.
ABOVE = 8


def accuracy_sentence(checks: Sequence[AccuracyCheck]) -> str:
    """Return how good predictions above 8 ranks were, over all published curves with such points."""
    predictions = [(check, i) for check in checks for i in np.flatnonzero(check.holdout.ranks > ABOVE).tolist()]
    nearest = [
        abs(float(check.error[i]))
        for check, i in predictions
        if len(check.holdout.lower.ranks) == len(check.holdout.curve.ranks) - 1
    ]
    held, points = sum(bool(check.held[i]) for check, i in predictions), len(predictions)
    sources = {id(check.holdout.curve): check.holdout.curve.source for check, _ in predictions}
    networks, (low, high) = len({*sources.values()}), proportion(held, points).interval
    return (
        f"Checked on the {len(sources)} published curves with points above {ABOVE} ranks, each calibrated on "
        f"the curves of other networks: the largest point was predicted from all below it within "
        f"{np.median(nearest):.1%} (median), and the {LEVEL:.0%} interval held {held} of {points} points "
        f"({held / points:.0%}; {low:.0%} to {high:.0%}, were they independent), on {networks} networks."
    )


def unknown_network_sentence(checks: Sequence[AccuracyCheck]) -> str:
    """Return that an interval was not calibrated on the network of a user's curve, and what it held on others so."""
    held: dict[str, list[bool]] = defaultdict(list)
    for check in checks:
        near = check.holdout.ranks <= 2 * check.holdout.lower.largest
        held[check.holdout.curve.source] += check.held[near].tolist()
    counts = {source: (sum(values), len(values)) for source, values in held.items() if values}
    worst = min(counts, key=lambda source: counts[source][0] / counts[source][1])
    total, points = (sum(numbers) for numbers in zip(*counts.values(), strict=True))
    return (
        "No public curve is known to be of this network: the interval may be too narrow. On networks that were left "
        f"out of the calibration it held {total} of {points} points at the next doubling; {counts[worst][0]} of "
        f"{counts[worst][1]} on the worst ({worst})."
    )
