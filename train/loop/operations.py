"""How many operations a training step needs: counted from the layers of the model, forward and backward."""

from __future__ import annotations

import math

import tf_keras


class NotCounted(Exception):
    """A layer multiplies by weights in a way that is not known here."""


def per_image(model: tf_keras.Model) -> int:
    """Multiplications and additions of one image in one training step of `model`, with direct convolution.

    A layer that multiplies by weights needs two operations for each weight and each place that it is used at: a product
    and a sum. Backward it needs as many for the gradient of its weights, where they are trained, and as many for the
    gradient of its input, where something below it is trained; the first layer needs none (Goodfellow et al. 2016, Deep
    Learning, 6.5.6; Kaplan et al. 2020, 2001.08361, 2.1: backward twice the forward pass). Normalisation, activations,
    pooling and the update are left out: a per cent or two. Raises NotCounted for a layer that it does not know.
    """
    return _operations(model, trained_below=False)


def _operations(model: tf_keras.Model, trained_below: bool) -> int:
    """As `per_image`; trained_below: whether something before the model is trained."""
    trained: dict[int, bool] = {}  # whether a layer, or something below it, is
    total = 0
    for layer in model.layers:  # in the order in which they compute
        before = _before(layer)
        below = any(trained.get(id(one), trained_below) for one in before) if before else trained_below
        if isinstance(layer, tf_keras.Model):
            total += _operations(layer, below)
        else:
            total += 2 * products(layer) * (1 + bool(layer.trainable_weights) + below)
        trained[id(layer)] = bool(layer.trainable_weights) or below
    return total


def products(layer: tf_keras.layers.Layer) -> int:
    """Products of a weight and an input that a layer needs for one image, forward; 0 of one without a kernel.

    Raises NotCounted.
    """
    layers, kind = (
        tf_keras.layers,
        type(layer),
    )  # not isinstance: a transposed convolution is one of Keras' convolutions
    if kind is layers.SeparableConv2D:
        weights = layer.depthwise_kernel.shape.num_elements() + layer.pointwise_kernel.shape.num_elements()
        return math.prod(_places(layer)) * weights
    if kind is layers.DepthwiseConv2D:
        return math.prod(_places(layer)) * layer.depthwise_kernel.shape.num_elements()
    if kind is layers.Conv2D:  # of groups the kernel has the inputs of one alone
        return math.prod(_places(layer)) * layer.kernel.shape.num_elements()
    if kind is layers.Dense:
        return math.prod(layer.output_shape[1:-1]) * layer.kernel.shape.num_elements()
    if any(len(weight.shape) > 1 for weight in layer.weights):
        raise NotCounted(f"layer {layer.name}: the operations of a {kind.__name__} are not known")
    return 0


def _places(layer: tf_keras.layers.Layer) -> tuple[int, int]:
    """Height and width of what a convolution returns."""
    shape = layer.output_shape
    height, width = shape[2:4] if layer.data_format == "channels_first" else shape[1:3]
    return height, width


def _before(layer: tf_keras.layers.Layer) -> list[tf_keras.layers.Layer]:
    """The layers whose outputs a layer takes."""
    found = []
    for node in layer.inbound_nodes:
        inbound = node.inbound_layers
        found += inbound if isinstance(inbound, list) else [inbound]
    return found
