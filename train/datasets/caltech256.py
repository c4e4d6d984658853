"""Caltech-256: 30,607 photographs in 256 classes of objects and one of clutter. It comes without a split.

Source: G. Griffin, A. Holub, P. Perona, Caltech-256 Object Category Dataset, Caltech, 2007.
"""

import re
from pathlib import Path

import numpy as np

from train.config.schema import RunConfig
from train.input import files, reader


def _is_class(name: str) -> bool:
    return re.fullmatch(r"\d{3}\..+", name) is not None


def find(config: RunConfig) -> reader.Parts:
    """Return the dataset in the folder. Raises ConfigError."""

    def is_root(folder: Path) -> bool:
        return any(_is_class(entry.name) and entry.is_dir() for entry in folder.iterdir())

    root = files.root(config, is_root, "one folder a class, 001.ak47 to 257.clutter")
    classes = files.class_names(root, _is_class)
    files.check_classes(config, root, classes)
    images = files.list_images(config, root, classes)
    # Damaged images are left out after the split, so that they do not change the validation samples.
    training, validation = files.split_parts(config, images)
    per_class = np.bincount(images.labels, minlength=len(classes))
    facts = [
        reader.Fact("images", len(images.names), 30_607),
        reader.Fact("classes", len(classes), 257),
        reader.Fact("images of the smallest class", int(per_class.min()), 80),
        reader.Fact("images of the largest class", int(per_class.max()), 827),
    ]
    return reader.Parts(training, validation, facts, images.notes, classes)


DATASETS = {"caltech256": reader.opener(find)}
