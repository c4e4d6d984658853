"""The points to measure next: those that narrow the intervals of the targets most for their cost.

Points are chosen by benefit and cost, as in Ernest's experiment design (Venkataraman et al., NSDI'16, section 4).
"""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis import metrics
from analysis.documents import counted
from analysis.predict import MIN_POINTS, SHARED_CORES, Curve, Learned, Sizes, extrapolated, predict, supported
from analysis.predict.answers import title
from common.terminal import paragraph
from common.typed_commands import changed

MAX_POINTS = 2
# The least narrowing of the intervals that is worth a launch: a fraction of their width.
_WORTH = 0.05
# The cost of a point with MEASURE=report: launches, and steps of each (10 of warm-up, 100 timed).
_LAUNCHES, _STEPS = 6, 110


@dataclass(frozen=True)
class NextPoint:
    """A point to measure. `before`, `after`: how far the interval reaches on average over the targets, as a factor."""

    ranks: int
    nodes: int
    node_hours: float  # NaN: the time of a step is not known
    before: float  # NaN where a target was not supported without it
    after: float


def next_points(curve: Curve, at: Sizes, learned: Learned, fixed_s: float = 0.0) -> list[NextPoint]:
    """Return up to two points worth measuring for these targets, the best one first; none if no point helps.

    If targets are not supported, they are the cheapest points that support most of them. The interval after is
    expected if the points turn out as predicted. `fixed_s`: the fixed cost of a launch.
    """
    points: list[NextPoint] = []
    while len(curve.ranks) and not curve.obstacles and len(points) < MAX_POINTS:
        before = _state(curve, at, learned)
        worth: list[tuple[tuple[float, ...], Curve, NextPoint]] = []
        for ranks in _candidates(curve, at):
            more, nodes = _with(curve, ranks), curve.nodes(ranks)
            after, hours = _state(more, at, learned), _node_hours(more, ranks, fixed_s)
            if order := _worth(before, after, nodes if math.isnan(hours) else hours):
                reach = math.exp(before.width / 2) if before.supported == after.supported else math.nan
                point = NextPoint(int(ranks), nodes, hours, reach, math.exp(after.width / 2))
                worth.append((order, more, point))
        if not worth:
            break
        _, curve, point = max(worth, key=lambda option: option[0])
        points.append(point)
    return points


@dataclass(frozen=True)
class _State:
    """How many targets a curve supports, and the mean logarithm of high / low of their intervals.

    `sizes`: different numbers of ranks among its points, as far as they are needed.
    """

    supported: int
    width: float
    sizes: int


def _state(curve: Curve, at: Sizes, learned: Learned) -> _State:
    targets, different = supported(curve, at), min(len(np.unique(curve.ranks)), MIN_POINTS)
    if not targets.any():
        return _State(0, math.inf, different)
    prediction = predict(curve, Sizes(at.ranks[targets], at.batch[targets]), learned)
    return _State(int(targets.sum()), float(np.mean(np.log(prediction.high / prediction.low))), different)


def _candidates(curve: Curve, at: Sizes) -> list[float]:
    """Return numbers of ranks up to the largest target that are not measured: powers of two, of ranks or nodes.

    None that the machine of the curve has no room for.
    """
    largest = float(at.ranks.max())
    powers = 2.0 ** np.arange(math.floor(math.log2(largest)) + 1)
    if math.isfinite(curve.ranks_per_node):
        within = powers[powers < curve.ranks_per_node]
        powers = np.append(within, powers * curve.ranks_per_node)
    unmeasured = (n for n in powers.tolist() if curve.ranks.min() < n <= largest and n not in curve.ranks)
    return [n for n in unmeasured if curve.nodes(n) <= curve.max_nodes]


def _with(curve: Curve, ranks: float) -> Curve:
    """Return the curve with one more point, where it is expected."""
    batch = float(curve.batch[curve.base])
    if curve.strong:
        batch *= float(curve.ranks[curve.base]) / ranks
    step_s = float(np.exp(extrapolated(curve, Sizes(np.array([ranks]), np.array([batch])))[0]))
    rate = metrics.job_total(metrics.rate(batch, step_s), ranks)
    at = int(np.searchsorted(curve.ranks, ranks))
    row = {"ranks": ranks, "batch": batch, "images_per_s": rate, "spread": math.nan}
    arrays: dict[str, Any] = {name: np.insert(getattr(curve, name), at, value) for name, value in row.items()}
    return replace(curve, **arrays)


def _node_hours(more: Curve, ranks: float, fixed_s: float) -> float:
    """Return the node hours of a point; NaN where the batch, and so the time of a step, is not known."""
    if float(more.batch.max()) <= 1:
        return math.nan
    seconds = _LAUNCHES * (fixed_s + _STEPS * float(more.step_s[more.ranks == ranks].max()))
    return more.nodes(ranks) * seconds / 3600


def _worth(before: _State, after: _State, price: float) -> tuple[float, ...]:
    """Return a sort key: more targets supported, then more narrowing for the cost; empty where it is not worth it."""
    if after.supported > before.supported:
        return (after.supported, 1 / price)
    if not before.supported and after.sizes > before.sizes:
        return (0, 1 / price)
    narrower = before.width - after.width
    if before.supported and after.supported == before.supported and narrower > _WORTH * before.width:
        return (before.supported, narrower / price)
    return ()


def with_nodes(command: Sequence[str], nodes: int, **more: str) -> str:
    """Return the command of make that measured a curve, with so many nodes and more variables."""
    return shlex.join(changed(command, {"ONLY": "", "NODES": str(nodes), **more}))


def command(curve: Curve, points: Sequence[NextPoint], experiment: str, typed: Sequence[str] = ()) -> str:
    """Return the command that measures these points, up to the largest; measured points are not measured again.

    It is that which measured the curve, if it is known (`typed`).
    """
    largest = max(points, key=lambda point: point.ranks)
    if typed:
        return with_nodes(typed, largest.nodes)
    per_node = 1 if math.isnan(curve.ranks_per_node) else min(int(curve.ranks_per_node), largest.ranks)
    batch = float(curve.batch[curve.base])
    keys = {"ranks_per_node": str(per_node)} if per_node > 1 else {}
    keys |= (
        {"batch_per_rank": f"{batch:g}"} if batch > 1 and not (curve.strong or experiment == "strong_scaling") else {}
    )
    variables = {"MODELS": curve.model, "MEASURE": curve.measure if curve.measure != "quick" else ""}
    return shlex.join(changed(["make", experiment.replace("_", "-"), f"NODES={largest.nodes}"], variables, keys))


def full(curve: Curve, experiment: str, typed: Sequence[str] = ()) -> str:
    """Return how to measure more sizes than the machine of a curve holds; "" if it holds more than the largest point.

    With too few sizes for a prediction, smaller nodes are advised, if it can be divided further: a separate curve.
    """
    others = [obstacle for obstacle in curve.obstacles if obstacle.reason != SHARED_CORES]
    if others or curve.nodes(2 * curve.largest) <= curve.max_nodes:
        return ""
    text = f"{title(curve)}: the machine has room for {counted(int(curve.max_nodes), 'node')} like these. "
    text += "More sizes need more hosts (docs/clusters.md)"
    typed = [*typed] or ["make", experiment.replace("_", "-"), f"MODELS={curve.model}"]
    if len(np.unique(curve.ranks)) < MIN_POINTS <= curve.finer_nodes:
        here = paragraph(f"{text}, or smaller nodes on this one:")
        return f"{here}\n    {with_nodes(typed, curve.finer_nodes)}"
    nodes = curve.nodes(curve.largest) * (1 if curve.obstacles else 2)
    return f"{paragraph(f'{text}:')}\n    {with_nodes(typed, nodes, LAUNCHER='ssh', HOSTS='...')}"


def sentence(curve: Curve, points: Sequence[NextPoint], command: str) -> str:
    """Return the points to measure next for one curve, and the command for them."""
    proposals = "; then ".join(map(_point_text, points))
    filled = paragraph(f"To measure next, {title(curve)}: {proposals}.")
    return f"{filled}\n    {command}" if command else filled


def _point_text(point: NextPoint) -> str:
    cost = "" if math.isnan(point.node_hours) else f", about {point.node_hours:.2g} node hours"
    label = f"{point.ranks} ranks ({counted(point.nodes, 'node')}{cost})"
    if math.isinf(point.after):
        return label
    if math.isnan(point.before):
        return f"{label}, with which a target is supported, within a factor of {point.after:.2f}"
    return f"{label}, which narrows the interval from a factor of {point.before:.2f} to {point.after:.2f}"
