"""Images in files, one folder a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from train.config.schema import Config, ConfigError
from train.input import decode, files, reader

_SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class Images:
    """Image files below a folder, damaged ones too, in the order of their names."""

    folder: Path
    names: list[str]  # relative to the folder
    labels: np.ndarray  # (files,), from 0

    def __getitem__(self, chosen: np.ndarray) -> Images:
        """Some of them, in the order of their indices."""
        return Images(self.folder, [self.names[index] for index in chosen], self.labels[chosen])


def class_names(folder: Path, is_class: Callable[[str], bool] = lambda name: True) -> list[str]:
    """The folders in `folder` that are not hidden, sorted: their place is their label."""
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.is_dir() and not entry.name.startswith(".") and is_class(entry.name)
    )


def check_classes(config: Config, folder: Path, names: Sequence[str]) -> None:
    """Raise ConfigError where there are not as many classes as the configuration, and so the model, has."""
    if len(names) != config.dataset.classes:
        raise ConfigError(
            f"{folder}: found {len(names)} class folders ({reader.name_some(names)}); dataset.classes is "
            f"{config.dataset.classes}. Give dataset.classes={len(names)} if these are all"
        )


def list_images(config: Config, folder: Path, classes: Sequence[str], notes: list[str]) -> Images:
    """The image files in the class folders. What else lies there is noted; a class without an image is damage.

    Raises ConfigError where the configuration does not want to go on with that.
    """
    names, labels, others, empty = [], [], [], []
    for label, name in enumerate(classes):
        entries = sorted(entry.name for entry in (folder / name).iterdir() if not entry.name.startswith("."))
        images = [entry for entry in entries if entry.lower().endswith(_SUFFIXES)]
        others += [f"{name}/{entry}" for entry in entries if not entry.lower().endswith(_SUFFIXES)]
        names += [f"{name}/{entry}" for entry in images]
        labels += [label] * len(images)
        if not images:
            empty.append(name)
    if empty:
        reader.refuse_or_note(
            config, notes, f"{folder}: {len(empty)} class folders without an image: {reader.name_some(empty)}"
        )
    if others:
        notes.append(f"{folder}: {len(others)} entries that are no images, ignored: {reader.name_some(others)}")
    return Images(folder, names, np.array(labels, np.int64))


def part(config: Config, images: Images, notes: list[str], *, training: bool) -> tuple[reader.Part, int]:
    """The images that are not damaged, as training or as validation samples; and how many are damaged.

    Raises ConfigError where there are some and the configuration wants an error.
    """
    import tensorflow as tf

    found = files.damages([f"{images.folder}/{name}" for name in images.names])
    damaged = [f"{name} ({damage})" for name, damage in zip(images.names, found, strict=True) if damage]
    if damaged:
        which = "training" if training else "validation"
        reader.refuse_or_note(
            config,
            notes,
            f"{images.folder}: {len(damaged)} of {len(found)} {which} images damaged and left out: "
            + reader.name_some(damaged),
        )
    whole = images[np.flatnonzero([damage is None for damage in found])]
    make = decode.decoder(config, training=training)
    with tf.device("CPU"):
        paths = tf.constant([f"{whole.folder}/{name}" for name in whole.names], tf.string)
        labels = tf.constant(whole.labels, tf.int32)

    def encoded(position: tf.Tensor) -> tf.Tensor:
        return tf.io.read_file(paths[position])

    def load(position: tf.Tensor, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return make(encoded(position), numbers), labels[position]

    return (
        reader.Part(
            len(whole.names),
            load,
            whole.names.__getitem__,
            reader.fingerprint(whole.names or [""], whole.labels),
            encoded,
        ),
        len(damaged),
    )
