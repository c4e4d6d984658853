"""Every formula from measured numbers to what is said of them. Pure: numbers and tables in, numbers and tables out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` independent repeats, with what is known of its error.

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
        from scipy.stats import t  # it takes longer to import than most commands to run

        if math.isnan(self.standard_error):
            return math.nan
        if self.standard_error == 0:
            return 0.0
        return float(t.ppf(0.5 + LEVEL / 2, self.degrees)) * self.standard_error

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

    Relative standard errors add in quadrature (first-order propagation, JCGM 100:2008, 5.1.6); the degrees of
    freedom are Welch and Satterthwaite's (ibid., G.4.1). Raises ValueError where a or b is not positive.
    """
    if not (a.value > 0 and b.value > 0):
        raise ValueError(f"a ratio needs positive values; given: {a.value:g} / {b.value:g}")
    value = a.value / b.value
    u, v = (a.standard_error / a.value) ** 2, (b.standard_error / b.value) ** 2
    n = min(a.n, b.n)
    if math.isnan(u + v):
        return Estimate(value, n=n)
    if u + v == 0:
        return Estimate(value, 0.0, math.inf, n)
    degrees = (u + v) ** 2 / sum(w**2 / e.degrees for w, e in ((u, a), (v, b)) if w > 0)
    return Estimate(value, value * math.sqrt(u + v), degrees, n)


def difference(a: Estimate, b: Estimate) -> Estimate:
    """a - b of independent estimates: standard errors add in quadrature, degrees of freedom as in `ratio`."""
    value, n = a.value - b.value, min(a.n, b.n)
    u, v = a.standard_error**2, b.standard_error**2
    if math.isnan(u + v):
        return Estimate(value, n=n)
    if u + v == 0:
        return Estimate(value, 0.0, math.inf, n)
    degrees = (u + v) ** 2 / sum(w**2 / e.degrees for w, e in ((u, a), (v, b)) if w > 0)
    return Estimate(value, math.sqrt(u + v), degrees, n)


def scaled(a: Estimate, factor: float) -> Estimate:
    """a x factor, the factor being exact."""
    return Estimate(a.value * factor, a.standard_error * abs(factor), a.degrees, a.n)


def speedup(rate: float, base_rate: float) -> float:
    """How many times as fast: rate / base_rate, both in the same unit of work per second. Raises ValueError below 0."""
    return ratio(Estimate(rate), Estimate(base_rate)).value


def speedup_of_times(base_s: float, time_s: float) -> float:
    """How many times as fast the same work was done: base_s / time_s, in seconds. Raises ValueError below 0."""
    return ratio(Estimate(base_s), Estimate(time_s)).value


def efficiency(speedup: float, ranks: float, base_ranks: float = 1) -> float:
    """The share of the ideal: speedup / (ranks / base_ranks), a fraction."""
    return speedup / (ranks / base_ranks)


def algorithm_bandwidth(message_bytes: float, time_s: float) -> float:
    """Bytes/s that an allreduce of one message per rank comes to: its size over its time. Raises ValueError below 0.

    `algbw` of nccl-tests (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
    """
    return ratio(Estimate(message_bytes), Estimate(time_s)).value


def bus_bandwidth(message_bytes: float, time_s: float, ranks: int) -> float:
    """Bytes/s that each link must carry for it: algorithm bandwidth x 2 (ranks - 1) / ranks.

    An allreduce over n links needs n - 1 sums and n copies of every element, whatever its algorithm, so this can be
    compared with the bandwidth of a link, for any number of ranks: `busbw` of nccl-tests, same page.
    """
    return algorithm_bandwidth(message_bytes, time_s) * 2 * (ranks - 1) / ranks


def change_fraction(old: float, new: float) -> float:
    """(new - old) / old: the relative change, on the base of the old value; negative for a decrease."""
    return (new - old) / old


def faster_fraction(old_s: float, new_s: float) -> float:
    """old_s / new_s - 1: how much more work is done per second when the time for it falls from old_s to new_s."""
    return old_s / new_s - 1


Work = Literal["weak scaling", "strong scaling", "unequal work", "one point"]


def work_kept(ranks: Sequence[int], batch_per_rank: Sequence[int]) -> Work:
    """What a curve keeps: weak scaling keeps the batch per rank, strong scaling the global batch, else neither."""
    if len(set(ranks)) < 2:
        return "one point"
    if len(set(batch_per_rank)) == 1:
        return "weak scaling"
    if len({r * b for r, b in zip(ranks, batch_per_rank, strict=True)}) == 1:
        return "strong scaling"
    return "unequal work"


def curve(ranks: Sequence[int], rates: Sequence[float]) -> pd.DataFrame:
    """Speedup and efficiency of a scaling curve, one row a number of ranks, against its smallest point.

    `ranks` and `rates` (any unit of work per second) have one entry a repeat. Columns: ranks, n, and rate, speedup,
    efficiency with the ends of their 95 % intervals (`_low`, `_high`, NaN where n is 1). Speedup and efficiency of
    the smallest point are 1 by definition and have no error; its error is in those of the others.
    Raises ValueError where a rate is not positive.
    """
    repeats = pd.DataFrame({"ranks": list(ranks), "rate": list(rates)}).groupby("ranks")["rate"]
    points = {int(str(r)): estimate(group.tolist()) for r, group in repeats}
    if not points:
        return pd.DataFrame(columns=_CURVE)
    first = min(points)
    rows = []
    for r, rate in points.items():
        faster = Estimate(1.0, n=rate.n) if r == first else ratio(rate, points[first])
        share = scaled(faster, first / r)
        ends = [x for e in (rate, faster, share) for x in (e.value, e.low, e.high)]
        rows.append([r, rate.n, *ends])
    if not all(row[2] > 0 for row in rows):
        raise ValueError(f"a curve needs positive rates; given: {list(rates)}")
    return pd.DataFrame(rows, columns=_CURVE)


_CURVE = ["ranks", "n"] + [name + end for name in ("rate", "speedup", "efficiency") for end in ("", "_low", "_high")]


_TIME = {"wall time": "wall_s", "job time": "job_s"}


def rates(own: pd.DataFrame, by: str = "throughput") -> pd.DataFrame:
    """One row a run of one's own table, with its identity and `rate` in images/s.

    `by` is "throughput" (of the timed steps), "wall time" (all images from the first step on / wall_s) or "job time"
    (the same images / job_s).
    """
    if by == "throughput":
        rows = own[own["quantity"] == "images_per_s"]
        return rows.assign(rate=rows["value"])
    images = own[own["quantity"] == "images"].set_index("record")["value"]
    rows = own[own["quantity"] == _TIME[by]]
    return rows.assign(rate=rows["record"].map(images) / rows["value"])


def epochs_to_stable(epochs: Sequence[int], accuracies: Sequence[float], tolerance: float = 0.01) -> int:
    """The first epoch from which on the accuracy (a fraction) stays within `tolerance` of the best one.

    Report 004 read it off a plot by eye, at a "relative maximum" that is stable; this is a rule for it. The window is
    all epochs to the end, so one late drop counts, and no smoothing is needed that would shift the epoch. The tolerance
    covers what an accuracy over p = 0.9, n = 1,000 samples differs by from chance alone: sqrt(p (1 - p) / n) = 0.0095.
    Of one run it is a whole number without an uncertainty: that comes from repeats (`estimate`), and the time until
    then is the sum of these epochs' times. Where only the last epoch qualifies, it is the last one: the accuracy may
    still be rising.
    """
    accuracy = np.asarray(accuracies, dtype=float)
    outside = np.flatnonzero(accuracy < accuracy.max() - tolerance)
    first = int(outside[-1]) + 1 if outside.size else 0
    return int(epochs[min(first, len(epochs) - 1)])


def training(own: pd.DataFrame) -> pd.DataFrame:
    """One row a run of one's own table that trained over epochs, with its identity and three numbers.

    `epoch_s`: the median over its epochs, of which the first of a launch also traces the step. `epochs_to_stable`: as
    the function of this name says, of the validation accuracy; `time_to_stable_s`: the sum of these epochs' times,
    without evaluation. Both NaN where nothing was validated.
    """
    found = []
    for _, run in own[own["epoch"].notna()].groupby("record", sort=False):
        times = run[run["quantity"] == "epoch_s"]
        accuracy = run[run["quantity"] == "validation_accuracy"].sort_values("epoch")
        stable = epochs_to_stable(accuracy["epoch"].tolist(), accuracy["value"].tolist()) if len(accuracy) else math.nan
        found.append(
            times.iloc[[0]].assign(
                epoch_s=times["value"].median(),
                epochs_to_stable=float(stable),
                time_to_stable_s=times[times["epoch"] <= stable]["value"].sum() if len(accuracy) else math.nan,
            )
        )
    return pd.concat(found) if found else own.iloc[:0].reindex(columns=[*own.columns, *_TRAINING])


_TRAINING = ["epoch_s", "epochs_to_stable", "time_to_stable_s"]
