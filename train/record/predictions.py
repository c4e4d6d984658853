"""What the trained model answered on the validation part: how often which class for which, and a few examples to see.

Raw counts and small pictures, in files beside the record, which names each with its SHA-256.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

CONFUSION_NAME = "confusion.csv"
EXAMPLES_NAME = "examples.csv"
_EXAMPLES = 8  # kept
_SIZE = 64  # pixels: examples are to be looked at, not to be trained on


class Example(NamedTuple):
    """One validation image, its label and the model's answer with the probability that it gave."""

    image: np.ndarray  # (height, width, channels), float32, 0 to 1
    label: int
    predicted: int
    probability: float


@dataclass
class Predictions:
    """What one rank saw the model answer; `confusion` (label, answer) is summed over ranks afterwards."""

    confusion: np.ndarray  # (classes, classes), int64
    class_names: Sequence[str] = ()  # empty where classes have no other name than their number
    examples: list[Example] = field(default_factory=list)
    _batches: int = 0
    _stride: int = 1

    @classmethod
    def of(cls, classes: int, class_names: Sequence[str] = ()) -> Predictions:
        """Nothing seen yet."""
        return cls(np.zeros((classes, classes), np.int64), class_names)

    def add(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray,
        predicted: np.ndarray,
        probabilities: np.ndarray,
    ) -> None:
        """Count one batch, each of its arrays (batch, ...); samples of weight 0 are padding and do not count."""
        counted = weights > 0
        np.add.at(self.confusion, (labels[counted], predicted[counted]), 1)
        # The first of every batch; where these become too many, of every second, every fourth, ... batch.
        if self._batches % self._stride == 0 and counted[0]:
            image = images[0].copy()  # a view would keep the whole batch
            self.examples.append(Example(image, int(labels[0]), int(predicted[0]), float(probabilities[0])))
            if len(self.examples) > 2 * _EXAMPLES:
                self.examples = self.examples[::2]
                self._stride *= 2
        self._batches += 1


def _small_png(image: np.ndarray) -> bytes:
    import tensorflow as tf

    size = min(_SIZE, image.shape[0])
    small = tf.image.resize(image, (size, size), antialias=True)
    return tf.io.encode_png(tf.cast(tf.clip_by_value(small * 255.0 + 0.5, 0, 255), tf.uint8)).numpy()


def _table(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def write(folder: Path, predictions: Predictions) -> dict[str, str]:
    """Leave the files in `folder`: the SHA-256 of each by its name; none where nothing was seen. Raises OSError."""

    def name(label: int) -> object:
        return predictions.class_names[label] if predictions.class_names else label

    seen = predictions.confusion
    if not seen.any():
        return {}
    counts = [(name(label), name(answer), int(seen[label, answer])) for label, answer in np.argwhere(seen).tolist()]
    files = {CONFUSION_NAME: _table([("label", "predicted", "count"), *counts])}
    examples = predictions.examples[:: max(1, len(predictions.examples) // _EXAMPLES)][:_EXAMPLES]
    listed: list[tuple[object, ...]] = [("image", "label", "predicted", "probability")]
    for number, example in enumerate(examples):
        image = f"example-{number}.png"
        files[image] = _small_png(example.image)
        listed.append((image, name(example.label), name(example.predicted), f"{example.probability:.4f}"))
    files[EXAMPLES_NAME] = _table(listed)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}


def read(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a file that `write` left, by the names of their columns. Raises OSError."""
    with path.open(newline="") as file:
        yield from csv.DictReader(file)
