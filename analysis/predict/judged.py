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


def judge(curve: Curve, claim: Claim, learned: Learned) -> tuple[Verdict, str]:
    """The verdict on a claim, and its reason in words.

    Consistent where the 90 % interval of the prediction has a part within the claim, not consistent where it has none,
    not decidable where the points carry no prediction. `learned`: from the curves of other machines.
    """
    (target,) = answers.answer(curve, Question((claim.ranks,)), learned).targets
    if not target.supported:
        return "not decidable", f"no prediction for {claim.ranks} ranks: {target.why}"
    found = target.numbers["images_per_s"]
    told = f"for {claim.ranks} ranks {found.value:.4g} ({found.low:.4g} to {found.high:.4g}, {100 * LEVEL:.0f} %)"
    told = f"{told} is predicted from {_points(curve)}; claimed: {_ends(claim)}"
    return ("consistent" if found.low <= claim.high and claim.low <= found.high else "not consistent"), told


def _points(curve: Curve) -> str:
    return f"{len(curve.ranks)} points up to {curve.largest:g} ranks"


def _ends(claim: Claim) -> str:
    ends = [f"at least {claim.low:.4g}"] * (claim.low > 0) + [f"at most {claim.high:.4g}"] * bool(
        np.isfinite(claim.high)
    )
    return ", ".join(ends) or "any rate"
