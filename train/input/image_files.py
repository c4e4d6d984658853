"""Find a dataset's files, as images in one folder per class, and the damaged ones among them, before any is decoded."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from train.config.checks import ConfigError, listed
from train.config.run_config import RunConfig
from train.input import image_ops, reader

_LEVELS = 2  # below data_dir: archives often contain a top folder, or two
_READERS = 16  # files read concurrently: on a network file system each waits for the server
_CHUNK = 256
_TAIL_BYTES = 4096
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
_SUFFIXES = (".jpg", ".jpeg", ".png")


def roots(config: RunConfig, is_root: Callable[[Path], bool], expected: str) -> list[Path]:
    """Return the folders that hold the dataset, sorted: data_dir, or the nearest below it, at most two levels down.

    Raises ConfigError, with what is there and what is `expected`, if data_dir is not a folder or does not hold it.
    """
    data_dir = Path(config.dataset.data_dir or "").expanduser()
    key = f"dataset.data_dir={data_dir}"
    if not data_dir.is_dir():
        raise ConfigError(f"{key}: {'not a folder' if data_dir.exists() else 'there is no such folder'}")
    level = [data_dir]
    try:
        for _ in range(_LEVELS + 1):
            if homes := [folder for folder in level if is_root(folder)]:
                return homes
            level = sorted(Path(entry) for folder in level for entry in os.scandir(folder) if entry.is_dir())
        entries = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in os.scandir(data_dir))
    except OSError as error:
        raise ConfigError(f"{key}: {error.filename}: {error.strerror}") from error
    where = f"there or at most {_LEVELS} levels below"
    packed = ". Unpack the archive first" if any(name.endswith(_ARCHIVES) for name in entries) else ""
    raise ConfigError(f"{key}: found {listed(entries) or 'nothing'}; expected {expected}, {where}{packed}")


def root(config: RunConfig, is_root: Callable[[Path], bool], expected: str) -> Path:
    """Return the first of the folders of `roots`. Raises ConfigError."""
    return roots(config, is_root, expected)[0]


def _damage(path: str) -> str | None:
    try:
        with Path(path).open("rb", buffering=0) as file:
            head = file.read(8)
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES)
    except OSError as error:
        return error.strerror
    if not head:
        return "empty"
    if head.startswith(b"\xff\xd8\xff"):
        end = b"\xff\xd9"
    elif head == b"\x89PNG\r\n\x1a\n":
        end = b"IEND"
    else:
        return "neither JPEG nor PNG"
    return None if end in tail else "cut short"


def damages(paths: Sequence[str]) -> list[str | None]:
    """Return the fault of each image file, or None: missing, unreadable, empty, not JPEG or PNG, truncated."""
    chunks = [paths[begin : begin + _CHUNK] for begin in range(0, len(paths), _CHUNK)]
    with ThreadPoolExecutor(_READERS) as pool:
        return [damage for part in pool.map(lambda chunk: [_damage(path) for path in chunk], chunks) for damage in part]


@dataclass(frozen=True)
class Images:
    """Image files below a folder, including damaged ones, in the order of their names."""

    folder: Path
    names: list[str]  # relative to the folder
    labels: np.ndarray  # (files,), from 0
    notes: tuple[str, ...] = ()  # on other files in the folder, and on missing ones

    def __getitem__(self, chosen: np.ndarray) -> "Images":
        """Return the images at these indices, in the order of the indices, without the notes."""
        return Images(self.folder, [self.names[index] for index in chosen], self.labels[chosen])


def class_names(folder: Path, is_class: Callable[[str], bool] = lambda name: True) -> list[str]:
    """Return the class folders in `folder`, without hidden ones, sorted: the index of a name is its label."""
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.is_dir() and not entry.name.startswith(".") and is_class(entry.name)
    )


def check_classes(config: RunConfig, folder: Path, names: Sequence[str]) -> None:
    """Raise ConfigError if there are not as many classes as in the configuration, and so in the model."""
    if len(names) != config.dataset.classes:
        raise ConfigError(
            f"{folder}: found {len(names)} class folders ({listed(names)}); dataset.classes is "
            f"{config.dataset.classes}. Give dataset.classes={len(names)} if these are all"
        )


def list_images(config: RunConfig, folder: Path, classes: Sequence[str]) -> Images:
    """Return the image files in the class folders, with a note on other files; a class without an image is damage.

    Raises ConfigError for damage if dataset.on_damaged=error.
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
    without = f"{folder}: {len(empty)} class folders without an image: {listed(empty)}"
    notes = [reader.damage_note(config, without)] if empty else []
    if others:
        notes.append(f"{folder}: {len(others)} entries that are not images, ignored: {listed(others)}")
    return Images(folder, names, np.array(labels, np.int64), tuple(notes))


def part(config: RunConfig, images: Images, *, training: bool) -> reader.DatasetSplit:
    """Return the images that are not damaged, as training or as validation samples, with a note on those that are.

    Raises ConfigError for damage if dataset.on_damaged=error.
    """
    faults = damages([f"{images.folder}/{name}" for name in images.names])
    damaged = [f"{name} ({damage})" for name, damage in zip(images.names, faults, strict=True) if damage]
    part_name = "training" if training else "validation"
    left_out = f"{images.folder}: {len(damaged)} of {len(faults)} {part_name} images damaged and left out: "
    notes = [reader.damage_note(config, left_out + listed(damaged))] if damaged else []
    whole = images[np.flatnonzero([damage is None for damage in faults])]
    return replace(_undamaged(config, whole, training), notes=notes, damaged=len(damaged))


def split_parts(config: RunConfig, images: Images) -> tuple[reader.DatasetSplit, reader.DatasetSplit]:
    """Return the training and the validation part of images that come without a split. Raises as `part`."""
    chosen, held_out = reader.split(len(images.names), config.dataset.validation_fraction)
    training = part(config, images[np.sort(chosen)], training=True)
    return training, part(config, images[np.sort(held_out)], training=False)


def _undamaged(config: RunConfig, whole: Images, training: bool) -> reader.DatasetSplit:
    import tensorflow as tf

    make = image_ops.decoder(config, training=training)
    with tf.device("CPU"):
        paths = tf.constant([f"{whole.folder}/{name}" for name in whole.names], tf.string)
        labels = tf.constant(whole.labels, tf.int32)

    def encoded(position: tf.Tensor) -> tf.Tensor:
        return tf.io.read_file(paths[position])

    def load(position: tf.Tensor, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return make(encoded(position), numbers), labels[position]

    digest = reader.fingerprint(whole.names or [""], whole.labels)
    return reader.DatasetSplit(len(whole.names), load, whole.names.__getitem__, digest, encoded)
