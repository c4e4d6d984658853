"""Calibration of predictions on published curves: weights of the forms, noise of points, growth of errors.

Each curve is cut after its third point, its fourth, ...; what was cut off is predicted. Curves of one machine are not
independent, so each machine counts as much as any other, each of its curves equally, each prediction equally.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.curves import cached_by_table
from analysis.predict import forms, reading
from analysis.predict.points import Curve, Sizes
from analysis.predict.prediction import LEVEL, MIN_POINTS, Averaged, Learned, Prediction, average, predict, why_not
from analysis.stats.repeats import proportion

# Rates are printed with three or four digits: nothing is known to be nearer than that.
_LEAST = 0.001
_MAX_GROWTH = 0.6  # a factor of 1.8 for each doubling: no curve here needs it


@dataclass(frozen=True, eq=False)
class Cut:
    """A curve, its points up to a size, and the larger ones that a prediction from those supports."""

    curve: Curve
    lower: Curve
    beyond: Sizes
    measured_s: np.ndarray  # the time of a step at each size beyond

    @property
    def ln_s(self) -> np.ndarray:
        """The logarithm of the measured time of a step at each size beyond."""
        return np.log(self.measured_s)


def cuts(curves: Sequence[Curve], noise: float) -> list[Cut]:
    """Return every cut of the curves that leaves points enough, with the points beyond that are supported."""
    return [cut for curve in curves for cut in _cuts(curve, noise)]


def _cuts(curve: Curve, noise: float) -> Iterator[Cut]:
    if curve.strong:
        return
    for size in np.unique(curve.ranks)[MIN_POINTS - 1 : -1]:
        lower, upper = curve.only(curve.ranks <= size), curve.only(curve.ranks > size)
        supported = np.array([not why for why in why_not(lower, Sizes(upper.ranks, upper.batch), noise)])
        if supported.any():
            upper = upper.only(supported)
            yield Cut(curve, lower, Sizes(upper.ranks, upper.batch), upper.step_s)


def _shares(cuts: Sequence[Cut]) -> list[float]:
    """Return the weight of each prediction of each cut; the sum over all predictions is 1."""
    predictions = Counter[int]()
    for cut in cuts:
        predictions[id(cut.curve)] += len(cut.measured_s)
    curves = Counter({id(cut.curve): cut.curve.source for cut in cuts}.values())
    return [1 / len(curves) / curves[cut.curve.source] / predictions[id(cut.curve)] for cut in cuts]


def learn(curves: Sequence[Curve]) -> Learned:
    """Return the weights of the forms, the noise of a typical point, and the growth of the error, from these curves.

    A form counts by the inverse square of its median error per doubling: one machine on which all forms fail alike does
    not make them alike. The growth is the smallest with which intervals of the level hold that share of the points
    beyond. Raises ValueError where no curve can be cut.
    """
    noise = _noise(curves)
    every_cut = cuts(curves, noise)
    if not every_cut:
        raise ValueError("no curve has points beyond the first three that these support")
    shares = _shares(every_cut)
    weights = _weights(every_cut, shares, noise)
    averaged = [average(cut.lower, cut.beyond, weights, noise) for cut in every_cut]
    return Learned(weights, noise, *_growth(every_cut, averaged, shares))


def _noise(curves: Sequence[Curve]) -> float:
    """Return the relative error of a typical point: the root mean square residual of a + b log2 n, each machine alike.

    The largest point of each curve is left out: the growth is from it, and there a curve may bend.
    """
    variances: dict[str, list[float]] = defaultdict(list)
    for curve in curves:
        lower = curve.only(curve.ranks < curve.ranks.max())
        if len(lower.ranks) >= MIN_POINTS and not curve.doubts and not curve.strong:
            fit = forms.fit(forms.LOGARITHM, lower, np.ones(len(lower.ranks)))
            residuals = np.log(lower.step_s) - fit.ln_s(Sizes(lower.ranks, lower.batch))
            variances[curve.source].append(float(residuals @ residuals) / (len(residuals) - 2))
    if not variances:
        raise ValueError("no curve has a point beyond its first three")
    return max(math.sqrt(float(np.mean([np.mean(values) for values in variances.values()]))), _LEAST)


def _weights(cuts: Sequence[Cut], shares: Sequence[float], noise: float) -> dict[str, float]:
    """Return the weight of each form."""
    weight = {}
    for name in forms.FORMS:
        off: list[tuple[float, float]] = []
        for cut, share in zip(cuts, shares, strict=True):
            fit = forms.fit(name, cut.lower, cut.lower.relative_error(noise))
            doublings = np.log2(cut.beyond.ranks / cut.lower.largest)
            off += [(float(error), share) for error in abs(cut.ln_s - fit.ln_s(cut.beyond)) / doublings]
        weight[name] = 1 / max(_median(off), _LEAST) ** 2
    return {name: value / sum(weight.values()) for name, value in weight.items()}


def _median(weighted: Sequence[tuple[float, float]]) -> float:
    """Return the weighted median: the smallest value that reaches half of the weight with all smaller ones."""
    values, weights = np.array(sorted(weighted)).T
    return float(values[np.searchsorted(np.cumsum(weights), 0.5 * weights.sum())])


def _growth(cuts: Sequence[Cut], averaged: Sequence[Averaged], shares: Sequence[float]) -> tuple[float, float]:
    """Return the growth to the faster and to the slower side: the smallest sum with which intervals hold enough."""
    pooled = _pooled(averaged)
    measured = np.concatenate([cut.ln_s for cut in cuts])
    counts = np.repeat(shares, [len(cut.measured_s) for cut in cuts])
    tail = (1 - LEVEL) / 2

    def enough(faster: float, slower: float) -> bool:
        below = pooled.probability(measured, faster, slower)
        return bool(counts @ ((below >= tail) & (below <= 1 - tail)) >= LEVEL - 1e-9)

    pairs = [(faster, _smallest(enough, faster)) for faster in np.arange(0, _MAX_GROWTH, 0.005).tolist()]
    return min(pairs, key=sum)


def _pooled(averaged: Sequence[Averaged]) -> Averaged:
    """Return the predictions of several curves side by side. All have the same forms."""
    first = averaged[0]
    ln_s, deviation = (np.hstack([getattr(one, name) for one in averaged]) for name in ("ln_s", "deviation"))
    return Averaged(first.names, first.weights, ln_s, deviation, np.concatenate([one.doublings for one in averaged]))


def _smallest(enough: Callable[[float, float], bool], faster: float) -> float:
    """Return the smallest growth to the slower side that is enough beside `faster`, by bisection to 0.0001."""
    low, high = 0.0, _MAX_GROWTH
    if enough(faster, low):
        return low
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(faster, middle) else (middle, high)
    return high


@dataclass(frozen=True, eq=False)
class Check:
    """Predictions of the points that were cut off a curve, with the calibration from other machines."""

    cut: Cut
    learned: Learned
    predicted: Prediction

    @property
    def measured(self) -> np.ndarray:
        """Images/s that were measured at each size beyond."""
        at = self.cut.beyond
        return metrics.whole_job(metrics.rate(at.batch, self.cut.measured_s), at.ranks)

    @property
    def error(self) -> np.ndarray:
        """How far the prediction was above what was measured, as a fraction of that, at each size beyond."""
        return metrics.change_fraction(self.measured, self.predicted.images_per_s)

    @property
    def held(self) -> np.ndarray:
        """Whether the interval holds what was measured, at each size beyond."""
        return (self.predicted.low <= self.measured) & (self.measured <= self.predicted.high)


def by_source(curves: Sequence[Curve], in_general: Learned) -> dict[str, Learned]:
    """Return the calibration from the curves of all other machines, for each machine whose curves can be cut.

    `in_general`: the calibration from all curves, which any other machine uses.
    """
    sources = dict.fromkeys(cut.curve.source for cut in cuts(curves, in_general.noise))
    return {source: learn([curve for curve in curves if curve.source != source]) for source in sources}


def checks(curves: Sequence[Curve], by_source: Mapping[str, Learned]) -> list[Check]:
    """Return each cut of each curve, predicted with the calibration from other machines (`by_source`)."""
    return [
        Check(cut, learned, predict(cut.lower, cut.beyond, learned))
        for source, learned in by_source.items()
        for cut in cuts([curve for curve in curves if curve.source == source], learned.noise)
    ]


@dataclass(frozen=True)
class PublishedCurves:
    """The published curves, the calibration from all of them, and by machine that from all other machines."""

    curves: list[Curve]
    in_general: Learned
    by_source: dict[str, Learned]

    def learned_for(self, curve: Curve) -> Learned:
        """Return the calibration for a curve: without the curves of its machine."""
        return self.by_source.get(curve.source, self.in_general)

    @functools.cached_property
    def checks(self) -> list[Check]:
        """The predictions of the published curves, each with the calibration from other machines."""
        return checks(self.curves, self.by_source)


@cached_by_table
def published_curves(published: pd.DataFrame) -> PublishedCurves:
    """Return the published curves, and their calibration."""
    curves = reading.published(published)
    in_general = learn(curves)
    return PublishedCurves(curves, in_general, by_source(curves, in_general))


# Predictions of so few ranks are not counted: users ask for more ranks than one machine has.
ABOVE = 8


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of predictions above 8 ranks, over all published curves with such points."""

    curves: int
    machines: int
    largest_error: float  # the median, over curves, of the error of the largest point from all below it; a fraction
    held: int  # of the points above 8 ranks, predicted from every cut below them
    points: int
    low: float  # 95 % interval of the share that is held, if the points were independent
    high: float


def predictions_above(checks: Sequence[Check]) -> Iterator[tuple[Check, int]]:
    """Yield each prediction of a point above 8 ranks: its check, and its position there."""
    for check in checks:
        yield from ((check, i) for i in np.flatnonzero(check.cut.beyond.ranks > ABOVE).tolist())


def accuracy(checks: Sequence[Check]) -> Accuracy:
    """Return the accuracy of predictions above 8 ranks."""
    predictions = list(predictions_above(checks))
    nearest = [abs(float(check.error[i])) for check, i in predictions if _from_all_below(check)]
    held = sum(bool(check.held[i]) for check, i in predictions)
    sources = {id(check.cut.curve): check.cut.curve.source for check, _ in predictions}
    low, high = proportion(held, len(predictions)).interval
    machines = len(set(sources.values()))
    return Accuracy(len(sources), machines, float(np.median(nearest)), held, len(predictions), low, high)


def _from_all_below(check: Check) -> bool:
    """Return whether the largest point was predicted from all points below it."""
    return len(check.cut.lower.ranks) == len(check.cut.curve.ranks) - 1
