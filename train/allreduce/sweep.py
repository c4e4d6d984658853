"""Allreduce alone, over message sizes: no model, no training step.

Each size: warm-up, barrier, timed allreduces one after the other, as nccl-tests does it
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md), but in rounds. Each round has all sizes, in a new
random order: a drift of the machine does not look like an effect of the size. Every element of the sums is checked. The
analysis computes bandwidths from the times.
"""

import math
import time
from collections.abc import Sequence

import numpy as np
import psutil
import tensorflow as tf

from record.schema import AllreduceTimes, CoreUse
from train.allreduce import links
from train.config.measure_config import AllreduceSweep
from train.distribution import Distribution
from train.rank import counters, placement
from train.task import Context

# The message, its sum, the allocations of the check, and the backend's buffers: beyond the memory of TensorFlow and
# Horovod the peak of a rank was 4.0 (Gloo) and 4.5 (Open MPI) times the largest message.
COPIES_OF_MESSAGE = 5
_PERIOD = 8  # elements, which a message repeats


def fitting(sizes_bytes: Sequence[int], free_bytes: int) -> list[int]:
    """Return the message sizes for which `free_bytes` of memory per rank are enough."""
    return [size for size in sizes_bytes if COPIES_OF_MESSAGE * size <= free_bytes]


def timed_count(one_s: float, sweep: AllreduceSweep) -> int:
    """Return how many allreduces to time in each round if one takes `one_s`.

    All rounds together have as many as fit into the time, within the sweep's limits.
    """
    count = max(sweep.min_timed, min(sweep.max_timed, int(sweep.time_per_size_s / one_s)))
    return math.ceil(count / sweep.rounds)


def make_message(size_bytes: int, rank: int) -> tf.Tensor:
    """Return a float32 tensor of that size: rank + 0, 1, ..., 7, 0, 1, ... Sums of small whole numbers are exact."""
    pattern = tf.range(_PERIOD, dtype=tf.float32) + float(rank)
    return tf.tile(pattern, [size_bytes // (4 * _PERIOD)])


def is_sum(reduced: tf.Tensor, ranks: int) -> bool:
    """Return whether every element is the sum of `make_message` over ranks 0, 1, ..., ranks - 1."""
    expected = np.arange(_PERIOD, dtype=np.float32) * ranks + ranks * (ranks - 1) / 2
    return bool(tf.reduce_all(tf.equal(tf.reshape(reduced, (-1, _PERIOD)), expected)))


def _times(message: tf.Tensor, count: int, distribution: Distribution) -> list[float]:
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        distribution.allreduce(message, _name(message))
        tf.test.experimental.sync_devices()
        times.append(time.perf_counter() - begin)
    return times


def _name(message: tf.Tensor) -> str:
    return f"message.{message.shape[0]}"


def run(context: Context) -> None:
    """Measure link, memory and every message size that fits; records the times of a size at once.

    Raises RuntimeError if a sum is wrong.
    """
    sweep, distribution, part = context.config.allreduce_sweep, context.distribution, context.part
    assert sweep
    context.clock.enter("data")
    transfers, problems = links.measure_bandwidth(distribution, sweep.probe_s, context.key)
    part.add(transfers=transfers, notes=[f"not measured: {problem}" for problem in problems])
    sizes, note = _sizes(sweep, context)
    part.add(notes=note)
    counts: dict[int, int] = {}  # size -> timed allreduces in a round
    usages: list[CoreUse | None] = []
    order = np.random.default_rng([context.config.seed, context.repeat])
    for number in range(sweep.rounds):
        for size in order.permutation(sizes).tolist():
            with tf.device(f"{context.config.device}:0"):
                context.clock.enter("build")
                message = make_message(size, distribution.rank)
            times, usage = _measure(message, counts.get(size), context)
            counts[size] = len(times)
            usages.append(usage)
            part.add(allreduces=[AllreduceTimes(size, times, number)], timed_cores=counters.total(usages))
            _check(message, distribution)


def _sizes(sweep: AllreduceSweep, context: Context) -> tuple[list[int], list[str]]:
    """Return the sizes that every rank has memory for, and a note on others. A GPU reports a lack of memory itself."""
    if context.config.device != "cpu":
        return sweep.sizes_bytes, []
    free = min(context.distribution.gather(psutil.virtual_memory().available // placement.local_size(), int))
    sizes = fitting(sweep.sizes_bytes, free)
    if len(sizes) == len(sweep.sizes_bytes):
        return sizes, []
    return sizes, [
        f"messages of {sweep.sizes_bytes[len(sizes)]} bytes and more left out: a rank needs {COPIES_OF_MESSAGE} times "
        f"as much memory, and {free} bytes are free"
    ]


def _measure(message: tf.Tensor, count: int | None, context: Context) -> tuple[list[float], CoreUse | None]:
    """Return the times of `count` allreduces of a message, after the warm-up, and the use of the cores meanwhile.

    count: None: as many as the sweep allows.
    """
    distribution, clock, sweep = context.distribution, context.clock, context.config.allreduce_sweep
    assert sweep
    clock.enter("warm_up")
    warm_up = _times(message, 1 if count else sweep.warm_up, distribution)
    count = count or timed_count(max(distribution.gather(warm_up[-1], float)), sweep)
    clock.announce("timed")
    reading = counters.read_counters(context.meter)
    distribution.barrier()
    clock.enter("timed")
    times = _times(message, count, distribution)
    distribution.barrier()
    clock.enter("evaluate")
    return times, counters.counted_since(reading, context.meter)


def _check(message: tf.Tensor, distribution: Distribution) -> None:
    """Raise RuntimeError, on every rank, if the sum of this message is wrong on any rank."""
    right = is_sum(distribution.allreduce(message, _name(message)), distribution.size)
    if not all(distribution.gather(right, bool)):
        raise RuntimeError(f"the allreduce of {4 * int(message.shape[0])} bytes returned wrong sums")
