"""Predictions for more ranks: the points of one scaling curve, whose last doubling goes on, with an interval.

How far such predictions were off on the public curves, and on the curve's own points, is the interval. The points do
not show what bends beyond them. Beyond one doubling, therefore, the lower end allows for a resource that all ranks
share and that saturates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis import metrics
from analysis.thresholds import limit
from common.grouping import grouped

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

    @property
    def step_s(self) -> np.ndarray:
        """Seconds of a step at each point; of one image where the batch is not known."""
        return metrics.step_s(self.batch, metrics.per_rank(self.images_per_s, self.ranks))

    @property
    def strong(self) -> bool:
        """Whether batches per rank vary among the points."""
        return len(np.unique(self.batch)) > 1

    @property
    def global_batch(self) -> float | None:
        """The batch of all ranks, where that is constant and the batch of a rank is not; else None."""
        total = self.batch * self.ranks
        return float(total[0]) if self.strong and np.allclose(total, total[0]) else None

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

    def batch_at(self, ranks: np.ndarray) -> np.ndarray:
        """Return the batch of a rank at each number of ranks: the constant one, or a share of the global batch."""
        total = self.global_batch
        return np.full(len(ranks), self.batch[self.base]) if total is None else total / ranks

    def only(self, mask: np.ndarray) -> "Curve":
        """Return the curve with only those points that the mask selects, and their obstacles."""
        arrays = {name: getattr(self, name)[mask] for name in _ARRAYS}
        ranks = {*arrays["ranks"].tolist()}
        obstacles = tuple(o for o in self.obstacles if not o.ranks or {*o.ranks} & ranks)
        return replace(self, obstacles=obstacles, **arrays)


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
MIN_SIZES = 2  # numbers of ranks: between them the rate grows as it is predicted to go on
_NORMAL = 1.645  # standard errors to either side that hold 90 % of normal values
# Of the reach at one doubling: an error there is that of three points, 2 ln a - ln b - ln c, with a variance of 6; two
# points alone differ with a variance of 2.
_OF_TWO_POINTS = math.sqrt(2 / 6)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Images/s of the whole job at each number of ranks, with the interval of one measurement there."""

    images_per_s: np.ndarray
    low: np.ndarray
    high: np.ndarray


def doublings(curve: Curve, ranks: np.ndarray) -> np.ndarray:
    """Return how many doublings each number of ranks is beyond the largest of a curve; 0 for fewer ranks."""
    return np.maximum(np.log2(ranks / curve.largest), 0.0)


def continued(curve: Curve, ranks: np.ndarray) -> np.ndarray:
    """Return images/s as if the last doubling of the rate went on; between the points they are interpolated.

    The last doubling is that from the largest number of ranks which is at most half of the largest, or from the
    smallest.
    """
    x, y = np.log(curve.ranks), np.log(curve.images_per_s)
    first = _start_of_doubling(curve)
    slope = (y[-1] - y[first]) / (x[-1] - x[first])
    beyond = y[-1] + slope * (np.log(ranks) - x[-1])
    return np.exp(np.where(ranks > curve.largest, beyond, np.interp(np.log(ranks), x, y)))


def _start_of_doubling(curve: Curve) -> int:
    """Return the position of the point from which the last doubling begins."""
    return max(0, int(np.searchsorted(curve.ranks, curve.largest / 2, side="right")) - 1)


def own_error(curve: Curve) -> float:
    """Return the largest error, as a logarithm, at which points of the curve are predicted from all smaller ones."""
    errors = [0.0]
    for n in range(MIN_SIZES, len(curve.ranks)):
        lower = curve.only(np.arange(len(curve.ranks)) < n)
        predicted = continued(lower, curve.ranks[n : n + 1])[0]
        errors.append(abs(math.log(predicted / curve.images_per_s[n])))
    return max(errors)


def reaches(curve: Curve, ranks: np.ndarray, learned: float) -> np.ndarray:
    """Return how far the interval of ln(images/s) reaches to either side at each number of ranks.

    `learned` is the error of the public curves at one doubling. It counts, or that of the curve's own points if that is
    larger, for each doubling; with the standard errors of the two points that the prediction begins from.
    """
    first = _start_of_doubling(curve)
    away = np.maximum(np.log(ranks / curve.largest), 0) / math.log(curve.largest / curve.ranks[first])
    first_error, last_error = np.nan_to_num(curve.spread)[[first, -1]]
    noise = _NORMAL * np.hypot((1 + away) * last_error, away * first_error)
    return np.hypot(max(learned, own_error(curve)) * np.maximum(doublings(curve, ranks), 1), noise)


def predict(curve: Curve, ranks: Sequence[float] | np.ndarray, learned: float) -> Prediction:
    """Return images/s at each number of ranks, with the 90 % interval of a measurement there.

    No value is beyond a known bound. The upper end is above the ideal, that of the fastest measured rank or of a better
    last doubling, by no more than two points differ. Beyond one doubling the lower end is at most the rate of the
    largest point, less the error of one doubling: a resource that all share may saturate. If it is not known how
    gradients are exchanged, this holds from the largest point on. `learned`: as of `reaches`.
    """
    ranks = np.asarray(ranks, float)
    rate, reach = continued(curve, ranks), reaches(curve, ranks, learned)
    one_doubling = float(reaches(curve, np.array([2 * curve.largest]), learned)[0])
    ideal = np.maximum((curve.images_per_s / curve.ranks).max() * ranks, rate)
    beyond = doublings(curve, ranks)
    saturating = (beyond > 1) | ((beyond > 0) & curve.may_saturate)
    low = np.where(saturating, np.minimum(rate, curve.images_per_s[-1] * math.exp(-one_doubling)), rate)
    low = np.minimum(low, rate * np.exp(-reach))
    high = np.minimum(rate * np.exp(reach), ideal * math.exp(one_doubling * _OF_TWO_POINTS))
    bound = highest_rate(curve, ranks)
    return Prediction(np.minimum(rate, bound), np.minimum(low, bound), np.minimum(high, bound))


def highest_rate(curve: Curve, ranks: np.ndarray) -> np.ndarray:
    """Return the highest images/s that processors and links allow, as far as they are known; else infinity.

    The shortest step is the longest of the single bounds: an exchange may be hidden behind computing.
    """
    nodes, batch = np.array([curve.nodes(n) for n in ranks.tolist()]), curve.batch_at(ranks)
    compute_s = np.full(len(ranks), 0.0 if curve.strong else curve.compute_s)
    exchange_s = np.maximum(metrics.hops(ranks) * curve.ring_s, metrics.hops(nodes) * curve.link_s)
    shortest_s = np.maximum(np.maximum(compute_s, batch * curve.image_s), exchange_s)
    with np.errstate(divide="ignore"):
        return np.asarray(metrics.job_total(metrics.rate(batch, shortest_s), ranks))


def why_not(curve: Curve, ranks: float) -> str:
    """Return why the curve supports no prediction at a number of ranks; "" if it does."""
    different = len(np.unique(curve.ranks))
    if curve.obstacles:
        return "; ".join(map(str, curve.obstacles))
    if different < MIN_SIZES:
        have = f"{different or 'no'} number{'s' * (different != 1)} of ranks measured"
        return f"{have}, at least {MIN_SIZES} are needed"
    if different < len(curve.ranks):
        return "several batches were measured at one number of ranks: which one goes on?"
    if curve.strong and curve.global_batch is None:
        return "both the batch of a rank and the global batch vary"
    if curve.global_batch and curve.global_batch < ranks and curve.batch.max() > 1:
        return f"a global batch of {curve.global_batch:g} leaves some of {ranks:g} ranks without an image"
    if ranks < curve.ranks.min():
        return f"fewer ranks than the smallest point ({curve.ranks.min():g})"
    if curve.nodes(ranks) > 1 and curve.nodes(curve.largest) == 1:
        return f"no point on two nodes or more: all are on one node of {curve.ranks_per_node:g} ranks"
    beyond, most = math.log2(ranks / curve.largest), limit("doublings")
    if beyond > most:
        return f"{beyond:.3g} doublings beyond {curve.largest:g} ranks, at most {most:g} can be carried"
    return ""
