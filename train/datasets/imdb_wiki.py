"""IMDB-WIKI: portraits from IMDb and Wikipedia. The class is the age in whole years, 0 to 100.

Source: R. Rothe, R. Timofte, L. Van Gool, Deep expectation of real and apparent age from a single image without facial
landmarks, IJCV 2018. The tables imdb.mat and wiki.mat list the images; their fields are described on its page.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from train.config.schema import Config, ConfigError
from train.input import files, folders, reader, sharding

_PUBLISHED = {"imdb": 460_723, "wiki": 62_328}
_OLDEST = 100
_FIELDS = ("dob", "photo_taken", "full_path", "face_score", "second_face_score")
_SPLIT_SEED = 0  # fixed: results are comparable only on the same validation samples
_DATENUM_OF_1970 = 719_529  # MATLAB counts days from year 0


class Table(NamedTuple):
    """The columns of one .mat file, one entry an image."""

    dob: np.ndarray  # day of birth, MATLAB datenum
    photo_taken: np.ndarray  # year
    full_path: np.ndarray  # relative to the file's folder
    face_score: np.ndarray  # infinite where no face was found
    second_face_score: np.ndarray  # not a number where no second face was found


def ages(dob: np.ndarray, photo_taken: np.ndarray) -> np.ndarray:
    """The whole years lived on 1 July of the year `photo_taken`: int64; -1 where the day of birth is no number.

    Args:
        dob: MATLAB datenum: days, of which 719529 is 1 January 1970.
        photo_taken: years.
    """
    known = np.isfinite(np.asarray(dob, np.float64))
    birth = (np.floor(np.where(known, dob, _DATENUM_OF_1970)).astype(np.int64) - _DATENUM_OF_1970).astype("M8[D]")
    year, month = birth.astype("M8[Y]"), birth.astype("M8[M]")
    month_number = (month - year).astype(np.int64) + 1
    day = (birth - month).astype(np.int64) + 1
    birthday_to_come = (month_number > 7) | ((month_number == 7) & (day > 1))
    lived = np.asarray(photo_taken, np.int64) - (year.astype(np.int64) + 1970) - birthday_to_come
    return np.where(known, lived, -1)


def read_table(path: Path) -> Table:
    """One imdb.mat or wiki.mat. Raises ConfigError where it cannot be read, or has another content or version."""
    from scipy.io import loadmat

    name = path.stem
    try:
        content = loadmat(path, squeeze_me=True, variable_names=[name])
    except NotImplementedError as error:
        raise ConfigError(
            f"{path}: MATLAB's version 7.3, which is HDF5; expected is version 5, as distributed. "
            f"In MATLAB: save('{path.name}', '{name}', '-v7')"
        ) from error
    except Exception as error:  # SciPy raises whatever a damaged file leads it to
        raise ConfigError(f"{path}: no whole MATLAB file of version 5: {error}") from error
    fields = content[name].dtype.names if name in content else None
    if missing := [field for field in _FIELDS if field not in (fields or ())]:
        raise ConfigError(f"{path}: expected the struct {name} with {', '.join(_FIELDS)}; missing {', '.join(missing)}")
    columns = [np.atleast_1d(content[name][field].item()) for field in _FIELDS]
    if len({column.shape for column in columns}) > 1:
        sizes = ", ".join(f"{field} {column.size}" for field, column in zip(_FIELDS, columns, strict=True))
        raise ConfigError(f"{path}: the fields of {name} differ in length: {sizes}")
    return Table(*columns)


def _images(config: Config, path: Path, table: Table, notes: list[str]) -> folders.Images:
    """The images with one face and a possible age; what is left out is noted."""
    age = ages(table.dob, table.photo_taken)
    no_face = ~np.isfinite(table.face_score.astype(np.float64))
    two_faces = ~no_face & ~np.isnan(table.second_face_score.astype(np.float64))
    impossible = ~no_face & ~two_faces & ((age < 0) | (age > _OLDEST))
    kept = ~(no_face | two_faces | impossible)
    notes.append(
        f"{path.name}: {len(age)} images listed; left out {no_face.sum()} without a face, {two_faces.sum()} with a "
        f"second face, {impossible.sum()} with an age outside 0 to {_OLDEST}; {kept.sum()} kept"
    )
    home = Path(config.dataset.data_dir or "").expanduser()
    inside = os.path.relpath(path.parent, home)
    names = [os.path.normpath(f"{inside}/{name}") for name in table.full_path[kept]]
    return folders.Images(home, names, age[kept])


def find(config: Config) -> reader.Parts:
    """What the folder has: both sets, or one of them. Raises ConfigError."""
    if config.dataset.classes != _OLDEST + 1:
        raise ConfigError(f"dataset.classes={config.dataset.classes}: IMDB-WIKI has {_OLDEST + 1}, the ages from 0")

    def is_root(folder: Path) -> bool:
        return any((folder / f"{name}.mat").is_file() for name in _PUBLISHED)

    homes = files.roots(config, is_root, "imdb_crop with imdb.mat, or wiki_crop with wiki.mat, or both")
    homes.sort(key=lambda home: not home.name.endswith("_crop"))  # the same table lies beside the uncropped images too
    notes: list[str] = []
    facts, listed = [], []
    for name, published in _PUBLISHED.items():
        path = next((home / f"{name}.mat" for home in homes if (home / f"{name}.mat").is_file()), None)
        if path is None:
            notes.append(f"{name}.mat is not there: without its images")
            facts.append(reader.Fact(f"{name} images listed", 0, published))
            continue
        table = read_table(path)
        listed.append(_images(config, path, table, notes))
        facts.append(reader.Fact(f"{name} images listed", len(table.dob), published))
    images = folders.Images(
        listed[0].folder,
        [name for part in listed for name in part.names],
        np.concatenate([part.labels for part in listed]),
    )
    facts.append(reader.Fact("images kept", len(images.names)))
    chosen, held_out = sharding.split(len(images.names), config.dataset.validation_fraction, _SPLIT_SEED)
    training, damaged = folders.part(config, images[np.sort(chosen)], notes, training=True)
    validation, also_damaged = folders.part(config, images[np.sort(held_out)], notes, training=False)
    return reader.Parts(training, validation, facts, notes, damaged + also_damaged)


def open_imdb_wiki(config: Config, rank: int) -> reader.Reader:
    """What one rank reads. Raises ConfigError."""
    return reader.Reader(config, rank, find(config))


DATASETS = {"imdb_wiki": open_imdb_wiki}
