from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.small_sets import FRUIT as CLASSES
from train.config.checks import ConfigError
from train.config.compose import load

pytestmark = pytest.mark.slow

# Of the true set's order, which is that of its numbers: 8, 4 and 10 images.
COUNTS = {"001.ak47": 8, "056.dog": 4, "257.clutter": 10}


@pytest.fixture
def caltech(tmp_path, picture) -> Path:
    """With the two things that do not belong: a folder within a class, and a file that is no image."""
    root = tmp_path / "256_ObjectCategories"
    for label, (name, count) in enumerate(COUNTS.items()):
        for number in range(1, count + 1):
            picture(root / name / f"{name[:3]}_{number:04}.jpg", (20 * number, 80 * label + 40, 128))
    (root / "056.dog/greg").mkdir()
    (root / "056.dog/RENAME2").write_text("mv")
    return tmp_path


def near(colours, exact) -> set[tuple[int, int]]:
    """JPEG moves a level by one or two: the number and the label behind each colour."""
    return {(round(red / 20), round((green - 40) / 80)) for red, green, _ in colours} & set(exact)


ALL = {(number, label) for label, count in enumerate(COUNTS.values()) for number in range(1, count + 1)}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_split_80_20_and_every_image_once(caltech, ranks, configure, readers, seen):
    opened = readers(configure("caltech256", caltech, f"nodes={ranks}", "dataset.classes=3", "batch_per_rank=1"))
    trained = [seen(reader.training(0)) for reader in opened]
    validated = [seen(reader.validation()) for reader in opened]
    training = near((colour for part in trained for colour in part.colours), ALL)
    validation = near((colour for part in validated for colour in part.colours), ALL)
    assert len(training) == 18 // ranks * ranks  # 22 images: round(4.4) = 4 validate, 18 train
    assert len(validation) == sum(weight for part in validated for weight in part.weights) == 4
    assert not training & validation
    for part in trained + validated:
        assert part.labels == [round((green - 40) / 80) for _, green, _ in part.colours]


def test_the_split_stays_when_an_image_is_damaged(caltech, configure, readers, seen):
    def validating() -> set[tuple[int, int]]:
        (reader,) = readers(configure("caltech256", caltech, "nodes=1", "dataset.classes=3", "batch_per_rank=1"))
        return near(seen(reader.validation()).colours, ALL)

    before = validating()
    number, label = max(ALL - before)
    name = list(COUNTS)[label]
    victim = caltech / "256_ObjectCategories" / name / f"{name[:3]}_{number:04}.jpg"
    victim.write_bytes(victim.read_bytes()[:-50])
    assert validating() == before


def test_what_does_not_belong_is_named(caltech, configure, readers):
    (reader,) = readers(configure("caltech256", caltech, "nodes=1", "dataset.classes=3"))
    (note,) = reader.notes
    assert note.endswith("2 entries that are not images, ignored: 056.dog/RENAME2, 056.dog/greg")


def test_other_folders_are_refused(tmp_path, picture, configure, readers):
    picture(tmp_path / "101_ObjectCategories/accordion/image_0001.jpg", (0, 0, 0))
    with pytest.raises(ConfigError, match=r"found 101_ObjectCategories/; expected one folder a class, 001.ak47 to 257"):
        readers(configure("caltech256", tmp_path, "nodes=1"))


def test_fewer_class_folders_are_an_error(caltech, configure, readers):
    with pytest.raises(ConfigError, match=r"found 3 class folders .*; dataset.classes is 257. Give dataset.classes=3"):
        readers(configure("caltech256", caltech, "nodes=1"))


def colour(part: int, label: int, number: int) -> tuple[int, int, int]:
    return 40 * number + 20, 30 * label + 10, 100 * part + 50


@pytest.fixture
def fruit(tmp_path, picture) -> Path:
    """Three training and two test images a class: 18 and 12."""
    for part, (folder, count) in enumerate((("train", 3), ("test", 2))):
        for label, name in enumerate(CLASSES):
            for number in range(count):
                path = tmp_path / "dataset" / folder / name / f"Screen Shot 2018-06-08 at {number}.png"
                picture(path, colour(part, label, number))
    return tmp_path


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_image_once_with_its_label_whatever_the_ranks(fruit, ranks, configure, readers, seen):
    opened = readers(configure("fruit", fruit, f"nodes={ranks}", "batch_per_rank=4"))
    trained = [seen(reader.training(3)) for reader in opened]
    colours = [colour for part in trained for colour in part.colours]
    assert len(set(colours)) == len(colours) == 18 // (4 * ranks) * 4 * ranks
    assert set(colours) <= {colour(0, label, number) for label in range(6) for number in range(3)}
    assert [label for part in trained for label in part.labels] == [(green - 10) // 30 for _, green, _ in colours]
    counted = Counter()
    for part in (seen(reader.validation()) for reader in opened):
        for one, weight in zip(part.colours, part.weights, strict=True):
            counted[one] += weight
    assert counted == {colour(1, label, number): 1.0 for label in range(6) for number in range(2)}


def test_images_are_the_model_s_size_and_from_0_to_1(fruit, configure, readers):
    (reader,) = readers(configure("fruit", fruit, "nodes=1", augmented=True))
    images, labels = next(reader.training(0))
    assert images.shape == (2, 16, 16, 3)
    assert images.dtype == "float32"
    assert 0 <= float(np.min(images)) <= float(np.max(images)) <= 1
    assert labels.dtype == "int32"


def test_damaged_files_are_counted_and_named_and_the_others_read(fruit, configure, readers, seen):
    folder = fruit / "dataset/train"
    cut = folder / "freshapples/Screen Shot 2018-06-08 at 0.png"
    cut.write_bytes(cut.read_bytes()[:-20])
    (folder / "freshbanana/Screen Shot 2018-06-08 at 1.png").write_bytes(b"")
    (folder / "rottenbanana/Screen Shot 2018-06-08 at 2.png").write_text("<html>not found</html>")
    (folder / "rottenbanana/readme.txt").write_text("hello")
    (folder / "rottenbanana/.DS_Store").write_text("")
    (reader,) = readers(configure("fruit", fruit, "nodes=1", "batch_per_rank=1"))
    assert len(set(seen(reader.training(0)).colours)) == 15
    assert reader.notes == [
        f"{folder}: 1 entries that are not images, ignored: rottenbanana/readme.txt",
        f"{folder}: 3 of 18 training images damaged and left out: "
        "freshapples/Screen Shot 2018-06-08 at 0.png (cut short), "
        "freshbanana/Screen Shot 2018-06-08 at 1.png (empty), "
        "rottenbanana/Screen Shot 2018-06-08 at 2.png (neither JPEG nor PNG)",
    ]
    with pytest.raises(ConfigError, match=r"3 of 18 training images damaged.*on_damaged=skip"):
        readers(configure("fruit", fruit, "nodes=1", "dataset.on_damaged=error"))


@pytest.mark.parametrize("part", ["train", "test"])
def test_an_image_that_only_decoding_finds_damaged_is_named_when_it_comes(fruit, part, configure, readers, seen):
    path = fruit / "dataset" / part / "freshapples/Screen Shot 2018-06-08 at 1.png"
    content = bytearray(path.read_bytes())
    middle = content.index(b"IDAT") + 6
    content[middle : middle + 4] = b"\0\0\0\0"
    path.write_bytes(bytes(content))
    config = configure("fruit", fruit, "nodes=1", "batch_per_rank=3")
    (reader,) = readers(config)
    assert reader.notes == []
    for epoch in range(2):
        trained = Counter(seen(reader.training(epoch)).colours)
        assert sum(trained.values()) == 18
        assert len(trained) == (17 if part == "train" else 18)
        validated = seen(reader.validation())
        assert sum(validated.weights) == (12 if part == "train" else 11)
        assert (colour(1, 0, 1) in validated.colours) == (part == "train")
    (note,) = reader.notes  # once, although two epochs met it
    assert note.startswith("freshapples/Screen Shot 2018-06-08 at 1.png cannot be decoded (")
    (reader,) = readers(configure("fruit", fruit, "nodes=1", "batch_per_rank=3", "dataset.on_damaged=error"))
    with pytest.raises(ConfigError, match="cannot be decoded"):
        seen([*reader.training(0), *reader.validation()])


def test_an_empty_class_folder_is_named_or_an_error(fruit, configure, readers):
    for path in (fruit / "dataset/train/rottenoranges").iterdir():
        path.unlink()
    (reader,) = readers(configure("fruit", fruit, "nodes=1"))
    assert reader.notes == [f"{fruit}/dataset/train: 1 class folders without an image: rottenoranges"]
    with pytest.raises(ConfigError, match="1 class folders without an image: rottenoranges"):
        readers(configure("fruit", fruit, "nodes=1", "dataset.on_damaged=error"))


def test_class_folders_must_be_as_many_as_the_model_has_and_in_both_parts(fruit, picture, configure, readers):
    picture(fruit / "dataset/train/freshkiwis/1.png", (0, 0, 0))
    with pytest.raises(ConfigError, match="train and test must have the same class folders; only one has freshkiwis"):
        readers(configure("fruit", fruit, "nodes=1"))
    picture(fruit / "dataset/test/freshkiwis/1.png", (0, 0, 0))
    with pytest.raises(ConfigError, match=r"found 7 class folders .*dataset.classes is 6"):
        readers(configure("fruit", fruit, "nodes=1"))
    assert readers(configure("fruit", fruit, "nodes=1", "dataset.classes=7"))


def test_only_a_train_folder_is_not_enough(tmp_path, configure, readers):
    (tmp_path / "train").mkdir()
    with pytest.raises(ConfigError, match=r"found train/; expected the folders train and test"):
        readers(configure("fruit", tmp_path, "nodes=1"))


def test_augmentation_as_report_004_states_it():
    fruit = load(["dataset=fruit", "dataset.data_dir=x"]).dataset.augmentation
    assert (fruit.zoom_in_fraction, fruit.shift_fraction, fruit.flip, fruit.rotation_degrees) == (0.01, 0.01, False, 0)
    caltech = load(["dataset=caltech256", "dataset.data_dir=x"]).dataset.augmentation
    assert (caltech.zoom_in_fraction, caltech.shift_fraction, caltech.flip) == (0.2, 0.2, True)
    assert caltech.rotation_degrees == 0.05 * 360
