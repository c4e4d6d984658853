"""The check of claims about more ranks than a report has: what its points carry, by `make predict`."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import metrics
from analysis.claims.limits import Claimed
from analysis.claims.numbers import Data, Selection, Unknown
from analysis.curves import TIMES
from analysis.predict import answers, calibration, reading
from analysis.predict.points import Curve
from analysis.stats.verdict import Bounds, Verdict, together


def predicted(data: Data, of: Selection, at: int, share: bool = False, **claimed: float) -> tuple[Verdict, str]:
    """What the measured points carry for more ranks is within the limits, with the 90 % interval of `make predict`.

    `share`: the bounds are of the efficiency over the smallest point, else of the quantity itself. A prediction that is
    consistent with the claim shows it only where its whole interval is within the bounds.
    """
    wanted = Claimed(**claimed)
    found, told, taught = [], [], calibration.published_curves(data.report.published)
    for curve, in_time in _curves(data, of):
        claimed_rate = _of_rate(curve, wanted.bounds, at, share, in_time)
        verdict, reason = answers.judge_claim(curve, at, claimed_rate, taught.learned_for(curve))
        found.append(verdict)
        told.append(f"{curve.model + ': ' if curve.model else ''}{answers.claim_verdict(verdict)}: {reason}")
    return together(found), f"claimed: {wanted}. {'; '.join(told)}"


def _curves(data: Data, of: Selection) -> Iterator[tuple[Curve, bool]]:
    """The curves of a selection, and whether they are of times; without any number one curve without points."""
    try:
        rows = data.select(of)
    except Unknown:
        rows = data.table.iloc[:0]
    times, rates = rows[rows["quantity"].isin(TIMES)], rows[~rows["quantity"].isin(TIMES)]
    if len(times) or rows.empty:
        yield reading.timed(times), True
    yield from ((curve, False) for curve in reading.tidy(rates))


def _of_rate(curve: Curve, bounds: Bounds, at: int, share: bool, in_time: bool) -> Bounds:
    """The bounds of a time, or of an efficiency, as those of the rate of a curve at so many ranks."""
    low, high = max(bounds.low, 0.0), bounds.high
    if share:
        if not len(curve.ranks):
            return Bounds()
        ideal = metrics.whole_job(float(curve.images_per_s[curve.base] / curve.ranks[curve.base]), at)
        return Bounds(low * ideal, high * ideal)
    if in_time:
        return Bounds(metrics.rate(1.0, high), metrics.rate(1.0, low) if low else float("inf"))
    return Bounds(low, high)
