"""Whether numbers are outside of what they can be, by `analysis.verdicts`; what is said where no interval is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from analysis import metrics, verdicts
from analysis.audit.finding import Severity, graded
from analysis.curves import Row, times_as_fast
from analysis.noise import Noise, Noises, of_other_runs
from analysis.printed import combined, number
from analysis.thresholds import limit
from analysis.verdicts import Limits, Uncertain

# What is said of a number without an interval, by whether noise alone may be so large.
_UNKNOWN = "no repeat on this device at this scale tells how large the noise is"
_MAY_BE_NOISE = f"this cannot be judged: each was measured once, and {_UNKNOWN}"


def known(of: Uncertain) -> bool:
    """Whether a number has an interval."""
    return not math.isnan(of.low)


def outside(numbers: Sequence[Uncertain], limits: Limits) -> list[bool]:
    """Whether each of the numbers of one curve is outside of the limits; one without an interval by its value alone."""
    judged = verdicts.judge_all(numbers, limits)
    return [
        verdict == "contradicted" if known(of) else not limits.hold(of.value)
        for of, verdict in zip(numbers, judged, strict=True)
    ]


def severity(of: Uncertain, off: float, worst: Severity = "serious") -> Severity:
    """How bad a relative difference is, at most `worst`.

    Where its interval is known, by its size. Else nothing is alleged that noise alone may be: it is a note up to the
    margin of single runs, a warning beyond, serious where they would be no measurements of the same thing.
    """
    if known(of):
        found = graded(off)
    elif beyond_noise(off):
        found = "serious" if abs(off) > limit("apart_serious") else "warning"
    else:
        found = "note"
    return worst if found == "serious" else found


def beyond_noise(off: float) -> bool:
    """Whether two single runs do not differ so much by noise, if it is as large as is assumed at most."""
    return abs(off) > limit("single_runs")


def because(of: Uncertain, off: float, interval: str) -> str:
    """Why a difference is alleged, or is not: by its interval, described in `interval`, or without one."""
    if known(of):
        return interval
    if beyond_noise(off):
        noise, margin = limit("single_noise"), limit("single_runs")
        return f"each was measured once, but noise of {noise:.0%} would explain {margin:.0%} at most"
    return _MAY_BE_NOISE


def faster(row: Row, base: Row, noisy: Noises) -> Uncertain:
    """How many times as much work per second one point of a curve does than another, in any runs of them.

    Within what was rounded to the printed numbers, widened by the noise of both.
    """
    return with_noise(row, base, noisy.of(row), noisy.of(base))


def with_noise(row: Row, base: Row, here: Noise | None, there: Noise | None) -> Uncertain:
    """As `faster`, with the noise of both points given."""
    both: Mapping[str, Uncertain] = {"here": number(row), "there": number(base)}
    found = combined(lambda here, there: times_as_fast(row, base, here, there), both)
    return of_other_runs(found, [(here, 1.0), (there, -1.0)])


def share(speedup: Uncertain, ranks: float) -> Uncertain:
    """The efficiency of a speedup over so many times the ranks."""

    def ends(level: float) -> tuple[float, float]:
        low, high = speedup.ends(level)
        return metrics.efficiency(low, ranks), metrics.efficiency(high, ranks)

    return Uncertain(metrics.efficiency(speedup.value, ranks), ends, speedup.n)
