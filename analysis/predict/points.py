"""The measured points of one scaling curve, and the sizes to predict it at."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis import metrics

_ARRAYS = ("ranks", "batch", "images_per_s", "spread", "repeats")


@dataclass(frozen=True)
class Doubt:
    """The reason why points support no prediction, however many there are; for these numbers of ranks, or for all."""

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
    # Whether the gradients may go through a server that saturates beyond the points: how they are exchanged is not
    # known. An allreduce, or a server on each node, grows with the ranks.
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
        """The position of the base of speedups: the fewest ranks, with the largest batch."""
        return int(np.lexsort((-self.batch, self.ranks))[0])

    def nodes(self, ranks: np.ndarray) -> np.ndarray:
        """Return the nodes that so many ranks take; one for each rank where the ranks of a node are not known."""
        per_node = 1 if math.isnan(self.ranks_per_node) else self.ranks_per_node
        return np.ceil(np.asarray(ranks, float) / per_node)

    def only(self, which: np.ndarray) -> Curve:
        """Return the curve with only those points that the mask selects, and the doubts about them."""
        arrays = {name: getattr(self, name)[which] for name in _ARRAYS}
        left = [doubt for doubt in self.doubts if not doubt.ranks or {*doubt.ranks} & {*arrays["ranks"].tolist()}]
        return replace(self, doubts=tuple(left), **arrays)


@dataclass(frozen=True, eq=False)
class Sizes:
    """Sizes to predict a curve at, one array element each."""

    ranks: np.ndarray
    batch: np.ndarray  # of one rank


def weak(curve: Curve, ranks: np.ndarray) -> Sizes:
    """Return sizes with a constant batch per rank: that of the curve's points on the fewest ranks."""
    ranks = np.asarray(ranks, float)
    return Sizes(ranks, np.full(len(ranks), curve.batch[curve.base]))


def strong(ranks: np.ndarray, global_batch: float) -> Sizes:
    """Return sizes with a constant global batch: each rank has its share of it."""
    ranks = np.asarray(ranks, float)
    return Sizes(ranks, global_batch / ranks)


def joined(curves: list[Curve]) -> list[Curve]:
    """Return curves of one model, machine and node joined where their batches per rank differ; others as they are."""
    groups: dict[tuple[str, str, float], list[Curve]] = {}
    for curve in curves:
        per_node = -1.0 if math.isnan(curve.ranks_per_node) else curve.ranks_per_node
        groups.setdefault((curve.model, curve.source, per_node), []).append(curve)
    return [_joined(group) for group in groups.values()]


def _joined(curves: list[Curve]) -> Curve:
    if len(curves) == 1:
        return curves[0]
    arrays = {name: np.concatenate([getattr(curve, name) for curve in curves]) for name in _ARRAYS}
    order = np.lexsort((arrays["batch"], arrays["ranks"]))
    doubts = tuple(dict.fromkeys(doubt for curve in curves for doubt in curve.doubts))
    sorted_by_ranks: dict[str, Any] = {name: values[order] for name, values in arrays.items()}
    return replace(curves[0], name="several batches", doubts=doubts, compute_s=math.nan, **sorted_by_ranks)
