import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from train.input import reader


@pytest.mark.slow
def test_a_subset_is_the_same_everywhere_and_keeps_names_and_labels():
    images = np.arange(100, dtype=np.float32)[:, None, None, None]
    whole = reader.in_memory(images, np.arange(100) % 7, [f"image {number}" for number in range(100)])
    small = reader.subset(whole, 10, "training")
    assert small.samples == 10
    images, labels = zip(*(small.load(position, None) for position in range(10)), strict=True)
    numbers = [int(image[0, 0, 0]) for image in images]
    assert sorted(set(numbers)) == numbers
    assert [int(label) for label in labels] == [number % 7 for number in numbers]
    assert [small.name(position) for position in range(10)] == [f"image {number}" for number in numbers]
    assert small.notes == ["10 of 100 training samples, as dataset.training_samples says"]
    assert small.fingerprint == reader.subset(whole, 10, "training").fingerprint
    assert small.fingerprint not in (whole.fingerprint, reader.subset(whole, 11, "training").fingerprint)
    assert reader.subset(whole, None, "training") is reader.subset(whole, 100, "training") is whole


counts = st.integers(1, 200)
ranks = st.integers(1, 5)


def training(samples: int, batch: int, size: int, rank: int, seed: int = 0, epoch: int = 0):
    return reader.training_indices(reader.epoch_order(samples, seed, epoch), batch, size, rank)


def test_validation_of_five_samples_on_two_ranks_batch_of_two():
    # 5 samples, 4 a step of both ranks: 2 steps, 8 slots, 3 of them padding.
    parts = [reader.validation_indices(5, 2, 2, rank) for rank in range(2)]
    assert [indices.tolist() for indices, _ in parts] == [[0, 2, 4, 4], [1, 3, 4, 4]]
    assert [weights.tolist() for _, weights in parts] == [[1, 1, 1, 0], [1, 1, 0, 0]]


@given(counts, st.integers(1, 8), ranks, st.integers(0, 3))
@example(7, 2, 2, 0)  # one global batch of 4 fits into 7: three samples are left out
def test_no_sample_twice_in_an_epoch_and_equal_steps(samples, batch, size, seed):
    parts = [training(samples, batch, size, rank, seed) for rank in range(size)]
    steps = samples // (batch * size)
    assert {len(part) for part in parts} == {steps * batch}
    assert len(set(np.concatenate(parts))) == steps * batch * size


@given(counts, st.integers(1, 8), ranks)
def test_validation_counts_every_sample_once(samples, batch, size):
    totals = np.zeros(samples)
    for rank in range(size):
        indices, weights = reader.validation_indices(samples, batch, size, rank)
        assert len(indices) % batch == 0
        np.add.at(totals, indices, weights)
    assert (totals == 1).all()


def test_order_depends_on_seed_and_epoch_alone():
    orders = [training(50, 10, 1, 0, seed, epoch).tolist() for seed, epoch in ((1, 2), (1, 2), (1, 3), (2, 2))]
    assert orders[0] == orders[1]
    assert orders[0] not in orders[2:]


def test_all_ranks_together_read_the_same_samples_whatever_their_number():
    def global_batches(size: int) -> list[set[int]]:
        parts = [training(64, 8 // size, size, rank).reshape(8, -1) for rank in range(size)]
        return [set(np.concatenate([part[step] for part in parts])) for step in range(8)]

    assert global_batches(1) == global_batches(2) == global_batches(4)


def test_split_is_fixed_and_complete():
    training, validation = reader.split(1797, 0.2)
    assert len(validation) == 359  # round(1797 x 0.2 = 359.4)
    assert sorted(np.concatenate([training, validation])) == list(range(1797))
