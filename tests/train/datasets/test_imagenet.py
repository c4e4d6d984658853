import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.helpers.small_sets import example, write_records
from train.config.checks import ConfigError
from train.datasets import imagenet

pytestmark = pytest.mark.slow

CLASSES = 7
FIRST, SECOND = "train-00000-of-00003", "train-00001-of-00003"  # with records 0 to 2, and 3 to 11


def sample(part: int, number: int) -> tuple[tuple[int, int, int], int]:
    """A colour that is unique to the sample, and its label, which counts from 0."""
    return (10 * number + 10, 100 * part + 50, 130), number % CLASSES


def record(part: int, number: int) -> bytes:
    colour, label = sample(part, number)
    return example(colour, label + 1)


@pytest.fixture
def shards(tmp_path) -> Path:
    """20 training images in three files of unequal length, 5 validation images in two."""
    for part, name, ends in ((0, "train", (0, 3, 12, 20)), (1, "validation", (0, 4, 5))):
        for shard, (begin, end) in enumerate(pairwise(ends)):
            path = tmp_path / f"{name}-{shard:05}-of-{len(ends) - 1:05}"
            write_records(path, [record(part, number) for number in range(begin, end)])
    return tmp_path


@pytest.fixture
def open_small(open_dataset):
    return lambda folder, *overrides, **more: open_dataset(
        "imagenet", folder, f"dataset.classes={CLASSES}", *overrides, **more
    )


def test_every_record_once_with_its_label_whatever_the_ranks(shards, open_small, check_each_once):
    readers = open_small(shards, "nodes=2", "batch_per_rank=3", augmented=True)
    training, validation = ({sample(part, number) for number in range(count)} for part, count in ((0, 20), (1, 5)))
    check_each_once(readers, training, validation, epoch=1)


def test_files_in_folders_of_their_part_are_found(shards, open_small):
    for part in ("train", "validation"):
        (shards / "tfrecords" / part).mkdir(parents=True)
        for path in shards.glob(f"{part}-*"):
            path.rename(shards / "tfrecords" / part / path.name)
    (reader,) = open_small(shards)
    assert (reader.parts.training.samples, reader.parts.validation.samples) == (20, 5)


def test_a_file_cut_short_is_named_with_what_it_still_has(shards, open_damaged, training_samples):
    path = shards / SECOND
    begins, _ = imagenet.offsets(path)
    path.write_bytes(path.read_bytes()[: begins[5] + 100])
    reader = open_damaged("imagenet", shards, f"dataset.classes={CLASSES}", "batch_per_rank=1")
    assert reader.notes == [f"1 train files cut short: {SECOND} (after 5 records, 100 bytes)"]
    assert set(training_samples([reader])) == {sample(0, number) for number in (*range(8), *range(12, 20))}


def test_missing_files_are_named(shards, open_small):
    (shards / SECOND).unlink()
    for path in shards.glob("validation-*"):
        path.unlink()
    (reader,) = open_small(shards, "batch_per_rank=1")
    assert reader.notes == [f"1 of 3 train files missing: {SECOND}", f"{shards}: no validation files"]
    assert reader.steps_per_epoch == 11
    assert list(reader.validation()) == []


def test_records_that_cannot_be_read_are_named_when_they_are_read(shards, open_small, training_samples):
    path = shards / FIRST
    write_records(path, [record(0, 0), record(0, 1), example((20, 50, 130), CLASSES + 1), b"\xffhello"])
    content = bytearray(path.read_bytes())
    content[imagenet.offsets(path)[0][1] + 200] ^= 0xFF
    path.write_bytes(bytes(content))
    (reader,) = open_small(shards, "batch_per_rank=21")
    samples = training_samples([reader])
    assert len(samples) == 21
    assert set(samples) == {sample(0, number) for number in (0, *range(3, 20))}
    causes = ["corrupted record at ", "label out of range", "not the expected content"]
    for number, (note, why) in enumerate(zip(sorted(reader.notes), causes, strict=True), 1):
        assert note.startswith(f"{FIRST}, record {number} cannot be decoded (")
        assert why in note


def other_example() -> bytes:
    import tensorflow as tf

    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x"]))
    return tf.train.Example(features=tf.train.Features(feature={"jpeg": feature})).SerializeToString()


@pytest.mark.parametrize(
    ("name", "first", "problem"),
    [
        (FIRST, lambda: example((10, 50, 130), 0), f"{FIRST}: its first record has the label 0; expected 1 to 7"),
        (FIRST, other_example, r"its first record has jpeg; expected image/encoded \(bytes\) and image/class/label"),
        (FIRST, lambda: b"\xffhello", "its first record has no tf.train.Example; expected image/encoded"),
        ("train-00000-of-00008", lambda: record(0, 0), r"train files of more than one conversion: of \[3, 8\] files"),
    ],
)
def test_files_of_another_conversion_stop_before_training(shards, open_small, name, first, problem):
    write_records(shards / name, [first()])
    with pytest.raises(ConfigError, match=problem):
        open_small(shards)


def test_a_crop_of_training_is_another_each_epoch_and_validation_the_middle(shards, open_small):
    import tensorflow as tf

    left_half = Image.new("RGB", (200, 100), (0, 0, 0))
    left_half.paste((255, 255, 255), (0, 0, 50, 100))
    buffer = io.BytesIO()
    left_half.save(buffer, "JPEG", quality=95)
    half = tf.train.Example.FromString(record(0, 0))
    half.features.feature["image/encoded"].bytes_list.value[0] = buffer.getvalue()
    for path in shards.iterdir():
        write_records(path, [half.SerializeToString()])
    (reader,) = open_small(shards, "batch_per_rank=3", augmented=True)
    whites = [float(np.mean(images)) for epoch in range(2) for images, _ in reader.training(epoch)]
    assert len(set(whites)) == 2
    images, _, weights = next(reader.validation())
    # The middle 88 of 200 columns begin at 56: white ends at 50, so it has none.
    assert float(np.max(images[0])) < 0.05
    assert weights.numpy().tolist() == [1, 1, 0]
