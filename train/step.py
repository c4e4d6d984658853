"""One training step, one evaluation step: no clocks, no input, no output."""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf
import tf_keras

from train.distribution import Distribution
from train.schema import Optimizer as OptimizerSettings

TrainStep = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
EvaluationStep = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]

POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


def scaled_learning_rate(settings: OptimizerSettings, ranks: int) -> float:
    """The learning rate of a run: the configured one, times what the rule makes of the number of ranks."""
    factors = {"none": 1.0, "linear": float(ranks), "sqrt": math.sqrt(ranks)}
    return settings.learning_rate * factors[settings.learning_rate_scaling]


def make_optimizer(settings: OptimizerSettings, ranks: int, precision: str) -> tf_keras.optimizers.Optimizer:
    """The optimizer; fp16 gradients would underflow, so there the loss is scaled dynamically."""
    rate = scaled_learning_rate(settings, ranks)
    if settings.name == "sgd":
        optimizer = tf_keras.optimizers.SGD(rate, momentum=settings.momentum)
    else:
        optimizer = tf_keras.optimizers.Adam(rate, beta_1=settings.momentum)
    return tf_keras.mixed_precision.LossScaleOptimizer(optimizer) if precision == "fp16" else optimizer


def make_train_step(
    model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer, distribution: Distribution
) -> TrainStep:
    """A compiled step from images and labels to this rank's mean loss and its number of correct answers, both scalars.

    Applies the gradients of the whole job to `model`.
    """
    cross_entropy = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    scaled = isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer)

    # AutoGraph has nothing to convert here, and spends 3 s of every first step on Horovod's and Keras' own code.
    @tf.function(autograph=False)
    def train_step(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)  # (batch, classes), float32
            loss = cross_entropy(labels, logits)
            objective = tf.add_n([loss, *model.losses]) if model.losses else loss
            if scaled:
                objective = optimizer.get_scaled_loss(objective)
        gradients = distribution.tape(tape).gradient(objective, model.trainable_variables)
        if scaled:
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss, _correct(labels, logits, tf.ones_like(labels, tf.float32))

    return train_step


def make_evaluation_step(model: tf_keras.Model) -> EvaluationStep:
    """A compiled step from images, labels and weights to sums over the batch, shape (3,): loss, correct, weight."""
    cross_entropy = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    @tf.function(autograph=False)
    def evaluation_step(images: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        logits = model(images, training=False)  # (batch, classes), float32
        losses = cross_entropy(labels, logits) * weights  # (batch,)
        return tf.stack([tf.reduce_sum(losses), _correct(labels, logits, weights), tf.reduce_sum(weights)])

    return evaluation_step


def _correct(labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    hits = tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), tf.cast(labels, tf.int32))
    return tf.reduce_sum(tf.cast(hits, tf.float32) * weights)
