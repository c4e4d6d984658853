from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.small_sets import write_pickles
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.identity import config_hash

pytestmark = pytest.mark.slow

PER_FILE = 4


def pixels_and_labels(first: int) -> tuple[np.ndarray, list[int]]:
    """Images number `first` to `first` + 3: red is the number, green 100, blue 200; the label is number mod 10."""
    numbers = np.arange(first, first + PER_FILE)
    planes = np.stack(
        [np.full((PER_FILE, 1024), 0) + numbers[:, None], *[np.full((PER_FILE, 1024), v) for v in (100, 200)]]
    )
    return planes.transpose(1, 0, 2).reshape(PER_FILE, 3072).astype(np.uint8), [int(n % 10) for n in numbers]


def write_python(folder: Path) -> None:
    write_pickles(folder, [pixels_and_labels(place * PER_FILE) for place in range(6)])


def write_binary(folder: Path) -> None:
    folder.mkdir(parents=True)
    for place, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        data, labels = pixels_and_labels(place * PER_FILE)
        records = np.concatenate([np.array(labels, np.uint8)[:, None], data], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


@pytest.mark.parametrize("write", [write_python, write_binary])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_image_once_with_its_label_whatever_the_ranks(tmp_path, write, ranks, configure, readers, seen):
    write(tmp_path / "cifar-10-batches")  # one level below DATA_DIR, as the archive unpacks
    opened = readers(configure("cifar10", tmp_path, f"nodes={ranks}"))
    assert {reader.steps_per_epoch for reader in opened} == {20 // (2 * ranks)}  # 20 images, 2 a rank and step
    assert {reader.dropped_samples for reader in opened} == {20 % (2 * ranks)}
    trained = [seen(reader.training(0)) for reader in opened]
    numbers = [colour[0] for part in trained for colour in part.colours]
    assert len(set(numbers)) == len(numbers) == 20 - 20 % (2 * ranks)
    assert set(numbers) <= set(range(20))
    assert {colour[1:] for part in trained for colour in part.colours} == {(100, 200)}
    assert [label for part in trained for label in part.labels] == [number % 10 for number in numbers]
    counted = Counter()
    for part in (seen(reader.validation()) for reader in opened):
        for colour, label, weight in zip(part.colours, part.labels, part.weights, strict=True):
            assert label == colour[0] % 10
            counted[colour[0]] += weight
    assert {number: counted[number] for number in range(20, 24)} == dict.fromkeys(range(20, 24), 1.0)
    assert sum(counted.values()) == 4


def test_the_order_follows_from_seed_and_epoch(tmp_path, configure, readers, seen):
    write_python(tmp_path / "data")
    (reader,) = readers(configure("cifar10", tmp_path, "nodes=1"))
    (again,) = readers(configure("cifar10", tmp_path, "nodes=1"))
    assert seen(reader.training(1)).colours == seen(again.training(1)).colours != seen(reader.training(2)).colours


def test_augmentation_is_for_training_only_and_the_same_whatever_the_ranks(tmp_path, configure, readers, seen):
    write_python(tmp_path / "data")
    by_ranks = []
    for ranks in (1, 2):
        config = configure(
            "cifar10",
            tmp_path,
            f"nodes={ranks}",
            "batch_per_rank=null",
            "global_batch=4",
            "model.image_size=32",
            augmented=True,
        )
        opened = readers(config)
        images = {}
        for reader in opened:
            for batch, _ in reader.training(0):
                for image in batch.numpy():
                    images[round(float(image[16, 16, 0]) * 255)] = image
            for batch, _, _ in reader.validation():
                assert np.ptp(batch.numpy(), axis=(1, 2)).max() == 0  # one colour: nothing shifted in
        by_ranks.append(images)
    assert by_ranks[0].keys() == by_ranks[1].keys() == set(range(20))
    assert all(np.array_equal(by_ranks[0][number], by_ranks[1][number]) for number in range(20))
    assert any(np.ptp(image[..., 2]) > 0 for image in by_ranks[0].values())  # zeros came in somewhere


def test_a_cut_off_file_is_counted_and_named_or_an_error(tmp_path, configure, readers):
    write_binary(tmp_path / "data")
    victim = tmp_path / "data/data_batch_2.bin"
    victim.write_bytes(victim.read_bytes()[:5000])
    (tmp_path / "data/data_batch_5.bin").unlink()
    (reader,) = readers(configure("cifar10", tmp_path, "nodes=1"))
    assert reader.steps_per_epoch == 6  # 12 of 20 images
    (note,) = reader.notes
    assert note.startswith("2 of 5 files left out: ")
    assert "data_batch_2.bin (its 5000 bytes are not a multiple of the record size, 3073 bytes)" in note
    assert "data_batch_5.bin (No such file or directory)" in note
    with pytest.raises(ConfigError, match=r"2 of 5 files left out.*on_damaged=skip"):
        readers(configure("cifar10", tmp_path, "nodes=1", "dataset.on_damaged=error"))


def test_a_pickle_that_would_call_a_program_is_not_obeyed(tmp_path, configure, readers):
    write_python(tmp_path / "data")
    (tmp_path / "data/data_batch_1").write_bytes(b"cos\nsystem\n(S'touch %s/ran'\ntR." % str(tmp_path).encode())
    (reader,) = readers(configure("cifar10", tmp_path, "nodes=1"))
    assert "it would call os.system" in reader.notes[0] or "it would call posix.system" in reader.notes[0]
    assert not (tmp_path / "ran").exists()


def test_a_label_out_of_range_stops_before_training(tmp_path, configure, readers):
    write_binary(tmp_path / "data")
    victim = tmp_path / "data/data_batch_3.bin"
    content = bytearray(victim.read_bytes())
    content[2 * 3073] = 10
    victim.write_bytes(bytes(content))
    with pytest.raises(ConfigError, match=r"data_batch_3.bin: image 2 has the label 10; CIFAR-10 has 0 to 9"):
        readers(configure("cifar10", tmp_path, "nodes=1"))


def test_more_ranks_than_images(tmp_path, configure, readers):
    write_binary(tmp_path / "data")
    with pytest.raises(ConfigError, match=r"global_batch=22: cifar10 has 20 training samples in .*allowed is up to"):
        readers(configure("cifar10", tmp_path, "nodes=11"))


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda folder: None, r"data_dir=.*/there: there is no such folder"),
        (lambda folder: folder.write_text(""), r"data_dir=.*/there: not a folder"),
        (lambda folder: folder.mkdir(), r"found nothing; expected data_batch_1 to data_batch_5"),
        (
            lambda folder: (folder.mkdir(), (folder / "cifar-10-python.tar.gz").touch()),
            r"found cifar-10-python.tar.gz; expected .*Unpack the archive first",
        ),
    ],
)
def test_a_wrong_folder_is_explained(tmp_path, prepare, message, configure, readers):
    prepare(tmp_path / "there")
    with pytest.raises(ConfigError, match=message):
        readers(configure("cifar10", tmp_path / "there", "nodes=1"))


def test_without_a_folder_nothing_starts():
    with pytest.raises(ConfigError, match=r"dataset.data_dir=None: give the folder that holds cifar10"):
        load(["dataset=cifar10"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("dataset.on_damaged=ignore", r"dataset.on_damaged=ignore: allowed are skip, error"),
        ("dataset.validation_fraction=1", r"dataset.validation_fraction=1.0: must be 0 or more and below 1"),
        ("dataset.augmentation.zoom_in_fraction=20", r"zoom_in_fraction=20.0: must be 0 to 1"),
        ("dataset.augmentation.colour=1", r"dataset.augmentation.colour: no such key; allowed here are .*zoom_in"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, override, message, configure):
    with pytest.raises(ConfigError, match=message):
        configure("cifar10", tmp_path, override, augmented=True)


def test_the_folder_does_not_count_as_another_measurement_but_the_augmentation_does(tmp_path, configure):
    here = config_hash(configure("cifar10", tmp_path, augmented=True))
    assert config_hash(configure("cifar10", tmp_path / "elsewhere", augmented=True)) == here
    assert config_hash(configure("cifar10", tmp_path)) != here
