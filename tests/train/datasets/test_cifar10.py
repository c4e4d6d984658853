from pathlib import Path

import numpy as np
import pytest

from tests.helpers.small_sets import write_pickles
from train.config.checks import ConfigError

pytestmark = pytest.mark.slow

PER_FILE = 4


def sample(number):
    return (10 * number, 100, 200), number % 10


def pixels_and_labels(first: int) -> tuple[np.ndarray, list[int]]:
    """Four images, pixels stored plane by plane: (4, 3072)."""
    colours, labels = zip(*(sample(number) for number in range(first, first + PER_FILE)), strict=True)
    return np.repeat(np.array(colours, np.uint8), 1024, axis=1), list(labels)


def write_python(folder: Path) -> None:
    write_pickles(folder, [pixels_and_labels(index * PER_FILE) for index in range(6)])


def write_binary(folder: Path) -> None:
    folder.mkdir(parents=True)
    for index, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        data, labels = pixels_and_labels(index * PER_FILE)
        records = np.concatenate([np.array(labels, np.uint8)[:, None], data], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


@pytest.mark.parametrize(("write", "ranks"), [(write_python, 3), (write_binary, 2)])
def test_every_image_once_with_its_label_whatever_the_ranks(tmp_path, write, ranks, open_dataset, check_each_once):
    write(tmp_path / "cifar-10-batches")  # one level below DATA_DIR, as the archive unpacks
    readers = open_dataset("cifar10", tmp_path, f"nodes={ranks}")
    assert {reader.steps_per_epoch for reader in readers} == {20 // (2 * ranks)}  # 20 images, 2 a rank and step
    assert {reader.dropped_samples for reader in readers} == {20 % (2 * ranks)}
    check_each_once(readers, {sample(number) for number in range(20)}, {sample(number) for number in range(20, 24)})


def test_augmentation_is_for_training_only_and_the_same_whatever_the_ranks(tmp_path, open_dataset):
    write_python(tmp_path / "data")
    by_ranks = []
    for ranks in (1, 2):
        batches = ["batch_per_rank=null", "global_batch=4", "model.image_size=32"]
        readers = open_dataset("cifar10", tmp_path, f"nodes={ranks}", *batches, augmented=True)
        images = [image for reader in readers for batch, _ in reader.training(0) for image in batch.numpy()]
        by_ranks.append({round(float(image[16, 16, 0]) * 25.5): image for image in images})
        validation = [batch.numpy() for reader in readers for batch, _, _ in reader.validation()]
        assert np.ptp(np.concatenate(validation), axis=(1, 2)).max() == 0  # one colour: nothing shifted in
    assert by_ranks[0].keys() == by_ranks[1].keys() == set(range(20))
    assert all(np.array_equal(by_ranks[0][number], by_ranks[1][number]) for number in range(20))
    assert any(np.ptp(image[..., 2]) > 0 for image in by_ranks[0].values())  # zeros came in somewhere


def test_a_cut_off_file_is_counted_and_named_or_an_error(tmp_path, open_damaged):
    write_binary(tmp_path / "data")
    victim = tmp_path / "data/data_batch_2.bin"
    victim.write_bytes(victim.read_bytes()[:5000])
    (tmp_path / "data/data_batch_5.bin").unlink()
    reader = open_damaged("cifar10", tmp_path)
    assert reader.steps_per_epoch == 6  # 12 of 20 images
    (note,) = reader.notes
    assert note.startswith("2 of 5 files left out: ")
    assert "data_batch_2.bin (its 5000 bytes are not a multiple of the record size, 3073 bytes)" in note
    assert "data_batch_5.bin (No such file or directory)" in note


def test_a_pickle_that_would_call_a_program_is_not_obeyed(tmp_path, open_dataset):
    write_python(tmp_path / "data")
    (tmp_path / "data/data_batch_1").write_bytes(b"cos\nsystem\n(S'touch %s/ran'\ntR." % str(tmp_path).encode())
    (reader,) = open_dataset("cifar10", tmp_path)
    assert "it would call os.system" in reader.notes[0] or "it would call posix.system" in reader.notes[0]
    assert not (tmp_path / "ran").exists()


def test_a_label_out_of_range_stops_before_training(tmp_path, open_dataset):
    write_binary(tmp_path / "data")
    victim = tmp_path / "data/data_batch_3.bin"
    content = bytearray(victim.read_bytes())
    content[2 * 3073] = 10
    victim.write_bytes(bytes(content))
    with pytest.raises(ConfigError, match=r"data_batch_3.bin: image 2 has the label 10; CIFAR-10 has 0 to 9"):
        open_dataset("cifar10", tmp_path)
