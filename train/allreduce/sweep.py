"""Allreduce alone, over message sizes: no model, no training step.

Each size: warm-up, barrier, timed allreduces one after the other, as nccl-tests does it
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md). The sums are checked to the last element.
What follows from the times (bandwidths) is the analysis' to compute.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import psutil
import tensorflow as tf

from train.allreduce import link
from train.config.schema import AllreduceSweep
from train.distribution.backends import Distribution
from train.rank import placement
from train.rank.phases import PhaseClock
from train.record.parts import Part
from train.record.record import AllreduceTimes

# The message, its sum, what the check makes, and what the backend works in: above what TensorFlow and Horovod take, the
# peak of a rank was 4.0 (Gloo) and 4.5 (Open MPI) times the largest message.
COPIES_OF_MESSAGE = 5
_PERIOD = 8  # elements; a message is this many, over and over


def fitting(sizes_bytes: Sequence[int], free_bytes: int) -> list[int]:
    """The message sizes for which `free_bytes` of memory a rank are enough."""
    return [size for size in sizes_bytes if COPIES_OF_MESSAGE * size <= free_bytes]


def timed_count(one_s: float, sweep: AllreduceSweep) -> int:
    """How many allreduces to time where one takes `one_s`: what fits into the time, within the sweep's bounds."""
    return max(sweep.min_timed, min(sweep.max_timed, int(sweep.time_per_size_s / one_s)))


def make_message(size_bytes: int, rank: int) -> tf.Tensor:
    """A float32 tensor of that size: rank + 0, 1, ..., 7, 0, 1, ... Small whole numbers: their sums are exact."""
    pattern = tf.range(_PERIOD, dtype=tf.float32) + float(rank)
    return tf.tile(pattern, [size_bytes // (4 * _PERIOD)])


def is_sum(reduced: tf.Tensor, ranks: int) -> bool:
    """Whether every element is the sum of what `make_message` gave the ranks 0, 1, ..., ranks - 1."""
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


def run(sweep: AllreduceSweep, device: str, distribution: Distribution, clock: PhaseClock, part: Part) -> None:
    """Measure link, memory and every message size that fits; times go into `part` as they come.

    device: cpu or gpu, where the messages lie. Raises RuntimeError where a sum is wrong.
    """
    clock.enter("data")
    part.rank.transfers, problems = link.measure(distribution, sweep.probe_s)
    part.notes += [f"not measured: {problem}" for problem in problems]
    sizes = sweep.sizes_bytes
    if device == "cpu":
        free = min(distribution.gather(psutil.virtual_memory().available // placement.local_size()))
        sizes = fitting(sizes, free)
        if left_out := [size for size in sweep.sizes_bytes if size not in sizes]:
            part.notes.append(
                f"messages of {left_out[0]} bytes and more left out: a rank needs {COPIES_OF_MESSAGE} times as much "
                f"memory, and {free} bytes are free"
            )
    for size in sizes:
        clock.enter("build")
        with tf.device(f"{device}:0"):
            message = make_message(size, distribution.rank)
        clock.enter("warm_up")
        warm_up = _times(message, sweep.warm_up, distribution)
        count = timed_count(max(distribution.gather(warm_up[-1])), sweep)
        distribution.barrier()
        clock.enter("timed")
        times = _times(message, count, distribution)
        distribution.barrier()
        clock.enter("evaluate")
        part.rank.allreduces.append(AllreduceTimes(size, times))
        right = is_sum(distribution.allreduce(message, _name(message)), distribution.size)
        if not all(distribution.gather(right)):
            raise RuntimeError(f"the allreduce of {size} bytes gave wrong sums")
        del message  # the next one is twice as large
