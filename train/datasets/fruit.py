"""Fresh and rotten fruit: photographs of apples, bananas and oranges in six classes, split into train and test.

Source: S. R. Kalluri, Fruits fresh and rotten for classification, Kaggle, 2018.
"""

from pathlib import Path

from train.config.checks import ConfigError
from train.config.schema import RunConfig
from train.input import files, reader

_PUBLISHED = {"train": 10_901, "test": 2_698}
_CLASSES = 6


def find(config: RunConfig) -> reader.Parts:
    """Return the dataset in the folder. Raises ConfigError."""

    def is_root(folder: Path) -> bool:
        return all((folder / name).is_dir() for name in _PUBLISHED)

    root = files.root(config, is_root, "the folders train and test, each with one folder a class")
    classes = files.class_names(root / "train")
    if unpaired := set(classes) ^ set(files.class_names(root / "test")):
        raise ConfigError(
            f"{root}: train and test must have the same class folders; only one has {', '.join(sorted(unpaired))}"
        )
    files.check_classes(config, root / "train", classes)
    listed = {name: files.list_images(config, root / name, classes) for name in _PUBLISHED}
    training = files.part(config, listed["train"], training=True)
    validation = files.part(config, listed["test"], training=False)
    facts = [
        reader.Fact("training images", len(listed["train"].names), _PUBLISHED["train"]),
        reader.Fact("test images", len(listed["test"].names), _PUBLISHED["test"]),
        reader.Fact("classes", len(classes), _CLASSES),
    ]
    notes = [note for images in listed.values() for note in images.notes]
    return reader.Parts(training, validation, facts, notes, classes)


DATASETS = {"fruit": reader.opener(find)}
