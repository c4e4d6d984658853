"""A model with all that it is trained with."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from train.config.schema import RunConfig
from train.datasets import Data
from train.distribution.base import Distribution
from train.loop import step


class Learner:
    """Model, data, optimizer and compiled steps. Optimizer, step and share of the data depend on the ranks."""

    def __init__(self, config: RunConfig, distribution: Distribution, data: Data, model: tf_keras.Model) -> None:
        """Make what is missing."""
        self._config, self._distribution = config, distribution
        self.data, self.model = data, model
        self.evaluation_step = step.make_evaluation_step(model, distribution)
        self._build()

    def _build(self) -> None:
        config, distribution, data = self._config, self._distribution, self.data
        data.share_out(distribution.rank, distribution.size)
        steps_per_epoch = None if data.steps_per_epoch is None else data.steps_left(0)
        passes = config.distribution.backward_passes_per_step
        batches = distribution.size * config.towers * passes
        with distribution.scope():
            self.optimizer = step.make_optimizer(
                config.optimizer, batches, config.precision, self.model, steps_per_epoch
            )
        self.train_step = step.make_train_step(
            self.model, self.optimizer, distribution, config.optimizer.label_smoothing, passes
        )

    def variables(self) -> list[tf.Variable]:
        """Those of model and optimizer on this rank, in an order that is the same in every launch."""
        return self._distribution.local([*self.model.variables, *self.optimizer.variables()])

    def adapt(self) -> None:
        """Build again for as many ranks as there are now; the optimizer's state stays."""
        values = [tf.identity(variable) for variable in self.optimizer.variables()]
        self._build()
        for variable, value in zip(self.optimizer.variables(), values, strict=True):
            variable.assign(value)
