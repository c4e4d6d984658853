"""Fresh and rotten fruit: photographs of apples, bananas and oranges in six classes, split into train and test.

Source: S. R. Kalluri, Fruits fresh and rotten for classification, Kaggle, 2018.
"""

from __future__ import annotations

from pathlib import Path

from train.config.schema import Config, ConfigError
from train.input import files, folders, reader

_PUBLISHED = {"train": 10_901, "test": 2_698}
_CLASSES = 6


def find(config: Config) -> reader.Parts:
    """What the folder has. Raises ConfigError."""

    def is_root(folder: Path) -> bool:
        return all((folder / name).is_dir() for name in _PUBLISHED)

    root = files.root(config, is_root, "the folders train and test, each with one folder a class")
    classes = folders.class_names(root / "train")
    if unpaired := set(classes) ^ set(folders.class_names(root / "test")):
        raise ConfigError(
            f"{root}: train and test must have the same class folders; only one has {', '.join(sorted(unpaired))}"
        )
    folders.check_classes(config, root / "train", classes)
    notes: list[str] = []
    listed = {name: folders.list_images(config, root / name, classes, notes) for name in _PUBLISHED}
    training, damaged = folders.part(config, listed["train"], notes, training=True)
    validation, also_damaged = folders.part(config, listed["test"], notes, training=False)
    facts = [
        reader.Fact("training images", len(listed["train"].names), _PUBLISHED["train"]),
        reader.Fact("test images", len(listed["test"].names), _PUBLISHED["test"]),
        reader.Fact("classes", len(classes), _CLASSES),
    ]
    return reader.Parts(training, validation, facts, notes, damaged + also_damaged, classes)


def open_fruit(config: Config, rank: int) -> reader.Reader:
    """What one rank reads. Raises ConfigError."""
    return reader.Reader(config, rank, find(config))


DATASETS = {"fruit": open_fruit}
