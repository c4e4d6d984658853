from pathlib import Path

import pytest

from tests.helpers.small_sets import FRUIT as CLASSES
from train.config.checks import ConfigError

pytestmark = pytest.mark.slow

# Images of each class folder; folders are in the order of their numbers, as in the true set.
COUNTS = {"001.ak47": 8, "056.dog": 4, "257.clutter": 10}
OBJECTS = {
    ((20 * number, 80 * label + 40, 130), label): f"{name}/{name[:3]}_{number:04}.jpg"
    for label, (name, count) in enumerate(COUNTS.items())
    for number in range(1, count + 1)
}


@pytest.fixture
def caltech(tmp_path, write_picture) -> Path:
    """A small Caltech-256, with a folder within a class and a file that is no image, as in the true set."""
    root = tmp_path / "256_ObjectCategories"
    for (colour, _), name in OBJECTS.items():
        write_picture(root / name, colour)
    (root / "056.dog/greg").mkdir()
    (root / "056.dog/RENAME2").write_text("mv")
    return tmp_path


def test_split_80_20_and_every_image_once(caltech, open_dataset, validation_weights, check_each_once):
    readers = open_dataset("caltech256", caltech, "dataset.classes=3", "batch_per_rank=1")
    assert readers[0].notes[0].endswith("2 entries that are not images, ignored: 056.dog/RENAME2, 056.dog/greg")
    validation = set(validation_weights(readers))
    assert len(validation) == 4  # of 22: round(4.4)
    check_each_once(readers, OBJECTS.keys() - validation, validation)


def test_the_split_stays_when_an_image_is_damaged(caltech, open_dataset):
    (before,) = open_dataset("caltech256", caltech, "dataset.classes=3")
    name = before.parts.training.name(0)
    (caltech / "256_ObjectCategories" / name).write_bytes(b"")
    (after,) = open_dataset("caltech256", caltech, "dataset.classes=3")
    parts = before.parts, after.parts
    assert len({part.validation.fingerprint for part in parts}) == 1
    assert [part.training.samples for part in parts] == [18, 17]


def test_fewer_class_folders_are_an_error(caltech, open_dataset):
    with pytest.raises(ConfigError, match=r"found 3 class folders .*; dataset.classes is 257. Give dataset.classes=3"):
        open_dataset("caltech256", caltech)


def samples(part: int, count: int) -> set:
    return {
        ((40 * number + 20, 30 * label + 10, 100 * part + 50), label) for label in range(6) for number in range(count)
    }


@pytest.fixture
def fruit(tmp_path, write_picture) -> Path:
    """Three training and two test images a class: 18 and 12."""
    for part, (folder, count) in enumerate((("train", 3), ("test", 2))):
        for colour, label in samples(part, count):
            name = f"{CLASSES[label]}/Screen Shot 2018 at {colour[0] // 40}.png"
            write_picture(tmp_path / "dataset" / folder / name, colour)
    return tmp_path


def test_every_image_once_with_its_label(fruit, open_dataset, check_each_once):
    readers = open_dataset("fruit", fruit, "batch_per_rank=4")
    check_each_once(readers, samples(0, 3), samples(1, 2), epoch=3)


def test_damaged_files_are_counted_and_named_and_left_out(fruit, open_damaged):
    folder = fruit / "dataset/train"
    truncated = folder / "freshapples/Screen Shot 2018 at 0.png"
    truncated.write_bytes(truncated.read_bytes()[:-20])
    (folder / "freshbanana/Screen Shot 2018 at 1.png").write_bytes(b"")
    (folder / "rottenbanana/Screen Shot 2018 at 2.png").write_text("<html>not found</html>")
    (folder / "rottenbanana/readme.txt").write_text("hello")
    (folder / "rottenbanana/.DS_Store").write_text("")
    reader = open_damaged("fruit", fruit, "batch_per_rank=1")
    assert reader.parts.training.samples == 15
    assert reader.notes == [
        f"{folder}: 1 entries that are not images, ignored: rottenbanana/readme.txt",
        f"{folder}: 3 of 18 training images damaged and left out: "
        "freshapples/Screen Shot 2018 at 0.png (cut short), "
        "freshbanana/Screen Shot 2018 at 1.png (empty), "
        "rottenbanana/Screen Shot 2018 at 2.png (neither JPEG nor PNG)",
    ]


def test_images_that_only_decoding_finds_damaged_are_named_when_they_are_read(
    fruit, open_dataset, training_samples, validation_weights
):
    name = "freshapples/Screen Shot 2018 at 1.png"
    for part in ("train", "test"):
        path = fruit / "dataset" / part / name
        content = bytearray(path.read_bytes())
        middle = content.index(b"IDAT") + 6
        content[middle : middle + 4] = b"\0\0\0\0"
        path.write_bytes(bytes(content))
    readers = open_dataset("fruit", fruit, "batch_per_rank=3")
    assert readers[0].notes == []
    for epoch in range(2):
        images = training_samples(readers, epoch)
        assert (len(images), len(set(images))) == (18, 17)
    weights = validation_weights(readers)
    assert weights.total() == len(weights) == 11
    in_training, in_validation = readers[0].notes  # once, although two epochs read it
    assert all(note.startswith(f"{name} cannot be decoded (") for note in readers[0].notes)
    assert in_training.endswith("): in training another sample of its batch replaced it")
    assert in_validation.endswith("): in validation another sample of its batch replaced it, with weight 0")
    readers = open_dataset("fruit", fruit, "batch_per_rank=3", "dataset.on_damaged=error")
    with pytest.raises(ConfigError, match="cannot be decoded"):
        training_samples(readers)


def test_an_empty_class_folder_is_named_or_an_error(fruit, open_damaged):
    for path in (fruit / "dataset/train/rottenoranges").iterdir():
        path.unlink()
    notes = open_damaged("fruit", fruit).notes
    assert notes == [f"{fruit}/dataset/train: 1 class folders without an image: rottenoranges"]


def test_class_folders_must_be_as_many_as_the_model_has_and_in_both_parts(fruit, write_picture, open_dataset):
    write_picture(fruit / "dataset/train/freshkiwis/1.png", (0, 0, 0))
    with pytest.raises(ConfigError, match="train and test must have the same class folders; only one has freshkiwis"):
        open_dataset("fruit", fruit)
    write_picture(fruit / "dataset/test/freshkiwis/1.png", (0, 0, 0))
    assert open_dataset("fruit", fruit, "dataset.classes=7")
