"""The check of claims about more ranks than a report has: what its points carry, by `make predict`."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import metrics, verdicts
from analysis.claims.limits import Claimed
from analysis.claims.numbers import Data, Selection, Unknown
from analysis.curves import TIMES
from analysis.predict import judged, reading, reports
from analysis.predict.judged import Claim
from analysis.predict.points import Curve
from analysis.verdicts import Limits, Verdict


def predicted(data: Data, of: Selection, at: int, share: bool = False, **claimed: float) -> tuple[Verdict, str]:
    """What the measured points carry for more ranks is within the limits, with the 90 % interval of `make predict`.

    `share`: the limits are of the efficiency over the smallest point, else of the quantity itself. A prediction that is
    consistent with the claim shows it only where its whole interval is within the limits.
    """
    wanted = Claimed(**claimed)
    found, told, taught = [], [], reports.learned(data.report.published)
    for curve, in_time in _curves(data, of):
        limits = _of_rate(curve, wanted.limits, at, share, in_time)
        one = judged.judge(curve, Claim(at, limits.low, limits.high), taught.learned(curve))
        found.append(_VERDICTS[one.verdict] if one.verdict != "consistent" or one.shown else "not decidable")
        told.append(f"{curve.model + ': ' if curve.model else ''}{one.verdict}: {one.why}")
    return verdicts.together(found), f"claimed: {wanted}. {'; '.join(told)}"


_VERDICTS: dict[judged.Verdict, Verdict] = {
    "consistent": "supported",
    "not consistent": "contradicted",
    "not decidable": "not decidable",
}


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


def _of_rate(curve: Curve, limits: Limits, at: int, share: bool, in_time: bool) -> Limits:
    """The limits of a time, or of an efficiency, as those of the rate of a curve at so many ranks."""
    low, high = max(limits.low, 0.0), limits.high
    if share:
        if not len(curve.ranks):
            return Limits()
        ideal = metrics.whole_job(float(curve.images_per_s[curve.base] / curve.ranks[curve.base]), at)
        return Limits(low * ideal, high * ideal)
    if in_time:
        return Limits(metrics.rate(1.0, high), metrics.rate(1.0, low) if low else float("inf"))
    return Limits(low, high)
