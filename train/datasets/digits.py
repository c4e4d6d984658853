"""The handwritten digits that scikit-learn ships: 1,797 grey images of 8 x 8, ten classes. Nothing to download.

Source: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998: its
test part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from train import sharding
from train.config import Config, ConfigError

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

_SPLIT_SEED = 0  # fixed: results are comparable only on the same validation samples


class Digits:
    """The part of the digits that one rank reads, upscaled to the model's input size as it goes."""

    def __init__(self, config: Config, rank: int) -> None:
        """Load and split. Raises ConfigError where a global batch is larger than the training part."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        self._pixels = (pixels.reshape(-1, 8, 8, 1) / 16.0).astype("float32")  # (samples, 8, 8, 1), 0 to 1
        self._labels = labels.astype("int32")
        self._training, self._validation = sharding.split(len(labels), config.dataset.validation_fraction, _SPLIT_SEED)
        self._config, self._rank = config, rank
        self.batch_per_rank = config.batch_per_rank or 0
        global_batch = config.global_batch or 0
        if global_batch > len(self._training):
            raise ConfigError(
                f"global_batch={global_batch}: digits has {len(self._training)} training samples; allowed is up to that"
            )
        self.steps_per_epoch = len(self._training) // global_batch
        self.dropped_samples = len(self._training) - self.steps_per_epoch * global_batch

    def _batches(self, indices: np.ndarray, *more: np.ndarray) -> Iterator[tuple[tf.Tensor, ...]]:
        import tensorflow as tf

        size, channels = self._config.model.image_size, self._config.dataset.channels

        def enlarge(images: tf.Tensor, *others: tf.Tensor) -> tuple[tf.Tensor, ...]:
            images = tf.image.resize(images, (size, size))  # (batch, size, size, 1)
            return tf.repeat(images, channels, axis=-1), *others

        arrays = (self._pixels[indices], self._labels[indices], *more)
        return iter(tf.data.Dataset.from_tensor_slices(arrays).batch(self.batch_per_rank).map(enlarge).prefetch(2))

    def training(self, epoch: int) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """The batches of this rank in this epoch."""
        config = self._config
        chosen = sharding.training_indices(
            len(self._training), self.batch_per_rank * config.ranks, config.ranks, self._rank, config.seed, epoch
        )
        return self._batches(self._training[chosen])

    def validation(self) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """The batches of this rank over the validation part, each with the weight of its samples."""
        chosen, weights = sharding.validation_indices(
            len(self._validation), self.batch_per_rank, self._config.ranks, self._rank
        )
        return self._batches(self._validation[chosen], weights)


DATASETS = {"digits": Digits}
