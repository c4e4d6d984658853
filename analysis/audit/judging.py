"""Whether numbers are outside of what they can be, and what is said where they have no interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis import metrics
from analysis.audit.finding import Severity, graded
from analysis.curves import Row, times_as_fast
from analysis.point_noise import Noises
from analysis.stats.noise import Noise, with_noise
from analysis.stats.number import Number, combined
from analysis.stats.verdict import Bounds, judge_all
from analysis.table.stated import number
from analysis.thresholds import limit

# What is said of a number without an interval, by whether noise alone may be so large.
_UNKNOWN = "no repeat on this device at this scale tells how large the noise is"
_MAY_BE_NOISE = f"this cannot be judged: each was measured once, and {_UNKNOWN}"


def outside(numbers: Sequence[Number], bounds: Bounds) -> list[bool]:
    """Whether each of the numbers of one curve is outside of the bounds; one without an interval by its value alone."""
    judged = judge_all(numbers, bounds)
    return [
        verdict.outcome == "outside" if one.has_interval else not bounds.allow(one.value)
        for one, verdict in zip(numbers, judged, strict=True)
    ]


def severity(of: Number, off: float, worst: Severity = "serious") -> Severity:
    """How bad a relative difference is, at most `worst`.

    Where its interval is known, by its size. Else nothing is alleged that noise alone may be: it is a note up to the
    margin of single runs, a warning beyond, serious where they would be no measurements of the same thing.
    """
    if of.has_interval:
        found = graded(off)
    elif beyond_noise(off):
        found = "serious" if abs(off) > limit("apart_serious") else "warning"
    else:
        found = "note"
    return worst if found == "serious" else found


def beyond_noise(off: float) -> bool:
    """Whether two single runs do not differ so much by noise, if it is as large as is assumed at most."""
    return abs(off) > limit("single_runs")


def because(of: Number, off: float, interval: str) -> str:
    """Why a difference is alleged, or is not: by its interval, described in `interval`, or without one."""
    if of.has_interval:
        return interval
    if beyond_noise(off):
        noise, margin = limit("single_noise"), limit("single_runs")
        return f"each was measured once, but noise of {noise:.0%} would explain {margin:.0%} at most"
    return _MAY_BE_NOISE


def faster(row: Row, base: Row, noisy: Noises) -> Number:
    """How many times as much work per second one point of a curve does than another, in any runs of them.

    Within what was rounded to the printed numbers, widened by the noise of both.
    """
    return faster_with_noise(row, base, noisy.of(row), noisy.of(base))


def faster_with_noise(row: Row, base: Row, here: Noise | None, there: Noise | None) -> Number:
    """As `faster`, with the noise of both points given."""
    both: Mapping[str, Number] = {"here": number(row), "there": number(base)}
    found = combined(lambda here, there: times_as_fast(row, base, here, there), both)
    return with_noise(found, [(here, 1.0), (there, -1.0)])


def share(speedup: Number, ranks: float) -> Number:
    """The efficiency of a speedup over so many times the ranks."""
    return speedup.through(lambda value: metrics.efficiency(value, ranks))
