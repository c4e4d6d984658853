"""The measured points of one scaling curve, and the sizes to predict it at."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from analysis import metrics


@dataclass(frozen=True)
class Doubt:
    """Why points carry no prediction, however many there are; of these numbers of ranks, or of all."""

    reason: str
    ranks: tuple[int, ...] = ()

    def __str__(self) -> str:
        """The reason with its ranks."""
        return f"{self.reason}: {', '.join(map(str, self.ranks))} ranks" if self.ranks else self.reason


@dataclass(frozen=True, eq=False)
class Curve:
    """Points by ranks, one array element each. Points at the same number of ranks differ in their batch."""

    model: str
    name: str  # what tells it from other curves, in words
    source: str  # the machine: curves of one machine are not independent
    ranks: np.ndarray  # ascending
    batch: np.ndarray  # images of a rank in one step; 1 where it is not known
    images_per_s: np.ndarray  # of the whole job
    spread: np.ndarray  # standard error of images_per_s, as a fraction; NaN where it is not known
    repeats: np.ndarray  # measurements behind each point
    ranks_per_node: float = math.nan  # NaN: not known
    doubts: tuple[Doubt, ...] = ()
    compute_s: float = math.nan  # the step without allreduce; NaN: not measured
    parameters: float = math.nan  # of the model
    link_mbit_per_s: float = math.nan  # the limit of an emulated link
    # As measured in the jobs of the points; NaN: not known.
    compute_limit_images_per_s: float = math.nan  # of one rank, whose processors do nothing but multiply
    ring_s: float = math.nan  # all gradients over the slowest link: 2 (n - 1) / n of it is the shortest exchange
    series: str = ""  # of local records
    # Whether the gradients may go through a server that saturates beyond the points, which nothing in them tells: how
    # they are exchanged is not known. An allreduce, or a server on each node, grows with the ranks.
    may_saturate: bool = False
    work: str = "images"  # what its rates count: "tokens", "epochs", ...; "" for rates without a unit

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
        """The position of the point that speedups are over: the fewest ranks, of these the largest batch."""
        return int(np.lexsort((-self.batch, self.ranks))[0])

    def nodes(self, ranks: np.ndarray) -> np.ndarray:
        """Nodes that so many ranks take; a node of its own for each rank where their number is not known."""
        per_node = 1 if math.isnan(self.ranks_per_node) else self.ranks_per_node
        return np.ceil(np.asarray(ranks, float) / per_node)

    def only(self, which: np.ndarray) -> Curve:
        """The curve with only those points that the mask selects, and the doubts about them."""
        cut = {name: getattr(self, name)[which] for name in ("ranks", "batch", "images_per_s", "spread", "repeats")}
        left = [doubt for doubt in self.doubts if not doubt.ranks or {*doubt.ranks} & {*cut["ranks"].tolist()}]
        return replace(self, doubts=tuple(left), **cut)

    def relative_error(self, noise: float) -> np.ndarray:
        """The error of each point over that of a typical one, whose noise is given as a fraction.

        Where its standard error is known, both add in quadrature; else n measurements count as n.
        """
        by_repeats = np.sqrt(np.median(self.repeats) / self.repeats)
        known = np.isfinite(self.spread)
        return np.where(known, np.sqrt(1 + (np.where(known, self.spread, 0) / noise) ** 2), by_repeats)


@dataclass(frozen=True, eq=False)
class Sizes:
    """Sizes to predict a curve at, one array element each."""

    ranks: np.ndarray
    batch: np.ndarray  # of one rank


def weak(curve: Curve, ranks: np.ndarray) -> Sizes:
    """Sizes that keep the batch of a rank: that of the curve's points on the fewest ranks."""
    ranks = np.asarray(ranks, float)
    return Sizes(ranks, np.full(len(ranks), curve.batch[curve.base]))


def strong(ranks: np.ndarray, global_batch: float) -> Sizes:
    """Sizes that keep the global batch: each rank has its share of it."""
    ranks = np.asarray(ranks, float)
    return Sizes(ranks, global_batch / ranks)


def joined(curves: list[Curve]) -> list[Curve]:
    """Curves of one model, machine and node put together, whose batches per rank differ; others as they are."""
    groups: dict[tuple[str, str, float], list[Curve]] = {}
    for curve in curves:
        per_node = -1.0 if math.isnan(curve.ranks_per_node) else curve.ranks_per_node
        groups.setdefault((curve.model, curve.source, per_node), []).append(curve)
    return [_one(of) for of in groups.values()]


def _one(curves: list[Curve]) -> Curve:
    if len(curves) == 1:
        return curves[0]
    names = ("ranks", "batch", "images_per_s", "spread", "repeats")
    found = {name: np.concatenate([getattr(curve, name) for curve in curves]) for name in names}
    order = np.lexsort((found["batch"], found["ranks"]))
    doubts = tuple(dict.fromkeys(doubt for curve in curves for doubt in curve.doubts))
    sorted_by_ranks = {name: values[order] for name, values in found.items()}
    return replace(curves[0], name="several batches", doubts=doubts, compute_s=math.nan, **sorted_by_ranks)
