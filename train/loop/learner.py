"""A model with its data, optimizer and compiled steps, and its evaluation."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import tf_keras

from train.config.run_config import RunConfig
from train.datasets import Data
from train.distribution import Distribution
from train.loop import step
from train.predictions import Predictions


@dataclass(frozen=True)
class Validation:
    """Means over the whole validation part: loss, accuracy, absolute error of the expected class."""

    loss: float
    accuracy: float
    mean_absolute_error: float


def moving_statistics(model: tf_keras.Model) -> list[tf.Variable]:
    """Return the variables that training updates without a gradient, without those of layers that are not trained."""
    layers = [layer for layer in model.submodules if isinstance(layer, tf_keras.layers.Layer) and layer.trainable]
    single = [layer for layer in layers if not isinstance(layer, tf_keras.Model)]
    return [variable for layer in single for variable in layer.non_trainable_variables if variable.dtype.is_floating]


class Learner:
    """Model, data, optimizer and compiled steps. Optimizer, step and share of the data depend on the ranks."""

    def __init__(self, config: RunConfig, distribution: Distribution, data: Data, model: tf_keras.Model) -> None:
        """Make optimizer and steps."""
        self._distribution = distribution
        self.data, self.model = data, model
        self.evaluation_step = step.make_evaluation_step(model, distribution)
        passes = config.distribution.backward_passes_per_step
        batches = distribution.size * config.towers * passes
        with distribution.scope():
            self.optimizer = step.make_optimizer(
                config.optimizer, batches, config.precision, self.model, data.steps_per_epoch
            )
        smoothing = config.optimizer.label_smoothing
        [self.train_step] = step.make_train_steps(self.model, self.optimizer, [distribution], smoothing, passes)

    def variables(self) -> list[tf.Variable]:
        """Return the variables of model and optimizer on this rank, in an order that is the same in every launch."""
        return self._distribution.local([*self.model.variables, *self.optimizer.variables()])

    def evaluate(self, predictions: Predictions | None = None) -> Validation | None:
        """Return means over the whole validation part, exact: every sample counts once. None if there is none.

        Moving statistics (batch normalisation) differ between ranks after training steps; they are averaged first, so
        that all ranks evaluate the same model.

        predictions: takes the model's answers: the counts of all ranks, the examples of this rank.
        """
        self._distribution.average(moving_statistics(self.model))
        sums = np.zeros(4, np.float64)
        for images, labels, weights in self.data.validation():
            batch, answers, probabilities = self.evaluation_step(images, labels, weights)
            sums += batch.numpy()
            if predictions:
                predictions.add(*(tensor.numpy() for tensor in (images, labels, weights, answers, probabilities)))
        loss, correct, weight, error = self._distribution.sum(sums)
        if predictions:
            confusion = self._distribution.sum(predictions.confusion.astype(np.float64))
            predictions.confusion = confusion.astype(np.int64)
        return Validation(float(loss / weight), float(correct / weight), float(error / weight)) if weight else None
