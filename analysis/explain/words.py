"""The explanation of one curve in words and tables."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

import pandas as pd
from tabulate import tabulate

from analysis import metrics
from analysis.explain.fit import Explanation
from analysis.metrics import Estimate


def _words(estimate: Estimate, unit: str = "") -> str:
    interval = "" if math.isnan(estimate.half_width) else f" ({estimate.low:.3g} to {estimate.high:.3g})"
    return f"{estimate.value:.3g}{' ' * bool(unit)}{unit}{interval}"


def sentences(explained: Explanation) -> list[str]:
    """What a reader needs to know: why the speedups differ, how far that goes, and what does not fit."""
    return [*_why(explained), *_speedups(explained), *_speed(explained), *_misfits(explained)]


def _why(explained: Explanation) -> Iterator[str]:
    first, last, cost = explained.points.iloc[0], explained.points.iloc[-1], explained.fit.fixed_s
    if cost.low <= 0:
        yield f"No fixed cost can be told from zero: {_words(cost, 's')}. It explains nothing here."
    elif last["images_per_rank"] < first["images_per_rank"]:
        work = "steps" if last["steps_per_rank"] < first["steps_per_rank"] else "images"
        yield (
            f"They differ because each run pays {_words(cost, 's')} once, and the {work} per rank shrink with the "
            f"ranks, from {first[f'{work}_per_rank']:g} on {first['ranks']:g} to {last[f'{work}_per_rank']:g} on "
            f"{last['ranks']:g}: the fixed cost is {first['fixed_fraction']:.0%} of the wall time on "
            f"{first['ranks']:g} and {last['fixed_fraction']:.0%} on {last['ranks']:g}. "
            "The speed counts the steps alone and does not see it."
        )
    else:
        yield f"Each run pays {_words(cost, 's')} once; the work per rank does not shrink with the ranks."


def _speedups(explained: Explanation) -> Iterator[str]:
    first = explained.points.iloc[0]
    shown = explained.points.iloc[1:].dropna(subset=["speedup_without_fixed"])
    shown = shown[~shown["misfit"]]
    if not shown.empty:
        top = shown.iloc[-1]
        speed = "" if math.isnan(top["speedup_throughput"]) else f"{top['speedup_throughput']:.1f}x by speed, "
        low, high = top["speedup_without_fixed_low"], top["speedup_without_fixed_high"]
        # No upper bound where the fixed cost may be all of a wall time.
        interval = f"{low:.1f} or more" if math.isnan(high) else f"{low:.1f} to {high:.1f}"
        yield (
            f"On {top['ranks']:g} ranks: {speed}{top['speedup_wall_time']:.1f}x by wall time, "
            f"{top['speedup_without_fixed']:.1f}x by wall time without the fixed cost ({interval}); "
            f"ideal {top['ranks'] / first['ranks']:g}x."
        )


def _speed(explained: Explanation) -> Iterator[str]:
    measured, implied = explained.points["images_per_s_per_rank"].dropna(), explained.fit.images_per_s_per_rank
    if not measured.empty:
        off = metrics.change_fraction(float(measured.median()), implied.value)
        yield (
            f"The cost per step implies {_words(implied, 'images/s a rank')}, without using the measured speed: "
            f"{measured.min():.3g} to {measured.max():.3g}, whose median it {'exceeds' if off > 0 else 'misses'} "
            f"by {abs(off):.1%}."
        )


def _misfits(explained: Explanation) -> Iterator[str]:
    for point in explained.points[~explained.points["used"]].to_dict("records"):
        more = point["wall_s"] - point["fitted_s"]
        side = "more" if more > 0 else "less"
        off = f"it took {point['wall_s']:.4g} s, {abs(more):.2g} s {side} than the others predict"
        if point["misfit"]:
            yield f"The point at {point['ranks']} ranks does not fit: {off} (p = {point['misfit_p']:.2g})."
        else:
            yield f"One rank alone exchanges no gradients, so the line leaves it out: {off}."


_HEADERS = {
    "ranks": "ranks",
    "steps_per_rank": "steps\na rank",
    "wall_s": "wall\n[s]",
    "fitted_s": "fit\n[s]",
    "misfit_p": "fits?\np",
    "fixed_fraction": "fixed\nshare",
    "beyond_speed_s": "not in\nspeed\n[s]",
    "speedup_throughput": "speedup\nby speed",
    "speedup_wall_time": "by wall\ntime",
    "speedup_without_fixed": "without\nfixed cost",
}


def report(explained: Explanation, split: pd.DataFrame) -> str:
    """The explanation of one curve as text of at most 100 columns; `split` as `phases` gives it."""
    batch = explained.points["batch_per_rank"].median()
    lines = [
        [
            name,
            len(line.ranks),
            _words(line.fixed_s),
            _words(metrics.scaled(line.s_per_image, batch)),
            _words(line.images_per_s_per_rank),
        ]
        for name, line in explained.fits.items()
    ]
    points = explained.points[list(_HEADERS)].assign(
        misfit_p=[
            "?" if math.isnan(point["misfit_p"]) else f"{point['misfit_p']:.2g}{' no' if point['misfit'] else ''}"
            for point in explained.points.to_dict("records")
        ],
        fixed_fraction=[f"{share:.0%}" for share in explained.points["fixed_fraction"]],
    )
    tables = [
        tabulate(
            lines,
            [
                "line through",
                "points",
                "fixed cost [s]",
                f"step of {batch:g} images [s]",
                "so images/s a rank",
            ],
        ),
        tabulate(
            points.rename(columns=_HEADERS).astype(object).where(points.notna().to_numpy(), None),
            headers="keys",
            showindex=False,
            floatfmt=".4g",
            missingval="-",
        ),
    ]
    if not split.empty:
        truth = split["fixed_s"]
        inside = explained.fit.fixed_s.low <= truth.median() <= explained.fit.fixed_s.high
        tables.append(
            "The fixed cost as the records show it, phase by phase, mean over repeats:\n"
            + tabulate(split, headers="keys", showindex=False, floatfmt=".3f")
            + f"\n\nMeasured: {truth.median():.3g} s (median). The regression, which used no phase, estimated "
            + f"{_words(explained.fit.fixed_s, 's')}:\n"
            + f"the measured one is {'inside' if inside else 'outside'} its interval."
        )
    said = textwrap.fill(" ".join(sentences(explained)), 100)
    return "\n\n".join([f"== {explained.name or 'the curve'}", *tables, said])
