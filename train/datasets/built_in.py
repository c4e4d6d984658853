"""Datasets without anything to download: random images, and the handwritten digits that scikit-learn ships."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from train.config.run_config import RunConfig
from train.input import reader

if TYPE_CHECKING:
    import tensorflow as tf


class Synthetic:
    """Random images, generated once on the device: one batch, repeated. The training step without input."""

    steps_per_epoch = 0
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

    def training(self, epoch: int) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """Return the same batch, endlessly."""
        return itertools.repeat((self._images, self._labels))

    def validation(self) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Return nothing: random labels cannot be learnt."""
        return iter(())

    def share_out(self, rank: int, ranks: int) -> None:
        """Nothing to do: every rank generates its own images."""


def find_digits(config: RunConfig) -> reader.Parts:
    """Return the two parts of the handwritten digits: 1,797 grey images of 8 x 8, ten classes.

    Source: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998:
    the test part.
    """
    pixels, labels = read_digits()
    images = (pixels.reshape(-1, 8, 8, 1) / 16.0 * 255.0).astype("float32").repeat(config.dataset.channels, axis=-1)
    training, validation = reader.split(len(labels), config.dataset.validation_fraction)
    return reader.Parts(
        reader.in_memory(images[training], labels[training], [f"digit {number}" for number in training]),
        reader.in_memory(images[validation], labels[validation], [f"digit {number}" for number in validation]),
    )


def read_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return pixels (1797, 64), from 0 to 16, and labels (1797,): what scikit-learn's `load_digits` returns.

    Its file is read directly: importing scikit-learn, and SciPy with it, takes longer than everything else here.
    """
    package = importlib.util.find_spec("sklearn")
    assert package
    assert package.origin
    rows = np.loadtxt(Path(package.origin).with_name("datasets") / "data/digits.csv.gz", delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(int)


DATASETS = {"digits": reader.opener(find_digits), "synthetic": Synthetic}
