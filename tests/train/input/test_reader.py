import numpy as np
import pytest

from train.input import reader

pytestmark = pytest.mark.slow


def test_a_subset_is_the_same_everywhere_and_keeps_names_and_labels():
    images = np.arange(100, dtype=np.float32)[:, None, None, None]
    whole = reader.in_memory(images, np.arange(100) % 7, [f"image {number}" for number in range(100)])
    small = reader.subset(whole, 10, "training")
    assert small.samples == 10
    loaded = [small.load(position, None) for position in range(10)]
    numbers = [int(image[0, 0, 0]) for image, _ in loaded]
    assert sorted(set(numbers)) == numbers
    assert [int(label) for _, label in loaded] == [number % 7 for number in numbers]
    assert [small.name(position) for position in range(10)] == [f"image {number}" for number in numbers]
    assert small.notes == ["10 of 100 training samples, as dataset.training_samples says"]
    assert small.fingerprint == reader.subset(whole, 10, "training").fingerprint
    assert small.fingerprint not in (whole.fingerprint, reader.subset(whole, 11, "training").fingerprint)


@pytest.mark.parametrize("samples", [None, 5, 6])
def test_a_part_that_has_no_more_stays_whole(samples):
    whole = reader.in_memory(np.zeros((5, 2, 2, 1), np.float32), np.zeros(5), ["a"] * 5)
    assert reader.subset(whole, samples, "validation") is whole
