"""Small datasets in the true layouts: JPEGs, pickles, .mat tables and TFRecord files, with made-up pictures.

    python tests/helpers/small_sets.py fruit /tmp/fruit

They show that an experiment runs and its readers work. A model can learn nothing from them but colours.
"""

import argparse
import io
import pickle
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

FRUIT = ("freshapples", "freshbanana", "freshoranges", "rottenapples", "rottenbanana", "rottenoranges")
NAN, NONE = float("nan"), float("-inf")  # face scores: there is no second face, there is no face


def datenum(year: int, month: int, day: int) -> int:
    """Return a MATLAB datenum: datenum(1970, 1, 1) is 719529, Python's ordinal of that day is 719163."""
    return date(year, month, day).toordinal() + 366


def row(values: Sequence, dtype: type) -> np.ndarray:
    """Return the values as one row, like a vector in MATLAB."""
    return np.array(values, dtype)[None, :]


def cells(texts: Sequence) -> np.ndarray:
    """Return the texts as one row of cells."""
    result = np.empty((1, len(texts)), object)
    result[0] = texts
    return result


def write_mat(path: Path, entries: list[tuple]) -> None:
    """Write one struct of 1 x n rows, as distributed. An entry: birth, year, path, face score, second face score."""
    births, years, paths, scores, second_scores = zip(*entries, strict=True)
    struct = {
        "dob": row([datenum(*birth) for birth in births], np.int32),
        "photo_taken": row(years, np.uint16),
        "full_path": cells(list(paths)),
        "gender": row([1.0] * len(entries), np.float64),
        "name": cells(["Somebody Durations"] * len(entries)),
        "face_location": cells([np.array([[1.0, 1.0, 20.0, 20.0]])] * len(entries)),
        "face_score": row(scores, np.float64),
        "second_face_score": row(second_scores, np.float64),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {path.stem: struct}, format="5")


def example(colour: tuple[int, int, int], label: int) -> bytes:
    """Return a TFRecord example as the standard conversion writes it, with fields that the kit does not read."""
    import tensorflow as tf

    buffer = io.BytesIO()
    Image.new("RGB", (30, 24), colour).save(buffer, "JPEG", quality=95)
    texts = {
        "image/colorspace": b"RGB",
        "image/class/synset": b"n01440764",
        "image/format": b"JPEG",
        "image/filename": b"n01440764_10026.JPEG",
        "image/encoded": buffer.getvalue(),
    }
    numbers = {"image/height": 24, "image/width": 30, "image/channels": 3, "image/class/label": label}
    features = {key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text])) for key, text in texts.items()}
    features |= {key: tf.train.Feature(int64_list=tf.train.Int64List(value=[n])) for key, n in numbers.items()}
    features["image/object/bbox/xmin"] = tf.train.Feature(float_list=tf.train.FloatList(value=[]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write_records(path: Path, records: list[bytes]) -> None:
    """Write a TFRecord file."""
    import tensorflow as tf

    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as file:
        for record in records:
            file.write(record)


def write_pickles(folder: Path, files: Sequence[tuple[np.ndarray, list[int]]]) -> None:
    """Write CIFAR-10's python version. files: of each of the six, the pixels, (images, 3072), and the labels."""
    folder.mkdir(parents=True)
    for name, (data, labels) in zip([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"], files, strict=True):
        content = {b"batch_label": b"", b"labels": labels, b"data": data, b"filenames": [b"x.png"] * len(labels)}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))


def _colour(label: int) -> tuple[int, int, int]:
    """Return the colour of a class."""
    return 37 * label % 256, 91 * label % 256, 151 * label % 256


def _picture(path: Path, label: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (48, 40), _colour(label)).save(path)


def cifar10(folder: Path) -> None:
    """Write 20 images into each of the six files."""
    labels = [number % 10 for number in range(20)]
    pixels = np.array([np.repeat(_colour(label), 1024) for label in labels], np.uint8)
    write_pickles(folder / "cifar-10-batches-py", [(pixels, labels)] * 6)


def imagenet(folder: Path) -> None:
    """Write 24 training images in two files, and 8 validation images in one."""
    for part, count, shards in (("train", 24, 2), ("validation", 8, 1)):
        records = [example(_colour(number), number + 1) for number in range(count)]
        for shard in range(shards):
            write_records(folder / part / f"{part}-{shard:05}-of-{shards:05}", records[shard::shards])


def imdb_wiki(folder: Path) -> None:
    """Write 40 portraits of IMDb and 10 of Wikipedia, aged 20 to 59 and 20 to 29."""
    for name, count in (("imdb", 40), ("wiki", 10)):
        entries = []
        for number in range(count):
            path = f"{number % 4:02}/{number}_1960-01-01_{1980 + number}.jpg"
            entries.append(((1960, 1, 1), 1980 + number, path, 3.5, NAN))
            _picture(folder / f"{name}_crop" / path, 20 + number)
        write_mat(folder / f"{name}_crop" / f"{name}.mat", entries)


def fruit(folder: Path) -> None:
    """Write six training and two test images a class."""
    for part, count in (("train", 6), ("test", 2)):
        for label, name in enumerate(FRUIT):
            for number in range(count):
                _picture(folder / part / name / f"{number}.jpg", label)


def caltech256(folder: Path) -> None:
    """Write two images into each of the 257 folders. Only the numbers in their names are real."""
    for label in range(257):
        for number in (1, 2):
            name = f"{label + 1:03}"
            _picture(folder / "256_ObjectCategories" / f"{name}.class" / f"{name}_{number:04}.jpg", label)


SETS: dict[str, Callable[[Path], None]] = {
    make.__name__: make for make in (cifar10, imagenet, imdb_wiki, fruit, caltech256)
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=SETS)
    parser.add_argument("folder", type=Path, help="a new folder for the dataset")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True)
    SETS[arguments.name](arguments.folder)
