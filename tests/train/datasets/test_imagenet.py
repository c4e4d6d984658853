import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.helpers.small_sets import example, write_records
from train.config.checks import ConfigError
from train.datasets import imagenet

pytestmark = pytest.mark.slow

CLASSES = 7


def sample(part: int, number: int) -> tuple[tuple[int, int, int], int]:
    """A colour that tells the sample, and its label, from 1."""
    return (10 * number + 10, 100 * part + 50, 128), number % CLASSES + 1


@pytest.fixture
def shards(tmp_path) -> Path:
    """20 training images in three files of unequal length, 5 validation images in two."""
    training = [example(*sample(0, number)) for number in range(20)]
    for place, (begin, end) in enumerate(((0, 3), (3, 12), (12, 20))):
        write_records(tmp_path / f"train-{place:05}-of-00003", training[begin:end])
    validation = [example(*sample(1, number)) for number in range(5)]
    write_records(tmp_path / "validation-00000-of-00002", validation[:4])
    write_records(tmp_path / "validation-00001-of-00002", validation[4:])
    return tmp_path


@pytest.fixture
def small(configure):
    return lambda folder, *overrides, **more: configure(
        "imagenet", folder, f"dataset.classes={CLASSES}", *overrides, **more
    )


def number_of(colour: tuple[int, int, int]) -> int:
    return round(colour[0] / 10) - 1


@pytest.mark.parametrize("augmented", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_record_once_with_its_label_from_0_whatever_the_ranks(shards, ranks, augmented, small, readers, seen):
    opened = readers(small(shards, f"nodes={ranks}", "batch_per_rank=3", augmented=augmented))
    trained = [seen(reader.training(1)) for reader in opened]
    numbers = [number_of(colour) for part in trained for colour in part.colours]
    assert len(set(numbers)) == len(numbers) == 20 // (3 * ranks) * 3 * ranks
    assert set(numbers) <= set(range(20))
    assert all(colour[1] < 100 for part in trained for colour in part.colours)
    assert [label for part in trained for label in part.labels] == [number % CLASSES for number in numbers]
    counted = Counter()
    for part in (seen(reader.validation()) for reader in opened):
        assert all(colour[1] > 100 for colour in part.colours)
        for colour, label, weight in zip(part.colours, part.labels, part.weights, strict=True):
            assert label == number_of(colour) % CLASSES
            counted[number_of(colour)] += weight
    assert counted == dict.fromkeys(range(5), 1.0)


def test_files_in_folders_of_their_part_are_found(shards, small, readers):
    for part in ("train", "validation"):
        (shards / "tfrecords" / part).mkdir(parents=True)
        for path in shards.glob(f"{part}-*"):
            path.rename(shards / "tfrecords" / part / path.name)
    (reader,) = readers(small(shards, "nodes=1", "batch_per_rank=1"))
    assert (reader.steps_per_epoch, reader.parts.validation.samples) == (20, 5)


def test_offsets_by_hand(tmp_path):
    write_records(tmp_path / "x", [b"abc", b"", b"12345678"])
    begins, rest = imagenet.offsets(tmp_path / "x")
    assert begins.tolist() == [0, 19, 35]  # each 16 bytes beside its content
    assert rest == 0


def test_a_file_cut_short_is_named_with_what_it_still_has(shards, small, readers, seen):
    path = shards / "train-00001-of-00003"
    begins, _ = imagenet.offsets(path)
    path.write_bytes(path.read_bytes()[: begins[5] + 100])
    (reader,) = readers(small(shards, "nodes=1", "batch_per_rank=1"))
    assert reader.notes == ["1 train files cut short: train-00001-of-00003 (after 5 records, 100 bytes)"]
    assert {number_of(colour) for colour in seen(reader.training(0)).colours} == {*range(8), *range(12, 20)}
    with pytest.raises(ConfigError, match=r"1 train files cut short: train-00001-of-00003 .*on_damaged=skip"):
        readers(small(shards, "nodes=1", "dataset.on_damaged=error"))


def test_missing_files_are_named(shards, small, readers):
    (shards / "train-00001-of-00003").unlink()
    for path in shards.glob("validation-*"):
        path.unlink()
    (reader,) = readers(small(shards, "nodes=1", "batch_per_rank=1"))
    assert reader.notes == ["1 of 3 train files missing: train-00001-of-00003", f"{shards}: no validation files"]
    assert reader.steps_per_epoch == 11
    assert list(reader.validation()) == []


def test_a_record_that_does_not_match_its_checksum_is_named_when_it_comes(shards, small, readers, seen):
    path = shards / "train-00002-of-00003"
    begins, _ = imagenet.offsets(path)
    content = bytearray(path.read_bytes())
    content[begins[4] + 200] ^= 0xFF
    path.write_bytes(bytes(content))
    (reader,) = readers(small(shards, "nodes=1", "batch_per_rank=4"))
    numbers = [number_of(colour) for colour in seen(reader.training(0)).colours]
    assert len(numbers) == 20
    assert set(numbers) == set(range(20)) - {16}
    (note,) = reader.notes
    assert note.startswith("train-00002-of-00003, record 4 cannot be decoded (corrupted record at ")


def test_a_label_out_of_range_stops_before_training_where_it_is_a_file_s_first(shards, small, readers):
    write_records(shards / "train-00000-of-00003", [example((10, 50, 128), 0)])
    with pytest.raises(ConfigError, match=r"train-00000-of-00003: its first record has the label 0; expected 1 to 7"):
        readers(small(shards, "nodes=1"))


def test_a_label_out_of_range_further_in_is_named_when_it_comes(shards, small, readers, seen):
    write_records(
        shards / "train-00000-of-00003", [example(*sample(0, 0)), example((20, 50, 128), 8), example(*sample(0, 2))]
    )
    (reader,) = readers(small(shards, "nodes=1", "batch_per_rank=4"))
    assert max(seen(reader.training(0)).labels) == 6
    (note,) = reader.notes
    assert note.startswith("train-00000-of-00003, record 1 cannot be decoded (")
    assert "label out of range" in note


def test_records_of_another_make_are_explained(shards, small, readers):
    import tensorflow as tf

    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x"]))
    other = tf.train.Example(features=tf.train.Features(feature={"jpeg": feature})).SerializeToString()
    for record, has in ((other, r"jpeg; expected image/encoded \(bytes\) and image/class/label"),
                        (b"\xffhello", "no tf.train.Example; expected image/encoded")):  # fmt: skip
        write_records(shards / "train-00000-of-00003", [record])
        with pytest.raises(ConfigError, match=f"its first record has {has}"):
            readers(small(shards, "nodes=1"))


def test_a_record_of_another_make_further_in_is_named_when_it_comes(shards, small, readers, seen):
    write_records(shards / "train-00000-of-00003", [example(*sample(0, 0)), b"\xffhello", example(*sample(0, 2))])
    (reader,) = readers(small(shards, "nodes=1", "batch_per_rank=4"))
    assert {number_of(colour) for colour in seen(reader.training(0)).colours} == set(range(20)) - {1}
    assert reader.notes[0].startswith("train-00000-of-00003, record 1 cannot be decoded (not the expected content)")


def test_files_of_two_conversions_are_refused(shards, small, readers):
    write_records(shards / "train-00000-of-00008", [example(*sample(0, 0))])
    with pytest.raises(ConfigError, match=r"train files of more than one conversion: of \[3, 8\] files"):
        readers(small(shards, "nodes=1"))


def test_jpeg_folders_are_refused(tmp_path, picture, small, readers):
    picture(tmp_path / "train/n01440764/n01440764_18.jpg", (0, 0, 0))
    with pytest.raises(ConfigError, match=r"found train/; expected TFRecord files train-00000-of-01024"):
        readers(small(tmp_path, "nodes=1"))


def test_a_crop_of_training_is_another_each_epoch_and_validation_the_middle(shards, small, readers):
    import tensorflow as tf

    left_half = Image.new("RGB", (200, 100), (0, 0, 0))
    left_half.paste((255, 255, 255), (0, 0, 50, 100))
    buffer = io.BytesIO()
    left_half.save(buffer, "JPEG", quality=95)
    record = tf.train.Example.FromString(example((0, 0, 0), 1))
    record.features.feature["image/encoded"].bytes_list.value[0] = buffer.getvalue()
    for name in ("train-00000-of-00003", "validation-00000-of-00002"):
        write_records(shards / name, [record.SerializeToString()])
    for name in ("train-00001-of-00003", "train-00002-of-00003", "validation-00001-of-00002"):
        write_records(shards / name, [record.SerializeToString()])
    (reader,) = readers(small(shards, "nodes=1", "batch_per_rank=3", augmented=True))
    whites = [float(np.mean(images)) for epoch in range(4) for images, _ in reader.training(epoch)]
    assert len(set(whites)) == 4
    images, _, weights = next(reader.validation())
    # The middle 88 of 200 columns begin at 56: white ends at 50, so none of it is seen.
    assert float(np.max(images[0])) < 0.05
    assert weights.numpy().tolist() == [1, 1, 0]
