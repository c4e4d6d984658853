"""ImageNet (ILSVRC 2012) in TFRecord files, as the standard conversion writes them: train-00000-of-01024 and so on.

Source: O. Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, 2015 (1409.0575). Each record is a
tf.train.Example with the fields image/encoded (JPEG) and image/class/label (from 1; 0 would be a background class).
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from train.config.checks import ConfigError, listed
from train.config.run_config import RunConfig
from train.input import image_files, image_ops, reader

if TYPE_CHECKING:
    import tensorflow as tf

_PUBLISHED = {"train": (1_281_167, 1024), "validation": (50_000, 128)}  # images, files
_FIRST_LABEL = 1
_IMAGE, _LABEL = "image/encoded", "image/class/label"
_NAME = re.compile(r"(train|validation)-(\d{5})-of-(\d{5})")
_READERS = 16  # files scanned concurrently

# A record: its length (8 bytes), a checksum of that (4), the content, a checksum of that (4).
_HEADER_BYTES, _FRAME_BYTES = 12, 16


@dataclass(frozen=True)
class RecordOffsets:
    """The offsets of the records in some TFRecord files."""

    paths: list[Path]
    counts: np.ndarray  # (files,) complete records
    offsets: np.ndarray  # (records,) bytes, file after file
    notes: list[str]  # on missing and truncated files
    damaged: int  # files that are missing or truncated

    def name(self, position: int) -> str:
        """Return the file of a record, and its index there, from 0."""
        ends = np.cumsum(self.counts)
        file = int(np.searchsorted(ends, position, side="right"))
        return f"{self.paths[file].name}, record {position - (ends[file] - self.counts[file])}"


def offsets(path: Path) -> tuple[np.ndarray, int]:
    """Return the offset of each complete record of a file, in bytes, and how many bytes at its end belong to none.

    Reads only the lengths, not the images. Raises OSError.
    """
    begins = []
    with path.open("rb", buffering=0) as opened:
        file = opened.fileno()
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # else reading a length would read ahead into the images
        size, begin = os.fstat(file).st_size, 0
        while begin + _FRAME_BYTES <= size:
            end = begin + _FRAME_BYTES + int.from_bytes(os.pread(file, 8, begin), "little")
            if end > size:
                break
            begins.append(begin)
            begin = end
    return np.array(begins, np.int64), size - begin


def _shards(root: Path, part: str) -> dict[int, Path]:
    """Return the files of a part by number, from the folder or its subfolder named `part`. Raises ConfigError."""
    shards, totals = {}, set()
    for folder in (root, root / part):
        for path in sorted(folder.glob(f"{part}-*")) if folder.is_dir() else []:
            if match := _NAME.fullmatch(path.name):
                shards[int(match[2])] = path
                totals.add(int(match[3]))
    if len(totals) > 1:
        raise ConfigError(f"{root}: {part} files of more than one conversion: of {sorted(totals)} files")
    return shards


def _find_records(config: RunConfig, root: Path, part: str) -> RecordOffsets:
    """Return all complete records of a part, with notes on missing and truncated files. Raises ConfigError."""
    shards = _shards(root, part)
    if not shards:
        note = reader.damage_note(config, f"{root}: no {part} files")
        return RecordOffsets([], np.zeros(0, np.int64), np.zeros(0, np.int64), [note], damaged=1)
    notes = []
    total = int(next(iter(shards.values())).name[-5:])
    missing = [f"{part}-{number:05}-of-{total:05}" for number in range(total) if number not in shards]
    if missing:
        damage = f"{len(missing)} of {total} {part} files missing: {listed(missing)}"
        notes.append(reader.damage_note(config, damage))
    paths = [shards[number] for number in sorted(shards)]
    try:
        with ThreadPoolExecutor(_READERS) as pool:
            contents = list(pool.map(offsets, paths))
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from error
    short = [
        f"{path.name} (after {len(begins)} records, {rest} bytes)"
        for path, (begins, rest) in zip(paths, contents, strict=True)
        if rest or not len(begins)
    ]
    if short:
        damage = f"{len(short)} {part} files cut short: {listed(short)}"
        notes.append(reader.damage_note(config, damage))
    counts = np.array([len(begins) for begins, _ in contents], np.int64)
    return RecordOffsets(
        paths, counts, np.concatenate([begins for begins, _ in contents]), notes, len(missing) + len(short)
    )


def _read(path: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Return the record at `offset`. Raises DataLossError if it does not match its checksum."""
    import tensorflow as tf

    # The operation takes an offset; tf.data.TFRecordDataset has no argument for it.
    records = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path], compression_type="", buffer_size=tf.constant(0, tf.int64), byte_offsets=[offset]
    )
    output = {"output_types": [tf.string], "output_shapes": [[]]}
    first = tf.raw_ops.TakeDataset(input_dataset=records, count=tf.constant(1, tf.int64), **output)
    return tf.raw_ops.DatasetToSingleElement(dataset=first, **output)[0]


def _parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the encoded image and the label, as stored."""
    import tensorflow as tf

    fields = {_IMAGE: tf.io.FixedLenFeature([], tf.string), _LABEL: tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, fields)
    return example[_IMAGE], example[_LABEL]


def _check_first_records(config: RunConfig, records: RecordOffsets) -> None:
    """Raise ConfigError if the first record of a file shows that this is another kind of dataset."""
    import tensorflow as tf

    starts = np.cumsum(records.counts) - records.counts
    for path, start, count in zip(records.paths, starts, records.counts, strict=True):
        if count:
            with suppress(tf.errors.DataLossError):  # one damaged record, which is named when it is read
                _check_record(config, path, _read(tf.constant(str(path)), tf.constant(records.offsets[start])).numpy())


def _check_record(config: RunConfig, path: Path, record: bytes) -> None:
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
        fields = tf.train.Example.FromString(record).features.feature
        names = ", ".join(sorted(fields)) or "no fields"
    except DecodeError:
        fields, names = {}, "no tf.train.Example"
    labels = fields[_LABEL].int64_list.value if _LABEL in fields else []
    if _IMAGE not in fields or len(labels) != 1:
        raise ConfigError(f"{path}: its first record has {names}; expected {_IMAGE} (bytes) and {_LABEL} (one integer)")
    label = labels[0]
    if not _FIRST_LABEL <= label < _FIRST_LABEL + config.dataset.classes:
        raise ConfigError(
            f"{path}: its first record has the label {label}; expected {_FIRST_LABEL} to "
            f"{config.dataset.classes + _FIRST_LABEL - 1} (dataset.classes={config.dataset.classes})"
        )


def _part(config: RunConfig, records: RecordOffsets, *, training: bool) -> reader.DatasetSplit:
    import tensorflow as tf

    make, classes = image_ops.decoder(config, training=training), config.dataset.classes
    with tf.device("CPU"):
        paths = tf.constant([str(path) for path in records.paths], tf.string)
        file_indices = tf.constant(np.repeat(np.arange(len(records.paths)), records.counts), tf.int32)
        begins = tf.constant(records.offsets, tf.int64)

    def load(position: tf.Tensor, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image, label = _parse(_read(paths[file_indices[position]], begins[position]))
        label -= _FIRST_LABEL
        possible = tf.logical_and(label >= 0, label < classes)
        with tf.control_dependencies([tf.debugging.Assert(possible, ["label out of range:", label + _FIRST_LABEL])]):
            return make(image, numbers), tf.identity(label)

    def encoded(position: tf.Tensor) -> tf.Tensor:
        return _parse(_read(paths[file_indices[position]], begins[position]))[0]

    names, samples = [path.name for path in records.paths] or [""], len(records.offsets)
    digest = reader.fingerprint(names, records.counts, records.offsets)
    return reader.DatasetSplit(samples, load, records.name, digest, encoded, records.notes, records.damaged)


def find_imagenet(config: RunConfig) -> reader.Parts:
    """Return the dataset in the folder. Raises ConfigError."""

    def is_root(folder: Path) -> bool:
        return bool(_shards(folder, "train"))

    root = image_files.root(
        config, is_root, "TFRecord files train-00000-of-01024 and so on, validation-00000-of-00128 and so on"
    )
    facts, parts = [], {}
    for name, (images, shards) in _PUBLISHED.items():
        records = _find_records(config, root, name)
        _check_first_records(config, records)
        parts[name] = _part(config, records, training=name == "train")
        facts.append(reader.Fact(f"{name} images", len(records.offsets), images))
        facts.append(reader.Fact(f"{name} files", len(records.paths), shards))
    return reader.Parts(parts["train"], parts["validation"], facts)


DATASETS = {"imagenet": reader.opener(find_imagenet)}
