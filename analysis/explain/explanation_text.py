"""The explanation of one curve, as a document and as text."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
import pandas as pd

from analysis import metrics
from analysis.documents import Document, NumberField, about, optional
from analysis.explain import Explanation, beyond_ideal
from analysis.explain.line import EQUAL, FACTOR
from analysis.explain.wall_time_runs import POINT, SPEED, Contradiction, phases
from analysis.stats import Number, from_ends
from common.terminal import counted, paragraph, text_table

PointRow = Mapping[Hashable, Any]  # a row of `Explanation.points`
Fits = Literal["yes", "no", "not used", "not tested"]


def sentences(explained: Explanation) -> list[str]:
    """Return the conclusions: why the speedups differ, the evidence, the speedups, and the points that do not fit."""
    parts = (_beyond_steps, _once, _deciding, _speedups, _beyond_ideal, _speed, _misfits, _unknown_speeds)
    return [sentence for part in parts for sentence in part(explained)]


_BEYOND_STEPS: dict[bool | None, str] = {
    True: "They differ because {} of each run are beyond its steps at their measured speed.",
    None: "Whether a cost beyond the steps makes them differ is not decidable: their measured speed leaves {}.",
    False: "Nothing that matters is beyond the steps: their measured speed leaves {}.",
}


def _beyond_steps(explained: Explanation) -> Iterator[str]:
    """Yield what measured speeds leave of the wall times."""
    if explained.model.speeds:
        yield _BEYOND_STEPS[explained.has_cost_beyond_steps].format(explained.modelled_s.text(".3g", "s"))
    if explained.model is FACTOR:
        yield (
            "The wall times contradict the level of the measured speeds (below), so the speeds show only how the time "
            "per image differs between points."
        )


_ONCE: dict[bool | None, str] = {
    True: "Each run has a fixed cost of {cost}: {shown} show it, whatever recurs with the steps.",
    None: "Whether each run has a fixed cost is not decidable: {shown} give {cost}{below}.",
    False: "Each run has no fixed cost that matters: {shown} give {cost}, of {shortest_s:.3g} s or more.",
}


def _once(explained: Explanation) -> Iterator[str]:
    """Yield whether a cost is paid once."""
    once = explained.once_s
    if once is not None:
        yield _ONCE[explained.has_fixed_cost].format(
            cost=once.text(".3g", "s"),
            shown="the phases of the records" if explained.by_phases else "several works at one number of ranks",
            shortest_s=explained.shortest_s,
            below=", below zero, so longer runs have slower steps, or one was late" if once.high < 0 else "",
        )
    elif explained.model is EQUAL:
        yield (
            "Whether each run has a fixed cost is not decidable: no number of ranks has several works. If an image "
            f"took the same time at every point, it would be {explained.modelled_s.text('.3g', 's')}."
        )
    elif explained.has_cost_beyond_steps:
        yield (
            "Whether that is paid once cannot be decided: no number of ranks has several works, and a cost of each "
            "step and rank, or of each epoch, fits as well."
        )


def _deciding(explained: Explanation) -> Iterator[str]:
    """Yield the deciding runs, and the wall times that each explanation predicts."""
    if run := explained.decider:
        yield (
            f"{run.runs} runs of {counted(run.steps_per_rank, 'step')} a rank on {counted(run.ranks, 'rank')} would "
            f"decide: {run.if_fixed_s:.3g} s if the fixed cost is paid once; {run.if_recurring_s:.3g} s if all recurs "
            "with the steps."
        )


def _speedups(explained: Explanation) -> Iterator[str]:
    points = explained.points[explained.points["ideal"].gt(1)].dropna(subset=["speedup_without_fixed"])
    points = points[~points["misfit"]]
    if points.empty:
        return
    top = points[points["ranks"].eq(points["ranks"].max())].to_dict("records")[0]  # of several works the largest
    speed = "" if math.isnan(top["speedup_throughput"]) else f"{top['speedup_throughput']:.1f}x by speed, "
    yield (
        f"On {counted(top['ranks'], 'rank')}: {speed}{top['speedup_wall_time']:.1f}x by wall time; without the fixed "
        f"cost {_without_fixed(explained, top).text('.1f')}; ideal {top['ideal']:.4g}x."
    )


def _without_fixed(explained: Explanation, point: PointRow) -> Number:
    """Return the speedup of a point by wall time without the fixed cost."""
    value, low, high = (point[f"speedup_without_fixed{end}"] for end in ("", "_low", "_high"))
    return from_ends(value, low, high, "about the fit", explained.fixed_s.n)


def _beyond_ideal(explained: Explanation) -> Iterator[str]:
    points = explained.points
    for column, name, meaning in (
        ("speedup_without_fixed", "without the fixed cost",
         "The fixed cost differs there, or an image takes less time on more ranks."),
        ("speedup_throughput", "by speed", "Check the speed at the fewest ranks, the base of all others."),
    ):  # fmt: skip
        above = points[beyond_ideal(points, column)].to_dict("records")
        values = [f"{point[column]:.3g}x on {point['ranks']} (ideal {point['ideal']:.3g}x)" for point in above]
        if values:
            yield f"The speedup {name} is above the ideal: {', '.join(values)}. {meaning}"


def _speed(explained: Explanation) -> Iterator[str]:
    implied, used = explained.images_per_s_per_rank, explained.points.loc[explained.points["used"], SPEED]
    if not explained.model.speeds or not implied.has_interval:
        return
    measured = float(used.median())
    off = metrics.change_fraction(implied.value, measured)
    agree = (
        "no contradiction is shown" if implied.contains(measured) else "these runs are too few to show which is right"
    )
    yield (
        "Without the level of the measured speeds the wall times imply "
        f"{implied.text('.3g', 'images/s a rank')}; measured were {used.min():.3g} to {used.max():.3g}, the median, "
        f"{measured:.4g}, {abs(off):.1%} {'more' if off > 0 else 'less'}: "
        f"{'they contradict each other' if explained.model is FACTOR else agree}."
    )


def misfit(point: PointRow) -> str:
    """Return a sentence on a point that does not fit, with the work that would."""
    excess_s = point["wall_s"] - point["fitted_s"]
    return (
        f"The point at {counted(point['ranks'], 'rank')} does not fit: it took {point['wall_s']:.4g} s, "
        f"{abs(excess_s):.2g} s {'more' if excess_s > 0 else 'less'} than the others predict "
        f"(p = {point['misfit_p']:.2g}), as if it had run "
        f"{point['steps_that_fit']:.0f} steps, not {point['steps_per_rank']:g}."
    )


def _misfits(explained: Explanation) -> Iterator[str]:
    yield from map(misfit, explained.misfits.to_dict("records"))


def _unknown_speeds(explained: Explanation) -> Iterator[str]:
    unknown = explained.points[explained.points[SPEED].isna() & explained.model.speeds]
    for point in unknown.to_dict("records"):
        remaining_s = point["wall_s"] - explained.fixed_s.value
        if remaining_s > 0:
            yield (
                f"On {counted(point['ranks'], 'rank')} no speed is known; with the same fixed cost it was about "
                f"{point['images_per_rank'] / remaining_s:.3g} images/s a rank."
            )


def verdict(point: PointRow) -> Fits:
    """Return whether a point fits: yes, no, not tested (few points), or not used (no speed, impossible)."""
    if point["misfit"]:
        return "no"
    if not point["used"]:
        return "not used"
    return "not tested" if pd.isna(point["misfit_p"]) else "yes"


FixedCostPaid = Literal["yes", "no", "not decidable"]
SpeedupName = Literal["speedup_throughput", "speedup_without_fixed"]
_ANSWERS: dict[bool | None, FixedCostPaid] = {True: "yes", False: "no", None: "not decidable"}


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
    fixed_cost_paid: Annotated[FixedCostPaid, about("whether each run pays a cost once")]
    fixed_s: Annotated[NumberField, about("the cost that is paid once; not decidable: by the model")]
    cost_beyond_steps: Annotated[FixedCostPaid, about("whether measured speeds leave a part of the wall times")]
    beyond_steps_s: Annotated[NumberField | None, about("this part; null: no speeds")]
    decided_by: Annotated[str | None, about("the runs that would decide; null: decided")]
    assumes: Annotated[str, about("what the model assumes of the time per image")]
    images_per_s_per_rank_implied: Annotated[NumberField | None, about("the speed that the wall times imply")]
    findings: Annotated[Sequence[Contradiction], about("contradictory numbers")]
    points: Annotated[Sequence[CurvePoint], about("by ranks, and by falling work")]
    phases: Annotated[Sequence[FixedCostPhases], about("of local records; else empty")]
    sentences: Annotated[Sequence[str], about("the explanation in words")]


def answer(explained: Explanation, curve: pd.DataFrame) -> ExplainedCurve:
    """Return the document of a curve that was split; `curve`: its runs."""
    return ExplainedCurve(
        curve=explained.name,
        fixed_cost_paid=_ANSWERS[explained.has_fixed_cost],
        fixed_s=explained.fixed_s,
        cost_beyond_steps=_ANSWERS[explained.has_cost_beyond_steps],
        beyond_steps_s=explained.modelled_s if explained.model.speeds else None,
        decided_by=next(_deciding(explained), None),
        assumes=explained.model.assumes,
        images_per_s_per_rank_implied=optional(explained.images_per_s_per_rank),
        findings=explained.findings,
        points=list(_curve_points(explained)),
        phases=msgspec.convert(phases(curve).to_dict("records"), list[FixedCostPhases]),
        sentences=sentences(explained),
    )


def _curve_points(explained: Explanation) -> Iterator[CurvePoint]:
    points = explained.points
    above = {name: beyond_ideal(points, name) for name in get_args(SpeedupName)}
    for nth, point in enumerate(points.to_dict("records")):
        row: dict[Any, Any] = point | {
            "speedup_without_fixed": optional(_without_fixed(explained, point)),
            "fits": verdict(point),
            "above_ideal": [name for name in above if above[name].iloc[nth]],
        }
        yield CurvePoint(**{name: row[name] for name in CurvePoint.__struct_fields__})


def report(curve: ExplainedCurve) -> str:
    """Return the explanation of one curve as text."""
    parts = [f"== {curve.curve or 'the curve'}"]
    parts += [paragraph(f"finding: {finding.meaning}", hanging="  ") for finding in curve.findings]
    parts.append(_table(curve.points))
    if curve.phases:
        phases = [
            {k: v if k == "ranks" else f"{v:.3f}" for k, v in msgspec.structs.asdict(row).items()}
            for row in curve.phases
        ]
        parts.append(f"The fixed cost by the phases of the records, mean over repeats:\n{text_table(phases)}")
    return "\n\n".join([*parts, paragraph(" ".join(curve.sentences))])


_HEADERS = {
    "ranks": "ranks",
    "steps_per_rank": "steps",
    "batch_per_rank": "batch",
    "runs": "runs",
    "wall_s": "wall\n[s]",
    "fitted_s": "fit\n[s]",
    "fits": "fits?",
    "beyond_speed_s": "not in\nspeed\n[s]",
    "speedup_throughput": "by\nspeed",
    "speedup_wall_time": "by\nwall\ntime",
    "speedup_without_fixed": "without\nfixed",
}


def _table(points: Sequence[CurvePoint]) -> str:
    """Return the points as a table, and how to read it."""
    rows = [{header: _cell(point, name) for name, header in _HEADERS.items()} for point in points]
    legend = "(steps, batch: of a rank; speedups in x over the first point used; !: above the ideal; -: not known)"
    return f"{text_table(rows, align='right')}\n\n{paragraph(legend)}"


def _cell(point: CurvePoint, name: str) -> str:
    value = getattr(point, name)
    if name == "fits":
        return point.fits
    number, form = value.value if isinstance(value, Number) else value, ".6g" if name in (*POINT, "runs") else ".4g"
    return "-" if number is None or math.isnan(number) else f"{number:{form}}" + "!" * (name in point.above_ideal)
