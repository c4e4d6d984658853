"""What limits throughput, measured in the same job: how fast ranks multiply matrices, and what their links carry.

Outside timed windows, with their threads, precision, quotas and links. It takes about half a second for each number
of ranks that a launch measures. Elastic training, whose ranks change on the way, has none.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import tensorflow as tf

from train.allreduce import bandwidth
from train.config.schema import RunConfig
from train.context import Context
from train.distribution.base import Distribution
from train.loop import devices, operations
from train.loop.learner import Learner
from train.record.record import MatrixProduct, Work

_DTYPES = {"fp32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}
_SMALLEST, _LARGEST = 1024, 8192  # rows: three of the largest take 0.8 GB in fp32
_LONG_ENOUGH_S = 0.02  # of one product: beside what starts it
_BURSTS = 3  # of products, of which the fastest counts
_BURST_S = 0.1
_BURST_OF_QUOTA_S = 0.4  # of many periods: within one a rank may be faster than its share
_STREAM_S = 0.3


def measure(context: Context, among: Distribution, arm: int | None = None) -> None:
    """Record the limits of these ranks, all of which call it, while no other rank works.

    arm: whose ranks they are, in a launch in rounds.
    """
    config = context.config
    burst_s = _BURST_S if config.system.cpus_per_node is None else _BURST_OF_QUOTA_S
    among.barrier()
    try:
        made = multiply(config.precision, burst_s)
        context.part.add(matrix_products=[replace(made, arm=arm)])
    except tf.errors.ResourceExhaustedError:
        _note(context, "the compute limit is not known: there is not enough memory to multiply matrices")
    if among.size > 1 and config.device == "cpu" and config.distribution.controller == "gloo":
        received, failed = bandwidth.ring(among, _STREAM_S, context.key)
        context.part.add(transfers=[replace(one, arm=arm) for one in received])
        _note(context, *(f"the limit of the link is not known: {problem}" for problem in failed))


def places(config: RunConfig) -> list[int]:
    """The first arm of each world, number of ranks and rate of links: the other arms have the limits of these."""
    found: dict[tuple[int, int, float | None], int] = {}
    for place, arm in enumerate(config.launch.rounds):
        found.setdefault((arm.group, arm.ranks, arm.link_mbit_per_s), place)
    return list(found.values())


def _note(context: Context, *notes: str) -> None:
    """Record notes of the job, once."""
    if context.everyone.rank == 0:
        context.part.add(notes=[note for note in notes if note not in context.part.part.notes])


def record_work(context: Context, learner: Learner) -> None:
    """Record, on rank 0, what a step of the model needs."""
    if context.everyone.rank:
        return
    count: int | None = None
    try:
        count = operations.per_image(learner.model)
    except operations.NotCounted as error:
        _note(context, f"the compute limit is not known: {error}")
    sizes = [math.prod(variable.shape) * variable.dtype.size for variable in learner.model.trainable_variables]
    context.part.add(work=Work(count, sum(sizes)))


def multiply(precision: str, burst_s: float) -> MatrixProduct:
    """Products of two square matrices, of a size at which one takes long enough, timed in bursts of `burst_s`."""

    @tf.function(autograph=False)  # which would leave a file in the temporary folder
    def product(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.matmul(a, b)

    rows = _SMALLEST
    while True:
        a, b = (tf.cast(tf.random.stateless_normal((rows, rows), (rows, n)), _DTYPES[precision]) for n in (0, 1))
        _time(product, a, b, 1)  # traced
        one_s = min(_time(product, a, b, 1) for _ in range(2))
        if rows >= _LARGEST or one_s >= _LONG_ENOUGH_S:
            count = max(1, round(burst_s / one_s))
            return MatrixProduct(rows, [_time(product, a, b, count) / count for _ in range(_BURSTS)])
        rows *= 2


def _time(product: tf.types.experimental.PolymorphicFunction, a: tf.Tensor, b: tf.Tensor, count: int) -> float:
    """Seconds that so many products take, one after the other."""
    begin = time.perf_counter()
    for _ in range(count):
        product(a, b)
    devices.synchronize()
    return time.perf_counter() - begin
