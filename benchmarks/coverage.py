"""How often the intervals that the kit shows hold the truth, if measuring stops once they are narrow enough.

    python -m benchmarks.coverage [--curves 2000]

Each line simulates many curves under one kind of noise: launches of so many rounds, further launches of the curves that
are not precise yet, the stop by precision or by time, and the interval at the end. The truth is the median of
infinitely many rounds, and launches if these differ; under a disturbance it is the undisturbed one. After several
launches one more is drawn, and compared with the range in which it is expected.

The second table is of three curves beside another program on the cores, and of what the kernel counts of it. A launch
then goes on until enough rounds count (`record.disturbance`), or twice as many have passed.

The third table is of one curve on several days, three launches each, that differ from day to day; launches of a day may
be correlated. It compares what holds on any day with the interval of the launches of one day, and with the one over
days.

Some lines draw blocks of the real rounds in benchmarks/rounds.csv; its first lines name their origin.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from analysis.compare.launch_values import days_mean
from benchmarks.common import Rng, Row, options, show
from common.number import Number
from record import disturbance, intervals
from record.schema import CoreUse
from train.launch.plan.launch_results import STOP_LEVEL

_BLOCK = 6  # rounds
_LONGEST = 2  # times as many rounds as are to count, at most

# n rounds -> the time of both arms in each, (n, 2), equal except for the noise
Noise = Callable[[Rng, int], np.ndarray]


def proportional(*spreads: float) -> Noise:
    """Multiply each window by a lognormal factor. spreads: of the windows of both arms, or of each."""
    return lambda rng, n: np.exp(rng.normal(0, spreads, (n, 2)))


def additive(mean: float) -> Noise:
    """Delay each window by an exponential time."""
    return lambda rng, n: 1 + rng.exponential(mean, (n, 2))


def heavy_tailed(scale: float) -> Noise:
    """Delay windows by Student's t with two degrees of freedom, whose variance is infinite."""
    return lambda rng, n: 1 + scale * abs(rng.standard_t(2, (n, 2)))


def autocorrelated(spread: float, rho: float) -> Noise:
    """Vary the speed of the machine, for both arms, by an autoregression over windows."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        return np.exp(rng.permuted(wander(rng, 2 * n, spread, rho).reshape(n, 2), axis=1))

    return noise


def autocorrelated_ratio(spread: float, rho: float) -> Noise:
    """Vary the speed of one arm alone from round to round, as by a neighbour that only it notices."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        times = np.exp(rng.normal(0, spread / 2, (n, 2)))
        times[:, 0] *= np.exp(wander(rng, n, spread, rho))
        return times

    return noise


def wander(rng: Rng, n: int, spread: float, rho: float) -> np.ndarray:
    """Return n values of an autoregression of the first order about zero."""
    steps = rng.normal(0, spread, n)
    steps[1:] *= math.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], steps)


def drift(total: float, spread: float) -> Noise:
    """Slow the machine down by this fraction over the launch."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        slower = np.exp(np.linspace(0, math.log1p(total), 2 * n)).reshape(n, 2)
        return rng.permuted(slower, axis=1) * np.exp(rng.normal(0, spread, (n, 2)))

    return noise


def _slowed(slower: float, spread: float, windows: Callable[[Rng, int], tuple[Any, Any]]) -> Noise:
    """Slow these windows down by a factor. windows: n -> the indices of their rounds, and of their arms."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        times = np.exp(rng.normal(0, spread, (n, 2)))
        times[windows(rng, n)] *= slower
        return times

    return noise


def disturbed(slower: float, rounds: int, spread: float) -> Noise:
    """Slow one arm down by this factor for so many rounds in succession, from a random one on."""
    return _slowed(slower, spread, lambda rng, n: (slice(begin := rng.integers(0, n), begin + rounds), 0))


def disturbed_in_turns(slower: float, rounds: int, spread: float) -> Noise:
    """Slow one arm down by this factor for so many rounds, then not for as many, and so on."""
    return _slowed(slower, spread, lambda rng, n: ((np.arange(n) + rng.integers(0, 2 * rounds)) // rounds % 2 == 1, 0))


def struck(slower: float, spread: float) -> Noise:
    """Slow one window of the launch down by a factor."""
    return _slowed(slower, spread, lambda rng, n: (rng.integers(0, n), rng.integers(0, 2)))


@functools.cache
def _real_rounds() -> list[np.ndarray]:
    """Return the ratios of each launch in benchmarks/rounds.csv, in their order, over their median."""
    rounds = pd.read_csv(Path(__file__).with_name("rounds.csv"), comment="#")
    return [(ratios / ratios.median()).to_numpy() for _, ratios in rounds.groupby("launch", sort=False)["ratio"]]


def real(drift: float = 0.0) -> Noise:
    """Draw blocks of _BLOCK successive measured rounds; over the launch the ratio drifts by this fraction."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        measured = _real_rounds()
        blocks = []
        for _ in range(-(-n // _BLOCK)):
            launch = measured[rng.integers(len(measured))]
            begin = rng.integers(len(launch) - _BLOCK + 1)
            blocks.append(launch[begin : begin + _BLOCK])
        ratios = np.concatenate(blocks)[:n] * np.exp(drift * np.linspace(-0.5, 0.5, n))
        return np.stack([ratios, np.ones(n)], axis=1)

    return noise


@dataclass(frozen=True)
class Neighbour:
    """Another program, which runs for a time on some cores, and then does not; both times are exponential."""

    cores: tuple[int, ...]  # 0 is that of the base; the other arm also uses 1
    on_s: float
    off_s: float  # 0: it always runs
    share: float = 0.5  # of a core, while it runs and the core is wanted
    counted: float | None = 1.0  # share of its time that the kernel counts; None: the kernel counts nothing
    only_idle: bool = False  # it wakes when ranks wait for each other, and delays nothing


_WINDOW_S = 2.0
_WAITING = 0.3, 0.05  # of a window with exchange: mean, and standard deviation, which its time has too


def beside(neighbour: Neighbour, times: np.ndarray, rng: Rng) -> tuple[np.ndarray, list[float | None]]:
    """Return the times of the arms of each round beside a neighbour, and the disturbances of the rounds."""
    slowed, fractions, now_s = np.empty_like(times), [], rng.exponential(neighbour.on_s + neighbour.off_s)
    progress = _progress(neighbour, now_s + 8 * _WINDOW_S * times.sum(), rng)
    for number, arms in enumerate(times):
        in_round = []
        for arm in rng.permutation(2):
            waiting = float(max(0.0, rng.normal(*_WAITING))) if neighbour.only_idle and arm == 0 else 0.0
            work_s = _WINDOW_S * arms[arm] * (1 + (waiting - _WAITING[0] if waiting else 0.0))
            uses = [_use(neighbour, core, progress, now_s, work_s, waiting) for core in ((0, 1) if arm == 0 else (0,))]
            wall_s = max(use.wall_s for use in uses)
            in_round += [
                disturbance.window_disturbance(None if neighbour.counted is None else use, 1, False) for use in uses
            ]
            slowed[number, arm], now_s = wall_s / _WINDOW_S, now_s + wall_s
        fractions.append(disturbance.largest(in_round))
    return slowed, fractions


def _progress(neighbour: Neighbour, until_s: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return when a neighbour begins and ends to run, up to a time, and the work of a rank beside it until then."""
    count = 10 + int(3 * until_s / (neighbour.off_s + neighbour.on_s))
    spans_s = np.vstack([np.zeros(2), rng.exponential([neighbour.off_s, neighbour.on_s], (count, 2))])
    return spans_s.ravel().cumsum(), (spans_s * [1.0, 1 - neighbour.share]).ravel().cumsum()


def _use(
    neighbour: Neighbour, core: int, progress: tuple[np.ndarray, np.ndarray], begin_s: float, work_s: float,
    waiting: float,
) -> CoreUse:  # fmt: skip
    """Return the use of a core from this time on, until a rank has done so much work on it, as the kernel counts it."""
    taken_s, (moments_s, done_s) = 0.0, progress
    if core in neighbour.cores and not neighbour.only_idle:
        end_s = np.interp(np.interp(begin_s, moments_s, done_s) + work_s, done_s, moments_s)
        taken_s = max(0.0, float(end_s) - begin_s - work_s)
    own_s = work_s * (1 - waiting)
    others_s = math.floor(100 * (neighbour.counted or 0.0) * (taken_s + work_s * waiting)) / 100  # in ticks of 10 ms
    return CoreUse(work_s + taken_s, own_s, own_s + others_s, 0.0, delay_s=taken_s)


@dataclass(frozen=True)
class Case:
    """One kind of noise, and how it is measured."""

    name: str
    noise: Noise
    precision: float | None = 0.05  # None: all rounds count
    rounds: int = 24  # of a launch
    launches: int = 1  # of a curve, at least
    most: int = 0  # of a curve, by time; 0: `launches`
    between: float = 0.0  # lognormal spread of the ratio between launches
    neighbour: Neighbour | None = None


def _launches(name: str, noise: Noise, betweens: tuple[float, ...], **counts: int) -> Iterator[Case]:
    """Yield a case for each spread between launches. counts: rounds, launches, most."""
    up_to = f" to {counts['most']}" if "most" in counts else ""
    title = f"{counts['launches']}{up_to} launches of {counts['rounds']} rounds, {name}"
    return (Case(title, noise, between=between, **counts) for between in betweens)


ROUNDS = (6, 8, 12, 24, 48, 96)  # of one launch
_FEW, _ALL = (0.0, 0.02, 0.05), (0.0, 0.01, 0.02, 0.03, 0.05, 0.10)
CASES = [
    *(Case(f"proportional, {100 * spread:g} %", proportional(spread), rounds=rounds) for spread in (0.02, 0.10)
      for rounds in ROUNDS),
    Case("delays, exponential, 5 %", additive(0.05)),
    Case("delays, Student's t with 2 degrees, 5 %", heavy_tailed(0.05)),
    Case("machine wanders, 5 %, 0.9 from window to window", autocorrelated(0.05, 0.9)),
    *(Case(f"one arm wanders, 3 %, {rho:g} from round to round", autocorrelated_ratio(0.03, rho), rounds=rounds)
      for rho in (0.3, 0.6, 0.8, 0.9) for rounds in ROUNDS),
    Case("machine slows down by 30 %", drift(0.30, 0.03)),
    Case("one arm 1.5 times slower for 5 rounds", disturbed(1.5, 5, 0.03)),
    Case("one arm 1.5 times slower for 10 rounds of 96", disturbed(1.5, 10, 0.03), rounds=96),
    *(
        Case(f"one arm {slower:g} times slower in half of 96 rounds, {n} in turn", disturbed_in_turns(slower, n, 0.03),
             rounds=96)
        for slower, n in ((1.2, 1), (1.2, 4), (1.5, 4), (1.5, 12))
    ),
    *_launches("4 %", proportional(0.04), _ALL, launches=2, rounds=12),
    *_launches("4 %", proportional(0.04), _ALL, launches=3, rounds=12),
    *_launches("1 %", proportional(0.01), _ALL, launches=3, rounds=12),
    *_launches("a noisy hour", proportional(0.07, 0.14), _ALL, launches=3, rounds=6),
    *_launches("4 %, until precise", proportional(0.04), _ALL, launches=3, rounds=12, most=8),
    *_launches("1 %, until precise", proportional(0.01), _ALL, launches=3, rounds=12, most=8),
    *_launches("a noisy hour, until precise", proportional(0.07, 0.14), _ALL, launches=3, rounds=6, most=8),
    *_launches("4 %", proportional(0.04), _ALL, launches=6, rounds=12),
    *_launches("3 %", proportional(0.03), (0.10,), launches=6, rounds=24),
    *_launches("4 %", proportional(0.04), _FEW, launches=3, rounds=4),
    *_launches("one window 3 times slower", struck(3.0, 0.04), _FEW, launches=3, rounds=8),
    *_launches("delays, exponential, 5 %", additive(0.05), _FEW, launches=3, rounds=12),
    *_launches("machine wanders, 5 %", autocorrelated(0.05, 0.9), _FEW, launches=3, rounds=12),
    *(Case(f"real rounds, drift {100 * drift:g} %", real(drift)) for drift in (0.0, 0.02)),
    *(case for drift in (0.0, 0.03) for case in _launches(f"real rounds, drift {100 * drift:g} %", real(drift),
                                                          (0.0, 0.01, 0.03), launches=3, rounds=24)),
]  # fmt: skip
NEIGHBOURS = {
    "on one core, a quarter of the time": Neighbour((1,), 10, 30),
    "on the core of the base, a quarter of the time": Neighbour((0,), 10, 30),
    "on all cores, a quarter of the time": Neighbour((0, 1), 10, 30),
    "on one core, half of the time": Neighbour((1,), 10, 10),
    "on one core, a tenth of it, half of the time": Neighbour((1,), 10, 10, share=0.1),
    "on one core, a quarter of the time, half counted": Neighbour((1,), 10, 30, counted=0.5),
    "on all cores, a quarter of the time, half counted": Neighbour((0, 1), 10, 30, counted=0.5),
    "on one core, a quarter of the time, not counted": Neighbour((1,), 10, 30, counted=None),
    "that wakes when ranks wait": Neighbour((0, 1), 1, 0, only_idle=True),
    "on all cores, 0.3 of them, always": Neighbour((0, 1), 1, 0, share=0.3),
    "on all cores, half of the time, for 0.5 s": Neighbour((0, 1), 0.5, 0.5),
}
BESIDE = [
    Case(name, proportional(0.03), rounds=12, launches=3, between=0.02, neighbour=neighbour)
    for name, neighbour in NEIGHBOURS.items()
]


def launch(case: Case, rng: Rng) -> np.ndarray:
    """Return the times of both arms in the rounds of a launch that count, (n, 2)."""
    times = case.noise(rng, case.rounds if case.neighbour is None else _LONGEST * case.rounds)
    away = rng.normal()
    if case.neighbour:
        times, disturbances = beside(case.neighbour, times, rng)
        times = times[_counting(disturbances, case)]
    return times * np.exp([case.between * away, 0.0])


def ratio(launches: Sequence[np.ndarray]) -> Number:
    """Return the ratio of the arms, whose truth is 1, as the kit computes it. launches: the times of each."""
    rates = [
        {intervals.Turn(str(nth), 0, number): 1 / time for nth, times in enumerate(launches)
         for number, time in enumerate(times[:, arm].tolist())}
        for arm in (1, 0)
    ]  # fmt: skip
    result = intervals.speedup(*rates)
    assert result is not None
    return result


def _counting(disturbances: list[float | None], case: Case) -> list[int]:
    """Return the rounds that count, once they are enough, or all have passed."""
    for rounds in range(case.rounds, len(disturbances) + 1):
        selection = disturbance.select(dict(enumerate(disturbances[:rounds])), case.precision)
        if len(selection.counting) >= case.rounds:
            break
    return list(selection.counting)


def measured(case: Case, rng: Rng) -> list[np.ndarray]:
    """Return the launches of a curve, until it is precise or the time is over."""
    launches = [launch(case, rng) for _ in range(case.launches)]
    while len(launches) < case.most and case.precision:
        if ratio(launches).half_width_fraction(STOP_LEVEL) <= case.precision:
            break
        launches.append(launch(case, rng))
    return launches


def simulate(case: Case, curves: int, rng: Rng) -> Row:
    """Return how often the intervals of one case hold the truth, and how wide they are."""
    predicted, held, widths, rounds, values = 0, [], [], [], []
    for _ in range(curves):
        launches = measured(case, rng)
        interval = ratio(launches)
        values.append(interval.value)
        if interval.has_interval:
            held.append(interval.contains(1.0))
            widths.append(interval.half_width_fraction())
        if interval.another:
            low, high = interval.another(intervals.LEVEL)
            predicted += low <= ratio([launch(case, rng)]).value <= high
        rounds.append(sum(map(len, launches)))
    return {
        "noise": case.name,
        "launches differ by": f"{100 * case.between:g} %" if case.launches > 1 else "",
        "no interval": f"{1 - len(held) / curves:.2f}",
        "holds the truth": f"{np.mean(held):.3f}" if held else "",
        "holds another launch": f"{predicted / curves:.3f}" if case.launches > 1 else "",
        "half width, mean": f"{np.mean(widths):.3f}" if held else "",
        "rounds, median": f"{np.median(rounds):.0f}",
        "off, median": f"{100 * (np.median(values) - 1):+.1f} %",
    }


def simulate_days(between: float, correlation: float, days: int, curves: int, rng: Rng) -> Row:
    """Return how often the interval of one day, and that over days, hold what days have on average.

    between: the spread of days; correlation: of successive launches of a day, which differ by 2 %.
    """
    noise, one_day, over_days, widths = proportional(0.04), 0, 0, []
    for _ in range(curves):
        levels = [rng.normal(0, between) + wander(rng, 3, 0.02, correlation) for _ in range(days)]
        measured_days = [[noise(rng, 12) * np.exp([away, 0.0]) for away in level] for level in levels]
        first = ratio(measured_days[0])
        number = days_mean([[ratio([times]).value for times in day] for day in measured_days])
        one_day += first.low <= 1.0 <= first.high
        over_days += number.contains(1.0)
        widths.append((number.high - number.low) / 2 / number.value)
    return {
        "days differ by": f"{100 * between:g} %",
        "correlation within a day": f"{correlation:g}",
        "days": f"{days}",
        "the interval of one day holds": f"{one_day / curves:.3f}",
        "that over days": f"{over_days / curves:.3f}",
        "half width over days, median": f"{np.median(widths):.3f}",
    }


def main() -> None:
    curves = options("coverage", __doc__, curves=(2000, "simulated for each line")).parse_args().curves
    rng = np.random.default_rng(0)
    show((simulate(case, curves, rng) for case in CASES), end="\n\n")
    show((simulate(case, curves, rng) for case in BESIDE), end="\n\n")
    cases = itertools.product((0.0, 0.01, 0.03), (0.0, 0.5), (3, 6))
    show(simulate_days(*case, curves, rng) for case in cases)
    print(f"\nnominal {intervals.LEVEL:.0%}; {curves} curves a line, standard error at most {0.5 / curves**0.5:.3f}")


if __name__ == "__main__":
    main()
