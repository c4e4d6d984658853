"""Predictions for more ranks: the points of one scaling curve, and its predicted time of a step with an interval.

The time of a step grows with the logarithm of the ranks, as an exchange does, or with the ranks, as with a serial part
(Amdahl) or a fixed cost of each job: the latter where it fits the points ten times better. How far such predictions
were off on the public curves is the interval. The points do not show what bends beyond them. Beyond one doubling,
therefore, the lower end allows for a resource that all ranks share and that saturates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis import grouped, metrics
from analysis.thresholds import limit
from record.intervals import student_quantile

_ARRAYS = ("ranks", "batch", "images_per_s", "spread")


SHARED_CORES = "ranks shared cores"  # on this machine; not with more hosts


@dataclass(frozen=True)
class Obstacle:
    """A reason why points support no prediction, however many there are; at these numbers of ranks, or at all."""

    reason: str
    ranks: tuple[int, ...] = ()

    def __str__(self) -> str:
        """The reason with its ranks."""
        return f"{self.reason}: {', '.join(map(str, self.ranks))} ranks" if self.ranks else self.reason


@dataclass(frozen=True, eq=False)
class Curve:
    """Points by ranks, one array element each. Points at the same number of ranks differ in their batch."""

    model: str
    name: str  # its setting: machine, batch, ...
    source: str  # the machine: curves of one machine are not independent
    ranks: np.ndarray  # ascending
    batch: np.ndarray  # images of a rank in one step; 1 where it is not known
    images_per_s: np.ndarray  # of the whole job
    spread: np.ndarray  # standard error of images_per_s, as a fraction; NaN where it is not known
    ranks_per_node: float = math.nan  # NaN: not known
    obstacles: tuple[Obstacle, ...] = ()
    # Bounds of a step; 0: not known.
    compute_s: float = 0.0  # the step without allreduce
    image_s: float = 0.0  # of one rank, whose processors do nothing but multiply
    # All gradients over the slowest link: 2 (n - 1) / n of it is the shortest exchange between n ranks, or n nodes.
    ring_s: float = 0.0  # as measured between ranks
    link_s: float = 0.0  # over an emulated link of each node
    series: str = ""  # of local records
    measure: str = "report"  # the effort of the points, as in MEASURE=
    max_nodes: float = math.inf  # that the machine of the points holds
    # Whether the gradients may go through a server that saturates beyond the points: how they are exchanged is not
    # known. An allreduce, or a server on each node, grows with the ranks.
    may_saturate: bool = False
    unit: str = "images/s"  # of its rates; "1/s": what they count is not known
    finer_nodes: int = 0  # that the machine of the points can be divided into, for a curve with more sizes; 0: none

    @property
    def step_s(self) -> np.ndarray:
        """Seconds of a step at each point; of one image where the batch is not known."""
        return metrics.step_s(self.batch, metrics.per_rank(self.images_per_s, self.ranks))

    @property
    def strong(self) -> bool:
        """Whether batches per rank vary among the points."""
        return len(np.unique(self.batch)) > 1

    @property
    def largest(self) -> float:
        """The largest number of ranks."""
        return float(self.ranks.max())

    @property
    def base(self) -> int:
        """The position of the base of speedups: the fewest ranks, with the largest batch."""
        return int(np.lexsort((-self.batch, self.ranks))[0])

    def nodes(self, ranks: float) -> int:
        """Return the nodes that so many ranks take; one for each rank where the ranks of a node are not known."""
        return math.ceil(ranks / (1 if math.isnan(self.ranks_per_node) else self.ranks_per_node))

    def only(self, mask: np.ndarray) -> Curve:
        """Return the curve with only those points that the mask selects, and their obstacles."""
        arrays = {name: getattr(self, name)[mask] for name in _ARRAYS}
        ranks = {*arrays["ranks"].tolist()}
        obstacles = tuple(o for o in self.obstacles if not o.ranks or {*o.ranks} & ranks)
        return replace(self, obstacles=obstacles, **arrays)


@dataclass(frozen=True, eq=False)
class Sizes:
    """Sizes to predict a curve at, one array element each."""

    ranks: np.ndarray
    batch: np.ndarray  # of one rank


def sizes(curve: Curve, ranks: Sequence[float] | np.ndarray, global_batch: float | None = None) -> Sizes:
    """Return sizes with a global batch; without one, with the batch per rank of the curve on the fewest ranks."""
    ranks = np.asarray(ranks, float)
    return Sizes(ranks, np.full(len(ranks), curve.batch[curve.base]) if global_batch is None else global_batch / ranks)


def joined(curves: list[Curve]) -> list[Curve]:
    """Return curves of one model, machine and node joined where their batches per rank differ; others as they are."""
    groups = grouped(curves, lambda curve: (curve.model, curve.source, np.nan_to_num(curve.ranks_per_node, nan=-1.0)))
    return [_joined(group) for group in groups.values()]


def _joined(curves: list[Curve]) -> Curve:
    if len(curves) == 1:
        return curves[0]
    arrays = {name: np.concatenate([getattr(curve, name) for curve in curves]) for name in _ARRAYS}
    order = np.lexsort((arrays["batch"], arrays["ranks"]))
    obstacles = tuple(dict.fromkeys(obstacle for curve in curves for obstacle in curve.obstacles))
    sorted_by_ranks: dict[str, Any] = {name: values[order] for name, values in arrays.items()}
    return replace(curves[0], name="several batches", obstacles=obstacles, compute_s=0.0, **sorted_by_ranks)


LEVEL = 0.90
MIN_POINTS = 3  # two coefficients, and a third point that shows how well they fit


@dataclass(frozen=True)
class Learned:
    """The calibration by other curves: how far the interval of ln(time of a step) reaches at one doubling."""

    reach: float

    def at(self, curve: Curve, doublings: np.ndarray) -> np.ndarray:
        """Return how far the interval of a curve reaches to either side, at each size.

        It is the learned reach, which includes the scatter of the public curves, or the scatter of the curve's own
        points, whichever is larger. The reach of a point itself is 1 / sqrt 3 of that of one doubling, as for noise of
        the points.
        """
        return np.asarray(max(self.reach, _scatter(curve)) * np.sqrt((1 + 2 * doublings**2) / 3))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Images/s of the whole job at each size, with the interval of one measurement there."""

    images_per_s: np.ndarray
    low: np.ndarray
    high: np.ndarray


def extrapolated(curve: Curve, at: Sizes) -> np.ndarray:
    """Return the logarithm of the time of a step at each size; between the points it is interpolated.

    Beyond them it is the fitted time, scaled so that it is that of the largest point there.
    """
    fitted = _fitted(curve, at)
    if curve.strong:
        return fitted
    x, inverse = np.unique(np.log2(curve.ranks), return_inverse=True)
    y = np.bincount(inverse, np.log(curve.step_s)) / np.bincount(inverse)
    beyond = y[-1] + fitted - _fitted(curve, Sizes(curve.ranks[-1:], curve.batch[-1:]))
    return np.asarray(np.where(at.ranks > curve.largest, beyond, np.interp(np.log2(at.ranks), x, y)))


_LOGARITHM: Callable[[np.ndarray], np.ndarray] = np.log2
_GROWTHS = (_LOGARITHM, np.positive)
_BETTER = 10  # so many times smaller must the squares be for growth with the ranks themselves, of four sizes or more


def _fitted(curve: Curve, at: Sizes | Curve) -> np.ndarray:
    """Return the logarithm of a step's time T + s g(n), or T + k batch + s g(n) where batches vary, g as it fits.

    The coefficients are at least 0 (non-negative least squares of the relative residuals), so that no time is negative.
    """
    from scipy.optimize import nnls

    def columns(sizes: Curve | Sizes, growth: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        batch = [sizes.batch] if curve.strong else []
        return np.column_stack([np.ones(len(sizes.ranks)), *batch, growth(sizes.ranks)])

    times, squares = [], []
    for growth in _GROWTHS if len(np.unique(curve.ranks)) > MIN_POINTS else _GROWTHS[:1]:
        weighted = columns(curve, growth) / curve.step_s[:, None]
        lengths = np.linalg.norm(weighted, axis=0)
        lengths[lengths == 0] = 1.0
        coefficients, residual = nnls(weighted / lengths, np.ones(len(curve.ranks)))
        times.append(np.log(columns(at, growth) @ (coefficients / lengths)))
        squares.append(residual**2)
    return np.asarray(times[-1] if squares[-1] < squares[0] / _BETTER else times[0])


def _scatter(curve: Curve) -> float:
    """Return how far 90 % of the points of a curve are from the fitted time, by Student's t.

    0 for fewer than four points, or if batches vary.
    """
    residuals = np.log(curve.step_s) - _fitted(curve, curve)
    degrees = len(residuals) - 2
    if curve.strong or degrees < 2:
        return 0.0
    return student_quantile(LEVEL, degrees) * math.sqrt(float(residuals @ residuals) / degrees)


def shortest_step_s(curve: Curve, at: Sizes) -> np.ndarray:
    """Return the shortest time of a step that processors and links allow, as far as they are known; else 0.

    It is the longest of the single bounds: an exchange may be hidden behind computing.
    """
    nodes = np.array([curve.nodes(ranks) for ranks in at.ranks.tolist()])
    compute_s = np.full(len(at.ranks), 0.0 if curve.strong else curve.compute_s)
    exchange_s = np.maximum(metrics.hops(at.ranks) * curve.ring_s, metrics.hops(nodes) * curve.link_s)
    return np.maximum(np.maximum(compute_s, at.batch * curve.image_s), exchange_s)


def _least_s(curve: Curve, at: Sizes) -> np.ndarray:
    """Return the logarithm of the time of a step if each rank were as fast as at the base of the speedups.

    It is less if measured points are above that ideal. They are then taken to go on as the one that gains most at each
    doubling.
    """
    base = curve.base
    rate = metrics.per_rank(float(curve.images_per_s[base]), float(curve.ranks[base]))
    doublings = np.log2(curve.ranks / curve.ranks[base])
    more = doublings > 0
    over_ideal = np.log(curve.step_s / (curve.batch / rate))
    gain = (over_ideal[more] / doublings[more]).min(initial=0.0)
    return np.asarray(np.log(at.batch / rate) + gain * np.log2(at.ranks / curve.ranks[base]))


def predict(curve: Curve, at: Sizes, learned: Learned) -> Prediction:
    """Return images/s at each size, with the 90 % interval of a measurement there.

    No value is beyond a known bound, or above the ideal unless measured points are. The upper end may be above the
    ideal by the noise of the point that the ideal is from. Beyond one doubling the lower end is at most the rate of
    the largest point, less the noise of both measurements: a resource that all share may saturate. If it is not known
    how gradients are exchanged, this holds from the largest point on.
    """
    doublings = np.maximum(np.log2(at.ranks / curve.largest), 0)
    reach, noise, least_s = learned.at(curve, doublings), float(learned.at(curve, np.zeros(1))[0]), _least_s(curve, at)
    value = np.maximum(extrapolated(curve, at), least_s)
    fastest = np.maximum(value - reach, least_s - noise)
    slowest = value + reach
    saturating = (doublings > 1) | ((doublings > 0) & curve.may_saturate)
    largest = float(curve.images_per_s[curve.ranks == curve.largest].min())
    saturated = np.log(at.batch * at.ranks / largest)  # the rate stays that of the largest
    slowest = np.where(saturating, np.maximum(slowest, saturated + math.sqrt(2) * noise), slowest)

    def rate(ln_s: np.ndarray) -> np.ndarray:
        step_s = np.maximum(np.exp(ln_s), shortest_step_s(curve, at))
        return metrics.job_total(metrics.rate(at.batch, step_s), at.ranks)

    return Prediction(rate(value), rate(slowest), rate(fastest))


def why_not(curve: Curve, ranks: float, batch: float) -> str:
    """Return why the curve supports no prediction at a size; "" if it does."""
    different = len(np.unique(curve.ranks))
    if curve.obstacles:
        return "; ".join(map(str, curve.obstacles))
    if different < MIN_POINTS:
        have = f"{different or 'no'} number{'s' * (different != 1)} of ranks measured"
        return f"{have}, at least {MIN_POINTS} are needed"
    if batch not in curve.batch and not curve.strong:
        return "the batch of a rank changes: points at two batches per rank or more are needed"
    if batch < 1 and curve.batch.max() > 1:
        return f"a global batch of {batch * ranks:g} leaves some of {ranks:g} ranks without an image"
    if ranks < curve.ranks.min():
        return f"fewer ranks than the smallest point ({curve.ranks.min():g})"
    if curve.nodes(ranks) > 1 and curve.nodes(curve.largest) == 1:
        return f"no point on two nodes or more: all are on one node of {curve.ranks_per_node:g} ranks"
    doublings, most = math.log2(ranks / curve.largest), limit("doublings")
    if doublings > most:
        return f"{doublings:.3g} doublings beyond {curve.largest:g} ranks, at most {most:g} can be carried"
    return ""


def supported(curve: Curve, at: Curve | Sizes) -> np.ndarray:
    """Return for each size whether the curve supports a prediction there."""
    return np.array(
        [not why_not(curve, *size) for size in zip(at.ranks.tolist(), at.batch.tolist(), strict=True)], bool
    )
