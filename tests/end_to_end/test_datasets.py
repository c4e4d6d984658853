"""Ranks that train on image files, some of them damaged. Damage that ends a run: tests/train/datasets."""

import sys

import pytest

from tests.helpers import small_sets
from tests.helpers.kit import QUICK, records, succeed

pytestmark = pytest.mark.end_to_end


def test_two_ranks_share_an_epoch_and_damage_is_in_the_record(tmp_path):
    """36 training images and 12 test images, of which one is empty, and only decoding finds the damage of another."""
    small_sets.fruit(fruit := tmp_path / "fruit")
    (fruit / "test/freshapples/0.jpg").write_bytes(b"")
    damaged = fruit / "test/rottenbanana/1.jpg"
    damaged.write_bytes(damaged.read_bytes()[:3] + b"\xff\xd9")  # the first and the last bytes of a JPEG
    data = ("dataset=fruit", f"dataset.data_dir={fruit}", "measure.epochs=2", "batch_per_rank=4")
    train = (sys.executable, "-m", "train", *QUICK, *data, "nodes=2", f"results={tmp_path / 'results'}")
    succeed("horovodrun", "-np", "2", "--gloo", *train)
    (record,) = records(tmp_path / "results")
    assert (record.status, len(record.ranks)) == ("complete", 2)
    assert [epoch.steps for epoch in record.epochs] == [4, 4]

    # One of twelve test images was left out before, and one has weight 0: accuracies are tenths.
    tenths = record.epochs[-1].validation_accuracy * 10
    assert tenths == pytest.approx(round(tenths))
    left_out, before, in_training = record.notes
    assert left_out == "4 samples an epoch left out: less than one global batch"
    assert before == f"{fruit}/test: 1 of 12 validation images damaged and left out: freshapples/0.jpg (empty)"
    assert in_training.startswith("rottenbanana/1.jpg cannot be decoded (")
    assert in_training.endswith("in validation another sample of its batch replaced it, with weight 0")
