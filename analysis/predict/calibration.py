"""What published curves teach about predictions: which form does well, how noisy points are, how fast errors grow.

Each curve is cut after its third point, its fourth, ...; what was cut off is predicted. Curves of one machine are not
independent, so each machine counts as much as any other, each of its curves equally, each prediction equally.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
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
    """A curve, its points up to a size, and the larger ones, which those can carry."""

    curve: Curve
    known: Curve
    beyond: Sizes
    measured_s: np.ndarray  # the time of a step at each size beyond

    @property
    def ln_s(self) -> np.ndarray:
        """The logarithm of the measured time of a step at each size beyond."""
        return np.log(self.measured_s)


def cuts(curves: Sequence[Curve], noise: float) -> list[Cut]:
    """Every cut of the curves that leaves points enough, with the points beyond that are supported."""
    return [cut for curve in curves for cut in _cuts(curve, noise)]


def _cuts(curve: Curve, noise: float) -> Iterator[Cut]:
    if curve.strong:
        return
    for size in np.unique(curve.ranks)[MIN_POINTS - 1 : -1]:
        known = curve.only(curve.ranks <= size)
        more = curve.only(curve.ranks > size)
        carried = np.array([not why for why in why_not(known, Sizes(more.ranks, more.batch), noise)])
        if carried.any():
            more = more.only(carried)
            yield Cut(curve, known, Sizes(more.ranks, more.batch), more.step_s)


def _shares(found: Sequence[Cut]) -> list[float]:
    """How much each prediction of each cut counts; the sum over all predictions is 1."""
    of_curve = Counter[int]()
    for cut in found:
        of_curve[id(cut.curve)] += len(cut.measured_s)
    curves = {id(cut.curve): cut.curve.source for cut in found}
    of_source = Counter(curves.values())
    return [1 / len(of_source) / of_source[cut.curve.source] / of_curve[id(cut.curve)] for cut in found]


def learn(curves: Sequence[Curve]) -> Learned:
    """The weights of the forms, the noise of a typical point, and the growth of the error, from these curves.

    A form counts by the inverse square of its median error per doubling: one machine on which all forms fail alike does
    not make them alike. The growth is the smallest with which intervals
    of the level hold that share of the points beyond. Raises ValueError where no curve can be cut.
    """
    noise = _noise(curves)
    found = cuts(curves, noise)
    if not found:
        raise ValueError("no curve has points beyond the first three that these can carry")
    shares = _shares(found)
    weights = _weights(found, shares, noise)
    averaged = [average(cut.known, cut.beyond, weights, noise) for cut in found]
    return Learned(weights, noise, *_growth(found, averaged, shares))


def _noise(curves: Sequence[Curve]) -> float:
    """The relative error of a typical point: the root mean square of what a + b log2 n leaves, each machine alike.

    Of each curve the points below its largest, which is for the growth: there a curve may bend.
    """
    of_source: dict[str, list[float]] = {}
    for curve in curves:
        known = curve.only(curve.ranks < curve.ranks.max())
        if len(known.ranks) >= MIN_POINTS and not curve.doubts and not curve.strong:
            fit = forms.fit(forms.LOGARITHM, known, np.ones(len(known.ranks)))
            left = np.log(known.step_s) - fit.ln_s(Sizes(known.ranks, known.batch))
            of_source.setdefault(curve.source, []).append(float(left @ left) / (len(left) - 2))
    if not of_source:
        raise ValueError("no curve has a point beyond its first three")
    return max(math.sqrt(float(np.mean([np.mean(values) for values in of_source.values()]))), _LEAST)


def _weights(found: Sequence[Cut], shares: Sequence[float], noise: float) -> dict[str, float]:
    """How much each form counts."""
    weight = {}
    for name in forms.FORMS:
        off: list[tuple[float, float]] = []
        for cut, share in zip(found, shares, strict=True):
            fit = forms.fit(name, cut.known, cut.known.relative_error(noise))
            doublings = np.log2(cut.beyond.ranks / cut.known.largest)
            off += [(float(error), share) for error in abs(cut.ln_s - fit.ln_s(cut.beyond)) / doublings]
        weight[name] = 1 / max(_median(off), _LEAST) ** 2
    return {name: value / sum(weight.values()) for name, value in weight.items()}


def _median(weighted: Sequence[tuple[float, float]]) -> float:
    """The smallest of the values with which, and with all smaller ones, half of the weight is reached."""
    values, weights = np.array(sorted(weighted)).T
    return float(values[np.searchsorted(np.cumsum(weights), 0.5 * weights.sum())])


def _growth(found: Sequence[Cut], averaged: Sequence[Averaged], shares: Sequence[float]) -> tuple[float, float]:
    """The growth to the faster and to the slower side: of those with which intervals hold enough, the smallest sum."""
    pooled = _pooled(averaged)
    measured = np.concatenate([cut.ln_s for cut in found])
    counts = np.repeat(shares, [len(cut.measured_s) for cut in found])
    tail = (1 - LEVEL) / 2

    def enough(faster: float, slower: float) -> bool:
        below = pooled.probability(measured, faster, slower)
        return bool(counts @ ((below >= tail) & (below <= 1 - tail)) >= LEVEL - 1e-9)

    pairs = [(faster, _smallest(enough, faster)) for faster in np.arange(0, _MAX_GROWTH, 0.005).tolist()]
    return min(pairs, key=sum)


def _pooled(averaged: Sequence[Averaged]) -> Averaged:
    """The predictions of several curves side by side. All have the same forms."""
    first = averaged[0]
    ln_s, deviation = (np.hstack([getattr(one, name) for one in averaged]) for name in ("ln_s", "deviation"))
    return Averaged(first.names, first.weights, ln_s, deviation, np.concatenate([one.doublings for one in averaged]))


def _smallest(enough: Callable[[float, float], bool], faster: float) -> float:
    """The smallest growth to the slower side that is enough beside one to the faster side, by bisection to 0.0001."""
    low, high = 0.0, _MAX_GROWTH
    if enough(faster, low):
        return low
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(faster, middle) else (middle, high)
    return high


@dataclass(frozen=True, eq=False)
class Check:
    """Predictions of what was cut off a curve, made with what the curves of other machines taught."""

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
    """What the curves of all other machines taught, for each machine that taught something itself.

    `in_general`: what all curves teach, which is what may be used for any other machine.
    """
    sources = dict.fromkeys(cut.curve.source for cut in cuts(curves, in_general.noise))
    return {source: learn([curve for curve in curves if curve.source != source]) for source in sources}


def checks(curves: Sequence[Curve], taught: Mapping[str, Learned]) -> list[Check]:
    """Each cut of each curve, predicted with what the curves of the other machines taught (`by_source`)."""
    found = []
    for source, learned in taught.items():
        for cut in cuts([curve for curve in curves if curve.source == source], learned.noise):
            found.append(Check(cut, learned, predict(cut.known, cut.beyond, learned)))
    return found


@dataclass(frozen=True)
class PublishedCurves:
    """The published curves with what all of them teach, and what those of all other machines teach, by machine."""

    curves: list[Curve]
    in_general: Learned
    by_source: dict[str, Learned]

    def learned_for(self, curve: Curve) -> Learned:
        """What may be used for a curve: nothing of its own machine."""
        return self.by_source.get(curve.source, self.in_general)

    @functools.cached_property
    def checks(self) -> list[Check]:
        """How predictions of the published curves did, each with what the other machines taught."""
        return checks(self.curves, self.by_source)


@cached_by_table
def published_curves(published: pd.DataFrame) -> PublishedCurves:
    """Return the published curves, and what they teach."""
    curves = reading.published(published)
    in_general = learn(curves)
    return PublishedCurves(curves, in_general, by_source(curves, in_general))


# Predictions of so few ranks are not counted: what is asked for lies beyond one machine.
ABOVE = 8


@dataclass(frozen=True)
class Accuracy:
    """Of all published curves with points above 8 ranks."""

    curves: int
    machines: int
    largest_error: float  # the median, over curves, of the error of the largest point from all below it; a fraction
    held: int  # of the points above 8 ranks, predicted from every cut below them
    points: int
    low: float  # 95 % interval of the share that is held, if the points were independent
    high: float


def predictions_above(checks: Sequence[Check]) -> Iterator[tuple[Check, int]]:
    """Each prediction of a point above 8 ranks: its check, and its position there."""
    for check in checks:
        yield from ((check, i) for i in np.flatnonzero(check.cut.beyond.ranks > ABOVE).tolist())


def accuracy(checks: Sequence[Check]) -> Accuracy:
    """How well predictions above 8 ranks did."""
    found = list(predictions_above(checks))
    nearest = [abs(float(check.error[i])) for check, i in found if _all_below(check)]
    held = sum(bool(check.held[i]) for check, i in found)
    of_curves = {id(check.cut.curve): check.cut.curve.source for check, _ in found}
    low, high = proportion(held, len(found)).interval
    machines = len(set(of_curves.values()))
    return Accuracy(len(of_curves), machines, float(np.median(nearest)), held, len(found), low, high)


def _all_below(check: Check) -> bool:
    """Whether the largest point was predicted from all points below it."""
    curve = check.cut.curve
    return len(check.cut.known.ranks) == len(curve.ranks) - 1
