"""Datasets of photographs in one folder a class: Caltech-256, and fresh and rotten fruit."""

import re
from pathlib import Path

import numpy as np

from train.config.checks import ConfigError
from train.config.run_config import RunConfig
from train.input import image_files, reader

_FRUIT = {"train": 10_901, "test": 2_698}


def _is_class(name: str) -> bool:
    return re.fullmatch(r"\d{3}\..+", name) is not None


def find_caltech256(config: RunConfig) -> reader.Parts:
    """Return Caltech-256, 30,607 photographs in 256 classes of objects and one of clutter. Raises ConfigError.

    It comes without a split. Source: G. Griffin, A. Holub, P. Perona, Caltech-256 Object Category Dataset, Caltech,
    2007.
    """

    def is_root(folder: Path) -> bool:
        return any(_is_class(entry.name) and entry.is_dir() for entry in folder.iterdir())

    root = image_files.root(config, is_root, "one folder a class, 001.ak47 to 257.clutter")
    classes = image_files.class_names(root, _is_class)
    image_files.check_classes(config, root, classes)
    images = image_files.list_images(config, root, classes)
    # Damaged images are left out after the split, so that they do not change the validation samples.
    training, validation = image_files.split_parts(config, images)
    per_class = np.bincount(images.labels, minlength=len(classes))
    facts = [
        reader.Fact("images", len(images.names), 30_607),
        reader.Fact("classes", len(classes), 257),
        reader.Fact("images of the smallest class", int(per_class.min()), 80),
        reader.Fact("images of the largest class", int(per_class.max()), 827),
    ]
    return reader.Parts(training, validation, facts, images.notes, classes)


def find_fruit(config: RunConfig) -> reader.Parts:
    """Return fresh and rotten fruit: apples, bananas and oranges in six classes, split into train and test.

    Source: S. R. Kalluri, Fruits fresh and rotten for classification, Kaggle, 2018. Raises ConfigError.
    """

    def is_root(folder: Path) -> bool:
        return all((folder / name).is_dir() for name in _FRUIT)

    root = image_files.root(config, is_root, "the folders train and test, each with one folder a class")
    classes = image_files.class_names(root / "train")
    if unpaired := set(classes) ^ set(image_files.class_names(root / "test")):
        raise ConfigError(
            f"{root}: train and test must have the same class folders; only one has {', '.join(sorted(unpaired))}"
        )
    image_files.check_classes(config, root / "train", classes)
    listed = {name: image_files.list_images(config, root / name, classes) for name in _FRUIT}
    training = image_files.part(config, listed["train"], training=True)
    validation = image_files.part(config, listed["test"], training=False)
    facts = [
        reader.Fact("training images", len(listed["train"].names), _FRUIT["train"]),
        reader.Fact("test images", len(listed["test"].names), _FRUIT["test"]),
        reader.Fact("classes", len(classes), 6),
    ]
    notes = [note for images in listed.values() for note in images.notes]
    return reader.Parts(training, validation, facts, notes, classes)


DATASETS = {"caltech256": reader.opener(find_caltech256), "fruit": reader.opener(find_fruit)}
