"""The explanation of one curve as sentences, tables and JSON."""

import math
import textwrap
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import pandas as pd
from tabulate import tabulate

from analysis import metrics
from analysis.curves import ranks_in_words
from analysis.documents import Document, NumberField, about, filled, optional
from analysis.explain import DECIDING_DEGREES, REFUTED, Explanation, models
from analysis.explain.models import Fit, beyond_ideal
from analysis.explain.recurring import decider_text
from analysis.explain.runs import SPEED
from analysis.stats import from_ends

WIDTH = 100
Point = Mapping[Hashable, Any]  # a row of `Explanation.points`
Fits = Literal["yes", "no", "undecided", "not used", "not tested"]


def sentences(explained: Explanation) -> list[str]:
    """Return the conclusions: why the speedups differ, the evidence, the speedups, and the points that do not fit."""
    parts = (_why, _recurring, _evidence, _speedups, _beyond_ideal, _speed, _misfits, _unknown_speeds)
    return [sentence for part in parts for sentence in part(explained)]


def _why(explained: Explanation) -> Iterator[str]:
    fitting, cost = explained.points[~explained.points["misfit"]], explained.fit.fixed_s.text(".3g", "s")
    first, last = fitting.iloc[0], fitting.iloc[-1]
    if explained.has_cost_beyond_steps is None:
        yield (
            f"Whether there is a fixed cost is not decidable: {cost}, but the answer depends on which points are left "
            "out, or on what is assumed of the time per image."
        )
    elif explained.alternatives:
        if explained.fit.model.speeds:
            yield f"They differ because {cost} of each run are beyond its steps at their measured speed."
        else:
            yield f"The wall times fit a fixed cost of {cost}."
    elif not explained.has_fixed_cost:
        few = explained.fit.linear.degrees < DECIDING_DEGREES
        reason = "There are too few runs to decide." if few else "It explains nothing here."
        yield f"The fixed cost does not differ significantly from zero: {cost}. {reason}"
    elif last["images_per_rank"] < first["images_per_rank"] and last["ranks"] > first["ranks"]:
        work = "steps" if last["steps_per_rank"] < first["steps_per_rank"] else "images"
        yield (
            f"They differ because each run has a fixed cost of {cost}, and the {work} per rank shrink with the ranks, "
            f"from {first[f'{work}_per_rank']:g} on {first['ranks']:g} to {last[f'{work}_per_rank']:g} on "
            f"{last['ranks']:g}: the fixed cost is {first['fixed_fraction']:.0%} of the wall time on "
            f"{first['ranks']:g} and {last['fixed_fraction']:.0%} on {last['ranks']:g}. "
            "The speed counts the steps alone and does not see it."
        )
    else:
        yield f"Each run has a fixed cost of {cost}; the work per rank does not shrink with the ranks."


def _recurring(explained: Explanation) -> Iterator[str]:
    """Yield the recurring costs that fit as well as a fixed one, and the run that would decide."""
    if explained.alternatives:
        names = " or ".join(f"for {alternative.shape.paid_for}" for alternative in explained.alternatives)
        yield f"Whether that is paid once cannot be decided: a cost that recurs, {names}, fits as well."
    if explained.decider:
        yield decider_text(explained.decider, explained.alternatives)


def _evidence(explained: Explanation) -> Iterator[str]:
    model, p = explained.fit.model, explained.growth_p
    remedy = "Measured speeds, or several works at one number of ranks, would"
    if model.speeds and model.without_factor:
        yield "It is what the steps at their measured speed leave of the wall times."
    elif model.speeds:
        yield (
            "The wall times contradict the level of the measured speeds (below), so the speeds show only how the time "
            "per image differs between points."
        )
    elif model is models.EQUAL:
        tested = "cannot be tested with these points" if math.isnan(p) else f"is not refuted (p = {p:.2g})"
        tested = f"fails (p = {p:.2g}), so the fixed cost is wrong" if p < REFUTED else tested
        yield (
            "Without measured speeds this assumes that an image takes the same time at every point, which "
            f"{tested}. {remedy} do without it."
        )
    elif model is models.GROWING:
        growth = "it does" if p < REFUTED else "that cannot be shown"
        yield (
            "Without measured speeds the time per image was fitted too, as changing alike at each doubling of the "
            f"ranks or as in a ring allreduce: {growth} (p = {p:.2g}). {remedy} show more."
        )
    else:
        yield "Several works at one number of ranks show it, whatever an image takes at each number of ranks."
    if others := [cost.value for cost in explained.fixed_without_one_s]:
        low, high = f"{min(others):.3g}", f"{max(others):.3g}"
        yield f"Whichever point is left out, it is {low if low == high else f'{low} to {high}'} s."


def _speedups(explained: Explanation) -> Iterator[str]:
    points = explained.points[explained.points["ideal"].gt(1)].dropna(subset=["speedup_without_fixed"])
    points = points[~points["misfit"]]
    if points.empty:
        return
    top = points.iloc[-1]
    speed = "" if math.isnan(top["speedup_throughput"]) else f"{top['speedup_throughput']:.1f}x by speed, "
    low, high = top["speedup_without_fixed_low"], top["speedup_without_fixed_high"]
    interval = f" ({low:.1f} or more)" if math.isnan(high) else f" ({low:.1f} to {high:.1f})"
    if math.isnan(low) or explained.fit.linear.degrees < DECIDING_DEGREES:
        interval = ""
    yield (
        f"On {ranks_in_words(top['ranks'])}: {speed}{top['speedup_wall_time']:.1f}x by wall time, "
        f"{top['speedup_without_fixed']:.1f}x by wall time without the fixed cost{interval}; ideal {top['ideal']:.4g}x."
    )


def _beyond_ideal(explained: Explanation) -> Iterator[str]:
    model, points = explained.fit.model, explained.points
    assumption = "every point has the same fixed cost"
    if not model.speeds and not model.by_ranks:
        assumption += f", and {model.assumes}"
    above = points[beyond_ideal(points, "speedup_without_fixed")]
    if len(above):
        within = above["speedup_without_fixed_low"].le(above["ideal"]).all()
        yield (
            f"The speedup without the fixed cost is above the ideal: {_above(above, 'speedup_without_fixed')}. No "
            f"ranks do that: the assumption failed there that {assumption}"
            + (", or it is noise: the interval holds the ideal." if within else ".")
        )
    above = points[beyond_ideal(points, "speedup_throughput")]
    if len(above):
        yield (
            f"The speedup by speed is above the ideal: {_above(above, 'speedup_throughput')}. No ranks do that: check "
            "the speed at the fewest ranks, the base of all others."
        )


def _above(points: pd.DataFrame, column: str) -> str:
    return _enumeration(
        [
            f"{point[column]:.3g}x on {point['ranks']} (ideal {point['ideal']:.3g}x)"
            for point in points.to_dict("records")
        ]
    )


def _enumeration(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _speed(explained: Explanation) -> Iterator[str]:
    implied, measured = explained.fit.images_per_s_per_rank, explained.fit.measured_images_per_s
    if math.isnan(measured) or math.isnan(implied.value):
        return
    used = explained.points.loc[explained.points["used"], SPEED]
    off = metrics.change_fraction(implied.value, measured)
    agrees = "they agree" if implied.contains(measured) else "they contradict each other"
    agrees = "too few points to show whether they agree" if not implied.has_interval else agrees
    yield (
        "Without the level of the measured speeds the wall times imply "
        f"{implied.text('.3g', 'images/s a rank')}; measured were {used.min():.3g} to {used.max():.3g}, the median, "
        f"{measured:.4g}, {abs(off):.1%} {'more' if off > 0 else 'less'}: {agrees}."
    )


def misfit(point: Point) -> str:
    """Return a sentence on a point that does not fit, with the work that would."""
    excess_s = point["wall_s"] - point["fitted_s"]
    return (
        f"The point at {ranks_in_words(point['ranks'])} does not fit: it took {point['wall_s']:.4g} s, "
        f"{abs(excess_s):.2g} s {'more' if excess_s > 0 else 'less'} than the others predict, whichever of them is "
        f"left out (p = {point['misfit_p']:.2g}), {_as_if(point)}."
    )


def _as_if(point: Point) -> str:
    return f"as if it had run {point['steps_that_fit']:.0f} steps, not {point['steps_per_rank']:g}"


def _misfits(explained: Explanation) -> Iterator[str]:
    yield from map(misfit, explained.misfits.to_dict("records"))
    undecided = [
        f"{ranks_in_words(point['ranks'])} ({_as_if(point)})"
        for point in explained.points[explained.points["misfit_undecided"]].to_dict("records")
    ]
    if undecided:
        yield (
            f"Not decidable: whether the others predict the point at {_enumeration(undecided)} depends on which are "
            f"left out; the intervals span the fits with and without {'it' if len(undecided) == 1 else 'each'}."
        )


def _unknown_speeds(explained: Explanation) -> Iterator[str]:
    if not explained.fit.model.speeds:
        return
    for point in explained.points[explained.points[SPEED].isna()].to_dict("records"):
        remaining_s = point["wall_s"] - explained.fit.fixed_s.value
        if remaining_s > 0:
            yield (
                f"On {ranks_in_words(point['ranks'])} no speed is known; with the same fixed cost it was about "
                f"{point['images_per_rank'] / remaining_s:.3g} images/s a rank."
            )


def _fits(explained: Explanation) -> str:
    rows = [
        [
            name,
            fit.runs,
            fit.fixed_s.text(".3g"),
            "-" if math.isnan(fit.images_per_s_per_rank.value) else fit.images_per_s_per_rank.text(".3g"),
            _remark(explained, name),
        ]
        for name, fit in explained.fits.items()
    ]
    return tabulate(rows, ["made from", "runs", "fixed cost [s]", "so images/s a rank", ""], disable_numparse=True)


def _remark(explained: Explanation, name: str) -> str:
    fit, chosen = explained.fits[name], explained.fit
    if fit is chosen:
        return "concluded from"
    if explained.reasonable(name):
        return ""
    if fit.linear.degrees < DECIDING_DEGREES:
        return "too few runs"
    return "the speeds show more" if chosen.model.speeds and not fit.model.speeds else "contradicted"


_HEADERS = {
    "ranks": "ranks",
    "work": "steps\na rank",
    "runs": "runs",
    "wall_s": "wall\n[s]",
    "fitted_s": "fit\n[s]",
    "fits": "fits?",
    "beyond_speed_s": "not in\nspeed\n[s]",
    "speedup_throughput": "by\nspeed",
    "speedup_wall_time": "by wall\ntime",
    "speedup_without_fixed": "without\nfixed",
}
_MARKS = {"yes": "yes", "no": "no", "undecided": "?", "not used": "-", "not tested": ""}


def verdict(point: Point) -> Fits:
    """Return whether a point fits: yes, no, undecided, not tested (few points), or not used (no speed, impossible)."""
    if point["misfit"]:
        return "no"
    if point["misfit_undecided"]:
        return "undecided"
    if not point["used"]:
        return "not used"
    return "not tested" if pd.isna(point["misfit_p"]) else "yes"


def _points(explained: Explanation) -> str:
    points = explained.points
    cells = {name: _cells(points[name]) for name in _HEADERS if name in points}
    batches, steps = _cells(points["batch_per_rank"]), _cells(points["steps_per_rank"])
    one_batch, one_run = len(set(batches)) == 1, points["runs"].eq(1).all()
    cells["work"] = steps if one_batch else [f"{n} x {batch}" for n, batch in zip(steps, batches, strict=True)]
    cells["fits"] = [_MARKS[verdict(point)] for point in points.to_dict("records")]
    for column in ("speedup_throughput", "speedup_without_fixed"):
        marks = beyond_ideal(points, column)
        cells[column] = [cell + "!" * mark for cell, mark in zip(cells[column], marks, strict=True)]
    columns = [name for name in _HEADERS if name != "runs" or not one_run]
    headers = [_HEADERS[name] + " x\nbatch" * (name == "work" and not one_batch) for name in columns]
    rows = list(zip(*(cells[name] for name in columns), strict=True))
    table = tabulate(rows, headers, disable_numparse=True, colalign=["right"] * len(columns))
    legend = [f"batch a rank: {batches[0]}"] * one_batch + ["speedups in x over the first point that is used"]
    legend += ["!: above the ideal"] * any("!" in cell for row in rows for cell in row)
    legend += ["?: not decidable"] * ("?" in cells["fits"])
    legend += ["-: not used, or not known"] * any(cell == "-" for row in rows for cell in row)
    return table + "\n" + textwrap.fill(f"({'; '.join(legend)})", WIDTH)


def _cells(values: pd.Series) -> list[str]:
    digits = 6 if str(values.name).endswith("per_rank") else 4
    return ["-" if pd.isna(value) else f"{value:.{digits}g}" for value in values]


def report(explained: Explanation, phases: pd.DataFrame) -> str:
    """Return the explanation of one curve as text of at most WIDTH columns; `phases` as `runs.phases` returns them."""
    parts = [f"== {explained.name or 'the curve'}"]
    parts += [
        textwrap.fill(f"finding: {finding.says}", WIDTH, subsequent_indent="  ") for finding in explained.findings
    ]
    parts += [_fits(explained), _points(explained)]
    if not phases.empty:
        parts += _by_phase(phases, explained)
    parts += [textwrap.fill(" ".join(sentences(explained)), WIDTH)]
    return "\n\n".join(parts)


def _by_phase(phases: pd.DataFrame, explained: Explanation) -> Iterator[str]:
    table = tabulate(phases, headers="keys", showindex=False, floatfmt=".3f")
    yield f"The fixed cost by the phases of the records, mean over repeats:\n{table}"
    costs = [fit.fixed_s for fit in explained.fits.values() if not fit.model.speeds]
    if costs:
        by_phase = float(phases["fixed_s"].median())
        inside = "inside" if costs[0].contains(by_phase) else "outside"
        yield textwrap.fill(
            f"By the phases: {by_phase:.3g} s (median). The wall times alone, without phases and speeds, give "
            f"{costs[0].text('.3g', 's')}: the phases' is {inside} that interval.",
            WIDTH,
        )


FixedCostPaid = Literal["yes", "no", "not decidable"]
EqualTime = Literal["failed", "not refuted", "not tested"]
SpeedupName = Literal["speedup_throughput", "speedup_without_fixed"]
_HAS_FIXED_COST: dict[bool | None, FixedCostPaid] = {True: "yes", False: "no", None: "not decidable"}
_DERIVED_FIELDS = ("speedup_without_fixed", "fits", "above_ideal")  # fields of a point that are no columns
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
    fixed_s: Annotated[NumberField, about("its fixed cost")]
    images_per_s_per_rank_implied: Annotated[NumberField | None, about("the speed that it implies")]


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
    speedup_without_fixed: Annotated[NumberField | None, about("by images over wall time less the fixed cost")]
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
    fixed_s: Annotated[NumberField, about("the fixed cost of each run")]
    fixed_s_whichever_point_is_left_out: Annotated[
        Sequence[float] | None, about("least and most; null: too few points")
    ]
    images_per_s_per_rank_implied: Annotated[NumberField | None, about("the speed that the wall times imply")]
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
        recurring_cost_fits=[alternative.shape.paid_for for alternative in explained.alternatives],
        decided_by=decider_text(explained.decider, explained.alternatives) if explained.decider else None,
        model=explained.fit.model.name,
        assumes=explained.fit.model.assumes,
        fixed_s=explained.fit.fixed_s,
        fixed_s_whichever_point_is_left_out=[min(without_one), max(without_one)] if without_one else None,
        images_per_s_per_rank_implied=optional(explained.fit.images_per_s_per_rank),
        equal_time_per_image=EqualTimePerImage(verdict=_equal(explained.growth_p), p=explained.growth_p),
        findings=[filled(CurveFinding, finding) for finding in explained.findings],
        fits=[_curve_fit(name, fit, explained.reasonable(name)) for name, fit in explained.fits.items()],
        points=list(_curve_points(explained)),
        phases=[
            FixedCostPhases(**{str(name): value for name, value in row.items()}) for row in phases.to_dict("records")
        ],
        sentences=sentences(explained),
    )


def _equal(p: float) -> EqualTime:
    if math.isnan(p):
        return "not tested"
    return "failed" if p < REFUTED else "not refuted"


def _curve_fit(name: str, fit: Fit, reasonable: bool) -> CurveFit:
    speed = optional(fit.images_per_s_per_rank)
    assumes = fit.model.assumes
    return filled(CurveFit, fit, name=name, assumes=assumes, reasonable=reasonable, images_per_s_per_rank_implied=speed)


def _curve_points(explained: Explanation) -> Iterator[CurvePoint]:
    points = explained.points
    above = {name: beyond_ideal(points, name) for name in _ABOVE}
    for nth, point in enumerate(points.to_dict("records")):
        value, low, high = (point[f"speedup_without_fixed{end}"] for end in ("", "_low", "_high"))
        yield CurvePoint(
            **{name: point[name] for name in CurvePoint.__struct_fields__ if name not in _DERIVED_FIELDS},
            speedup_without_fixed=optional(from_ends(value, low, high, "about the fit", explained.fit.runs)),
            fits=verdict(point),
            above_ideal=[name for name in above if above[name].iloc[nth]],
        )
