"""Evaluation on the validation part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import tf_keras

from train.distribution.base import Distribution
from train.loop.learner import Learner
from train.record.predictions import Predictions


@dataclass(frozen=True)
class Validation:
    """Means over the whole validation part: loss, accuracy, absolute error of the expected class."""

    loss: float
    accuracy: float
    mean_absolute_error: float


def moving_statistics(model: tf_keras.Model) -> list[tf.Variable]:
    """The variables that training updates without a gradient, without those of layers that are not trained."""
    layers = [layer for layer in model.submodules if isinstance(layer, tf_keras.layers.Layer) and layer.trainable]
    single = [layer for layer in layers if not isinstance(layer, tf_keras.Model)]
    return [variable for layer in single for variable in layer.non_trainable_variables if variable.dtype.is_floating]


def evaluate(learner: Learner, distribution: Distribution, predictions: Predictions | None = None) -> Validation | None:
    """Means over the whole validation part, exact: every sample counts once. None where there is none.

    Moving statistics (batch normalisation) differ between ranks after training steps; they are averaged first, so that
    all ranks evaluate the same model.

    Args:
        learner: with the model and the data.
        distribution: the ranks.
        predictions: gets the model's answers: the counts of all ranks, the examples of this one.
    """
    distribution.average(moving_statistics(learner.model))
    sums = np.zeros(4, np.float64)
    for images, labels, weights in learner.data.validation():
        batch, answers, probabilities = learner.evaluation_step(images, labels, weights)
        sums += batch.numpy()
        if predictions:
            predictions.add(*(tensor.numpy() for tensor in (images, labels, weights, answers, probabilities)))
    loss, correct, weight, error = distribution.sum(sums)
    if predictions:
        predictions.confusion = distribution.sum(predictions.confusion.astype(np.float64)).astype(np.int64)
    return Validation(float(loss / weight), float(correct / weight), float(error / weight)) if weight else None
