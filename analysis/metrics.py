"""Every formula of the domain: rates, speedups, bandwidths, limits, epochs. Pure: numbers in and out."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats import Number
from analysis.stats.student import student, trend
from record.record_summary import throughput as throughput  # the only definition

Value = TypeVar("Value", float, pd.Series, NDArray[np.float64])


def speedup(rate: Value, base_rate: Value) -> Value:
    """Return how many times as fast: rate / base_rate, both in the same unit of work per second."""
    return rate / base_rate


def efficiency(speedup: Value, ranks: Value, base_ranks: Value | float = 1) -> Value:
    """Return the share of the ideal, a fraction: speedup / (ranks / base_ranks)."""
    return speedup / (ranks / base_ranks)


def per_rank(images_per_s: Value, ranks: Value | int) -> Value:
    """Return the images/s of one rank from those of a whole job."""
    return images_per_s / ranks


def job_total(images_per_s_per_rank: Value, ranks: Value | int) -> Value:
    """Return the images/s of a whole job from those of each of its ranks."""
    return images_per_s_per_rank * ranks


def rate(work: Value | float, time_s: Value) -> Value:
    """Return the work per second, in the unit of `work`; for times of equal work that is 1."""
    return work / time_s


def step_s(batch: Value | float, images_per_s: Value) -> Value:
    """Return the seconds of one step: a batch over the throughput; of the whole job, or of one rank."""
    return batch / images_per_s


def bandwidth(transferred_bytes: Value, time_s: Value) -> Value:
    """Return the transferred bytes/s. For an allreduce of one message per rank it is `algbw` of nccl-tests.

    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    return transferred_bytes / time_s


def hops(members: Value) -> Value:
    """Return 2 (m - 1) / m: how often each of m members sends its data in a ring (Patarasuk and Yuan 2009)."""
    return 2 * (members - 1) / members


def bus_bandwidth(message_bytes: Value, time_s: Value, ranks: Value) -> Value:
    """Return the bytes/s that each link must carry for an allreduce: bandwidth x 2 (ranks - 1) / ranks.

    Any algorithm needs n - 1 sums and n copies of every element over n links, so this can be compared with the
    bandwidth of a link, for any number of ranks. It is `busbw` of nccl-tests, same page.
    """
    return bandwidth(message_bytes, time_s) * hops(ranks)


def ring_allreduce_min_s(parameters: int, nodes: int, mbit_per_s: float) -> float:
    """Return the shortest time [s] in which links carry a ring allreduce of fp32 gradients; 0 without a limit (NaN).

    2 (n - 1) / n x 4 bytes x parameters leave each node, and as many reach it (Patarasuk and Yuan 2009, theorem 1).
    """
    if math.isnan(mbit_per_s):
        return 0.0
    return hops(float(nodes)) * 4 * parameters * 8 / (mbit_per_s * 1e6)


def compute_limit(operations_per_s: float, operations_per_image: float) -> float:
    """Return the images/s at which processors do nothing but the operations of training steps, at their measured peak.

    operations_per_s: of all ranks. Operations are those of direct convolution: an algorithm that needs fewer, as
    Winograd's, could pass it.
    """
    return operations_per_s / operations_per_image


def joules_per_image(joules: float, images: float) -> float:
    """Return the energy of timed steps over the images of these steps, in J."""
    return joules / images


def link_limit(global_batch: float, gradient_bytes: float, ranks: int, bytes_per_s: float) -> float:
    """Return the images/s at which links do nothing but carry ring allreduces of the gradients, one a step.

    2 (n - 1) / n x bytes pass each link (Patarasuk and Yuan 2009, theorem 1). A network that reduces on the way could
    pass it.
    """
    return global_batch / (hops(float(ranks)) * gradient_bytes / bytes_per_s)


def operations_per_s(rows: int, product_s: float) -> float:
    """Return the multiplications and additions a second in a product of two square matrices."""
    return 2 * rows**3 / product_s


def change_fraction(old: Value, new: Value) -> Value:
    """Return (new - old) / old: the relative change, on the base of the old value; negative for a decrease."""
    return (new - old) / old


def faster_fraction(old_s: float, new_s: float) -> float:
    """Return old_s / new_s - 1: how much more work is done per second when its time falls from old_s to new_s."""
    return change_fraction(rate(1, old_s), rate(1, new_s))


SharedBatch = Literal["batch_per_rank", "global_batch"]


def shared_batch(ranks: Sequence[float], global_batch: Sequence[float]) -> SharedBatch:
    """Return the batch that the points of a curve share: the global one (strong scaling) if ranks do not change it."""
    strong = len(set(ranks)) > 1 and len(set(global_batch)) == 1
    return "global_batch" if strong else "batch_per_rank"


def per_doubling(sizes: Sequence[float], rates: Sequence[float]) -> Number:
    """Return the share of its efficiency that a curve keeps at each doubling of its size: 1 is ideal scaling.

    From the least-squares line of ln(rate) over log2(size) through all runs: exp(slope) / 2. The standard error is that
    of the slope, propagated to first order (JCGM 100:2008, 5.1.2), with runs - 2 degrees of freedom; two runs have
    none. Raises ValueError for a single size.
    """
    x, y = np.log2(np.asarray(sizes, float)), np.log(np.asarray(rates, float))
    slope = trend([[*zip(x, y, strict=True)]]).slope
    value, n = math.exp(slope.value) / 2, min(Counter(sizes).values())
    return student(value, value * slope.standard_error, slope.degrees, n, "about the fit")


def epochs_to_stable(epochs: Sequence[int], accuracies: Sequence[float], tolerance: float = 0.01) -> int:
    """Return the first epoch from which the accuracy (a fraction) stays within `tolerance` of its best.

    Report 004 read it off a plot by eye, at a "relative maximum" that is stable; this is a rule for it. One late drop
    counts, and no smoothing shifts the epoch. The tolerance covers what an accuracy over p = 0.9, n = 1,000 samples
    differs by from chance alone: sqrt(p (1 - p) / n) = 0.0095. If only the last epoch qualifies, the accuracy may still
    be rising.
    """
    accuracy = np.asarray(accuracies, dtype=float)
    outside = np.flatnonzero(accuracy < accuracy.max() - tolerance)
    first = int(outside[-1]) + 1 if outside.size else 0
    return int(epochs[min(first, len(epochs) - 1)])


def time_to_stable_s(job_s: Value, epochs: Value, planned_epochs: Value | float) -> Value:
    """Return the seconds until the accuracy is stable, as in report 004: epochs until then / all epochs x job time."""
    return epochs / planned_epochs * job_s
