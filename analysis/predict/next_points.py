"""The point to measure next: the next doubling, from which a prediction reaches one doubling less far."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis import metrics
from analysis.documents import counted
from analysis.predict import SHARED_CORES, Curve, continued, why_not
from analysis.predict.predicted_targets import title
from common.terminal import paragraph
from common.typed_commands import changed

# The cost of a point with MEASURE=report: launches, and steps of each (10 of warm-up, 100 timed).
_LAUNCHES, _STEPS = 6, 110


@dataclass(frozen=True)
class NextPoint:
    """A point to measure."""

    ranks: int
    nodes: int
    node_hours: float  # NaN: the time of a step is not known


def next_point(curve: Curve, targets: Sequence[int], fixed_s: float = 0.0) -> NextPoint | None:
    """Return the point to measure for these targets; None if there is none, or the machine has no room for it.

    It is the next doubling, or two full nodes if all points are on one. `fixed_s`: the fixed cost of a launch.
    """
    if not len(curve.ranks) or curve.obstacles:
        return None
    ranks = int(2 * curve.largest)
    if curve.nodes(curve.largest) == 1 and curve.nodes(max(targets)) > 1:
        ranks = max(ranks, int(2 * curve.ranks_per_node))
    if ranks > max(targets) or curve.nodes(ranks) > curve.max_nodes:
        return None
    hours, batch = math.nan, curve.batch_at(np.array([float(ranks)]))[0]
    if batch > 1 and not why_not(curve, curve.largest):
        step_s = metrics.step_s(batch, metrics.per_rank(float(continued(curve, np.array([float(ranks)]))[0]), ranks))
        hours = curve.nodes(ranks) * _LAUNCHES * (fixed_s + _STEPS * step_s) / 3600
    return NextPoint(ranks, curve.nodes(ranks), hours)


def with_nodes(command: Sequence[str], nodes: int, **more: str) -> str:
    """Return the command of make that measured a curve, with so many nodes and more variables."""
    return shlex.join(changed(command, {"ONLY": "", "NODES": str(nodes), **more}))


def command(curve: Curve, point: NextPoint, experiment: str, typed: Sequence[str] = ()) -> str:
    """Return the command that measures a point; measured points are not measured again.

    It is that which measured the curve, if it is known (`typed`).
    """
    if typed:
        return with_nodes(typed, point.nodes)
    per_node = 1 if math.isnan(curve.ranks_per_node) else min(int(curve.ranks_per_node), point.ranks)
    batch = float(curve.batch[curve.base])
    keys = {"ranks_per_node": str(per_node)} if per_node > 1 else {}
    keys |= {"batch_per_rank": f"{batch:g}"} if batch > 1 and not curve.strong else {}
    variables = {"MODELS": curve.model, "MEASURE": curve.measure if curve.measure != "quick" else ""}
    return shlex.join(changed(["make", experiment.replace("_", "-"), f"NODES={point.nodes}"], variables, keys))


def full(curve: Curve, experiment: str, typed: Sequence[str] = ()) -> str:
    """Return how to measure more sizes than the machine of a curve holds; "" if it holds more than the largest."""
    others = [obstacle for obstacle in curve.obstacles if obstacle.reason != SHARED_CORES]
    if others or curve.nodes(2 * curve.largest) <= curve.max_nodes:
        return ""
    text = f"{title(curve)}: the machine has room for {counted(int(curve.max_nodes), 'node')} like these. "
    text += "More sizes need more hosts (docs/clusters.md):"
    typed = [*typed] or ["make", experiment.replace("_", "-"), f"MODELS={curve.model}"]
    nodes = curve.nodes(curve.largest) * (1 if curve.obstacles else 2)
    return f"{paragraph(text)}\n    {with_nodes(typed, nodes, LAUNCHER='ssh', HOSTS='...')}"


def sentence(curve: Curve, point: NextPoint, command: str) -> str:
    """Return the point to measure next for one curve, and the command for it."""
    cost = "" if math.isnan(point.node_hours) else f", about {point.node_hours:.2g} node hours"
    nodes = counted(point.nodes, "node")
    filled = paragraph(f"To measure next, {title(curve)}: {point.ranks} ranks ({nodes}{cost}).")
    return f"{filled}\n    {command}" if command else filled
