"""What is answered for each target: rate, speedup, efficiency, wall time and cost of a job, or why it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis import metrics
from analysis.predict.points import Curve, Sizes, strong, weak
from analysis.predict.prediction import LEVEL, Learned, Prediction, predict, why_not
from analysis.stats.number import Number, from_ends, unknown
from analysis.stats.verdict import Bounds, Verdict, judge_at


@dataclass(frozen=True)
class Job:
    """What is to be trained: so many images in all, at a price for an hour of a node."""

    images: float
    price: float = math.nan


@dataclass(frozen=True)
class Target:
    """One number of ranks: what is predicted, or `why` it is not."""

    ranks: int
    batch: float
    nodes: float  # NaN: not known
    why: str
    numbers: dict[str, Number]  # images_per_s, speedup, efficiency; wall_s and cost of a job; none where not predicted
    of_forms: dict[str, float]  # images/s that each form alone predicts
    measured: float = math.nan  # images/s, at a point that was left out

    @property
    def supported(self) -> bool:
        """Whether the points can carry it."""
        return not self.why


@dataclass(frozen=True, eq=False)
class Answer:
    """A curve with its targets, and the prediction from its smallest point to the largest target, for a figure."""

    curve: Curve
    targets: list[Target]
    global_batch: float | None  # that is kept; None: the batch of a rank is
    fixed_s: Number | None  # of one job, where a job was asked for and it is known


@dataclass(frozen=True)
class Question:
    """What is asked of each curve: numbers of ranks, with a global batch where that is kept, and for a job."""

    ranks: tuple[int, ...]
    global_batch: float | None = None
    job: Job | None = None
    up_to: float = math.inf  # only points of so many ranks at most are used: the larger ones check the prediction


def sizes(curve: Curve, ranks: Sequence[float] | np.ndarray, global_batch: float | None) -> Sizes:
    """Sizes that keep the global batch where one is given, else the batch of a rank."""
    wanted = np.asarray(ranks, float)
    return weak(curve, wanted) if global_batch is None else strong(wanted, global_batch)


def answer(curve: Curve, asked: Question, learned: Learned, fixed_s: Number | None = None) -> Answer:
    """What the curve says of each number of ranks; of the job where one is asked for, with what each job pays once.

    A curve that keeps its global batch is asked for that, unless another is given.
    """
    whole, curve = curve, curve.only(curve.ranks <= asked.up_to)
    global_batch, job = asked.global_batch, asked.job
    if global_batch is None and curve.strong:
        global_batch = float(curve.batch[curve.base] * curve.ranks[curve.base])
    at = sizes(curve, asked.ranks, global_batch) if len(curve.ranks) else strong(np.array(asked.ranks), 1.0)
    reasons = why_not(curve, at, learned.noise)
    carried = np.array([not why for why in reasons])
    some = Sizes(at.ranks[carried], at.batch[carried])
    found = predict(curve, some, learned) if carried.any() else None
    targets, place = [], iter(range(len(some.ranks)))
    for ranks, batch, why in zip(at.ranks.tolist(), at.batch.tolist(), reasons, strict=True):
        i = None if why or found is None else next(place)
        numbers = {} if i is None or found is None else _numbers(curve, found, i, job, fixed_s)
        alone = {} if i is None or found is None else {name: float(of[i]) for name, of in found.of_forms.items()}
        left_out = _left_out(whole, curve, ranks, batch)
        targets.append(Target(int(ranks), batch, _nodes(curve, ranks), why, numbers, alone, left_out))
    return Answer(curve, targets, global_batch, fixed_s)


def _left_out(whole: Curve, used: Curve, ranks: float, batch: float) -> float:
    """Images/s of the point of this size where it was measured and not used; else NaN."""
    which = (whole.ranks == ranks) & (whole.batch == batch)
    return float(whole.images_per_s[which][0]) if which.any() and ranks not in used.ranks else math.nan


def _nodes(curve: Curve, ranks: float) -> float:
    """The nodes that so many ranks take; NaN where the curve does not say how many are on one."""
    return float(curve.nodes(np.array([ranks]))[0]) if math.isfinite(curve.ranks_per_node) else math.nan


def predicted(value: float, low: float, high: float, points: int) -> Number:
    """A number that was predicted from so many points, with the interval of one measurement."""
    return from_ends(value, low, high, "machines", points, LEVEL)


def _numbers(curve: Curve, found: Prediction, i: int, job: Job | None, fixed_s: Number | None) -> dict[str, Number]:
    """What is predicted at one size."""
    value, low, high = (float(of_all[i]) for of_all in (found.images_per_s, found.low, found.high))
    rate = predicted(value, low, high, len(curve.ranks))
    base, ranks = curve.base, float(found.at.ranks[i])
    speedup = rate.scaled(metrics.rate(1, float(curve.images_per_s[base])))
    numbers = {
        "images_per_s": rate,
        "speedup": speedup,
        "efficiency": speedup.scaled(metrics.efficiency(1.0, ranks, float(curve.ranks[base]))),
    }
    if job:
        numbers["wall_s"] = _wall_s(job.images, rate, fixed_s)
        an_hour = job.price * _nodes(curve, ranks)
        if math.isfinite(an_hour):
            numbers["cost"] = numbers["wall_s"].scaled(an_hour / 3600)
    return numbers


def _wall_s(images: float, rate: Number, fixed_s: Number | None) -> Number:
    """The wall time of a job: what it pays once, and its images at that rate; the ends are those of both together."""
    training = (metrics.step_s(images, end) for end in (rate.value, rate.high, rate.low))
    once = (0.0, 0.0, 0.0)
    if fixed_s:
        ends = fixed_s.interval if math.isfinite(fixed_s.low) else (fixed_s.value, fixed_s.value)
        once = (max(fixed_s.value, 0.0), max(ends[0], 0.0), ends[1])
    value, low, high = (paid + time for paid, time in zip(once, training, strict=True))
    return predicted(value, low, high, rate.n)


def as_json(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """The targets of each curve, for programs; docs/json.md has the keys."""
    return [_in_json(found, target) for found in answers for target in found.targets]


def _in_json(found: Answer, target: Target) -> dict[str, Any]:
    numbers = {name: number.as_json() for name, number in target.numbers.items()}
    return {
        "model": found.curve.model,
        "ranks": target.ranks,
        "images_per_s": numbers.pop("images_per_s", unknown(n=len(found.curve.ranks)).as_json()),
        "supported": target.supported,
        "why": target.why,
        "curve": found.curve.name,
        "may_saturate": found.curve.may_saturate,
        "nodes": None if math.isnan(target.nodes) else int(target.nodes),
        **({} if math.isnan(target.measured) else {"measured": target.measured}),
        **numbers,
    }


def judge_claim(curve: Curve, ranks: int, claimed: Bounds, learned: Learned) -> tuple[Verdict, str]:
    """The verdict on a rate that is claimed for so many ranks, in the unit of the curve, and its reason in words.

    It is that of the 90 % interval of the prediction; undecided too where the points carry none. `learned`: from the
    curves of other machines.
    """
    (target,) = answer(curve, Question((ranks,)), learned).targets
    if not target.supported:
        return Verdict("undecided", "no interval"), f"no prediction for {ranks} ranks: {target.why}"
    rate = target.numbers["images_per_s"]
    reason = f"for {ranks} ranks {rate.value:.4g} ({rate.low:.4g} to {rate.high:.4g}, {100 * LEVEL:.0f} %)"
    return judge_at(rate, claimed), f"{reason} is predicted from {_points(curve)}; claimed: {_ends(claimed)}"


def claim_verdict(verdict: Verdict) -> str:
    """The verdict as a claim has it: consistent with the prediction where the interval has a part within the claim."""
    if verdict.outcome == "outside":
        return "not consistent"
    return "not decidable" if verdict.why == "no interval" else "consistent"


def _points(curve: Curve) -> str:
    return f"{len(curve.ranks)} points up to {curve.largest:g} ranks"


def _ends(claimed: Bounds) -> str:
    ends = [f"at least {claimed.low:.4g}"] * (claimed.low > 0) + [f"at most {claimed.high:.4g}"] * math.isfinite(
        claimed.high
    )
    return ", ".join(ends) or "any rate"
