"""The roofline of a job, measured within it: speed of matrix products, bandwidth of links, and the work of a step.

It is measured outside timed windows, with their threads, precision, quotas and links. It takes about half a second for
each number of ranks that a launch measures; later launches of a curve on the same machine only check it. The
operations of a step are counted from the layers of the model, forward and backward.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from record.schema import MatrixProduct, Operations
from train.allreduce import links
from train.distribution import Distribution
from train.loop.devices import synchronize_devices
from train.task import Context

if TYPE_CHECKING:
    import tensorflow as tf
    import tf_keras

    from train.loop.learner import Learner

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_SMALLEST, _LARGEST = 1024, 8192  # rows: three of the largest take 0.8 GB in fp32
_LONG_ENOUGH_S = 0.02  # of one product, compared with the overhead of starting it
_BURSTS = 3  # of products, of which the fastest counts
BURST_S = 0.1
_QUOTA_BURST_S = 0.4  # many quota periods: within one a rank may be faster than its share
STREAM_S = 0.3


def measure(context: Context, ranks: Distribution, arm: int | None = None, brief: bool = False) -> None:
    """Record the roofline of these ranks, all of which call it, while no other rank works.

    arm: the arm of these ranks, in a launch in rounds. brief: only one burst of products, and no link.
    """
    config = context.config
    burst_s = _QUOTA_BURST_S if config.emulated else BURST_S
    ranks.barrier()
    if product := multiply(config.precision, burst_s, 1 if brief else _BURSTS):
        context.part.add(matrix_products=[replace(product, arm=arm)])
    else:
        _note(context, "the compute limit is not known: there is not enough memory to multiply matrices")
    if not brief and ranks.size > 1 and config.device == "cpu" and config.distribution.controller == "gloo":
        received, problems = links.ring(ranks, STREAM_S, context.key)
        context.part.add(transfers=[replace(transfer, arm=arm) for transfer in received])
        _note(context, *(f"the limit of the link is not known: {problem}" for problem in problems))


def _note(context: Context, *notes: str) -> None:
    """Record notes of the job, once."""
    if context.all_ranks.rank == 0:
        context.part.add(notes=[note for note in notes if note not in context.part.part.notes])


def record_work(context: Context, learner: Learner) -> None:
    """Record, on rank 0, the work of a step of the model."""
    if context.all_ranks.rank:
        return
    count: int | None = None
    try:
        count = operations_per_image(learner.model)
    except NotCounted as error:
        _note(context, f"the compute limit is not known: {error}")
    sizes = [math.prod(variable.shape) * variable.dtype.size for variable in learner.model.trainable_variables]
    context.part.add(work=Operations(count, sum(sizes)))


def multiply(precision: str, burst_s: float, bursts: int) -> MatrixProduct | None:
    """Multiply two square matrices, of a size at which that takes long enough, timed in bursts of `burst_s`.

    Return None if there is not enough memory.
    """
    import tensorflow as tf

    @tf.function(autograph=False)  # which would leave a file in the temporary folder
    def product(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.matmul(a, b)

    try:
        rows = _SMALLEST
        while True:
            a, b = (tf.cast(tf.random.stateless_normal((rows, rows), (rows, n)), _DTYPES[precision]) for n in (0, 1))
            _time(product, a, b, 1)  # traced
            one_s = min(_time(product, a, b, 1) for _ in range(2))
            if rows >= _LARGEST or one_s >= _LONG_ENOUGH_S:
                count = max(1, round(burst_s / one_s))
                return MatrixProduct(rows, [_time(product, a, b, count) / count for _ in range(bursts)])
            rows *= 2
    except tf.errors.ResourceExhaustedError:
        return None


def _time(product: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], a: tf.Tensor, b: tf.Tensor, count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        product(a, b)
    synchronize_devices()
    return time.perf_counter() - begin


class NotCounted(Exception):
    """A layer multiplies by weights in a way that is not known here."""


def operations_per_image(model: tf_keras.Model) -> int:
    """Return the multiplications and additions of one image in a training step of `model`, with direct convolution.

    A layer that multiplies by weights needs two operations, a product and a sum, for each weight and each position.
    Backward it needs as many for the gradient of its weights, if they are trained, and as many for the gradient of its
    input, if something below it is trained; the first layer needs none (Goodfellow et al. 2016, Deep Learning, 6.5.6;
    Kaplan et al. 2020, 2001.08361, 2.1: backward twice the forward pass). Normalisation, activations, pooling and the
    update are left out: a per cent or two. Raises NotCounted for an unknown layer.
    """
    return _operations(model, trained_below=False)


def _operations(model: tf_keras.Model, trained_below: bool) -> int:
    """Return the operations of `operations_per_image`; trained_below: whether something before the model is trained."""
    import tensorflow as tf
    import tf_keras

    trained: dict[int, bool] = {}  # whether a layer, or something below it, is trained
    total = 0
    for layer in model.layers:  # in the order in which they compute
        inputs = tf.nest.flatten([node.inbound_layers for node in layer.inbound_nodes])
        below = any(trained.get(id(input_layer), trained_below) for input_layer in inputs) if inputs else trained_below
        if isinstance(layer, tf_keras.Model):
            total += _operations(layer, below)
        else:
            total += 2 * products(layer) * (1 + bool(layer.trainable_weights) + below)
        trained[id(layer)] = bool(layer.trainable_weights) or below
    return total


def products(layer: tf_keras.layers.Layer) -> int:
    """Return the products of a weight and an input that a layer needs for an image, forward; 0 without a kernel.

    Raises NotCounted.
    """
    from tf_keras import layers

    # Not isinstance: a transposed convolution is one of Keras' convolutions.
    kind = type(layer)
    if kind is layers.SeparableConv2D:
        weights = layer.depthwise_kernel.shape.num_elements() + layer.pointwise_kernel.shape.num_elements()
        return math.prod(_output_size(layer)) * weights
    if kind is layers.DepthwiseConv2D:
        return math.prod(_output_size(layer)) * layer.depthwise_kernel.shape.num_elements()
    if kind is layers.Conv2D:  # with groups the kernel has the inputs of one group
        return math.prod(_output_size(layer)) * layer.kernel.shape.num_elements()
    if kind is layers.Dense:
        return math.prod(layer.output_shape[1:-1]) * layer.kernel.shape.num_elements()
    if any(len(weight.shape) > 1 for weight in layer.weights):
        raise NotCounted(f"layer {layer.name}: the operations of a {kind.__name__} are not known")
    return 0


def _output_size(layer: tf_keras.layers.Layer) -> tuple[int, int]:
    shape = layer.output_shape
    height, width = shape[2:4] if layer.data_format == "channels_first" else shape[1:3]
    return height, width
