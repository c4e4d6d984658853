"""Predictions for each target: rate, speedup, efficiency, wall time and cost of a job; as text."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import UNSET, UnsetType

from analysis import labels, metrics
from analysis.documents import Document, NumberField, about
from analysis.predict import LEVEL, Curve, predict, why_not
from analysis.stats import Number, exact, from_ends, significant, unknown
from common.grouping import gathered, grouped
from common.terminal import paragraph, text_table


class PredictedTarget(Document):
    """A curve at one number of ranks."""

    model: str
    ranks: Annotated[int, about("requested")]
    images_per_s: Annotated[NumberField, about("of the whole job, in `unit`; all null if not supported")]
    unit: Annotated[str, about("of the rates: images/s, or another, as cells/s; 1/s: not known")]
    supported: Annotated[bool, about("whether the points support a prediction")]
    why: Annotated[str, about("reason if not supported; else empty")]
    curve: Annotated[str, about("what distinguishes it from other curves of the model")]
    may_saturate: Annotated[bool, about("whether a server that saturates beyond the points is allowed for")]
    nodes: Annotated[int | None, about("null: `ranks_per_node` is not known")]
    measured: Annotated[float | UnsetType, about("images/s of a point that `--up-to` left out")] = UNSET
    speedup: Annotated[NumberField | UnsetType, about("over the smallest point")] = UNSET
    efficiency: Annotated[NumberField | UnsetType, about("over the smallest point")] = UNSET
    wall_s: Annotated[NumberField | UnsetType, about("of the requested job")] = UNSET
    cost: Annotated[NumberField | UnsetType, about("of that job, in the unit of `--price`")] = UNSET


@dataclass(frozen=True, eq=False)
class Answer:
    """A curve with its targets."""

    curve: Curve
    targets: list[PredictedTarget]
    fixed_s: Number | None  # of one job, where it is known


@dataclass(frozen=True)
class JobQuestion:
    """The targets for each curve: numbers of ranks, with a global batch where that is constant, and a job."""

    ranks: tuple[int, ...]
    global_batch: float | None = None
    images: float | None = None  # of a job in all, or what the rates count
    price: float | None = None  # of an hour of a node
    up_to: float = math.inf  # only points of so many ranks at most are used: the larger ones check the prediction


def answer(whole: Curve, question: JobQuestion, learned: float, fixed_s: Number | None = None) -> Answer:
    """Return the prediction of a curve for each number of ranks; for a job with its fixed cost `fixed_s`.

    With a global batch in the question, only points with that global batch are used.
    """
    if question.global_batch:
        whole = whole.only(np.isclose(whole.batch * whole.ranks, question.global_batch))
    curve = whole.only(whole.ranks <= question.up_to)
    targets = []
    for ranks in question.ranks:
        why, left_out = why_not(curve, ranks), whole.images_per_s[(whole.ranks == ranks) & (ranks > question.up_to)]
        numbers = {"images_per_s": unknown(n=len(curve.ranks))}
        if not why:
            numbers = _numbers(curve, ranks, learned, question, fixed_s)
        targets.append(
            PredictedTarget(
                model=curve.model,
                ranks=ranks,
                supported=not why,
                why=why,
                curve=curve.name,
                unit=curve.unit,
                may_saturate=curve.may_saturate,
                nodes=curve.nodes(ranks) if math.isfinite(curve.ranks_per_node) else None,
                measured=float(left_out[0]) if len(left_out) else UNSET,
                **numbers,
            )
        )
    return Answer(curve, targets, fixed_s)


def _numbers(
    curve: Curve, ranks: float, learned: float, question: JobQuestion, fixed_s: Number | None
) -> dict[str, Number]:
    """Return the numbers of a target that can be predicted."""
    predicted = predict(curve, [ranks], learned)
    value, low, high = (float(rates[0]) for rates in (predicted.images_per_s, predicted.low, predicted.high))
    rate = from_ends(value, low, high, "between machines", len(curve.ranks), LEVEL)
    speedup = rate.over(float(curve.images_per_s[curve.base]))
    numbers = {
        "images_per_s": rate,
        "speedup": speedup,
        "efficiency": speedup.scaled(metrics.efficiency(1.0, ranks, float(curve.ranks[curve.base]))),
    }
    if question.images:
        numbers["wall_s"] = _wall_s(question.images, rate.over(labels.work_and_period(curve.unit)[1]), fixed_s)
        if question.price and math.isfinite(curve.ranks_per_node):
            numbers["cost"] = numbers["wall_s"].scaled(question.price * curve.nodes(ranks) / 3600)
    return numbers


def _wall_s(images: float, rate: Number, fixed_s: Number | None) -> Number:
    """Return the wall time of a job: its fixed cost, and its images at that rate; the ends are those of both."""
    cost_s = fixed_s or exact(0.0)
    least_s, most_s = cost_s.interval if cost_s.has_interval else (cost_s.value, cost_s.value)
    costs_and_rates = ((cost_s.value, rate.value), (least_s, rate.high), (most_s, rate.low))
    value, low, high = (max(cost, 0.0) + metrics.step_s(images, end) for cost, end in costs_and_rates)
    return from_ends(value, low, high, "between machines", rate.n, LEVEL)


_MAX_CURVES = 3  # that are named for one reason; the JSON has all


def report(answers: Sequence[Answer], accuracy: str) -> str:
    """Return a table of the predictions, why others are missing, and how good such predictions were."""
    predictions = table(answers) if any(target.supported for answer in answers for target in answer.targets) else ""
    notes = [(_how_to_read(answers) if predictions else "") + accuracy, *_saturating(answers), *_fixed_costs(answers)]
    return "\n\n".join([*filter(None, [predictions]), *map(paragraph, [*_missing(answers), *notes])])


def table(answers: Sequence[Answer]) -> str:
    """Return the predictions, one line a curve and target."""
    units = {answer.curve.unit.replace("1/s", "rate") for answer in answers}
    several = len(units) > 1
    rate = "rate" if several else units.pop()
    rows = [
        _row(target, rate, answer.curve.unit if several else "")
        for answer in answers for target in answer.targets if target.supported
    ]  # fmt: skip
    headers = [header for header in rows[0] if any(row[header] for row in rows)]
    return text_table([{header: row[header] for header in headers} for row in rows])


def _row(target: PredictedTarget, rate: str, unit_of_rate: str) -> dict[str, str]:
    measured, (factor, unit) = "", (1.0, "s")
    if target.measured is not UNSET:
        inside = "inside" if target.images_per_s.contains(target.measured) else "outside"
        measured = f"{significant(target.measured)}\n({inside})"
    if target.wall_s and target.wall_s.value >= 7200:
        factor, unit = 1 / 3600, "h"
    return {
        "model": target.model,
        "curve": target.curve,
        "ranks": f"{target.ranks}",
        rate: _cell(target.images_per_s, ".4g", unit_of_rate),
        "measured": measured,
        "speedup": _cell(target.speedup, ".3g"),
        "efficiency": _cell(target.efficiency, ".2f"),
        "wall time": _cell(target.wall_s and target.wall_s.scaled(factor), ".3g", unit),
        "cost": _cell(target.cost, ".3g"),
    }


def _cell(number: Number | UnsetType, form: str, unit: str = "") -> str:
    return number.text(form, unit).replace(" (", "\n(") if number else ""


def _missing(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield why predictions are missing: one paragraph a reason, with the curves that it holds for."""
    reasons = gathered(
        ((why, ", ".join(str(target.ranks) for target in targets)), title(answer.curve))
        for answer in answers
        for why, targets in grouped(answer.targets, lambda target: target.why).items()
        if why
    )
    for (why, ranks), curves in reasons.items():
        more = f"; and {len(curves) - _MAX_CURVES} more" if len(curves) > _MAX_CURVES else ""
        yield f"Not predicted to {ranks}: {why}. {'; '.join(curves[:_MAX_CURVES])}{more}."


def title(curve: Curve) -> str:
    """Return the model of a curve, and its setting."""
    return ", ".join(filter(None, (curve.model, curve.name))) or "the curve"


def _how_to_read(answers: Sequence[Answer]) -> str:
    bases = {int(answer.curve.ranks[answer.curve.base]) for answer in answers if len(answer.curve.ranks)}
    base = f", {bases.pop()}" if len(bases) == 1 else ""
    return (
        f"In brackets: the {LEVEL:.0%} interval of one measurement there. Speedup and efficiency: over the fewest "
        f"ranks of the curve{base}. "
    )


def _saturating(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield why lower ends are so low, if something may saturate beyond the points."""
    supported = [(answer.curve, target) for answer in answers for target in answer.targets if target.supported]
    if any(curve.largest < target.ranks <= 2 * curve.largest and not curve.may_saturate for curve, target in supported):
        yield (
            "At the next doubling the lower ends allow for what curves do from one doubling to the next, not for a "
            "bend right beyond the points, which no point excludes: measure there before you rely on it."
        )
    if any(target.ranks > 2 * curve.largest for curve, target in supported):
        yield (
            "Beyond one doubling the lower ends allow for a bend that the points cannot show: a link, a file system or "
            "a server that all ranks share may saturate just beyond them, and the rate then grows no more."
        )
    if any(curve.may_saturate for curve, _ in supported):
        yield (
            "How gradients are exchanged is not known, so the lower ends allow for that from the largest point on. "
            "Where it was an allreduce (Horovod, NCCL, MPI), say so: EXCHANGE=allreduce (--exchange allreduce)."
        )


def _fixed_costs(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield the fixed cost in the wall times, and why a cost is missing: one line for the curves that share it."""
    curves: dict[str, list[str]] = defaultdict(list)
    for answer in answers:
        if any(target.wall_s for target in answer.targets):
            note = "without the fixed cost of a job, which these points do not show"
            if answer.fixed_s is not None:
                note = f"with a fixed cost of {max(answer.fixed_s.value, 0.0):.3g} s a job (make explain)"
            no_cost = "; no cost: ranks_per_node is not known" if answer.targets[-1].nodes is None else ""
            curves[note + no_cost].append(title(answer.curve))
    for note, titles in curves.items():
        yield f"Wall time of {'; '.join(titles)}: {note}."
