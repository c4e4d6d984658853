"""The explanation of one curve as sentences and tables."""

import math
import textwrap
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Literal

import pandas as pd
from tabulate import tabulate

from analysis import metrics
from analysis.curves import ranks_in_words
from analysis.explain import models
from analysis.explain.fit import DECIDING_DEGREES, REFUTED, Explanation
from analysis.explain.models import beyond_ideal
from analysis.explain.recurring import decider_text
from analysis.explain.runs import SPEED

WIDTH = 100
Point = Mapping[Hashable, Any]  # a row of `Explanation.points`
Fits = Literal["yes", "no", "undecided", "not used", "not tested"]


def sentences(explained: Explanation) -> list[str]:
    """Return the conclusions: why the speedups differ, how that is known, how far it goes, what does not fit."""
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
    """Yield which costs that recur fit as well as a fixed one, and the run that would decide."""
    if explained.alternatives:
        names = " or ".join(f"for {one.shape.paid_for}" for one in explained.alternatives)
        yield f"Whether that is paid once cannot be decided: a cost that recurs, {names}, fits as well."
    if explained.decider:
        yield decider_text(explained.decider, explained.alternatives)


def _evidence(explained: Explanation) -> Iterator[str]:
    model, p = explained.fit.model, explained.growth_p
    more = "Measured speeds, or several works at one number of ranks, would"
    if model.speeds and model.taken:
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
            f"{tested}. {more} do without it."
        )
    elif model is models.GROWING:
        growth = "it does" if p < REFUTED else "that cannot be shown"
        yield (
            "Without measured speeds the time per image was fitted too, as changing alike at each doubling of the "
            f"ranks or as in a ring allreduce: {growth} (p = {p:.2g}). {more} show more."
        )
    else:
        yield "Several works at one number of ranks show it, whatever an image takes at each number of ranks."
    if others := [cost.value for cost in explained.fixed_without_one_s]:
        low, high = f"{min(others):.3g}", f"{max(others):.3g}"
        yield f"Whichever point is left out, it is {low if low == high else f'{low} to {high}'} s."


def _speedups(explained: Explanation) -> Iterator[str]:
    shown = explained.points[explained.points["ideal"].gt(1)].dropna(subset=["speedup_without_fixed"])
    shown = shown[~shown["misfit"]]
    if shown.empty:
        return
    top = shown.iloc[-1]
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
        [f"{point[column]:.3g}x on {point['ranks']} (ideal {point['ideal']:.3g}x)" for point in _records(points)]
    )


def _enumeration(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _records(points: pd.DataFrame) -> list[dict[Hashable, Any]]:
    return points.to_dict("records")


def _speed(explained: Explanation) -> Iterator[str]:
    implied, measured = explained.fit.images_per_s_per_rank, explained.fit.measured_images_per_s
    if math.isnan(measured) or math.isnan(implied.value):
        return
    used = explained.points.loc[explained.points["used"], SPEED]
    off = metrics.change_fraction(implied.value, measured)
    agrees = "they agree" if implied.contains(measured) else "they contradict each other"
    agrees = "too few points to tell whether they agree" if not implied.has_interval else agrees
    yield (
        "Without the level of the measured speeds the wall times imply "
        f"{implied.text('.3g', 'images/s a rank')}; measured were {used.min():.3g} to {used.max():.3g}, the median, "
        f"{measured:.4g}, {abs(off):.1%} {'more' if off > 0 else 'less'}: {agrees}."
    )


def misfit(point: Point) -> str:
    """Return how a point does not fit, and the work that would."""
    more = point["wall_s"] - point["fitted_s"]
    return (
        f"The point at {ranks_in_words(point['ranks'])} does not fit: it took {point['wall_s']:.4g} s, "
        f"{abs(more):.2g} s {'more' if more > 0 else 'less'} than the others predict, whichever of them is left out "
        f"(p = {point['misfit_p']:.2g}), {_as_if(point)}."
    )


def _as_if(point: Point) -> str:
    return f"as if it had run {point['steps_that_fit']:.0f} steps, not {point['steps_per_rank']:g}"


def _misfits(explained: Explanation) -> Iterator[str]:
    yield from map(misfit, _records(explained.misfits))
    undecided = [
        f"{ranks_in_words(point['ranks'])} ({_as_if(point)})"
        for point in _records(explained.points[explained.points["misfit_undecided"]])
    ]
    if undecided:
        yield (
            f"Not decidable: whether the others predict the point at {_enumeration(undecided)} depends on which are "
            f"left out; the intervals span the fits with and without {'it' if len(undecided) == 1 else 'each'}."
        )


def _unknown_speeds(explained: Explanation) -> Iterator[str]:
    if not explained.fit.model.speeds:
        return
    for point in _records(explained.points[explained.points[SPEED].isna()]):
        left_s = point["wall_s"] - explained.fit.fixed_s.value
        if left_s > 0:
            yield (
                f"On {ranks_in_words(point['ranks'])} no speed is known; with the same fixed cost it was about "
                f"{point['images_per_rank'] / left_s:.3g} images/s a rank."
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
    return "the speeds tell more" if chosen.model.speeds and not fit.model.speeds else "contradicted"


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
    cells["fits"] = [_MARKS[verdict(point)] for point in _records(points)]
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
