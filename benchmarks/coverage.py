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

import csv
import functools
import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analysis.compare.launches import days_mean
from benchmarks.common import Rng, Row, merged, options, show
from record import disturbance, intervals
from record.schema import CoreUse

_BLOCK = 6  # rounds
_LONGEST = 2  # times as many rounds as are to count, at most

Noise = Callable[
    [Rng, int], np.ndarray
]  # n rounds -> the time of both arms in each, (n, 2), equal except for the noise


def proportional(spread: float) -> Noise:
    """Multiply each window by a lognormal factor."""
    return lambda rng, n: np.exp(rng.normal(0, spread, (n, 2)))


def additive(mean: float) -> Noise:
    """Delay each window by an exponential time."""
    return lambda rng, n: 1 + rng.exponential(mean, (n, 2))


def heavy_tailed(scale: float) -> Noise:
    """Delay windows by Student's t with two degrees of freedom, whose variance is infinite."""
    return lambda rng, n: 1 + scale * abs(rng.standard_t(2, (n, 2)))


def autocorrelated(spread: float, rho: float) -> Noise:
    """Vary the speed of the machine, for both arms, by an autoregression over windows."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        return np.exp(rng.permuted(_wander(rng, 2 * n, spread, rho).reshape(n, 2), axis=1))

    return noise


def autocorrelated_ratio(spread: float, rho: float) -> Noise:
    """Vary the speed of one arm alone from round to round, as by a neighbour that only it notices."""

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
    """Slow the machine down by this fraction over the launch."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        slower = np.exp(np.linspace(0, math.log1p(total), 2 * n)).reshape(n, 2)
        return rng.permuted(slower, axis=1) * np.exp(rng.normal(0, spread, (n, 2)))

    return noise


def disturbed(slower: float, rounds: int, spread: float) -> Noise:
    """Slow one arm down by this factor for so many rounds in succession, from a random one on."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        times = np.exp(rng.normal(0, spread, (n, 2)))
        begin = rng.integers(0, n)
        times[begin : begin + rounds, 0] *= slower
        return times

    return noise


def disturbed_in_turns(slower: float, rounds: int, spread: float) -> Noise:
    """Slow one arm down by this factor for so many rounds, then not for as many, and so on."""

    def noise(rng: Rng, n: int) -> np.ndarray:
        times = np.exp(rng.normal(0, spread, (n, 2)))
        times[(np.arange(n) + rng.integers(0, 2 * rounds)) // rounds % 2 == 1, 0] *= slower
        return times

    return noise


@functools.cache
def _real_rounds() -> list[np.ndarray]:
    """Return the ratios of each launch in benchmarks/rounds.csv, in their order, over their median."""
    launches: dict[str, list[float]] = {}
    with Path(__file__).with_name("rounds.csv").open() as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            launches.setdefault(row["launch"], []).append(float(row["ratio"]))
    return [np.array(values) / statistics.median(values) for values in launches.values()]


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
    bursts = _bursts(neighbour, now_s + 8 * _WINDOW_S * times.sum(), rng)
    for number, arms in enumerate(times):
        in_round = []
        for arm in rng.permutation(2):
            waiting = float(max(0.0, rng.normal(*_WAITING))) if neighbour.only_idle and arm == 0 else 0.0
            work_s = _WINDOW_S * arms[arm] * (1 + (waiting - _WAITING[0] if waiting else 0.0))
            uses = [_use(neighbour, core, bursts, now_s, work_s, waiting) for core in ((0, 1) if arm == 0 else (0,))]
            wall_s = max(use.wall_s for use in uses)
            in_round += [disturbance.window_disturbance(_count(neighbour, use), 1, False) for use in uses]
            slowed[number, arm], now_s = wall_s / _WINDOW_S, now_s + wall_s
        fractions.append(disturbance.largest(in_round))
    return slowed, fractions


def _bursts(neighbour: Neighbour, until_s: float, rng: Rng) -> list[tuple[float, float]]:
    """Return when a neighbour runs, up to a time."""
    if neighbour.off_s == 0:
        return [(0.0, until_s)]
    now_s, bursts = 0.0, []
    while now_s < until_s:
        begin_s = now_s + rng.exponential(neighbour.off_s)
        now_s = begin_s + rng.exponential(neighbour.on_s)
        bursts.append((begin_s, now_s))
    return bursts


def _use(
    neighbour: Neighbour, core: int, bursts: list[tuple[float, float]], begin_s: float, work_s: float, waiting: float
) -> CoreUse:
    """Return the use of a core from this time on, until a rank has done so much work on it."""
    taken_s, now_s, left_s = 0.0, begin_s, work_s
    for on_s, off_s in bursts if core in neighbour.cores and not neighbour.only_idle else ():
        if off_s <= now_s:
            continue
        if (alone_s := max(0.0, on_s - now_s)) >= left_s:
            break
        beside_s = min(off_s - now_s - alone_s, (left_s - alone_s) / (1 - neighbour.share))
        taken_s += neighbour.share * beside_s
        left_s -= alone_s + (1 - neighbour.share) * beside_s
        now_s += alone_s + beside_s
        if left_s <= 1e-9:
            break
    own_s = work_s * (1 - waiting)
    return CoreUse(work_s + taken_s, own_s, own_s + taken_s + work_s * waiting, 0.0, delay_s=taken_s)


def _count(neighbour: Neighbour, use: CoreUse) -> CoreUse | None:
    """Return what the kernel counts, in ticks of 10 ms."""
    if neighbour.counted is None:
        return None
    others_s = math.floor(100 * neighbour.counted * (use.busy_s - use.own_s)) / 100
    return replace(use, busy_s=use.own_s + others_s)


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
    others: tuple[float, ...] = ()  # the same of further curves of the command
    degrees: float = math.inf  # of Student's t, the distribution of launches
    neighbour: Neighbour | None = None


def _real_case(launches: int, between: float, drift: float) -> Case:
    """Return a case of measured rounds; several launches are of three curves."""
    name = f"real rounds, {launches} launch{'es' * (launches > 1)}, drift {100 * drift:g} %"
    others = (between,) * 2 if launches > 1 else ()
    return Case(name, real(drift), launches=launches, between=between, others=others)


def _alike(launches: int, others: int, between: float, most: int = 0, scatter: float = 0.04) -> Case:
    """Return a case whose curves all have the same spread between launches of 12 rounds."""
    up_to, quiet = f" to {most}" if most else "", f", rounds scatter by {100 * scatter:g} %" if scatter < 0.04 else ""
    curves = f"{1 + others} curve{'s' * (others > 0)}"
    name = f"{launches}{up_to} launches, {curves}{quiet}"
    counts = {"rounds": 12, "launches": launches, "most": most}
    return Case(name, proportional(scatter), between=between, others=(between,) * others, **counts)


THREE_CURVES = {"launches": 3, "between": 0.02, "others": (0.02, 0.02), "rounds": 12}
CASES = [
    *(Case(f"proportional, {100 * spread:g} %", proportional(spread)) for spread in (0.02, 0.05, 0.10)),
    Case("proportional, 10 %, 12 rounds", proportional(0.10), rounds=12),
    Case("delays, exponential, 5 %", additive(0.05)),
    Case("delays, Student's t with 2 degrees, 5 %", heavy_tailed(0.05)),
    Case("machine wanders, 5 %, 0.9 from window to window", autocorrelated(0.05, 0.9)),
    Case("one arm wanders, 3 %, 0.3 from round to round", autocorrelated_ratio(0.03, 0.3)),
    Case("one arm wanders, 3 %, 0.6 from round to round", autocorrelated_ratio(0.03, 0.6)),
    Case("machine slows down by 30 %", drift(0.30, 0.03)),
    Case("one arm 1.5 times slower for 5 rounds", disturbed(1.5, 5, 0.03)),
    Case("one arm 1.5 times slower for 10 rounds of 96", disturbed(1.5, 10, 0.03), rounds=96),
    *(
        Case(f"one arm {slower:g} times slower in half of 96 rounds, {n} in turn", disturbed_in_turns(slower, n, 0.03),
             rounds=96)
        for slower, n in ((1.2, 1), (1.2, 4), (1.5, 4), (1.5, 12))
    ),
    *(
        _alike(launches, others, between, most=most)
        for launches, others, most in ((2, 2, 0), (3, 2, 0), (3, 0, 0), (3, 0, 8), (3, 2, 8), (6, 0, 0))
        for between in (0.0, 0.01, 0.02, 0.03)
    ),
    *(_alike(3, 0, between, most=8, scatter=0.01) for between in (0.02, 0.03)),
    Case("6 launches of 24 rounds, 1 curve", proportional(0.03), launches=6, between=0.10),
    *(
        Case(f"3 launches{name}", proportional(0.04), **THREE_CURVES | changes)
        for name, changes in (
            (" of 4 rounds, 3 curves", {"rounds": 4}),
            (", 3 curves, the other two by 1 and 2 %", {"between": 0.03, "others": (0.01, 0.02)}),
            (", 3 curves, Student's t with 3 degrees", {"degrees": 3}),
        )
    ),
    *(
        Case(f"only its launches differ, {name}", proportional(scatter), between=between, rounds=12, **counts)
        for name, scatter, counts in (
            ("3 launches, 3 curves", 0.04, {"launches": 3, "others": (0.0,) * 2}),
            ("3 launches, 3 curves, rounds scatter by 1 %", 0.01, {"launches": 3, "others": (0.0,) * 2}),
            ("3 launches, 6 curves", 0.04, {"launches": 3, "others": (0.0,) * 5}),
            ("3 to 8 launches, 3 curves", 0.04, {"launches": 3, "others": (0.0,) * 2, "most": 8}),
            ("3 to 8 launches, 6 curves", 0.04, {"launches": 3, "others": (0.0,) * 5, "most": 8}),
        )
        for between in (0.03, 0.05, 0.10)
    ),
    *(_real_case(1, 0.0, drift) for drift in (0.0, 0.02)),
    *(_real_case(3, *case) for case in ((0.0, 0.0), (0.01, 0.0), (0.03, 0.0), (0.0, 0.03), (0.02, 0.03))),
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
    Case(name, proportional(0.03), **THREE_CURVES | {"neighbour": neighbour}) for name, neighbour in NEIGHBOURS.items()
]


def launch(case: Case, rng: Rng) -> list[float]:
    """Return the ratios of the rounds of a launch that count."""
    times = case.noise(rng, case.rounds if case.neighbour is None else _LONGEST * case.rounds)
    away = rng.normal() if math.isinf(case.degrees) else _student(rng, case.degrees)
    if case.neighbour:
        times, disturbances = beside(case.neighbour, times, rng)
        times = times[_counting(disturbances, case)]
    return (times[:, 0] / times[:, 1] * math.exp(case.between * away)).tolist()


def _counting(disturbances: list[float | None], case: Case) -> list[int]:
    """Return the rounds that count, once they are enough, or all have passed."""
    for rounds in range(case.rounds, len(disturbances) + 1):
        selection = disturbance.select(dict(enumerate(disturbances[:rounds])), case.precision)
        if len(selection.counting) >= case.rounds:
            break
    return list(selection.counting)


def measured(case: Case, rng: Rng) -> list[list[list[float]]]:
    """Return the launches of each curve of a command, until all are precise or the time is over."""
    cases = [replace(case, between=between) for between in (case.between, *case.others)]
    curves = [[launch(curve_case, rng) for _ in range(case.launches)] for curve_case in cases]
    for _ in range(case.most - case.launches):
        spread = intervals.launch_spread(curves)
        for curve_case, curve in zip(cases, curves, strict=True):
            if case.precision and not intervals.is_precise(curve, case.precision, spread):
                curve.append(launch(curve_case, rng))
    return curves


def _student(rng: Rng, degrees: float) -> float:
    """Draw from Student's t with the variance 1."""
    return float(rng.standard_t(degrees)) / math.sqrt(degrees / (degrees - 2))


def simulate(case: Case, curves: int, rng: Rng) -> Row:
    """Return how often the intervals of one case hold the truth, and how wide they are."""
    holding, predicted, widths, rounds, values = 0, 0, [], [], []
    for _ in range(curves):
        curves_of_command = measured(case, rng)
        interval = intervals.launches_interval(curves_of_command[0], spread=intervals.launch_spread(curves_of_command))
        assert interval is not None
        holding += interval.low <= 1.0 <= interval.high
        values.append(interval.value)
        widths.append(interval.half_width_fraction)
        if interval.another:
            predicted += interval.another[0] <= statistics.median(launch(case, rng)) <= interval.another[1]
        rounds.append(sum(map(len, curves_of_command[0])))
    return {
        "noise": case.name,
        "launches differ by": f"{100 * case.between:g} %" if case.launches > 1 else "",
        "holds the truth": f"{holding / curves:.3f}",
        "holds another launch": f"{predicted / curves:.3f}" if case.launches > 1 else "",
        "half width, median": f"{np.median(widths):.3f}",
        "rounds, median": f"{np.median(rounds):.0f}",
        "off, median": f"{100 * (np.median(values) - 1):+.1f} %",
    }


def simulate_beside(case: Case, curves: int, rng: Rng) -> Row:
    """Return `simulate` of a case with a neighbour, and by how much the median launch is off if all rounds count."""
    all_rounds = replace(case, precision=None)
    off = np.median([statistics.median(launch(all_rounds, rng)) for _ in range(curves)]) - 1
    return simulate(case, curves, rng) | {"off with all rounds": f"{100 * off:+.1f} %"}


def simulate_days(between: float, correlation: float, days: int, curves: int, rng: Rng) -> Row:
    """Return how often the interval of one day, and that over days, hold what days have on average.

    between: the spread of days; correlation: of successive launches of a day, which differ by 2 %.
    """
    noise, one_day, over_days, widths = proportional(0.04), 0, 0, []
    for _ in range(curves):
        levels = [rng.normal(0, between) + _wander(rng, 3, 0.02, correlation) for _ in range(days)]
        windows = [[noise(rng, 12) for _ in level] for level in levels]
        ratios = [
            [(times[:, 0] / times[:, 1] * math.exp(away)).tolist() for times, away in zip(day, level, strict=True)]
            for day, level in zip(windows, levels, strict=True)
        ]
        first, number = (
            intervals.launches_interval(ratios[0]),
            days_mean([[*map(statistics.median, day)] for day in ratios]),
        )
        assert first is not None
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
    rows = merged((simulate(case, curves, rng) for case in CASES), by=["noise"])
    show({name: text for name, text in row.items() if name != "off, median"} for row in rows)
    print()
    beside_rows = [simulate_beside(case, curves, rng) for case in BESIDE]
    show({"neighbour" if name == "noise" else name: text for name, text in row.items()} for row in beside_rows)
    print()
    cases = itertools.product((0.0, 0.01, 0.03), (0.0, 0.5), (3, 6))
    show(
        merged((simulate_days(*case, curves, rng) for case in cases), by=["days differ by", "correlation within a day"])
    )
    print(f"\nnominal {intervals.LEVEL:.0%}; {curves} curves a line, standard error at most {0.5 / curves**0.5:.3f}")


if __name__ == "__main__":
    main()
