"""The handwritten digits that scikit-learn ships: 1,797 grey images of 8 x 8, ten classes. Nothing to download.

Source: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998: its
test part.
"""

import importlib.util
from pathlib import Path

import numpy as np

from train.config.schema import RunConfig
from train.input import reader


def find(config: RunConfig) -> reader.Parts:
    """Return the two parts of the digits."""
    pixels, labels = read()
    images = (pixels.reshape(-1, 8, 8, 1) / 16.0 * 255.0).astype("float32").repeat(config.dataset.channels, axis=-1)
    training, validation = reader.split(len(labels), config.dataset.validation_fraction)
    return reader.Parts(
        reader.in_memory(images[training], labels[training], [f"digit {number}" for number in training]),
        reader.in_memory(images[validation], labels[validation], [f"digit {number}" for number in validation]),
    )


def read() -> tuple[np.ndarray, np.ndarray]:
    """Return pixels (1797, 64), from 0 to 16, and labels (1797,): what scikit-learn's `load_digits` returns.

    Its file is read without it: importing scikit-learn, and SciPy with it, takes each rank longer than all else here.
    """
    package = importlib.util.find_spec("sklearn")
    assert package
    assert package.origin
    rows = np.loadtxt(Path(package.origin).with_name("datasets") / "data/digits.csv.gz", delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(int)


DATASETS = {"digits": reader.opener(find)}
