"""CIFAR-10: 60,000 colour images of 32 x 32 in ten classes, in the python or in the binary version.

Source: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
"""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from train.config.checks import ConfigError, listed
from train.config.run_config import RunConfig
from train.input import image_files, reader

_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CLASSES = len(_NAMES)
_PIXELS = 3 * 32 * 32
_TRAINING = tuple(f"data_batch_{number}" for number in range(1, 6))
_VALIDATION = ("test_batch",)
_BINARY = ".bin"

# The names in a pickled array, of old and new NumPy. A pickle can call any function that it names.
_ALLOWED = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("_codecs", "encode"),
    ("__builtin__", "bytes"),
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it would call {module}.{name}, which CIFAR-10's files do not")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _read_python(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with path.open("rb") as file:
        content = _ArraysOnly(file, encoding="bytes").load()
    return np.asarray(content[b"data"], np.uint8).reshape(-1, _PIXELS), np.asarray(content[b"labels"], np.int64)


def _read_binary(path: Path) -> tuple[np.ndarray, np.ndarray]:
    content = np.fromfile(path, np.uint8)
    if content.size % (1 + _PIXELS):
        raise ValueError(f"its {content.size} bytes are not a multiple of the record size, {1 + _PIXELS} bytes")
    records = content.reshape(-1, 1 + _PIXELS)
    return records[:, 1:], records[:, 0].astype(np.int64)


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels (images, 32, 32, 3) and labels (images,) of one file. Raises ValueError if the file differs."""
    try:
        pixels, labels = (_read_binary if path.suffix == _BINARY else _read_python)(path)
    except OSError as error:
        raise ValueError(error.strerror) from error
    except Exception as error:  # a damaged pickle can raise anything
        raise ValueError(str(error) or type(error).__name__) from error
    if len(pixels) != len(labels):
        raise ValueError(f"it has {len(pixels)} images and {len(labels)} labels")
    return pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels  # stored plane by plane


def _part(config: RunConfig, folder: Path, names: tuple[str, ...]) -> tuple[reader.DatasetSplit, np.ndarray]:
    """Return the samples of these files, with a note on damaged files, and their labels. Raises ConfigError."""
    suffix = _BINARY if (folder / (_TRAINING[0] + _BINARY)).exists() else ""
    pixels, labels, origin = [np.zeros((0, 32, 32, 3), np.uint8)], [np.zeros(0, np.int64)], []
    damaged = []
    for name in names:
        path = folder / (name + suffix)
        try:
            images, classes = _read(path)
        except ValueError as error:
            damaged.append(f"{path} ({error})")
            continue
        if (wrong := np.flatnonzero((classes < 0) | (classes >= _CLASSES))).size:
            label = classes[wrong[0]]
            raise ConfigError(f"{path}: image {wrong[0]} has the label {label}; CIFAR-10 has 0 to {_CLASSES - 1}")
        pixels.append(images)
        labels.append(classes)
        origin += [f"{path.name}, image {number}" for number in range(len(classes))]
    left_out = f"{len(damaged)} of {len(names)} files left out: {listed(damaged)}"
    notes = [reader.damage_note(config, left_out)] if damaged else []
    all_labels = np.concatenate(labels)
    part = reader.in_memory(np.concatenate(pixels), all_labels, origin)
    return replace(part, notes=notes, damaged=len(damaged)), all_labels


def find_cifar10(config: RunConfig) -> reader.Parts:
    """Return the dataset in the folder. Raises ConfigError."""

    def is_root(folder: Path) -> bool:
        return any((folder / (name + suffix)).is_file() for name in _TRAINING for suffix in ("", _BINARY))

    folder = image_files.root(config, is_root, "data_batch_1 to data_batch_5 and test_batch, or the same with .bin")
    if config.dataset.classes != _CLASSES:
        raise ConfigError(f"dataset.classes={config.dataset.classes}: CIFAR-10 has {_CLASSES}")
    training, training_labels = _part(config, folder, _TRAINING)
    validation, validation_labels = _part(config, folder, _VALIDATION)
    facts = [
        reader.Fact("training images", training.samples, 50_000),
        reader.Fact("validation images", validation.samples, 10_000),
        reader.Fact("classes", len(np.unique(np.concatenate([training_labels, validation_labels]))), _CLASSES),
    ]
    return reader.Parts(training, validation, facts, class_names=_NAMES)


DATASETS = {"cifar10": reader.opener(find_cifar10)}
