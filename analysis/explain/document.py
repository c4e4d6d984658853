"""The explanation of one curve as plain values, for JSON. docs/json.md describes each name."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from analysis.explain.fit import REFUTED, Explanation
from analysis.explain.models import Fit
from analysis.explain.points import beyond_ideal
from analysis.explain.text import Point, sentences, verdict
from analysis.stats.number import Number, from_ends
from analysis.text import json_value

_FINDING = ("kind", "ranks", "stated", "follows", "off", "leaves_out", "says")
_POINT = (
    "ranks", "steps_per_rank", "batch_per_rank", "images_per_rank", "runs", "wall_s", "images_per_s_per_rank",
    "fitted_s", "misfit_p", "steps_that_fit", "fixed_fraction", "beyond_speed_s", "ideal", "speedup_throughput",
    "speedup_wall_time",
)  # fmt: skip
_HAS_FIXED_COST = {True: "yes", False: "no", None: "not decidable"}


def as_json(explained: Explanation, phases: pd.DataFrame) -> dict[str, Any]:
    """Return one curve: conclusions, fits, findings, points, and phases; `phases` as `runs.phases` returns them.

    Names are those of `fit.explain`; a number with an interval is `{"value", "low", "high", "level", "n", "covers"}`,
    what is not known is null.
    """
    without_one = [cost.value for cost in explained.fixed_without_one_s]
    points = explained.points
    above = {name: beyond_ideal(points, name) for name in ("speedup_throughput", "speedup_without_fixed")}
    return {
        "curve": explained.name,
        "fixed_cost_paid": _HAS_FIXED_COST[explained.has_fixed_cost],
        "model": explained.fit.model.name,
        "assumes": explained.fit.model.assumes,
        "fixed_s": explained.fit.fixed_s.as_json(),
        "fixed_s_whichever_point_is_left_out": [min(without_one), max(without_one)] if without_one else None,
        "images_per_s_per_rank_implied": _number(explained.fit.images_per_s_per_rank),
        "equal_time_per_image": {"verdict": _equal(explained.growth_p), "p": json_value(explained.growth_p)},
        "findings": [{name: getattr(one, name) for name in _FINDING} for one in explained.findings],
        "fits": [_fit(name, fit, explained.reasonable(name)) for name, fit in explained.fits.items()],
        "points": [
            _point(point, explained.fit.runs) | {"above_ideal": [name for name in above if above[name].iloc[nth]]}
            for nth, point in enumerate(points.to_dict("records"))
        ],
        "phases": json_value(phases.to_dict("records")),
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


def _point(point: Point, runs: int) -> dict[str, Any]:
    low, high = point["speedup_without_fixed_low"], point["speedup_without_fixed_high"]
    without_fixed = _number(from_ends(point["speedup_without_fixed"], low, high, "fit", runs))
    plain: dict[str, Any] = json_value({name: point[name] for name in _POINT})
    return plain | {"speedup_without_fixed": without_fixed, "fits": verdict(point)}


def _number(number: Number) -> dict[str, Any] | None:
    """Return a number with its interval; None where it is not known."""
    return None if math.isnan(number.value) else number.as_json()
