"""The explanation of one curve as a JSON document."""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import pandas as pd

from analysis.documents import Document, Number, about, filled, number, optional
from analysis.explain.fit import REFUTED, Explanation
from analysis.explain.models import Fit, beyond_ideal
from analysis.explain.recurring import decider_text
from analysis.explain.text import Fits, sentences, verdict
from analysis.stats.number import from_ends

FixedCostPaid = Literal["yes", "no", "not decidable"]
EqualTime = Literal["failed", "not refuted", "not tested"]
SpeedupName = Literal["speedup_throughput", "speedup_without_fixed"]
_HAS_FIXED_COST: dict[bool | None, FixedCostPaid] = {True: "yes", False: "no", None: "not decidable"}
_COMPUTED = ("speedup_without_fixed", "fits", "above_ideal")  # what a point has beside the columns of these names
_ABOVE: tuple[SpeedupName, ...] = ("speedup_throughput", "speedup_without_fixed")


class EqualTimePerImage(Document):
    """The test that an image takes the same time at every point."""

    verdict: Annotated[EqualTime, about("of the test")]
    p: Annotated[float | None, about("p value; null: not tested")]


class CurveFinding(Document):
    """Numbers of a curve that contradict each other."""

    kind: Annotated[Literal["impossible", "speed_off", "whole_job"], about("what is wrong")]
    ranks: Annotated[Sequence[int], about("of the runs that it is about")]
    stated: Annotated[str, about("what is stated")]
    follows: Annotated[str, about("what follows instead")]
    off: Annotated[float, about("stated / follows - 1")]
    leaves_out: Annotated[Literal["runs", "speeds"], about("what is not used")]
    says: Annotated[str, about("the finding in words")]


class CurveFit(Document):
    """One fit of a curve."""

    name: Annotated[str, about("the model, and the points that it was fitted to")]
    assumes: Annotated[str, about("what it assumes of the time per image")]
    reasonable: Annotated[bool, about("whether the runs allow it as well")]
    ranks: Annotated[Sequence[int], about("of its points")]
    runs: Annotated[int, about("how many runs it was fitted to")]
    fixed_s: Annotated[Number, about("its fixed cost")]
    images_per_s_per_rank_implied: Annotated[Number | None, about("the speed that it implies")]


class CurvePoint(Document):
    """A point of a curve that was split."""

    ranks: int
    steps_per_rank: Annotated[float, about("steps of each rank within the wall time")]
    batch_per_rank: float
    images_per_rank: Annotated[float, about("their product")]
    runs: int
    wall_s: Annotated[float, about("mean wall time")]
    images_per_s_per_rank: Annotated[float | None, about("harmonic mean, measured; null: not known, or contradicted")]
    fitted_s: Annotated[float | None, about("wall time by the fit")]
    misfit_p: Annotated[float | None, about("p value of its misfit, over the curve")]
    steps_that_fit: Annotated[float | None, about("steps that would take that long")]
    fixed_fraction: Annotated[float | None, about("the fixed cost over the wall time")]
    beyond_speed_s: Annotated[float | None, about("what the measured speed leaves of the wall time")]
    ideal: Annotated[float, about("the ideal speedup, over the first point that the fit uses")]
    speedup_throughput: Annotated[float | None, about("by the measured speeds")]
    speedup_wall_time: Annotated[float | None, about("by images over wall time")]
    speedup_without_fixed: Annotated[Number | None, about("by images over wall time less the fixed cost")]
    fits: Annotated[Fits, about("whether the others predict it")]
    above_ideal: Annotated[Sequence[SpeedupName], about("those of its speedups that are above the ideal")]


class FixedCostPhases(Document):
    """The fixed cost of local records by phase."""

    ranks: Annotated[int, about("of the runs")]
    broadcast_s: Annotated[float, about("of the variables")]
    first_step_s: Annotated[float, about("the first step beyond a steady one")]
    warm_up_s: Annotated[float, about("warm-up and timed steps beyond steady ones")]
    other_s: Annotated[float, about("what the phases do not account for")]
    fixed_s: Annotated[float, about("their sum")]


class ExplainedCurve(Document):
    """The explanation of one curve."""

    curve: str
    fixed_cost_paid: Annotated[FixedCostPaid, about("yes only if no recurring cost fits as well")]
    recurring_cost_fits: Annotated[Sequence[str], about("recurring costs that fit as well")]
    decided_by: Annotated[str | None, about("the run that would decide; null: none")]
    model: Annotated[str, about("the model that was concluded from, as in docs/explain.md")]
    assumes: Annotated[str, about("what it assumes of the time per image")]
    fixed_s: Annotated[Number, about("the fixed cost of each run")]
    fixed_s_whichever_point_is_left_out: Annotated[
        Sequence[float] | None, about("least and most; null: too few points")
    ]
    images_per_s_per_rank_implied: Annotated[Number | None, about("the speed that the wall times imply")]
    equal_time_per_image: Annotated[EqualTimePerImage, about("whether an image takes the same time at every point")]
    findings: Annotated[Sequence[CurveFinding], about("contradictory numbers")]
    fits: Annotated[Sequence[CurveFit], about("each model or choice of points; the first is concluded from")]
    points: Annotated[Sequence[CurvePoint], about("by ranks, and by falling work")]
    phases: Annotated[Sequence[FixedCostPhases], about("of local records; else empty")]
    sentences: Annotated[Sequence[str], about("the explanation in words")]


def as_json(explained: Explanation, phases: pd.DataFrame) -> ExplainedCurve:
    """Return the document of one curve; `phases` as `runs.phases` returns them."""
    without_one = [cost.value for cost in explained.fixed_without_one_s]
    return ExplainedCurve(
        curve=explained.name,
        fixed_cost_paid=_HAS_FIXED_COST[explained.has_fixed_cost],
        recurring_cost_fits=[one.shape.paid_for for one in explained.alternatives],
        decided_by=decider_text(explained.decider, explained.alternatives) if explained.decider else None,
        model=explained.fit.model.name,
        assumes=explained.fit.model.assumes,
        fixed_s=number(explained.fit.fixed_s),
        fixed_s_whichever_point_is_left_out=[min(without_one), max(without_one)] if without_one else None,
        images_per_s_per_rank_implied=optional(explained.fit.images_per_s_per_rank),
        equal_time_per_image=EqualTimePerImage(verdict=_equal(explained.growth_p), p=explained.growth_p),
        findings=[filled(CurveFinding, finding) for finding in explained.findings],
        fits=[_fit(name, fit, explained.reasonable(name)) for name, fit in explained.fits.items()],
        points=list(_points(explained)),
        phases=[
            FixedCostPhases(**{str(name): value for name, value in row.items()}) for row in phases.to_dict("records")
        ],
        sentences=sentences(explained),
    )


def _equal(p: float) -> EqualTime:
    if math.isnan(p):
        return "not tested"
    return "failed" if p < REFUTED else "not refuted"


def _fit(name: str, fit: Fit, reasonable: bool) -> CurveFit:
    speed = optional(fit.images_per_s_per_rank)
    assumes = fit.model.assumes
    return filled(CurveFit, fit, name=name, assumes=assumes, reasonable=reasonable, images_per_s_per_rank_implied=speed)


def _points(explained: Explanation) -> Iterator[CurvePoint]:
    points = explained.points
    above = {name: beyond_ideal(points, name) for name in _ABOVE}
    for nth, point in enumerate(points.to_dict("records")):
        value, low, high = (point[f"speedup_without_fixed{end}"] for end in ("", "_low", "_high"))
        yield CurvePoint(
            **{name: point[name] for name in CurvePoint.__struct_fields__ if name not in _COMPUTED},
            speedup_without_fixed=optional(from_ends(value, low, high, "fit", explained.fit.runs)),
            fits=verdict(point),
            above_ideal=[name for name in above if above[name].iloc[nth]],
        )
