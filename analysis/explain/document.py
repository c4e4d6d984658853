"""The explanation of one curve as plain values, for JSON. docs/json.md describes each name."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from analysis.explain.fit import REFUTED, Explanation
from analysis.explain.models import Fit
from analysis.explain.text import beyond_ideal, sentences, verdict
from analysis.stats.number import Number, from_ends
from analysis.text import json_value

_POINT = (
    "ranks", "steps_per_rank", "batch_per_rank", "images_per_rank", "runs", "wall_s", "images_per_s_per_rank",
    "fitted_s", "misfit_p", "steps_that_fit", "fixed_fraction", "beyond_speed_s", "ideal", "speedup_throughput",
    "speedup_wall_time",
)  # fmt: skip
PAID = {True: "yes", False: "no", None: "not decidable"}


def as_json(explained: Explanation, split: pd.DataFrame) -> dict[str, Any]:
    """One curve: what was concluded, the fits, the findings, the points, the phases; `split` as `runs.phases`.

    Names are those of `fit.explain`; a number with an interval is `{"value", "low", "high", "level", "n"}`, what is not
    known is null.
    """
    without_one = [cost.value for cost in explained.fixed_without_one_s]
    return {
        "curve": explained.name,
        "fixed_cost_paid": PAID[explained.paid],
        "model": explained.fit.model.name,
        "assumes": explained.fit.model.assumes,
        "fixed_s": explained.fit.fixed_s.as_json(),
        "fixed_s_whichever_point_is_left_out": [min(without_one), max(without_one)] if without_one else None,
        "images_per_s_per_rank_implied": _number(explained.fit.images_per_s_per_rank),
        "equal_time_per_image": {"verdict": _equal(explained.growth_p), "p": json_value(explained.growth_p)},
        "findings": [
            {
                "kind": one.kind,
                "ranks": [*one.ranks],
                "stated": one.stated,
                "follows": one.follows,
                "off": one.off,
                "leaves_out": one.leaves_out,
                "says": one.says,
            }
            for one in explained.findings
        ],
        "fits": [_fit(name, fit, explained.reasonable(name)) for name, fit in explained.fits.items()],
        "points": [_point(explained, index) for index in explained.points.index],
        "phases": json_value(split.to_dict("records")),
        "sentences": sentences(explained),
    }


def _equal(p: float) -> str:
    if math.isnan(p):
        return "not tested"
    return "failed" if p < REFUTED else "not refuted"


def _fit(name: str, fit: Fit, reasonable: bool) -> dict[str, Any]:
    return {
        "name": name,
        "assumes": fit.model.assumes,
        "reasonable": reasonable,
        "ranks": [*fit.ranks],
        "runs": fit.runs,
        "fixed_s": fit.fixed_s.as_json(),
        "images_per_s_per_rank_implied": _number(fit.images_per_s_per_rank),
    }


def _point(explained: Explanation, index: int) -> dict[str, Any]:
    at = explained.points.loc[[index]]
    point = at.to_dict("records")[0]
    low, high = point["speedup_without_fixed_low"], point["speedup_without_fixed_high"]
    without = from_ends(point["speedup_without_fixed"], low, high, "fit", explained.fit.runs)
    columns = ("speedup_throughput", "speedup_without_fixed")
    beyond = [column for column in columns if beyond_ideal(at, column).item()]
    return (
        json_value({name: point[name] for name in _POINT})
        | {"speedup_without_fixed": _number(without)}
        | {"fits": verdict(point), "above_ideal": beyond}
    )


def _number(number: Number) -> dict[str, Any] | None:
    """A number with its interval; None where it is not known."""
    return None if math.isnan(number.value) else number.as_json()
