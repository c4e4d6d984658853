"""How often the interval beside a mean holds it, under delays as they are in practice.

    python -m benchmarks.means [--cases 4000]

Each line draws launches of so many rounds, or of one value, from one kind of delay whose mean is known, and counts how
often the interval of `analysis.stats.repeats.arithmetic_mean` holds this mean.

The second table is of a wait of a second in 12 % of rounds beside a steady exchange of 0.1 s: how often the exchange is
named alone although the wait is as long on average, or longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from analysis.stats.repeats import MIN_ROUNDS, arithmetic_mean
from analysis.stats.verdict import is_above
from benchmarks.common import Rng, Row, options, show
from benchmarks.coverage import wander

Draw = Callable[[Rng, int], np.ndarray]  # n values of rounds


def _late(steps: int) -> Draw:
    """Return rounds of so many steps, in each of which one rank is late by a second once in ten times."""
    return lambda rng, n: 0.1 + rng.binomial(steps, 0.1, n) / steps + rng.normal(0, 0.02, n)


# The draw, and its mean.
DELAYS: dict[str, tuple[Draw, float]] = {
    "normal, 10 %": (lambda rng, n: 1 + rng.normal(0, 0.1, n), 1.0),
    "exponential, 30 %": (lambda rng, n: 1 + rng.exponential(0.3, n), 1.3),
    "lognormal, 80 %": (lambda rng, n: np.exp(rng.normal(0, 0.8, n)), float(np.exp(0.32))),
    "two modes, 1.5 times in a quarter": (
        lambda rng, n: 1 + 0.5 * (rng.random(n) < 0.25) + rng.normal(0, 0.03, n), 1.125,
    ),
    "wanders by 5 %, 0.8 from round to round": (lambda rng, n: 1 + wander(rng, n, 0.05, 0.8), 1.0),
    "late in one step of ten, 2 steps": (_late(2), 0.2),
    "late in one step of ten, 4 steps": (_late(4), 0.2),
    "late in one step of ten, 10 steps": (_late(10), 0.2),
}  # fmt: skip
# Launches and rounds.
DESIGNS = ((1, 24), (1, 60), (3, 4), (3, 6), (3, 17), (6, 4), (6, 17))
_STEPS = 10  # of a launch of one value, which is their mean


def launches(draw: Draw, design: tuple[int, int], between: float, rng: Rng) -> list[list[float]]:
    """Return the values of a design; launches differ by a normal deviation `between`."""
    count, rounds = design
    return [(draw(rng, rounds) + rng.normal(0, between)).tolist() for _ in range(count)]


def holds(draw: Draw, mean: float, design: tuple[int, int], between: float, cases: int, rng: Rng) -> float:
    """Return the share of cases in which the interval of the mean holds it."""
    return float(np.mean([arithmetic_mean(launches(draw, design, between, rng)).contains(mean) for _ in range(cases)]))


def coverage(cases: int, rng: Rng) -> Iterator[Row]:
    """Yield a line for each kind of delay: the share held by each design."""
    for name, (draw, mean) in DELAYS.items():
        row: Row = {"delays": name}
        for count, rounds in DESIGNS:
            row[f"{count} x {rounds}"] = f"{holds(draw, mean, (count, rounds), 0.0, cases, rng):.3f}"
        # Launches that differ by 5 %.
        row["3 x 17, launches differ"] = f"{holds(draw, mean, (3, 17), 0.05, cases, rng):.3f}"
        row[f"6 means of {_STEPS}"] = f"{holds(partial(_step_means, draw), mean, (6, 1), 0.0, cases, rng):.3f}"
        yield row


def _step_means(draw: Draw, rng: Rng, n: int) -> np.ndarray:
    return draw(rng, n * _STEPS).reshape(n, _STEPS).mean(axis=1)


def named_alone(design: tuple[int, int], wait_s: float, cases: int, rng: Rng) -> float:
    """Return how often the exchange is named alone beside a rare wait that takes so long on average."""

    def difference(rng: Rng, n: int) -> np.ndarray:
        return rng.normal(0.1, 0.02, n) - wait_s / 0.12 * (rng.random(n) < 0.12) - rng.normal(0, 0.02, n)

    if design[0] * design[1] < MIN_ROUNDS:
        return 0.0
    numbers = (arithmetic_mean(launches(difference, design, 0.0, rng)) for _ in range(cases))
    return float(np.mean([is_above(number) for number in numbers]))


def main() -> None:
    cases = options("means", __doc__, cases=(4000, "simulated for each cell")).parse_args().cases
    rng = np.random.default_rng(0)
    show(coverage(cases, rng))
    print()
    designs = ((1, 17), (1, 24), (3, 6), (3, 8), (3, 17), (6, 6))
    show(
        {"mean wait": f"{1e3 * wait_s:g} ms"}
        | {f"{n} x {rounds}": f"{named_alone((n, rounds), wait_s, cases, rng):.3f}" for n, rounds in designs}
        for wait_s in (0.12, 0.1)
    )
    print(f"\nnominal 0.950; {cases} cases a cell, standard error at most {0.5 / cases**0.5:.3f}")


if __name__ == "__main__":
    main()
