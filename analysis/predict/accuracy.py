"""How well predictions did on the published curves, each predicted with what other machines taught."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.predict.average import LEVEL
from analysis.predict.calibration import Check
from analysis.predict.points import Curve
from analysis.predict.support import MIN_POINTS
from analysis.stats.repeats import proportion

# Predictions of so few ranks are not counted: what is asked for lies beyond one machine.
ABOVE = 8


@dataclass(frozen=True)
class Accuracy:
    """Of all published curves with points above 8 ranks."""

    curves: int
    machines: int
    largest_error: float  # the median, over curves, of the error of the largest point from all below it; a fraction
    held: int  # of the points above 8 ranks, predicted from every cut below them
    points: int
    low: float  # 95 % interval of the share that is held, if the points were independent
    high: float


def above(checks: Sequence[Check]) -> Iterator[tuple[Check, int]]:
    """Each prediction of a point above 8 ranks: its check, and its position there."""
    for check in checks:
        yield from ((check, i) for i in np.flatnonzero(check.cut.beyond.ranks > ABOVE).tolist())


def of(checks: Sequence[Check]) -> Accuracy:
    """How well predictions above 8 ranks did."""
    found = list(above(checks))
    nearest = [abs(float(check.error[i])) for check, i in found if _all_below(check)]
    held = sum(bool(check.held[i]) for check, i in found)
    of_curves = {id(check.cut.curve): check.cut.curve.source for check, _ in found}
    low, high = proportion(held, len(found)).interval
    machines = len(set(of_curves.values()))
    return Accuracy(len(of_curves), machines, float(np.median(nearest)), held, len(found), low, high)


def _all_below(check: Check) -> bool:
    """Whether the largest point was predicted from all points below it."""
    curve = check.cut.curve
    return len(check.cut.known.ranks) == len(curve.ranks) - 1


def words(found: Accuracy) -> str:
    """The accuracy in one sentence."""
    share = f"{found.held / found.points:.0%}; {found.low:.0%} to {found.high:.0%}, were they independent"
    return (
        f"Checked on the {found.curves} published curves with points above {ABOVE} ranks, each predicted with what the "
        f"curves of other machines taught: the largest point was predicted from all below it within "
        f"{found.largest_error:.1%} (median), and the {LEVEL:.0%} interval held {found.held} of {found.points} points "
        f"({share}), on {found.machines} machines."
    )


def by_machine(checks: Sequence[Check]) -> list[dict[str, str]]:
    """A line a machine: how many of its points of up to 8 ranks, and of those above, the intervals held."""
    found: dict[str, dict[bool, list[bool]]] = {}
    for check in checks:
        for ranks, held in zip(check.cut.beyond.ranks, check.held, strict=True):
            found.setdefault(check.cut.curve.source, {True: [], False: []})[bool(ranks > ABOVE)].append(bool(held))
    return [
        {"machine": machine}
        | {header: f"{sum(held[beyond])} of {len(held[beyond])}" for header, beyond in _BY_SIZE.items()}
        for machine, held in found.items()
    ]


_BY_SIZE = {f"held, up to {ABOVE} ranks": False, f"held, above {ABOVE} ranks": True}


def rows(curves: Sequence[Curve], checks: Sequence[Check]) -> list[dict[str, str]]:
    """A line for each prediction of a point above 8 ranks, and for each curve with such points that carries none."""
    found = list(above(checks))
    shown = [_row(check, i) for check, i in found]
    predicted = {id(check.cut.curve) for check, _ in found}
    for curve in curves:
        if curve.largest > ABOVE and id(curve) not in predicted:
            few = int(np.sum(curve.ranks < curve.largest))
            below = f"{few} point{'s' * (few != 1)} below {curve.largest:g}, {MIN_POINTS} are needed"
            why = "; ".join(map(str, curve.doubts)) or below
            shown.append({**dict.fromkeys(_HEADERS, ""), **_named(curve), "held": f"not predicted: {why}"})
    return shown


_HEADERS = ("model", "curve", "fitted up to", "ranks", "measured", "predicted", "90 % interval", "error", "held")


def _named(curve: Curve) -> dict[str, str]:
    return {"model": curve.model, "curve": curve.name}


def _row(check: Check, i: int) -> dict[str, str]:
    found = check.predicted
    numbers = {
        "fitted up to": f"{check.cut.known.largest:g}",
        "ranks": f"{check.cut.beyond.ranks[i]:g}",
        "measured": f"{check.measured[i]:.4g}",
        "predicted": f"{found.images_per_s[i]:.4g}",
        "90 % interval": f"{found.low[i]:.4g} to {found.high[i]:.4g}",
        "error": f"{100 * check.error[i]:+.1f} %",
        "held": "yes" if check.held[i] else "no",
    }
    return _named(check.cut.curve) | numbers
