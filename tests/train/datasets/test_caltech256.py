from pathlib import Path

import pytest

from train.config.checks import ConfigError

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
