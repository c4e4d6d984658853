"""The table of curves over nodes that fills itself while they are measured: a line a curve."""

from collections.abc import Sequence

from rich.table import Table

from common.number import Number
from common.terminal import counted
from record import intervals, rounds
from record.disturbance import run_selection
from record.recorded_config import RoundArm
from train.launch.plan.launch_results import CurveState
from train.launch.plan.planned_runs import PlannedPoint

_MOST_RATES = 4  # that fit on 80 columns


def over_nodes(point: PlannedPoint) -> list[RoundArm]:
    """Return the arms of a curve over nodes, from the fewest nodes; empty for any other point."""
    arms = [arm for arm in point.config.launch.rounds if arm.role in ("base", "point")]
    nodes = [arm.nodes for arm in arms]
    is_curve = len({*nodes}) == len(nodes) > 1 and all("nodes" in arm.swept for arm in arms)
    return sorted(arms, key=lambda arm: arm.nodes) if is_curve else []


def table(curves: Sequence[CurveState]) -> Table:
    """Return the table of curves over the same nodes: model, rates in images/s, the speedup of the most nodes."""
    result = Table(box=None, header_style="bold", pad_edge=False, caption_justify="left")
    result.add_column("model", no_wrap=True)
    for arm in _shown(curves[0].point):
        result.add_column(counted(arm.nodes, "node"), justify="right")
    for head in ("speedup", "rounds", "launches"):
        result.add_column(head, no_wrap=True)
    reasons = []
    for curve in curves:
        speedup, model = _speedup(curve), curve.point.config.model.name
        if speedup and speedup.no_interval and len(curve.launches) >= curve.planned:  # no more are to come
            reasons.append(f"\n{model}: no interval: {speedup.no_interval}")
        counting = sum(len(run_selection(record).counting) for record in curve.launches)
        counts = (str(counting or ""), f"{len(curve.launches)} of {curve.planned}")
        result.add_row(model, *_rates(curve), speedup.text(".3g") if speedup else "", *counts)
    result.caption = "images/s; in brackets: the 95 % interval of these minutes" + "".join(reasons)
    return result


def result_line(curve: CurveState) -> str:
    """Return the row of a curve as text, for a log."""
    rates = zip(_rates(curve), _shown(curve.point), strict=True)
    speedup = _speedup(curve)
    texts = [f"{rate} images/s on {counted(arm.nodes, 'node')}" for rate, arm in rates if rate]
    value = speedup.text(".3g") if speedup else "not known yet"
    return f"{curve.point.config.model.name}: {', '.join(texts)}; speedup {value}"


def _shown(point: PlannedPoint) -> list[RoundArm]:
    """Return the arms whose rates have a column."""
    arms = over_nodes(point)
    return arms if len(arms) <= _MOST_RATES else [arms[0], arms[-1]]


def _rates(curve: CurveState) -> list[str]:
    """Return the typical rate of each shown arm in images/s; "" before it is measured."""
    names = [arm.name for arm in curve.point.config.launch.rounds]
    rates = dict(zip(names, map(intervals.rate, rounds.arm_rates(curve.launches)), strict=False))
    return [f"{rate.value:.3g}" if (rate := rates.get(arm.name)) else "" for arm in _shown(curve.point)]


def _speedup(curve: CurveState) -> Number | None:
    """Return the speedup of the most nodes; None before it is measured."""
    speedups = rounds.speedups(curve.launches) if curve.launches else {}
    return speedups.get(over_nodes(curve.point)[-1].name)
