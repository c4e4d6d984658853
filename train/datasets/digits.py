"""The handwritten digits that scikit-learn ships: 1,797 grey images of 8 x 8, ten classes. Nothing to download.

Source: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998: its
test part.
"""

from __future__ import annotations

from train.config.schema import Config
from train.input import reader, sharding

_SPLIT_SEED = 0  # fixed: results are comparable only on the same validation samples


def open_digits(config: Config, rank: int) -> reader.Reader:
    """The reader of one rank. Raises ConfigError if a global batch is larger than the training part."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels.reshape(-1, 8, 8, 1) / 16.0 * 255.0).astype("float32").repeat(config.dataset.channels, axis=-1)
    training, validation = sharding.split(len(labels), config.dataset.validation_fraction, _SPLIT_SEED)
    parts = reader.Parts(
        reader.in_memory(images[training], labels[training], [f"digit {number}" for number in training]),
        reader.in_memory(images[validation], labels[validation], [f"digit {number}" for number in validation]),
    )
    return reader.Reader(config, rank, parts)


DATASETS = {"digits": open_digits}
