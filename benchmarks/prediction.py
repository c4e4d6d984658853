"""How well `predict` does: on every published curve, and on simulated curves whose truth is known.

    python -m benchmarks.prediction [--curves 400]

First what the published curves teach, which is what the command uses; then each published curve with points above 8
ranks, cut after each of its points from the third on, and predicted with what the curves of other machines teach; then
the simulated curves. The interval is that of a measurement, so a simulated measurement at the size asked for, with the
noise of the points, is what it should hold.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from analysis.metrics import hops
from analysis.predict import calibration, text
from analysis.predict.calibration import ABOVE, Check, predictions_above
from analysis.predict.points import Curve, weak
from analysis.predict.prediction import MIN_POINTS, Learned, predict, why_not
from analysis.study import Study

Rng = np.random.Generator
StepTime = Callable[[np.ndarray], np.ndarray]  # ranks -> the time of a step, 1 where ranks only compute


@dataclass(frozen=True)
class Truth:
    """A kind of curve: draws the time of a step over the ranks, for so many ranks on a node, and the largest point.

    `allreduce`: whether the command is told that gradients are exchanged by one.
    """

    name: str
    draw: Callable[[Rng, int, float], StepTime]
    allreduce: bool = False


def step(rng: Rng, per_node: int, largest: float) -> StepTime:
    """The form itself: compute, the slowest of n, exchange within and between nodes."""
    slowest, within, between = rng.uniform(0, 0.03), rng.uniform(0, 0.1), rng.uniform(0, 0.3)

    def of(ranks: np.ndarray) -> np.ndarray:
        nodes = np.ceil(ranks / per_node)
        return 1 + slowest * np.log2(ranks) + within * hops(np.minimum(ranks, per_node)) + between * hops(nodes)

    return of


def overlap(rng: Rng, per_node: int, largest: float) -> StepTime:
    """Pollux's: (1 + sync^p)^(1/p), sync = a + b (n - 2), other a and b between nodes (Qiao et al., OSDI'21)."""
    power = rng.uniform(1, 10)
    within, between = rng.uniform(0, 0.5), rng.uniform(0.2, 1.0)
    growth = rng.uniform(0, 0.01)

    def of(ranks: np.ndarray) -> np.ndarray:
        start = np.where(ranks > per_node, between, within)
        sync = np.where(ranks > 1, start * (1 + growth * (ranks - 2)), 0)
        return (1 + sync**power) ** (1 / power)

    return of


def server(at: tuple[float, float]) -> Callable[[Rng, int, float], StepTime]:
    """One server that all ranks send to, behind which the rate saturates at so many times the largest point."""

    def draw(rng: Rng, per_node: int, largest: float) -> StepTime:
        saturates = largest * 2 ** rng.uniform(*np.log2(at))
        power = rng.uniform(1, 4)
        return lambda ranks: (1 + (ranks / saturates) ** power) ** (1 / power)

    return draw


TRUTHS = (
    Truth("the form itself", step, allreduce=True),
    Truth("Pollux's overlap", overlap, allreduce=True),
    Truth("server, saturated among the points", server((0.25, 1))),
    Truth("server, saturated beyond the points", server((1, 4))),
    Truth("the form itself, exchange not told", step),
    Truth("Pollux's overlap, exchange not told", overlap),
)
NOISES = (0.01, 0.03, 0.10)


def simulated(truth: Truth, noise: float, rng: Rng) -> tuple[Curve, float, float]:
    """A curve of four to six points with this noise, a number of ranks beyond it, and what is measured there."""
    per_node = int(rng.choice([1, 4]))
    ranks = 2.0 ** np.arange(rng.integers(4, 7))
    wanted = ranks[-1] * 2 ** float(rng.integers(1, 5))
    seconds = truth.draw(rng, per_node, float(ranks[-1]))
    sizes = np.append(ranks, wanted)
    rates = sizes / seconds(sizes) * np.exp(rng.normal(0, noise, len(sizes)))
    unknown, ones = np.full(len(ranks), np.nan), np.ones(len(ranks))
    curve = Curve(
        "simulated", truth.name, "", ranks, ones, rates[:-1], unknown, ones, float(per_node),
        may_saturate=not truth.allreduce,
    )  # fmt: skip
    return curve, float(wanted), float(rates[-1])


def simulate(truth: Truth, noise: float, learned: Learned, curves: int, rng: Rng) -> dict[str, str]:
    """A line of the table: how often the interval held what was measured, where a prediction was given."""
    without_growth = Learned(learned.weights, learned.noise, 0.0, 0.0)
    held = [0, 0]
    given, off = 0, []
    for _ in range(curves):
        curve, wanted, measured = simulated(truth, noise, rng)
        at = weak(curve, np.array([wanted]))
        if why_not(curve, at, learned.noise)[0]:
            continue
        given += 1
        for which, taught in enumerate((learned, without_growth)):
            found = predict(curve, at, taught)
            held[which] += bool(found.low[0] <= measured <= found.high[0])
            if not which:
                off.append(abs(found.images_per_s[0] / measured - 1))
    return {
        "truth": truth.name,
        "noise": f"{100 * noise:g} %",
        "supported": f"{given / curves:.2f}",
        "interval holds": f"{held[0] / given:.3f}",
        "held or marked": f"{(curves - given + held[0]) / curves:.3f}",
        "without growth": f"{held[1] / given:.3f}",
        "median error": f"{100 * np.median(off):.1f} %",
    }


def lines(learned: Learned, curves: int, rng: Rng) -> Iterator[dict[str, str]]:
    for truth in TRUTHS:
        for noise in NOISES:
            yield simulate(truth, noise, learned, curves, rng)


def held_by_machine(checks: Sequence[Check]) -> list[dict[str, str]]:
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


def checked_points(curves: Sequence[Curve], checks: Sequence[Check]) -> list[dict[str, str]]:
    """A line for each prediction of a point above 8 ranks, and for each curve with such points that carries none."""
    found = list(predictions_above(checks))
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
        "fitted up to": f"{check.cut.lower.largest:g}",
        "ranks": f"{check.cut.beyond.ranks[i]:g}",
        "measured": f"{check.measured[i]:.4g}",
        "predicted": f"{found.images_per_s[i]:.4g}",
        "90 % interval": f"{found.low[i]:.4g} to {found.high[i]:.4g}",
        "error": f"{100 * check.error[i]:+.1f} %",
        "held": "yes" if check.held[i] else "no",
    }
    return _named(check.cut.curve) | numbers


def main() -> None:
    """Print what the curves teach, and both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prediction", description=__doc__.splitlines()[0])
    parser.add_argument("--curves", type=int, default=400, help="simulated for each line")
    curves = parser.parse_args().curves
    published = calibration.published_curves(Study().published)
    print(published.in_general, "\n")
    shown = checked_points(published.curves, published.checks)
    print(tabulate(shown, headers="keys", tablefmt="github", disable_numparse=True), "\n")
    print(text.accuracy_sentence(calibration.accuracy(published.checks)), "\n")
    by_machine = held_by_machine(published.checks)
    print(tabulate(by_machine, headers="keys", tablefmt="github", disable_numparse=True), "\n")
    found = list(lines(published.in_general, curves, np.random.default_rng(0)))
    print(tabulate(found, headers="keys", tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
