"""An application for compute time, from measured curves: efficiency against a threshold, and node hours."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from analysis import TableError, labels, metrics
from analysis.documents import counted
from analysis.experiments import summary
from analysis.predict import answers, calibration, reading
from analysis.predict.answers import Question
from analysis.stats import Number, exact, from_ends, unknown
from analysis.stats.verdict import Bounds, Verdict, judge_all, judge_at
from analysis.study import Study
from analysis.table import controls
from train.record.record import RunRecord

Kind = Literal["weak", "strong"]
MILLION = 1e6  # images: the work of a run by default


@dataclass(frozen=True)
class Plan:
    """The work that is applied for: so many images a run, and so many runs."""

    images: float = MILLION
    runs: int = 1
    from_user: bool = False  # whether the user stated the images


@dataclass(frozen=True)
class Row:
    """One size of a curve, measured or predicted. `verdict`: of its efficiency against the threshold."""

    nodes: int
    ranks: int
    batch: int  # of a rank
    images_per_s: Number
    speedup: Number
    efficiency: Number
    verdict: str
    measured: str  # how often; "predicted" of a prediction
    hours: Number  # of one run of the plan
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
    kind: Kind
    model: str
    series: str
    rows: list[Row]
    supported: int | None  # the largest number of nodes up to which every size meets the threshold
    remarks: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the model, and what distinguishes the series from others."""
        return ", ".join(filter(None, (self.model, self.series)))

    @property
    def measured(self) -> list[Row]:
        """Return the rows that were measured."""
        return [row for row in self.rows if not row.predicted]


@dataclass(frozen=True)
class Proposal:
    """The content of a proposal."""

    threshold: float
    plan: Plan
    curves: list[SupportedCurve]
    facts: dict[str, str]  # as from `facts`
    caveats: list[str]
    notes: list[str]

    def curves_in(self, kind: Kind) -> list[SupportedCurve]:
        """Return the curves of weak or of strong scaling."""
        return [curve for curve in self.curves if curve.kind == kind]


def proposal(
    study: Study,
    experiments: Sequence[str],
    threshold: float,
    plan: Plan,
    to: Sequence[int],
    models: Sequence[str] = (),
) -> Proposal:
    """Return the proposal from the records of some experiments. `to`: nodes beyond the points, to be predicted.

    Raises TableError where no experiment has a curve over several nodes.
    """
    local = study.local[study.local["experiment"].isin(experiments)]
    if models:
        local = local[local["model"].isin(models)]
    learned = calibration.published_curves(study.published)
    by_experiment = local.groupby("experiment", sort=False)
    curves = [curve for _, rows in by_experiment for curve in _curves(rows, threshold, plan, to, learned)]
    if not curves:
        names = ", ".join(sorted(set(study.local["experiment"]))) or "none"
        raise TableError(
            f"no curve over several nodes in records of {', '.join(experiments)} (experiments with records: {names}); "
            f"measure one first, as make weak-scaling NODES=4"
        )
    keys = {(curve.experiment, curve.model) for curve in curves}
    local = local[[(e, labels.name(m)) in keys for e, m in zip(local["experiment"], local["model"], strict=True)]]
    records = [study.records[path] for path in local["record"].unique()]
    return Proposal(threshold, plan, curves, facts(records), _caveats(local, records, curves), _notes(curves))


def _curves(
    rows: pd.DataFrame, threshold: float, plan: Plan, to: Sequence[int], learned: calibration.PublishedCurves
) -> list[SupportedCurve]:
    measured = rows[rows["kind"].eq("measured")]
    if measured.empty:
        return []
    predictable = {(curve.model, curve.series): curve for curve in reading.local(rows)}
    points: dict[tuple[str, str], list[summary.Point]] = {}
    for point in summary.points(measured):
        first = point.runs.iloc[0]
        points.setdefault((first["model"], first["series"]), []).append(point)
    return [
        _curve(curve_points, predictable.get(key), threshold, plan, to, learned)
        for key, curve_points in points.items()
        if len({point.runs["nodes"].iloc[0] for point in curve_points}) > 1
    ]


def _curve(
    points: Sequence[summary.Point], predictable: reading.Curve | None, threshold: float, plan: Plan,
    to: Sequence[int], learned: calibration.PublishedCurves,
) -> SupportedCurve:  # fmt: skip
    points = sorted(points, key=lambda point: point.runs["ranks"].iloc[0])
    verdicts = _verdicts(points, threshold)
    rows = [_measured(point, verdict, plan) for point, verdict in zip(points, verdicts, strict=True)]
    first = points[0].runs.iloc[0]
    batches = [point.runs["global_batch"].iloc[0] for point in points]
    strong = metrics.shared_batch([row.ranks for row in rows], batches) == "global_batch"
    series = points[0].series if len({point.series for point in points}) == 1 else ""
    series = ", ".join(filter(None, (series, f"global batch {batches[0]}" if strong else "")))
    kind: Kind = "strong" if strong else "weak"
    supported, remarks = _supported(rows), list[str]()
    if predictable:
        predicted, remarks = _predicted(predictable, rows, threshold, plan, to, learned)
        rows += predicted
    return SupportedCurve(first["experiment"], kind, labels.name(first["model"]), series, rows, supported, remarks)


def _is_valid(point: summary.Point) -> bool:
    return bool(controls.why_invalid(point.runs).eq("").all())


def _verdicts(points: Sequence[summary.Point], threshold: float) -> list[str]:
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


def _measured(point: summary.Point, verdict: str, plan: Plan) -> Row:
    first, rate = point.runs.iloc[0], point.numbers["images_per_s"]
    speedup, efficiency = (
        exact(1.0) if verdict == "base of the curve" else point.numbers.get(f"{name}_throughput", unknown())
        for name in ("speedup", "efficiency")
    )
    counts = (f"{point.rounds} rounds, " if point.rounds else "") + counted(point.launches, "launch")
    nodes, ranks, batch = (int(first[name]) for name in ("nodes", "ranks", "batch_per_rank"))
    hours, valid = _hours(rate, plan), _is_valid(point)
    return Row(nodes, ranks, batch, rate, speedup, efficiency, verdict, counts, hours, valid)


def _hours(rate: Number, plan: Plan) -> Number:
    """Return the hours that a rate takes for the images of one run."""
    value, low, high = (metrics.step_s(plan.images, end) / 3600 for end in (rate.value, rate.high, rate.low))
    return (
        from_ends(value, low, high, rate.variation, rate.n, rate.level) if rate.has_interval else unknown(value, rate.n)
    )


def _predicted(
    curve: reading.Curve, rows: Sequence[Row], threshold: float, plan: Plan, to: Sequence[int],
    learned: calibration.PublishedCurves,
) -> tuple[list[Row], list[str]]:  # fmt: skip
    """Return the predicted rows beyond the points, and why others are missing."""
    largest = rows[-1]
    per_node = largest.ranks // largest.nodes
    nodes = [n for n in (to or (2 * largest.nodes, 4 * largest.nodes)) if n > largest.nodes]
    if not nodes:
        return [], []
    question = Question(tuple(n * per_node for n in nodes))
    targets = answers.answer(curve, question, learned.learned_for(curve)).targets
    predicted = [
        Row(
            target.ranks // per_node, target.ranks, round(target.batch), target.numbers["images_per_s"],
            target.numbers["speedup"], target.numbers["efficiency"],
            _verdict_name(judge_at(target.numbers["efficiency"], Bounds(low=threshold))), "predicted",
            _hours(target.numbers["images_per_s"], plan), predicted=True,
        )
        for target in targets if target.supported
    ]  # fmt: skip
    reasons = dict.fromkeys(target.why for target in targets if not target.supported)
    return predicted, [f"no prediction beyond {largest.nodes} nodes: {why}" for why in reasons]


def _supported(rows: Sequence[Row]) -> int | None:
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
    supported = counted(curve.supported, "node")
    text = f"{name}: the measurements support {supported} at an efficiency of {100 * threshold:g} %"
    after = [row for row in rest if row.nodes > curve.supported]
    if not after:
        return f"{text}: on {rest[-1].nodes}, the most that were measured, it is {rest[-1].efficiency.text('.2f')}."
    reasons = {
        "below it": "is below it",
        "not decidable": "is not decidable, because its interval contains the threshold",
        "too few values": "is not decidable among so many sizes: measure more rounds",
        "no interval": "has no interval: measure in rounds, or repeat it six times",
        "not valid": "is not valid as a scaling result, because ranks shared cores or disturbed each other",
    }
    first = after[0]
    reason = reasons[first.verdict]
    return f"{text}; on {counted(first.nodes, 'node')} the efficiency {first.efficiency.text('.2f')} {reason}."


def facts(records: Sequence[RunRecord]) -> dict[str, str]:
    """Return the facts of records: hosts, software, communication, commit, days."""
    environments = [run.environment for run in records if run.environment]
    hosts = [host for environment in environments for host in environment.hosts]
    versions = [f"{n} {v}" for e in environments for n, v in e.versions.items()
                if n in ("python", "tensorflow", "horovod", "torch")]  # fmt: skip
    days = sorted(run.started_at[:10] for run in records)
    node_s = math.fsum(run.job_s * (len({rank.node for rank in run.ranks}) or 1) for run in records)
    rows = {
        "processors": _listed(f"{h.cores} cores, {h.cpu_model}, {h.memory_bytes / 2**30:.0f} GiB" for h in hosts),
        "GPUs": _listed(gpu for host in hosts for gpu in host.gpus),
        "hosts": str(len({host.host for host in hosts})),
        "kernel": _listed(host.kernel for host in hosts),
        "software": _listed(versions),
        "MPI": _listed(e.mpi for e in environments if e.mpi),
        "image": _listed(e.image_digest or e.image for e in environments if e.image),
        "launcher": _listed(run.config.get("launcher", {}).get("name", "") for run in records),
        "exchange": _listed(run.config.get("distribution", {}).get("backend", "") for run in records),
        "commit": _listed(
            e.git_commit[:12] + " with changes" * bool(e.git_dirty) for e in environments if e.git_commit
        ),
        "measured on": days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}",
        "node hours of the study": f"{node_s / 3600:.2f}",
    }  # fmt: skip
    return {name: text for name, text in rows.items() if text}


def _listed(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _notes(curves: Sequence[SupportedCurve]) -> list[str]:
    variations = dict.fromkeys(row.efficiency.variation for curve in curves for row in curve.measured[1:])
    notes = [
        "Efficiency is the speedup by throughput over the ratio of ranks; the base is the smallest size of a curve.",
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
    if local["cpu_quota_per_node"].notna().any():
        emulated = "Nodes are emulated on one machine by CPU quotas: no network and no second machine was measured."
        caveats.append(emulated)
    elif hosts < max(row.nodes for curve in curves for row in curve.measured):
        caveats.append(f"Nodes are cores of {counted(hosts, 'host')}: no network between hosts was measured.")
    if note := controls.control_note(local, labels.name):
        caveats.append(note[0].upper() + note[1:] + ".")
    return caveats


@dataclass(frozen=True)
class Section:
    """A part of the document: paragraphs, then the figure if it is here, then the rows of a table."""

    title: str
    paragraphs: list[str] = field(default_factory=list)
    rows: list[dict[str, str]] = field(default_factory=list)
    figure: bool = False


def sections(content: Proposal) -> list[Section]:
    """Return the parts of the document in order."""
    plan = content.plan
    run = f"{plan.images:,.0f} images" + ("" if plan.from_user else " (IMAGES= and EPOCHS= give those of your job)")
    in_order = [*content.curves_in("weak"), *content.curves_in("strong")]
    result = [*(sentence(curve, content.threshold) for curve in in_order), *content.caveats]
    parts = [Section("Result", result, figure=True)]
    for kind in ("weak", "strong"):
        constant = "batch per rank" if kind == "weak" else "global batch"
        if curves := content.curves_in(kind):
            rows = [_cells(curve, row, content.threshold) for curve in curves for row in curve.rows]
            parts.append(Section(f"{kind.capitalize()} scaling (constant {constant})", rows=rows))
    work = f"A run processes {run}; {plan.runs} of them are applied for. Time to start is not included."
    costs = [_cost(curve, row, plan) for curve in in_order for row in curve.rows]
    facts_rows = [{"what": name, "value": text} for name, text in content.facts.items()]
    parts.append(Section("Time and node hours", [work], costs))
    parts.append(Section("What was run on what", rows=facts_rows))
    parts.append(Section("How to read it", content.notes))
    return parts


def title(content: Proposal) -> str:
    """Return the title of the document."""
    return f"Scaling of {', '.join(dict.fromkeys(curve.model for curve in content.curves))}"


def _cells(curve: SupportedCurve, row: Row, threshold: float) -> dict[str, str]:
    return {
        "model": curve.name,
        "nodes": str(row.nodes),
        "ranks": str(row.ranks),
        "batch a rank": str(row.batch),
        "measured": row.measured,
        "images/s": _text(row.images_per_s),
        "speedup": row.speedup.text(".2f"),
        "efficiency": row.efficiency.text(".2f"),
        f"threshold {100 * threshold:g} %": row.verdict,
    }


def _cost(curve: SupportedCurve, row: Row, plan: Plan) -> dict[str, str]:
    return {
        "model": curve.name,
        "scaling": curve.kind,
        "nodes": str(row.nodes),
        "measured": "predicted" if row.predicted else "yes",
        "hours a run": _text(row.hours),
        "node hours a run": _text(row.node_hours),
        f"node hours of {counted(plan.runs, 'run')}": _text(row.node_hours.scaled(plan.runs)),
    }


def _text(number: Number) -> str:
    largest = max(end for end in (number.value, number.low, number.high) if not math.isnan(end))
    return number.text(",.0f" if largest >= 1000 else ".3g")
