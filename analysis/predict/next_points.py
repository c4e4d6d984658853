"""The point to measure next: the next doubling, from which a prediction reaches one doubling less far."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis import metrics
from analysis.predict import SHARED_CORES, Curve, continued, why_not
from analysis.predict.predicted_targets import title
from common.terminal import counted, paragraph
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
    hours, at = math.nan, np.array([float(ranks)])
    if (batch := curve.batch_at(at)[0]) > 1 and not why_not(curve, curve.largest):
        step_s = metrics.step_s(batch, metrics.per_rank(float(continued(curve, at)[0]), ranks))
        hours = curve.nodes(ranks) * _LAUNCHES * (fixed_s + _STEPS * step_s) / 3600
    return NextPoint(ranks, curve.nodes(ranks), hours)


def advice(
    curve: Curve, targets: Sequence[int], experiment: str, typed: Sequence[str] = (), fixed_s: float = 0.0
) -> str:
    """Return what to measure next for a curve, with the command for it; "" if nothing can be.

    experiment: of the kit, that measures the curve; "": none does. typed: the command that measured it, if it is known.
    """
    if point := next_point(curve, targets, fixed_s):
        cost = "" if math.isnan(point.node_hours) else f", about {point.node_hours:.2g} node hours"
        place = "" if math.isnan(curve.ranks_per_node) else f" ({counted(point.nodes, 'node')}{cost})"
        ranks, variables = point.ranks, {"NODES": str(point.nodes)}
        text = f"To measure next, {title(curve)}: {ranks} ranks{place}."
    elif _machine_is_full(curve):
        ranks, nodes = int(2 * curve.largest), curve.nodes(curve.largest) * (1 if curve.obstacles else 2)
        variables = {"NODES": str(nodes), "LAUNCHER": "ssh", "HOSTS": "..."}
        text = f"{title(curve)}: the machine has room for {counted(int(curve.max_nodes), 'node')} like these. "
        text += "More sizes need more hosts (docs/clusters.md):"
    else:
        return ""
    words = changed([*typed] or _command(curve, ranks, experiment), {"ONLY": "", **variables})
    return "\n    ".join([paragraph(text), *([shlex.join(words)] if experiment else [])])


def _machine_is_full(curve: Curve) -> bool:
    """Return whether a curve lacks nothing but a machine that holds more than its largest size."""
    others = [obstacle for obstacle in curve.obstacles if obstacle.reason != SHARED_CORES]
    return len(curve.ranks) > 0 and not others and curve.nodes(2 * curve.largest) > curve.max_nodes


def _command(curve: Curve, ranks: int, experiment: str) -> list[str]:
    """Return a command that measures a curve up to so many ranks as its points were measured."""
    per_node = 1 if math.isnan(curve.ranks_per_node) else min(int(curve.ranks_per_node), ranks)
    batch = float(curve.batch[curve.base])
    keys = {"ranks_per_node": str(per_node)} if per_node > 1 else {}
    keys |= {"batch_per_rank": f"{batch:g}"} if batch > 1 and not curve.strong else {}
    variables = {"MODELS": curve.model, "MEASURE": curve.measure if curve.measure != "quick" else ""}
    return changed(["make", experiment.replace("_", "-")], variables, keys)
