"""Whether a claim about more ranks than were measured is consistent with what the measured points carry."""

from __future__ import annotations

import math

from analysis.predict import answers
from analysis.predict.answers import Question
from analysis.predict.average import LEVEL, Learned
from analysis.predict.points import Curve
from analysis.stats.verdict import Bounds, Verdict, judge_at


def judge(curve: Curve, ranks: int, claimed: Bounds, learned: Learned) -> tuple[Verdict, str]:
    """The verdict on a rate that is claimed for so many ranks, in the unit of the curve, and its reason in words.

    It is that of the 90 % interval of the prediction; undecided too where the points carry none. `learned`: from the
    curves of other machines.
    """
    (target,) = answers.answer(curve, Question((ranks,)), learned).targets
    if not target.supported:
        return Verdict("undecided", "no interval"), f"no prediction for {ranks} ranks: {target.why}"
    rate = target.numbers["images_per_s"]
    reason = f"for {ranks} ranks {rate.value:.4g} ({rate.low:.4g} to {rate.high:.4g}, {100 * LEVEL:.0f} %)"
    return judge_at(rate, claimed), f"{reason} is predicted from {_points(curve)}; claimed: {_ends(claimed)}"


def word(verdict: Verdict) -> str:
    """The verdict as a claim has it: consistent with the prediction where the interval has a part within the claim."""
    if verdict.outcome == "outside":
        return "not consistent"
    return "not decidable" if verdict.why == "no interval" else "consistent"


def _points(curve: Curve) -> str:
    return f"{len(curve.ranks)} points up to {curve.largest:g} ranks"


def _ends(claimed: Bounds) -> str:
    ends = [f"at least {claimed.low:.4g}"] * (claimed.low > 0) + [f"at most {claimed.high:.4g}"] * math.isfinite(
        claimed.high
    )
    return ", ".join(ends) or "any rate"
