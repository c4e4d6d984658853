"""Random images, generated once on the device: the training step without input."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from train.config.schema import RunConfig

if TYPE_CHECKING:
    import tensorflow as tf


class Synthetic:
    """One batch, repeated."""

    steps_per_epoch = None
    dropped_samples = 0
    fingerprint = ""
    class_names: Sequence[str] = ()
    notes: Sequence[str] = ()

    def __init__(self, config: RunConfig, rank: int) -> None:
        """Draw the batch of this rank."""
        import tensorflow as tf

        size, batch = config.model.image_size, config.step_batch
        self.step_batch = batch
        random = tf.random.Generator.from_seed(config.seed + rank)
        self._images = random.normal((batch, size, size, config.dataset.channels))
        self._labels = random.uniform((batch,), 0, config.dataset.classes, dtype=tf.int32)

    def training(self, epoch: int, used: int = 0) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """Return the same batch, endlessly."""
        return itertools.repeat((self._images, self._labels))

    def validation(self) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Return nothing: random labels cannot be learnt."""
        return iter(())

    def steps_left(self, used: int) -> int:
        """Raise NotImplementedError: synthetic data has no epochs, which the configuration checks."""
        raise NotImplementedError

    def share_out(self, rank: int, ranks: int) -> None:
        """Nothing to do: every rank generates its own images."""


DATASETS = {"synthetic": Synthetic}
