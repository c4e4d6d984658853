"""Every formula, from measured numbers to rates, ratios and their intervals. Pure: numbers in and out."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import pandas as pd

from train.record import intervals
from train.record.summary import throughput as throughput  # the only definition

LEVEL = 0.95

Number = TypeVar("Number", float, pd.Series, np.ndarray)


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` independent repeats, with its error as far as it is known.

    `standard_error` is in the unit of `value`, NaN where it is not known (one repeat, a printed number);
    `degrees` are those of Student's t.
    """

    value: float
    standard_error: float = math.nan
    degrees: float = math.nan
    n: int = 1

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval, in the unit of `value`; NaN where the error is not known."""
        if math.isnan(self.standard_error):
            return math.nan
        if self.standard_error == 0:
            return 0.0
        from scipy.special import stdtrit  # quicker than scipy.stats, in import and in use

        return float(stdtrit(self.degrees, 0.5 + LEVEL / 2)) * self.standard_error

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval; NaN where the error is not known."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval; NaN where the error is not known."""
        return self.value + self.half_width


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of repeats with Student's t interval (n - 1 degrees); one value has no interval.

    Raises ValueError where there is no value, or one is not finite.
    """
    x = np.asarray(values, dtype=float)
    if x.size == 0 or not np.isfinite(x).all():
        raise ValueError(f"an estimate needs finite values; given: {list(values)}")
    if x.size == 1:
        return Estimate(float(x[0]))
    return Estimate(float(x.mean()), float(x.std(ddof=1) / math.sqrt(x.size)), float(x.size - 1), int(x.size))


def ratio(a: Estimate, b: Estimate) -> Estimate:
    """a / b of independent estimates.

    Relative standard errors add in quadrature (first-order propagation, JCGM 100:2008, 5.1.6). Raises ValueError where
    a or b is not positive.
    """
    if not (a.value > 0 and b.value > 0):
        raise ValueError(f"a ratio needs positive values; given: {a.value:g} / {b.value:g}")
    value = a.value / b.value
    error, degrees = _in_quadrature((a.standard_error / a.value, a.degrees), (b.standard_error / b.value, b.degrees))
    return Estimate(value, value * error, degrees, min(a.n, b.n))


def difference(a: Estimate, b: Estimate) -> Estimate:
    """a - b of independent estimates: standard errors add in quadrature."""
    error, degrees = _in_quadrature((a.standard_error, a.degrees), (b.standard_error, b.degrees))
    return Estimate(a.value - b.value, error, degrees, min(a.n, b.n))


def _in_quadrature(*errors: tuple[float, float]) -> tuple[float, float]:
    """The sum in quadrature of independent standard errors, each with its degrees of freedom, and those of the sum.

    By Welch and Satterthwaite (JCGM 100:2008, G.4.1); NaN where one is not known.
    """
    variance = sum(error**2 for error, _ in errors)
    if math.isnan(variance):
        return math.nan, math.nan
    if variance == 0:
        return 0.0, math.inf
    return math.sqrt(variance), variance**2 / sum(error**4 / degrees for error, degrees in errors if error > 0)


def scaled(a: Estimate, factor: float) -> Estimate:
    """a x factor, the factor being exact."""
    return Estimate(a.value * factor, a.standard_error * abs(factor), a.degrees, a.n)


def speedup(rate: Number, base_rate: Number) -> Number:
    """How many times as fast: rate / base_rate, both in the same unit of work per second."""
    return rate / base_rate


def efficiency(speedup: Number, ranks: Number, base_ranks: Number | float = 1) -> Number:
    """The share of the ideal, a fraction: speedup / (ranks / base_ranks)."""
    return speedup / (ranks / base_ranks)


def per_rank(images_per_s: Number, ranks: Number | int) -> Number:
    """Images/s of one rank, of a whole job's."""
    return images_per_s / ranks


def whole_job(images_per_s_per_rank: Number, ranks: Number | int) -> Number:
    """Images/s of a whole job, of what each of its ranks processes."""
    return images_per_s_per_rank * ranks


def rate(work: Number | float, time_s: Number) -> Number:
    """Work per second, in the unit of `work`: the throughput of wall times, and of times of equal work (work = 1)."""
    return work / time_s


def step_s(batch: Number | float, images_per_s: Number) -> Number:
    """Seconds of one step: a batch over the throughput; of the whole job, or of one rank."""
    return batch / images_per_s


def bandwidth(transferred_bytes: float, time_s: float) -> float:
    """Bytes/s that were transferred. Of an allreduce of one message per rank, `algbw` of nccl-tests.

    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    return transferred_bytes / time_s


def hops(members: Number) -> Number:
    """2 (m - 1) / m: how often each of m members sends its data in a ring allreduce (Patarasuk and Yuan 2009)."""
    return 2 * (members - 1) / members


def bus_bandwidth(message_bytes: float, time_s: float, ranks: int) -> float:
    """Bytes/s that each link must carry for an allreduce: bandwidth x 2 (ranks - 1) / ranks.

    An allreduce over n links needs n - 1 sums and n copies of every element, whatever its algorithm, so this can be
    compared with the bandwidth of a link, for any number of ranks: `busbw` of nccl-tests, same page.
    """
    return bandwidth(message_bytes, time_s) * hops(float(ranks))


def ring_allreduce_min_s(parameters: int, nodes: int, mbit_per_s: float) -> float:
    """The shortest time [s] in which links carry a ring allreduce of fp32 gradients; 0 without a limit (NaN).

    2 (n - 1) / n x 4 bytes x parameters leave each node, and as many reach it (Patarasuk and Yuan 2009, theorem 1).
    """
    if math.isnan(mbit_per_s):
        return 0.0
    return hops(float(nodes)) * 4 * parameters * 8 / (mbit_per_s * 1e6)


def compute_limit(operations_per_s: float, operations_per_image: float) -> float:
    """The images/s at which processors do nothing but the operations of training steps, at their measured peak.

    operations_per_s: of all ranks. Operations are those of direct convolution: an algorithm that needs fewer, as
    Winograd's, could pass it.
    """
    return operations_per_s / operations_per_image


def joules_per_image(joules: float, images: float) -> float:
    """The energy of timed steps over the images of these steps, in J."""
    return joules / images


def link_limit(global_batch: float, gradient_bytes: float, ranks: int, bytes_per_s: float) -> float:
    """The images/s at which links do nothing but carry ring allreduces of the gradients, one a step.

    2 (n - 1) / n x bytes pass each link (Patarasuk and Yuan 2009, theorem 1). A network that reduces on the way could
    pass it.
    """
    return global_batch / (hops(float(ranks)) * gradient_bytes / bytes_per_s)


def operations_per_s(rows: int, product_s: float) -> float:
    """Multiplications and additions a second in a product of two square matrices."""
    return 2 * rows**3 / product_s


def change_fraction(old: Number, new: Number) -> Number:
    """(new - old) / old: the relative change, on the base of the old value; negative for a decrease."""
    return (new - old) / old


def faster_fraction(old_s: float, new_s: float) -> float:
    """old_s / new_s - 1: how much more work is done per second when the time for it falls from old_s to new_s."""
    return change_fraction(rate(1, old_s), rate(1, new_s))


Kept = Literal["batch_per_rank", "global_batch"]


def kept(ranks: Sequence[float], global_batch: Sequence[float]) -> Kept:
    """The batch that the points of a curve share: the global batch (strong scaling) where it is one on other ranks."""
    strong = len(set(ranks)) > 1 and len(set(global_batch)) == 1
    return "global_batch" if strong else "batch_per_rank"


@dataclass(frozen=True)
class Statistic:
    """A statistic of `n` values with the ends of its 95 % interval; NaN where none is known, as of fewer than 6 values.

    The intervals are those of medians, by order statistics: they assume no distribution (`train.record.intervals`).
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 1

    def as_json(self) -> dict[str, float | None]:
        """Value, ends, level and n; null where not known."""
        known = [None if math.isnan(x) else x for x in (self.value, self.low, self.high)]
        level = None if math.isnan(self.low) else LEVEL
        return dict(zip(("value", "low", "high", "level", "n"), (*known, level, self.n), strict=True))

    def over(self, factor: float) -> Statistic:
        """The statistic divided by a factor, which is exact."""
        return Statistic(self.value / factor, self.low / factor, self.high / factor, self.n)


Launches = Sequence[Sequence[float]]  # the values of each launch, in the order of measurement


def median(launches: Launches) -> Statistic:
    """The median over all values, of paired ratios for one: of the medians of the launches from six launches on."""
    known, values = intervals.over_launches(launches), [value for of in launches for value in of]
    if known is None:
        return Statistic(statistics.median(values), n=len(values))
    return Statistic(known.value, known.low, known.high, len(values))


def harmonic_mean(launches: Launches) -> Statistic:
    """The harmonic mean of rates at which equal work was done; its interval is that of the median and the mean."""
    return _around(statistics.harmonic_mean([value for of in launches for value in of]), median(launches))


def arithmetic_mean(values: Sequence[float]) -> Statistic:
    """The mean of the values of independent runs, for what is no rate; its interval is that of the median and the mean.

    Raises ValueError where there is no value, or one is not finite.
    """
    if not len(values) or not np.isfinite(values).all():
        raise ValueError(f"a mean needs finite values; given: {list(values)}")
    return mean_cost([list(values)])


def mean_cost(launches: Launches) -> Statistic:
    """The mean of costs over all values of some launches; the means of parts add up to that of the whole.

    Its interval is that of the median and the mean.
    """
    return _around(statistics.fmean([value for of in launches for value in of]), median(launches))


def _around(value: float, middle: Statistic) -> Statistic:
    """A value with the interval of the median, widened to hold it."""
    if math.isnan(middle.low):
        return Statistic(value, n=middle.n)
    return Statistic(value, min(middle.low, value), max(middle.high, value), middle.n)


def binomial(held: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """The interval of a share that was held so many times (Clopper and Pearson 1934); the whole range for none."""
    from scipy.special import betaincinv  # it takes longer to import than most commands to run

    tail = (1 - level) / 2
    low = float(betaincinv(held, of - held + 1, tail)) if held else 0.0
    high = float(betaincinv(held + 1, of - held, 1 - tail)) if held < of else 1.0
    return low, high


def per_doubling(sizes: Sequence[float], rates: Sequence[float]) -> Estimate:
    """The share of its efficiency that a curve keeps each time its size doubles: 1 is ideal scaling.

    From the least-squares line of ln(rate) over log2(size) through all runs: exp(slope) / 2. The standard error is that
    of the slope, propagated to first order (JCGM 100:2008, 5.1.2), with runs - 2 degrees of freedom; two runs have
    none. Raises ValueError for a single size.
    """
    if len(set(sizes)) < 2:
        raise ValueError(f"a slope needs two sizes; given: {list(sizes)}")
    x, y, n = np.log2(np.asarray(sizes, float)), np.log(np.asarray(rates, float)), _fewest(sizes)
    if len(sizes) == 2:
        return Estimate(math.exp(np.polyfit(x, y, 1)[0]) / 2, n=n)
    (slope, _), covariances = np.polyfit(x, y, 1, cov=True)
    value = math.exp(slope) / 2
    return Estimate(value, value * math.sqrt(covariances[0, 0]), len(sizes) - 2, n)


def _fewest(sizes: Sequence[float]) -> int:
    """How often the size occurs that occurs least."""
    return min(Counter(sizes).values())


def epochs_to_stable(epochs: Sequence[int], accuracies: Sequence[float], tolerance: float = 0.01) -> int:
    """The first epoch from which the accuracy (a fraction) stays within `tolerance` of its best.

    Report 004 read it off a plot by eye, at a "relative maximum" that is stable; this is a rule for it. The window
    includes all epochs to the end, so one late drop counts, and no smoothing is needed that would shift the epoch. The
    tolerance covers what an accuracy over p = 0.9, n = 1,000 samples differs by from chance alone:
    sqrt(p (1 - p) / n) = 0.0095. For one run it is a whole number without an uncertainty: that comes from repeats
    (`estimate`), and the time until then is the sum of these epochs' times. Where only the last epoch qualifies, it is
    the last one: the accuracy may still be rising.
    """
    accuracy = np.asarray(accuracies, dtype=float)
    outside = np.flatnonzero(accuracy < accuracy.max() - tolerance)
    first = int(outside[-1]) + 1 if outside.size else 0
    return int(epochs[min(first, len(epochs) - 1)])


def time_to_stable_s(job_s: Number, epochs: Number, planned_epochs: Number | float) -> Number:
    """Seconds until the accuracy is stable, as report 004 computes it: epochs until then / all epochs x job time."""
    return epochs / planned_epochs * job_s
