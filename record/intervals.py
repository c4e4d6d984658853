"""The typical value of launches with its interval: of a rate, of a ratio of two rates, or of any other value of rounds.

The typical value of a launch is Hodges and Lehmann's estimate over its rounds (1963, doi 10.1214/aoms/1177704172): the
median of the means of all pairs, on a logarithmic scale. A ratio of two rates is that of their typical values, and
several launches have the mean on that scale: so the rates of two points give their ratio. The interval assumes that,
beside the scatter of their rounds, launches differ by an unknown standard deviation, whose prior is half-Cauchy
(Gelman 2006, doi 10.1214/06-BA117A). `benchmarks/coverage.py` simulates how often it holds the truth;
docs/validation.md has the table.
"""

import bisect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from common.number import LEVEL as LEVEL
from common.number import NO_ENDS, Ends, Number, Variation

MIN_VALUES = 6  # fewer values have no interval
_MOST_PAIRED = 1000  # values, of whose pairs the estimate is made; the median of more is as good
# So many rounds of one launch count as one: they do not show how slowly they wander.
ROUNDS_AS_ONE = 3
DRIFTS = "the rounds of its one launch drift too much; measure more launches (REPEATS=3)"
_FAR = 6.0  # times the median distance: a value further from the others counts as one at that distance
_EFFICIENCY = 0.95  # of the estimate, relative to the mean of normal values; less if both rates scatter together
_LAUNCHES_DIFFER = 0.06  # the median of the prior of the standard deviation between launches, as a fraction
_GRID = 200  # standard deviations between launches, of equal probability beforehand
_SPLIT_FRACTION = 0.78  # of the variance, which a split must explain so that values form two groups
_MIN_SPLIT = 24  # values
_LARGEST_EXPONENT = 700.0  # of a double: few launches have ends beyond it at high levels

Launches = Sequence[Sequence[float]]  # the values of each launch, in the order of their measurement


class Turn(NamedTuple):
    """When a rate was measured: two rates are compared if they agree in it."""

    launch: str  # in rounds; "": launches of single points, which take turns
    seed: int
    number: int  # of the round, or of the repeat


Rates = Mapping[Turn, float]  # of one point, in the order of measurement


def paired(rates: Rates, base: Rates) -> dict[Turn, float]:
    """Return the ratio of two rates in each turn that has both, in the order of turns."""
    return {turn: rates[turn] / base[turn] for turn in sorted(rates) if turn in base}


def by_launch(rates: Rates) -> dict[str, list[float]]:
    """Return the values of each launch in the order of their turns; those of single points as if of one launch."""
    launches: dict[str, list[float]] = {}
    for turn in sorted(rates):
        launches.setdefault(turn.launch, []).append(rates[turn])
    return launches


def rate(rates: Rates) -> Number | None:
    """Return the typical rate of a point, with its interval; None without a rate."""
    return power_product([(1.0, rates)])


def speedup(rates: Rates, base: Rates) -> Number | None:
    """Return the ratio of a typical rate to that of the base, with its interval; None if no turn has both."""
    return power_product([(1.0, rates), (-1.0, base)])


def power_product(powers: Sequence[tuple[float, Rates]]) -> Number | None:
    """Return the product of typical rates of points, each to a power, with its interval; None without a common turn.

    In a launch in rounds each rate is typical of all its rounds, also of those without the others. Launches of single
    points count if their turn has all.
    """
    common = sorted(set.intersection(*({*rates} for _, rates in powers)))
    products = {turn: sum(power * math.log(rates[turn]) for power, rates in powers) for turn in common}
    launches = by_launch(products)
    single = launches.keys() == {""}
    logs = [
        (power, by_launch({turn: math.log(value) for turn, value in rates.items() if not single or turn in products}))
        for power, rates in powers
    ]
    rows = [
        _Launch(sum(power * _centre(values[name]) for power, values in logs), rounds)
        for name, rounds in launches.items()
    ]
    return _interval(rows, math.log, single) if rows else None


def typical(launches: Launches) -> Number | None:
    """Return the typical value of launches, each with the values of its rounds; None without a value.

    Launches of one value each are taken as the rounds of one, which shows how launches differ. Values that are not all
    positive are taken as they are, without logarithms.
    """
    filled = [values for values in launches if values]
    single = all(len(values) == 1 for values in filled)
    grouped = [[value for values in filled for value in values]] if single and filled else filled
    logarithmic = all(value > 0 for values in filled for value in values)
    scaled = [[math.log(value) for value in values] if logarithmic else values for values in grouped]
    rows = [_Launch(_centre(values), values) for values in scaled]
    return _interval(rows, math.log if logarithmic else float, single) if rows else None


@dataclass(frozen=True)
class _Launch:
    """The typical value of a launch, and the values of its rounds, from which their scatter follows."""

    centre: float
    rounds: Sequence[float]


def _centre(values: Sequence[float]) -> float:
    """Return Hodges and Lehmann's estimate of the centre of values; of three or fewer their median."""
    if not 3 < len(values) <= _MOST_PAIRED:
        return median(values)
    pairs = itertools.combinations_with_replacement(values, 2)
    return median([(a + b) / 2 for a, b in pairs])


def _interval(launches: Sequence[_Launch], scale: Callable[[float], float], single: bool) -> Number:
    """Return the mean of launches with its interval. scale: of their values. single: its rounds are launches."""
    n, centre = sum(len(launch.rounds) for launch in launches), fmean(launch.centre for launch in launches)

    def back(x: float) -> float:
        return math.exp(max(-_LARGEST_EXPONENT, min(x, _LARGEST_EXPONENT))) if scale is math.log else x

    def both(ends: Ends) -> Ends:
        return back(ends[0]), back(ends[1])

    variation: Variation = "between launches" if single or len(launches) > 1 else "between rounds"
    scatter = _scatter(launches)
    why = (
        DRIFTS if len(launches) == 1 and not single and n >= MIN_VALUES and dependence(launches[0].rounds) >= n else ""
    )
    if n < MIN_VALUES or why:
        return Number(back(centre), lambda _: NO_ENDS, n, scatter=scatter, no_interval=why)
    square = scatter**2 / _EFFICIENCY
    if len(launches) == 1:
        launch_ends = _launch_ends(centre, launches[0].rounds, square, single)
        return Number(back(centre), lambda level: both(launch_ends(level)), n, variation, scatter=scatter)
    prior = _LAUNCHES_DIFFER if scale is math.log else math.sqrt(square)
    posterior = _Posterior(launches, square, prior)

    def ends(level: float, another: float = 0.0) -> Ends:
        half = posterior.half_width(level, another)
        return both((centre - half, centre + half))

    return Number(
        back(centre), ends, n, variation, another=lambda level: ends(level, 1.0), scatter=scatter,
        rounds_share=posterior.rounds_share,
    )  # fmt: skip


def _scatter(launches: Sequence[_Launch]) -> float:
    """Return the standard deviation of rounds about the centre of their launch.

    From their mean distance, that of n normal values being sqrt(2 / pi (n - 1) / n) of it. Far values count as less
    far: one round cannot widen an interval much.
    """
    centred = ((_centre(launch.rounds), launch.rounds) for launch in launches)
    distances = [abs(value - centre) for centre, rounds in centred for value in rounds]
    bound = _FAR * median(distances) or math.inf
    total = sum(min(distance, bound) for distance in distances)
    sizes = [len(launch.rounds) for launch in launches]
    return math.sqrt(math.pi / 2) * total / max(1.0, sum(math.sqrt(n * (n - 1)) for n in sizes))


def _launch_ends(centre: float, rounds: Sequence[float], square: float, single: bool) -> Callable[[float], Ends]:
    """Return the ends, by level, of the interval of the rounds of one launch. square: the variance of a round.

    Student's t, for as many values as independent ones would tell as much: fewer if neighbours are alike, and a third
    of these unless the rounds are `single` launches. At most as far as the outermost values where these suffice, of
    rounds three times as far. If the values form two groups, one of which is disturbed, it is not known which one: the
    interval reaches over those of both.
    """
    as_one = 1 if single else ROUNDS_AS_ONE
    groups = [(centre, square, len(rounds) / dependence(rounds) / as_one, rounds)]
    for group in two_groups(rounds) or ():
        groups.append((_centre(group), _scatter([_Launch(0.0, group)]) ** 2 / _EFFICIENCY, len(group) / as_one, group))
    spans = [(_centre(values) - min(values), max(values) - _centre(values)) for *_, values in groups]

    def ends(level: float) -> Ends:
        lows, highs = [], []
        for (centre, square, independent, values), (below, above) in zip(groups, spans, strict=True):
            half = student_quantile(level, max(1.0, independent - 1)) * math.sqrt(square / independent)
            suffice = level <= 1 - 2.0 ** (1 - len(values))  # so often the outermost values hold the median
            lows.append(centre - min(half, as_one * below if suffice else math.inf))
            highs.append(centre + min(half, as_one * above if suffice else math.inf))
        return min(lows), max(highs)

    return ends


class _Posterior:
    """The variance of the mean of launches, as a mixture over the standard deviation between launches.

    That has a half-Cauchy prior and the likelihood of the typical values of the launches, which are normal about their
    mean with the variance between launches and that of their rounds (Gelman 2006).
    """

    def __init__(self, launches: Sequence[_Launch], square: float, prior: float) -> None:
        """Compute it. square: the variance of a round. prior: the median of the standard deviation between launches."""
        import numpy as np  # a tenth of a second that launcher and ranks do not need before

        sizes, centres = np.array([len(launch.rounds) for launch in launches]), [launch.centre for launch in launches]
        taus = (prior or float(np.std(centres)) or 1e-9) * np.tan(np.pi / 2 * (np.arange(_GRID) + 0.5) / _GRID)
        precisions = 1 / (taus[:, None] ** 2 + square / sizes)
        middles = precisions @ centres / precisions.sum(1)
        away = (precisions * (np.array(centres) - middles[:, None]) ** 2).sum(1)
        log_likelihood = (np.log(precisions).sum(1) - np.log(precisions.sum(1)) - away) / 2
        weights = np.exp(log_likelihood - log_likelihood.max())
        self._weights, self._degrees = weights / weights.sum(), max(1, sizes.sum() - len(launches))
        rounds = (square / sizes).mean()
        self._variances, self._k = taus**2 + rounds, len(launches)
        self.rounds_share = float(rounds * (self._weights / self._variances).sum())

    def half_width(self, level: float, another: float) -> float:
        """Return half the width of the interval of the mean; of one more launch, if `another` is 1 instead of 0."""
        import numpy as np
        from scipy.special import stdtr

        errors = np.sqrt(self._variances * (another + 1 / self._k))
        times = student_quantile(level, self._degrees)
        low, high = times * errors.min(), times * errors.max()
        for _ in range(25):
            middle = math.sqrt(low * high)
            held = 1 - 2 * float(self._weights @ stdtr(self._degrees, -middle / errors))
            low, high = (middle, high) if held < level else (low, middle)
        return float(high)


def student_quantile(level: float, degrees: float) -> float:
    """Return the t beyond which Student's t is on neither side with the probability `level`."""
    from scipy.special import stdtrit  # a tenth of a second that ranks do not need

    return float(stdtrit(degrees, (1 + level) / 2))


def dependence(values: Sequence[float]) -> float:
    """Return the variance of a count of values below the median, as a multiple of that of independent values.

    1 for independent values. The larger of two: the sum over the autocorrelations of the first sqrt(n) lags, with
    Bartlett's weights (Newey and West 1987), and the multiple for an autoregression of the first order.
    """
    lags = max(1, round(math.sqrt(len(values))))
    correlations = _correlations(values, lags)
    summed = 1 + 2 * sum((1 - lag / (lags + 1)) * r for lag, r in enumerate(correlations, 1))
    return max(1.0, summed, (1 + correlations[0]) / max(1 - correlations[0], 0.05))


def _correlations(values: Sequence[float], lags: int) -> list[float]:
    """Return the autocorrelations r of the ranks of values in the order of measurement; 0 of equal values.

    In a short series r is too small by (1 + 3 r) / n (Kendall 1954).
    """
    n, ordered = len(values), sorted(values)
    # Twice the mean rank of equal values, from the middle.
    ranks = [bisect.bisect_left(ordered, value) + bisect.bisect_right(ordered, value) - n for value in values]
    power = sum(rank * rank for rank in ranks)
    if power == 0:
        return [0.0] * lags
    raw = [sum(a * b for a, b in zip(ranks, ranks[lag:], strict=False)) / power for lag in range(1, lags + 1)]
    return [r + (1 + 3 * max(r, 0)) / n for r in raw]


def two_groups(values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """Return the values below and above a gap that parts them, each in their order; None if they form one group.

    They form two if the best split has at least a quarter of the values on either side, and explains more than
    _SPLIT_FRACTION of their variance (Otsu 1979, doi 10.1109/TSMC.1979.4310076). For many normal values it explains
    0.64, of uniform ones 0.75. Fewer than _MIN_SPLIT values are never split: by chance they often look like two.
    """
    n, ordered = len(values), sorted(values)
    if n < _MIN_SPLIT:
        return None
    mean = sum(ordered) / n
    total = sum((value - mean) ** 2 for value in ordered)
    below, best, at = 0.0, _SPLIT_FRACTION * total, 0
    for count, value in enumerate(ordered[:-1], 1):
        below += value - mean
        between = below**2 * n / (count * (n - count))
        if between > best and value < ordered[count]:
            best, at = between, count
    if min(at, n - at) < n / 4:
        return None
    return [v for v in values if v < ordered[at]], [v for v in values if v >= ordered[at]]
