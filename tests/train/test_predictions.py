import hashlib

import numpy as np
import pytest

from train import predictions
from train.predictions import Predictions

PICTURES = np.zeros((3, 4, 4, 1), np.float32)


def batch(labels, answers, weights=(1, 1, 1)):
    return PICTURES, np.array(labels), np.array(weights, np.float32), np.array(answers), np.full(3, 0.75, np.float32)


def test_padding_is_not_counted():
    result = Predictions.empty(3)
    result.add(*batch([0, 1, 2], [0, 2, 2], weights=(1, 1, 0)))
    assert result.confusion.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_examples_are_few_and_from_all_over_the_validation_part():
    result = Predictions.empty(100)
    for number in range(64):
        result.add(*batch([number, 0, 0], [number, 0, 0]))
    labels = [example.label for example in result.examples]
    assert 8 <= len(labels) <= 16
    assert labels == sorted(labels)
    assert labels[0] == 0
    assert labels[-1] >= 48


@pytest.mark.slow  # TensorFlow writes the PNG
def test_the_files_hold_what_was_counted_and_are_named_with_their_digests(tmp_path):
    result = Predictions.empty(2, ("cat", "dog"))
    result.add(*batch([0, 0, 1], [0, 1, 1]))
    written = predictions.write_predictions(tmp_path, result)
    assert sorted(written) == ["confusion.csv", "example-0.png", "examples.csv"]
    for name, digest in written.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest
    assert list(predictions.read_rows(tmp_path / "confusion.csv")) == [
        {"label": "cat", "predicted": "cat", "count": "1"},
        {"label": "cat", "predicted": "dog", "count": "1"},
        {"label": "dog", "predicted": "dog", "count": "1"},
    ]
    [example] = predictions.read_rows(tmp_path / "examples.csv")
    assert example == {"image": "example-0.png", "label": "cat", "predicted": "cat", "probability": "0.7500"}


def test_no_prediction_leaves_no_file(tmp_path):
    assert predictions.write_predictions(tmp_path, Predictions.empty(2)) == {}
    assert list(tmp_path.iterdir()) == []
