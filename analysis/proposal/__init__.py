"""An application for compute time, from measured curves: efficiency against a threshold, and node hours."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from analysis import TableError, labels, metrics, speedups
from analysis.audit.audited_table import AuditedTable
from analysis.audit.curve_rules import beyond_ideal
from analysis.experiments import summary_points
from analysis.experiments.summary_points import SummarizedPoint
from analysis.predict import predicted_targets, reading
from analysis.predict.calibration import PublishedCurves, published_curves
from analysis.proposal import facts
from analysis.proposal.facts import BLANK, Node
from analysis.stats import Number, exact, from_ends, unknown
from analysis.stats.verdict import Bounds, Verdict, judge_all, judge_at
from analysis.study import Study
from analysis.table import controls
from common.grouping import grouped
from common.terminal import counted
from record.schema import RunRecord

ScalingKind = Literal["weak", "strong"]
Records = Mapping[str, RunRecord]  # by path
MILLION = 1e6  # images: the work of a run by default


@dataclass(frozen=True)
class JobPlan:
    """What is applied for: runs of so many images each, or of what the rates count, and what the centre asks for."""

    images: float = MILLION
    runs: int = 1
    from_user: bool = False  # whether the user stated the images
    threshold: float = 0.75  # the least efficiency
    to: Sequence[int] = ()  # nodes beyond the points, to be predicted


@dataclass(frozen=True)
class ProposedSize:
    """One size of a curve, measured or predicted. `verdict`: of its efficiency against the threshold."""

    nodes: int
    ranks: int
    batch: int | None  # of a rank; None: of a program that is not given one
    rate: Number  # in the unit of the curve
    speedup: Number
    efficiency: Number
    verdict: str
    measured: str  # how often; "predicted" of a prediction
    hours: Number  # of one run of the plan
    gain: Number | None = None  # the rate over that of the size before it
    step: float = math.nan  # the ranks over those of the size before it
    job_s: float = math.nan  # the median wall time of a launch
    memory_bytes: int = 0  # the most that a process had; 0: not known
    valid: bool = True  # as a scaling result
    predicted: bool = False

    @property
    def node_hours(self) -> Number:
        """Return the node hours of one run."""
        return self.hours.scaled(float(self.nodes))


@dataclass(frozen=True)
class SupportedCurve:
    """A scaling curve with its rows: measured sizes in order, then predicted ones."""

    experiment: str
    kind: ScalingKind
    model: str
    series: str
    unit: str  # of its rates
    node: Node
    rows: list[ProposedSize]
    supported: int | None  # the largest number of nodes up to which every size meets the threshold
    remarks: list[str] = field(default_factory=list)
    contradicted: str = ""  # how the audit contradicts it; "": it does not

    @property
    def name(self) -> str:
        """Return the model, and what distinguishes the series from others."""
        return ", ".join(filter(None, (self.model, self.series)))

    @property
    def measured(self) -> list[ProposedSize]:
        """Return the rows that were measured."""
        return [row for row in self.rows if not row.predicted]


@dataclass(frozen=True)
class Proposal:
    """The content of a proposal."""

    plan: JobPlan
    curves: list[SupportedCurve]
    planned: str  # the size of the planned jobs beside the measured ones
    code: dict[str, str]  # as from `facts`
    machine: dict[str, str]
    caveats: list[str]
    notes: list[str]

    def curves_in(self, kind: ScalingKind) -> list[SupportedCurve]:
        """Return the curves of weak or of strong scaling."""
        return [curve for curve in self.curves if curve.kind == kind]


def proposal(study: Study, experiments: Sequence[str], plan: JobPlan, models: Sequence[str] = ()) -> Proposal:
    """Return the proposal from the records of some experiments.

    Raises TableError where no experiment has a curve over several nodes.
    """
    local = study.local[study.local["experiment"].isin(experiments)]
    if models:
        local = local[local["model"].isin(models)]
    learned = published_curves(study.published)
    by_experiment = local.groupby("experiment", sort=False)
    records = {path: study.records[path] for path in local["record"].unique()}
    curves = [curve for _, rows in by_experiment for curve in _curves(rows, records, plan, learned)]
    if not curves:
        names = ", ".join(sorted(set(study.local["experiment"]))) or "none"
        raise TableError(
            f"no curve over several nodes in records of {', '.join(experiments)} (experiments with records: {names}); "
            f"measure one first, as make weak-scaling NODES=4"
        )
    keys = {(curve.experiment, curve.model) for curve in curves}
    local = local[[(e, labels.name(m)) in keys for e, m in zip(local["experiment"], local["model"], strict=True)]]
    runs = [records[path] for path in local["record"].unique()]
    caveats, planned = _caveats(local, runs, curves), _planned(curves, plan.to)
    return Proposal(plan, curves, planned, facts.code(runs), facts.machine(runs), caveats, _notes(curves))


def _planned(curves: Sequence[SupportedCurve], to: Sequence[int]) -> str:
    """Return a sentence with the size of the planned jobs, and that of the measured ones."""
    measured = max(row.nodes for curve in curves for row in curve.measured)
    if not to:
        return f"Size of the planned jobs: {BLANK} (TO=16,32: on so many nodes); the largest measured: {measured}."
    more = f" (up to {max(to) / measured:.3g} times as many)" if max(to) > measured else ""
    return f"Size of the planned jobs: {', '.join(map(str, to))} nodes{more}; the largest measured: {measured}."


def _curves(rows: pd.DataFrame, records: Records, plan: JobPlan, learned: PublishedCurves) -> list[SupportedCurve]:
    measured = rows[rows["kind"].eq("measured")]
    if measured.empty:
        return []
    predictable = {(curve.model, curve.series): curve for curve in reading.local(rows)}
    points = grouped(summary_points.points(measured), lambda point: (point.first["model"], point.first["series"]))
    return [
        _curve(curve_points, measured, records, predictable.get(key), plan, learned)
        for key, curve_points in points.items()
        if len({point.first["nodes"] for point in curve_points}) > 1
    ]


def _curve(
    points: Sequence[SummarizedPoint], measured: pd.DataFrame, records: Records, predictable: reading.Curve | None,
    plan: JobPlan, learned: PublishedCurves,
) -> SupportedCurve:  # fmt: skip
    points = sorted(points, key=lambda point: point.first["ranks"])
    verdicts = _verdicts(points, plan.threshold)
    gains, first = _gains(points), points[0].first
    rows = [
        _measured(point, verdict, gain, records, measured, plan)
        for point, verdict, gain in zip(points, verdicts, gains, strict=True)
    ]
    batches = [point.first["global_batch"] for point in points]
    strong = metrics.shared_batch([row.ranks for row in rows], batches) == "global_batch"
    series = points[0].series if len({point.series for point in points}) == 1 else ""
    series = ", ".join(filter(None, (series, f"global batch {batches[0]}" if strong and rows[0].batch else "")))
    kind: ScalingKind = "strong" if strong else "weak"
    supported, remarks = _supported(rows), list[str]()
    if predictable:
        predicted, remarks = _predicted(predictable, rows, plan, learned)
        rows += predicted
    return SupportedCurve(
        first["experiment"], kind, labels.name(first["model"]), series, labels.rate_unit(points[-1].runs),
        facts.node(records[first["record"]]), rows, supported, remarks, _contradiction(points, measured),
    )  # fmt: skip


def _contradiction(points: Sequence[SummarizedPoint], measured: pd.DataFrame) -> str:
    """Return how the audit contradicts the speedups of a curve; "" if it does not."""
    paths = {path for point in points for path in point.runs["record"]}
    serious = [
        f for f in beyond_ideal(AuditedTable(measured[measured["record"].isin(paths)])) if f.severity == "serious"
    ]
    return f"{serious[0].stated}, {serious[0].follows}" if serious else ""


def _gains(points: Sequence[SummarizedPoint]) -> list[tuple[Number | None, float]]:
    """Return the rate of each point over that of the point before it, and the ranks over those of that; first none."""
    gains: list[tuple[Number | None, float]] = [(None, math.nan)]
    for before, point in itertools.pairwise(points):
        first, second = speedups.curve(pd.concat([before.runs, point.runs]), "ranks")
        gains.append((second.speedup, second.size / first.size))
    return gains


def _is_valid(point: SummarizedPoint) -> bool:
    return bool(controls.why_invalid(point.runs).eq("").all())


def _verdicts(points: Sequence[SummarizedPoint], threshold: float) -> list[str]:
    """Return whether each efficiency meets the threshold, as text; all together are wrong at most 5 times in 100."""
    efficiencies = [point.numbers.get("efficiency_throughput", unknown()) for point in points[1:]]
    judged = judge_all(efficiencies, Bounds(low=threshold))
    names = ["base of the curve", *(_verdict_name(verdict) for verdict in judged)]
    return [name if _is_valid(point) else "not valid" for name, point in zip(names, points, strict=True)]


def _verdict_name(verdict: Verdict) -> str:
    if verdict.outcome == "undecided":
        reasons = {"no interval": "no interval", "too many numbers": "too few values"}
        return reasons.get(verdict.why, "not decidable")
    return "meets it" if verdict.outcome == "inside" else "below it"


def _measured(
    point: SummarizedPoint, verdict: str, gain: tuple[Number | None, float], records: Records, measured: pd.DataFrame,
    plan: JobPlan,
) -> ProposedSize:  # fmt: skip
    first, rate = point.first, point.numbers["images_per_s"]
    speedup, efficiency = (
        exact(1.0) if verdict == "base of the curve" else point.numbers.get(f"{name}_throughput", unknown())
        for name in ("speedup", "efficiency")
    )
    counts = (f"{point.rounds} rounds, " if point.rounds else "") + counted(point.launches, "launch")
    nodes, ranks = int(first["nodes"]), int(first["ranks"])
    runs = [records[path] for path in point.runs["record"].unique()]
    has_batch = runs[0].program is None or "global_batch" in runs[0].config
    batch = int(first["batch_per_rank"]) if has_batch else None
    alike = measured["series"].eq(first["series"]) & measured["ranks"].eq(ranks) & measured["quantity"].eq("job_s")
    times = measured.loc[alike, "value"].tolist()
    return ProposedSize(
        nodes, ranks, batch, rate, speedup, efficiency, verdict, counts,
        _hours(rate, plan, labels.rate_unit(point.runs)), *gain, statistics.median(times) if times else math.nan,
        max(rank.peak_memory_bytes for run in runs for rank in run.ranks), _is_valid(point),
    )  # fmt: skip


def _hours(rate: Number, plan: JobPlan, unit: str) -> Number:
    """Return the hours that a rate takes for the work of one run."""
    hours = labels.work_and_period(unit)[1] / 3600
    value, low, high = (metrics.step_s(plan.images, end) * hours for end in (rate.value, rate.high, rate.low))
    return (
        from_ends(value, low, high, rate.variation, rate.n, rate.level) if rate.has_interval else unknown(value, rate.n)
    )


def _predicted(
    curve: reading.Curve, rows: Sequence[ProposedSize], plan: JobPlan, learned: PublishedCurves
) -> tuple[list[ProposedSize], list[str]]:
    """Return the predicted rows beyond the points, and why others are missing."""
    largest = rows[-1]
    per_node = largest.ranks // largest.nodes
    nodes = [n for n in (plan.to or (2 * largest.nodes, 4 * largest.nodes)) if n > largest.nodes]
    if not nodes:
        return [], []
    question = predicted_targets.JobQuestion(tuple(n * per_node for n in nodes))
    answer = predicted_targets.answer(curve, question, learned.learned_for(curve))
    predicted = [
        ProposedSize(
            target.ranks // per_node, target.ranks, largest.batch and round(batch),
            target.images_per_s, target.speedup, target.efficiency,
            _verdict_name(judge_at(target.efficiency, Bounds(low=plan.threshold))), "predicted",
            _hours(target.images_per_s, plan, curve.unit), predicted=True,
        )
        for target, batch in zip(answer.targets, curve.batch_at(np.array(question.ranks)), strict=True)
        if target.speedup and target.efficiency
    ]  # fmt: skip
    reasons = dict.fromkeys(target.why for target in answer.targets if not target.supported)
    return predicted, [f"no prediction beyond {largest.nodes} nodes: {why}" for why in reasons]


def _supported(rows: Sequence[ProposedSize]) -> int | None:
    """Return the largest number of nodes up to which every measured size meets the threshold; None without any."""
    supported = None
    for row in rows:
        if not row.valid or row.verdict not in ("base of the curve", "meets it"):
            break
        supported = row.nodes
    return supported


def sentence(curve: SupportedCurve, threshold: float) -> str:
    """Return a sentence with the number of nodes that the measured rows support."""
    base, rest = curve.measured[0], curve.measured[1:]
    name = f"{curve.name}, {curve.kind} scaling"
    if curve.supported is None:
        return f"{name}: ranks disturbed each other on {counted(base.nodes, 'node')}: no number of nodes is supported."
    if curve.contradicted:
        return (
            f"{name}: no number of nodes is supported, because the audit contradicts the measurements: a speedup of "
            f"{curve.contradicted}. See make audit."
        )
    supported = counted(curve.supported, "node")
    text = f"{name}: the measurements support {supported} at an efficiency of {100 * threshold:g} %"
    after = [row for row in rest if row.nodes > curve.supported]
    if not after:
        return f"{text}: on {rest[-1].nodes}, the most that were measured, it is {rest[-1].efficiency.text('.2f')}."
    reasons = {
        "below it": "is below it",
        "not decidable": "is not decidable, because its interval contains the threshold",
        "too few values": "is not decidable among so many sizes: measure more rounds",
        "no interval": "has no interval: make six launches of each size",
        "not valid": "is not valid as a scaling result, because ranks shared cores or disturbed each other",
    }
    first = after[0]
    reason = reasons[first.verdict]
    return f"{text}; on {counted(first.nodes, 'node')} the efficiency {first.efficiency.text('.2f')} {reason}."


def _notes(curves: Sequence[SupportedCurve]) -> list[str]:
    variations = dict.fromkeys(row.efficiency.variation for curve in curves for row in curve.measured[1:])
    notes = [
        "Efficiency is the speedup by throughput over the ratio of ranks; the base is the smallest size of a curve. A "
        "gain is the rate over that of the size before, and the ideal. A launch is one benchmark job, from start to "
        "end. Memory is that of the largest process.",
        *(f"The 95 % intervals of efficiencies allow for the variation {name}." for name in variations if name),
        "A verdict uses the interval: it meets the threshold if the 90 % interval is not below it, it is below if the "
        "whole 95 % interval is; all sizes of a curve together are wrong at most 5 times in 100 (Holm).",
    ]
    if any(row.predicted for curve in curves for row in curve.rows):
        notes.append("Rows marked as predicted were not measured: their 90 % interval held on published curves.")
    notes += [line for curve in curves for line in (f"{curve.name}: {remark}." for remark in curve.remarks)]
    return notes


def _caveats(local: pd.DataFrame, records: Sequence[RunRecord], curves: Sequence[SupportedCurve]) -> list[str]:
    """Return how these measurements differ from those on a cluster."""
    caveats: list[str] = []
    hosts = len({host.host for run in records if run.environment for host in run.environment.hosts})
    if len(controls.emulated(local)):
        emulated = "Nodes are emulated on one machine by CPU quotas: no network and no second machine was measured."
        caveats.append(emulated)
    elif hosts < max(row.nodes for curve in curves for row in curve.measured):
        caveats.append(f"Nodes are cores of {counted(hosts, 'host')}: no network between hosts was measured.")
    if note := controls.control_note(local, labels.name):
        caveats.append(note[0].upper() + note[1:] + ".")
    return caveats
