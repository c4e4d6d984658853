"""Calibration of predictions on published curves: how unevenly a curve goes on.

Each curve is cut after its third point, its fourth, ...; what was cut off is predicted. Curves of one machine are not
independent, so each machine counts as much as any other.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.curves import cached_by_table
from analysis.predict import LEVEL, MIN_POINTS, Curve, Learned, Prediction, Sizes, predict, reading, why_not
from analysis.stats.repeats import proportion

# Rates are printed with three or four digits: nothing is known to be nearer than that.
_LEAST = 0.001
_MOST = 1.0  # a factor of 2.7: no curve here needs it


@dataclass(frozen=True, eq=False)
class Cut:
    """A curve, its points up to a size, and the larger ones that a prediction from those supports."""

    curve: Curve
    lower: Curve
    beyond: Sizes
    measured_s: np.ndarray  # the time of a step at each size beyond


def cuts(curves: Sequence[Curve]) -> list[Cut]:
    """Return every cut of the curves that leaves points enough, with the points beyond that are supported."""
    return [cut for curve in curves if not curve.strong for cut in _cuts(curve)]


def _cuts(curve: Curve) -> Iterator[Cut]:
    for size in np.unique(curve.ranks)[MIN_POINTS - 1 : -1]:
        lower, upper = curve.only(curve.ranks <= size), curve.only(curve.ranks > size)
        supported = np.array([not why for why in why_not(lower, Sizes(upper.ranks, upper.batch))])
        if supported.any():
            upper = upper.only(supported)
            yield Cut(curve, lower, Sizes(upper.ranks, upper.batch), upper.step_s)


def learn(curves: Sequence[Curve]) -> Learned:
    """Return how unevenly these curves go on: the smallest deviation whose intervals hold the next points, to 0.001.

    They hold LEVEL of the next points of every cut: each machine counts as much as any other, each of its curves
    equally, each cut equally. Raises ValueError where no curve can be cut.
    """
    every_cut = cuts(curves)
    if not every_cut:
        raise ValueError(f"no curve has points beyond its first {MIN_POINTS} that these support")
    cuts_of = Counter(id(cut.curve) for cut in every_cut)
    machines = Counter({id(cut.curve): cut.curve.source for cut in every_cut}.values())
    shares = np.array([1 / len(machines) / machines[cut.curve.source] / cuts_of[id(cut.curve)] for cut in every_cut])

    def enough(deviation: float) -> bool:
        held = [bool(Check(cut, predict(cut.lower, cut.beyond, Learned(deviation))).held[0]) for cut in every_cut]
        return float(shares @ held) >= LEVEL - 1e-9

    low, high = _LEAST, _MOST
    if enough(low):
        return Learned(low)
    while high - low > _LEAST:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return Learned(high)


@dataclass(frozen=True, eq=False)
class Check:
    """The predictions of the points that were cut off a curve."""

    cut: Cut
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


def by_source(curves: Sequence[Curve]) -> dict[str, Learned]:
    """Return what the curves of all other machines teach, for each machine whose curves can be cut."""
    sources = dict.fromkeys(cut.curve.source for cut in cuts(curves))
    return {source: learn([curve for curve in curves if curve.source != source]) for source in sources}


def checks(curves: Sequence[Curve], by_source: Mapping[str, Learned]) -> list[Check]:
    """Return each cut of each curve, predicted with the calibration from other machines (`by_source`)."""
    return [
        Check(cut, predict(cut.lower, cut.beyond, by_source[cut.curve.source]))
        for cut in cuts(curves)
        if cut.curve.source in by_source
    ]


@dataclass(frozen=True)
class PublishedCurves:
    """The published curves, the calibration from all of them, and by machine that from all other machines."""

    curves: list[Curve]  # of the reports
    others: list[Curve]  # that only teach
    in_general: Learned
    by_source: dict[str, Learned]

    def learned_for(self, curve: Curve) -> Learned:
        """Return the calibration for a curve: without the curves of its machine."""
        return self.by_source.get(curve.source, self.in_general)

    @functools.cached_property
    def checks(self) -> list[Check]:
        """The predictions of the published curves, each with the calibration from other machines."""
        return checks([*self.curves, *self.others], self.by_source)


@cached_by_table
def published_curves(published: pd.DataFrame) -> PublishedCurves:
    """Return the published curves, and their calibration."""
    curves, others = reading.published(published), reading.azure()
    every = [*curves, *others]
    return PublishedCurves(curves, others, learn(every), by_source(every))


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
    from_all_below = [(c, i) for c, i in predictions if len(c.cut.lower.ranks) == len(c.cut.curve.ranks) - 1]
    nearest = [abs(float(check.error[i])) for check, i in from_all_below]
    held = sum(bool(check.held[i]) for check, i in predictions)
    sources = {id(check.cut.curve): check.cut.curve.source for check, _ in predictions}
    low, high = proportion(held, len(predictions)).interval
    machines = len(set(sources.values()))
    return Accuracy(len(sources), machines, float(np.median(nearest)), held, len(predictions), low, high)


def accuracy_sentence(accuracy: Accuracy) -> str:
    """Return the accuracy in one sentence."""
    share = f"{accuracy.held / accuracy.points:.0%}; {accuracy.low:.0%} to {accuracy.high:.0%}, were they independent"
    return (
        f"Checked on the {accuracy.curves} published curves with points above {ABOVE} ranks, each calibrated on "
        f"the curves of other machines: the largest point was predicted from all below it within "
        f"{accuracy.largest_error:.1%} (median), and the {LEVEL:.0%} interval held {accuracy.held} of "
        f"{accuracy.points} points ({share}), on {accuracy.machines} machines."
    )
