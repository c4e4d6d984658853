"""Whether a claim about more ranks than were measured is consistent with what the measured points carry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.predict import answers
from analysis.predict.answers import Question
from analysis.predict.average import LEVEL, Learned
from analysis.predict.points import Curve

Verdict = Literal["consistent", "not consistent", "not decidable"]


@dataclass(frozen=True)
class Claim:
    """A rate, in the unit of the curve, that is claimed for so many ranks: between two ends, either of them open."""

    ranks: int
    low: float = 0.0
    high: float = math.inf


@dataclass(frozen=True)
class Judged:
    """The verdict on a claim, its reason in words, and whether all that is predicted is as claimed."""

    verdict: Verdict
    why: str
    shown: bool = False


def judge(curve: Curve, claim: Claim, learned: Learned) -> Judged:
    """The verdict on a claim.

    Consistent where the 90 % interval of the prediction has a part within the claim, not consistent where it has none,
    not decidable where the points carry no prediction. That a claim is consistent does not show it; it is shown where
    the whole interval is within the claim. `learned`: from the curves of other machines.
    """
    (target,) = answers.answer(curve, Question((claim.ranks,)), learned).targets
    if not target.supported:
        return Judged("not decidable", f"no prediction for {claim.ranks} ranks: {target.why}")
    found = target.numbers["images_per_s"]
    told = f"for {claim.ranks} ranks {found.value:.4g} ({found.low:.4g} to {found.high:.4g}, {100 * LEVEL:.0f} %)"
    told = f"{told} is predicted from {_points(curve)}; claimed: {_ends(claim)}"
    if claim.low > found.high or claim.high < found.low:
        return Judged("not consistent", told)
    return Judged("consistent", told, claim.low <= found.low and found.high <= claim.high)


def _points(curve: Curve) -> str:
    return f"{len(curve.ranks)} points up to {curve.largest:g} ranks"


def _ends(claim: Claim) -> str:
    ends = [f"at least {claim.low:.4g}"] * (claim.low > 0) + [f"at most {claim.high:.4g}"] * bool(
        np.isfinite(claim.high)
    )
    return ", ".join(ends) or "any rate"
