"""The answers of the trained model on the validation part: a confusion matrix, and a few examples.

Raw counts and small pictures, in files beside the record, which names each with its SHA-256.
"""

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # of the types that TensorFlow gives
CONFUSION_NAME = "confusion.csv"
EXAMPLES_NAME = "examples.csv"
_EXAMPLES = 8
_SIZE = 64  # pixels: examples are for people, not for training


class Example(NamedTuple):
    """One validation image, its label and the model's answer with the probability that it gave."""

    image: Array  # (height, width, channels), float32, 0 to 1
    label: int
    predicted: int
    probability: float


@dataclass
class Predictions:
    """The answers on one rank; `confusion` (label, answer) is summed over ranks afterwards."""

    confusion: Array  # (classes, classes), int64
    class_names: Sequence[str] = ()  # empty if classes have only numbers
    examples: list[Example] = field(default_factory=list)
    _batches: int = 0
    _stride: int = 1

    @classmethod
    def empty(cls, classes: int, class_names: Sequence[str] = ()) -> Self:
        """Return predictions without any answer yet."""
        return cls(np.zeros((classes, classes), np.int64), class_names)

    def add(self, images: Array, labels: Array, weights: Array, predicted: Array, probabilities: Array) -> None:
        """Count one batch, each of its arrays (batch, ...); samples of weight 0 are padding and do not count."""
        valid = weights > 0
        np.add.at(self.confusion, (labels[valid], predicted[valid]), 1)
        # The first of every batch; if these become too many, of every second, every fourth, ... batch.
        if self._batches % self._stride == 0 and valid[0]:
            image = images[0].copy()  # a view would keep the whole batch
            self.examples.append(Example(image, int(labels[0]), int(predicted[0]), float(probabilities[0])))
            if len(self.examples) > 2 * _EXAMPLES:
                self.examples = self.examples[::2]
                self._stride *= 2
        self._batches += 1


def _small_png(image: Array) -> bytes:
    import tensorflow as tf

    size = min(_SIZE, image.shape[0])
    small = tf.image.resize(image, (size, size), antialias=True)
    png: bytes = tf.io.encode_png(tf.cast(tf.clip_by_value(small * 255.0 + 0.5, 0, 255), tf.uint8)).numpy()
    return png


def _table(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def write_predictions(folder: Path, predictions: Predictions) -> dict[str, str]:
    """Write the files into `folder`; return the SHA-256 of each by its name, none without answers. Raises OSError."""

    def name(label: int) -> object:
        return predictions.class_names[label] if predictions.class_names else label

    confusion = predictions.confusion
    if not confusion.any():
        return {}
    counts = [
        (name(label), name(answer), int(confusion[label, answer])) for label, answer in np.argwhere(confusion).tolist()
    ]
    files = {CONFUSION_NAME: _table([("label", "predicted", "count"), *counts])}
    examples = predictions.examples[:: max(1, len(predictions.examples) // _EXAMPLES)][:_EXAMPLES]
    rows: list[tuple[object, ...]] = [("image", "label", "predicted", "probability")]
    for number, example in enumerate(examples):
        image = f"example-{number}.png"
        files[image] = _small_png(example.image)
        rows.append((image, name(example.label), name(example.predicted), f"{example.probability:.4f}"))
    files[EXAMPLES_NAME] = _table(rows)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a file of `write`, by the names of their columns. Raises OSError."""
    with path.open(newline="") as file:
        yield from csv.DictReader(file)
