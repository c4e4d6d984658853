"""How often the intervals that the kit shows hold the truth, where measuring stops once they are narrow enough.

    python -m benchmarks.coverage [--curves 2000]

Each line simulates many curves under one kind of noise: the rounds of a launch, the looks, the stop by precision or by
the end of the budget, and the interval that is shown then. The truth is the median that rounds without end give, and
where launches differ, launches without end; under a disturbance it is the undisturbed one.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from train.record import intervals

Rng = np.random.Generator
Noise = Callable[[Rng, int], np.ndarray]  # n rounds -> the time of both arms in each, (n, 2), equal but for the noise


def proportional(spread: float) -> Noise:
    """Each window takes a lognormal factor longer or shorter."""
    return lambda rng, n: np.exp(rng.normal(0, spread, (n, 2)))


def additive(mean: float) -> Noise:
    """Each window is delayed by an exponential time."""
    return lambda rng, n: 1 + rng.exponential(mean, (n, 2))


def heavy_tailed(scale: float) -> Noise:
    """Delays of Student's t with two degrees of freedom, whose variance is infinite."""
    return lambda rng, n: 1 + scale * abs(rng.standard_t(2, (n, 2)))


def autocorrelated(spread: float, rho: float) -> Noise:
    """The machine wanders, as an autoregression over windows, and takes both arms with it."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        return np.exp(rng.permuted(_wander(rng, 2 * n, spread, rho).reshape(n, 2), axis=1))

    return noise


def autocorrelated_ratio(spread: float, rho: float) -> Noise:
    """One arm alone wanders from round to round: what a neighbour does that only it feels."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        times = np.exp(rng.normal(0, spread / 2, (n, 2)))
        times[:, 0] *= np.exp(_wander(rng, n, spread, rho))
        return times

    return noise


def _wander(rng: Rng, n: int, spread: float, rho: float) -> np.ndarray:
    values, steps = np.empty(n), rng.normal(0, spread, n)
    values[0] = steps[0]
    for i in range(1, n):
        values[i] = rho * values[i - 1] + math.sqrt(1 - rho**2) * steps[i]
    return values


def drift(total: float, spread: float) -> Noise:
    """The machine slows down by this fraction over the launch."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        slower = np.exp(np.linspace(0, math.log1p(total), 2 * n)).reshape(n, 2)
        return rng.permuted(slower, axis=1) * np.exp(rng.normal(0, spread, (n, 2)))

    return noise


def disturbed(slower: float, rounds: int, spread: float) -> Noise:
    """For so many rounds running, from a random one on, one arm takes this factor longer."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        times = np.exp(rng.normal(0, spread, (n, 2)))
        begin = rng.integers(0, n)
        times[begin : begin + rounds, 0] *= slower
        return times

    return noise


def disturbed_in_turns(slower: float, rounds: int, spread: float) -> Noise:
    """For so many rounds one arm takes this factor longer, for the next so many it does not, and so on."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        times = np.exp(rng.normal(0, spread, (n, 2)))
        times[(np.arange(n) + rng.integers(0, 2 * rounds)) // rounds % 2 == 1, 0] *= slower
        return times

    return noise


@dataclass(frozen=True)
class Case:
    """One kind of noise, and how it is measured."""

    name: str
    noise: Noise
    precision: float = 0.05
    budget: int = 96  # rounds of a launch at most
    launches: int = 1
    between: float = 0.0  # lognormal spread of the ratio between launches


CASES = [
    *(Case(f"proportional, {100 * spread:g} %", proportional(spread)) for spread in (0.02, 0.05, 0.10)),
    Case("proportional, 2 %, precision 0.02", proportional(0.02), precision=0.02),
    Case("proportional, 10 %, budget of 14 rounds", proportional(0.10), budget=14),
    Case("delays, exponential, 5 %", additive(0.05)),
    Case("delays, Student's t with 2 degrees, 5 %", heavy_tailed(0.05)),
    Case("machine wanders, 5 %, 0.9 from window to window", autocorrelated(0.05, 0.9)),
    Case("one arm wanders, 3 %, 0.3 from round to round", autocorrelated_ratio(0.03, 0.3)),
    Case("one arm wanders, 3 %, 0.6 from round to round", autocorrelated_ratio(0.03, 0.6)),
    Case("machine slows down by 30 %", drift(0.30, 0.03)),
    Case("one arm 1.5 times slower for 5 rounds", disturbed(1.5, 5, 0.03)),
    Case("one arm 1.5 times slower for 10 rounds", disturbed(1.5, 10, 0.03)),
    Case("one arm 1.5 times slower for 10 rounds, precision 0.02", disturbed(1.5, 10, 0.03), precision=0.02),
    *(
        Case(
            f"one arm {slower:g} times slower in half of the rounds, {run} in turn",
            disturbed_in_turns(slower, run, 0.03),
        )
        for slower, run in ((1.2, 1), (1.2, 4), (1.5, 4), (1.5, 12))
    ),
    Case("launches differ by 1 %, 2 launches", proportional(0.03), launches=2, between=0.01),
    Case("launches differ by 3 %, 2 launches", proportional(0.03), launches=2, between=0.03),
    Case("launches differ by 3 %, 6 launches", proportional(0.03), launches=6, between=0.03),
    Case("launches differ by 10 %, 6 launches", proportional(0.03), launches=6, between=0.10),
]


def launch(case: Case, rng: Rng) -> list[float]:
    """The ratios of the rounds of one launch, until it stops."""
    times = case.noise(rng, case.budget)
    ratios = (times[:, 0] / times[:, 1] * math.exp(rng.normal(0, case.between))).tolist()
    for look in intervals.looks(case.budget):
        if intervals.precise(ratios[:look], case.precision):
            return ratios[:look]
    return ratios


def simulate(case: Case, curves: int, rng: Rng) -> dict[str, str]:
    """A line of the table."""
    held, reached, rounds = 0, 0, []
    for _ in range(curves):
        launches = [launch(case, rng) for _ in range(case.launches)]
        interval = intervals.over_launches(launches)
        assert interval is not None
        held += interval.low <= 1.0 <= interval.high
        reached += interval.half_width_fraction <= case.precision
        rounds.append(sum(map(len, launches)))
    return {
        "noise": case.name,
        "holds the truth": f"{held / curves:.3f}",
        "narrow enough": f"{reached / curves:.2f}",
        "rounds, median": f"{np.median(rounds):.0f}",
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--curves", type=int, default=2000, help="simulated for each line")
    curves = parser.parse_args().curves
    rng = np.random.default_rng(0)
    rows = [simulate(case, curves, rng) for case in CASES]
    print(tabulate(rows, headers="keys", tablefmt="github", disable_numparse=True))
    print(f"\nnominal {intervals.LEVEL:.0%}; {curves} curves a line, standard error at most {0.5 / curves**0.5:.3f}")


if __name__ == "__main__":
    main()
