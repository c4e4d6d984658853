"""The explanation of one curve in words and tables."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import pandas as pd
from tabulate import tabulate

from analysis import metrics
from analysis.curves import ranks_in_words
from analysis.explain import models
from analysis.explain.fit import DECIDING_DEGREES, REFUTED, Explanation
from analysis.explain.models import Fit

WIDTH = 100


def _list(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def sentences(explained: Explanation) -> list[str]:
    """What a reader needs to know: why the speedups differ, how that is known, how far it goes, what does not fit."""
    parts = (_why, _known_by, _speedups, _beyond_ideal, _speed, _misfits, _unknown_speeds)
    return [sentence for part in parts for sentence in part(explained)]


def _why(explained: Explanation) -> Iterator[str]:
    fitting, cost = explained.points[~explained.points["misfit"]], explained.fit.fixed_s
    first, last = fitting.iloc[0], fitting.iloc[-1]
    if explained.paid is None:
        yield (
            f"Whether a fixed cost is paid is not decidable: {cost.text('.3g', 's')}, but the answer depends on which "
            "points are left out, or on what is assumed of the time per image."
        )
    elif not explained.paid:
        few = explained.fit.linear.degrees < DECIDING_DEGREES
        yield (
            f"No fixed cost can be told from zero: {cost.text('.3g', 's')}. "
            + ("There are too few runs to tell." if few else "It explains nothing here.")
        )
    elif last["images_per_rank"] < first["images_per_rank"] and last["ranks"] > first["ranks"]:
        work = "steps" if last["steps_per_rank"] < first["steps_per_rank"] else "images"
        yield (
            f"They differ because each run pays {cost.text('.3g', 's')} once, and the {work} per rank shrink with the "
            f"ranks, from {first[f'{work}_per_rank']:g} on {first['ranks']:g} to {last[f'{work}_per_rank']:g} on "
            f"{last['ranks']:g}: the fixed cost is {first['fixed_fraction']:.0%} of the wall time on "
            f"{first['ranks']:g} and {last['fixed_fraction']:.0%} on {last['ranks']:g}. "
            "The speed counts the steps alone and does not see it."
        )
    else:
        yield f"Each run pays {cost.text('.3g', 's')} once; the work per rank does not shrink with the ranks."


def _known_by(explained: Explanation) -> Iterator[str]:
    model, p = explained.fit.model, explained.growth_p
    if model is models.SPEEDS:
        yield "It is what the steps at their measured speed leave of the wall times."
    elif model is models.FACTOR:
        yield (
            "The wall times contradict the level of the measured speeds (below), so the speeds tell only how the time "
            "per image differs between points."
        )
    elif model is models.EQUAL:
        tested = "cannot be tested with these points" if math.isnan(p) else f"is not refuted (p = {p:.2g})"
        tested = f"fails (p = {p:.2g}), so the fixed cost is wrong" if p < REFUTED else tested
        yield (
            "Without measured speeds this assumes that an image takes the same time at every point, which "
            f"{tested}. Measured speeds, or several works at one number of ranks, would do without it."
        )
    elif model is models.GROWING:
        found = "it does" if p < REFUTED else "that it does cannot be told"
        yield (
            "Without measured speeds the time per image was fitted too, as changing alike at each doubling of the "
            f"ranks or as in a ring allreduce: {found} (p = {p:.2g}). Measured speeds, or several works at one number "
            "of ranks, would tell more."
        )
    else:
        yield "Several works at one number of ranks tell it, whatever an image takes at each number of ranks."
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
    told_nothing = math.isnan(low) or explained.fit.linear.degrees < DECIDING_DEGREES
    interval = f" ({low:.1f} or more)" if math.isnan(high) else f" ({low:.1f} to {high:.1f})"
    yield (
        f"On {ranks_in_words(top['ranks'])}: {speed}{top['speedup_wall_time']:.1f}x by wall time, "
        f"{top['speedup_without_fixed']:.1f}x by wall time without the fixed cost"
        f"{'' if told_nothing else interval}; ideal {top['ideal']:.4g}x."
    )


def _beyond_ideal(explained: Explanation) -> Iterator[str]:
    for column, called in (("speedup_without_fixed", "without the fixed cost"), ("speedup_throughput", "by speed")):
        beyond = explained.points[beyond_ideal(explained.points, column)]
        if beyond.empty:
            continue
        told = _list(
            [f"{at[column]:.3g}x on {at['ranks']} (ideal {at['ideal']:.3g}x)" for at in beyond.to_dict("records")]
        )
        if column == "speedup_throughput":
            yield (
                f"The speedup by speed is above the ideal: {told}. No ranks do that: check the speed at the fewest "
                "ranks, the base of all others."
            )
            continue
        assumed = "every point pays the same fixed cost"
        if not explained.fit.model.speeds and not explained.fit.model.by_ranks:
            assumed += f", and {explained.fit.model.assumes}"
        within = beyond["speedup_without_fixed_low"].le(beyond["ideal"]).all()
        yield (
            f"The speedup {called} is above the ideal: {told}. No ranks do that: the assumption failed there that "
            f"{assumed}" + (", or it is noise: the interval holds the ideal." if within else ".")
        )


def beyond_ideal(points: pd.DataFrame, column: str) -> pd.Series:
    """Whether a speedup over fewer ranks is more than these ranks can give; rounding apart."""
    return points["ideal"].gt(1) & points[column].gt(points["ideal"] * (1 + 1e-9))


def _speed(explained: Explanation) -> Iterator[str]:
    fit = explained.fit
    implied, measured = fit.images_per_s_per_rank, fit.measured_images_per_s
    if math.isnan(measured) or math.isnan(implied.value):
        return
    used = explained.points.loc[explained.points["used"], "images_per_s_per_rank"]
    off = metrics.change_fraction(implied.value, measured)
    agrees = "they agree" if implied.contains(measured) else "they contradict each other"
    agrees = "too few points to tell whether they agree" if not implied.has_interval else agrees
    yield (
        "Without the level of the measured speeds the wall times imply "
        f"{implied.text('.3g', 'images/s a rank')}; measured were {used.min():.3g} to {used.max():.3g}, the median, "
        f"{measured:.4g}, {abs(off):.1%} {'more' if off > 0 else 'less'}: {agrees}."
    )


def misfit(point: Mapping[Hashable, Any]) -> str:
    """How a point does not fit, and the work that would."""
    more = point["wall_s"] - point["fitted_s"]
    return (
        f"The point at {ranks_in_words(point['ranks'])} does not fit: it took {point['wall_s']:.4g} s, "
        f"{abs(more):.2g} s {'more' if more > 0 else 'less'} than the others predict, whichever of them is left out "
        f"(p = {point['misfit_p']:.2g}), as if it had run {point['steps_that_fit']:.0f} steps, not "
        f"{point['steps_per_rank']:g}."
    )


def _misfits(explained: Explanation) -> Iterator[str]:
    yield from (misfit(point) for point in explained.misfits.to_dict("records"))
    undecided = explained.points[explained.points["misfit_undecided"]].to_dict("records")
    if undecided:
        told = [
            f"{ranks_in_words(point['ranks'])} (as if it had run {point['steps_that_fit']:.0f} steps, not "
            f"{point['steps_per_rank']:g})"
            for point in undecided
        ]
        yield (
            f"Not decidable: whether the others predict the point at {_list(told)} depends on which are left out; the "
            f"intervals span the fits with and without {'it' if len(told) == 1 else 'each'}."
        )


def _unknown_speeds(explained: Explanation) -> Iterator[str]:
    if not explained.fit.model.speeds:
        return
    unknown = explained.points[explained.points["images_per_s_per_rank"].isna()]
    for point in unknown.to_dict("records"):
        left_s = point["wall_s"] - explained.fit.fixed_s.value
        if left_s > 0:
            yield (
                f"On {ranks_in_words(point['ranks'])} no speed is known; with the same fixed cost it was about "
                f"{point['images_per_rank'] / left_s:.3g} images/s a rank."
            )


def _made_from(explained: Explanation) -> str:
    rows = [
        [name, fit.runs, fit.fixed_s.text(".3g"), _implied(fit), _note(explained, name)]
        for name, fit in explained.fits.items()
    ]
    return tabulate(rows, ["made from", "runs", "fixed cost [s]", "so images/s a rank", ""], disable_numparse=True)


def _implied(fit: Fit) -> str:
    return "-" if math.isnan(fit.images_per_s_per_rank.value) else fit.images_per_s_per_rank.text(".3g")


def _note(explained: Explanation, name: str) -> str:
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


def verdict(point: Mapping[Hashable, Any]) -> str:
    """Whether a point fits: yes, no, undecided, not tested (too few points), or not used (no speed, or impossible)."""
    if point["misfit"]:
        return "no"
    if point["misfit_undecided"]:
        return "undecided"
    if not point["used"]:
        return "not used"
    return "not tested" if pd.isna(point["misfit_p"]) else "yes"


def _points(explained: Explanation) -> str:
    at = explained.points
    shown = {name: _cells(at[name]) for name in _HEADERS if name in at}
    batches = _cells(at["batch_per_rank"])
    one_batch, one_run = len(set(batches)) == 1, at["runs"].eq(1).all()
    works = zip(_cells(at["steps_per_rank"]), batches, strict=True)
    shown["work"] = [steps if one_batch else f"{steps} x {batch}" for steps, batch in works]
    shown["fits"] = [_MARKS[verdict(point)] for point in at.to_dict("records")]
    for column in ("speedup_throughput", "speedup_without_fixed"):
        marks = beyond_ideal(at, column)
        shown[column] = [cell + "!" * mark for cell, mark in zip(shown[column], marks, strict=True)]
    columns = [name for name in _HEADERS if name != "runs" or not one_run]
    headers = [_HEADERS[name] + " x\nbatch" * (name == "work" and not one_batch) for name in columns]
    rows = list(zip(*(shown[name] for name in columns), strict=True))
    text = tabulate(rows, headers, disable_numparse=True, colalign=["right"] * len(columns))
    below = [f"batch a rank: {batches[0]}"] * one_batch + ["speedups in x over the first point that is used"]
    below += ["!: above the ideal"] * any("!" in cell for row in rows for cell in row)
    below += ["?: not decidable"] * ("?" in shown["fits"])
    below += ["-: not used, or not known"] * any(cell == "-" for row in rows for cell in row)
    return text + "\n" + textwrap.fill(f"({'; '.join(below)})", WIDTH)


def _cells(values: pd.Series) -> list[str]:
    digits = 6 if str(values.name).endswith("per_rank") else 4
    return ["-" if pd.isna(value) else f"{value:.{digits}g}" for value in values]


def report(explained: Explanation, split: pd.DataFrame) -> str:
    """The explanation of one curve as text of at most WIDTH columns; `split` as `runs.phases` gives it."""
    parts = [f"== {explained.name or 'the curve'}"]
    parts += [
        textwrap.fill(f"finding: {finding.says}", WIDTH, subsequent_indent="  ") for finding in explained.findings
    ]
    parts += [_made_from(explained), _points(explained)]
    if not split.empty:
        parts.append(_by_phase(split, explained))
    parts += [textwrap.fill(" ".join(sentences(explained)), WIDTH)]
    return "\n\n".join(parts)


def _by_phase(split: pd.DataFrame, explained: Explanation) -> str:
    table = tabulate(split, headers="keys", showindex=False, floatfmt=".3f")
    said = f"Where the fixed cost went, as the phases of the records say, mean over repeats:\n{table}"
    alone = [fit for fit in explained.fits.values() if not fit.model.speeds]
    if not alone:
        return said
    known, found = float(split["fixed_s"].median()), alone[0].fixed_s
    inside = "inside" if found.contains(known) else "outside"
    return f"{said}\n\n" + textwrap.fill(
        f"By the phases: {known:.3g} s (median). The wall times alone, which know no phase and no speed, say "
        f"{found.text('.3g', 's')}: the phases' is {inside} that interval.",
        WIDTH,
    )
