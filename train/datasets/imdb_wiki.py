"""IMDB-WIKI: portraits from IMDb and Wikipedia. The class is the age in whole years, 0 to 100.

Source: R. Rothe, R. Timofte, L. Van Gool, Deep expectation of real and apparent age from a single image without facial
landmarks, IJCV 2018. The tables imdb.mat and wiki.mat list the images; their fields are described on its page.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from train.config.checks import ConfigError
from train.config.run_config import RunConfig
from train.input import image_files, reader

_PUBLISHED = {"imdb": 460_723, "wiki": 62_328}
_OLDEST = 100
_FIELDS = ("dob", "photo_taken", "full_path", "face_score", "second_face_score")
_DATENUM_OF_1970 = 719_529  # MATLAB counts days from year 0


class Table(NamedTuple):
    """The columns of one .mat file, one entry per image."""

    dob: np.ndarray  # day of birth, MATLAB datenum
    photo_taken: np.ndarray  # year
    full_path: np.ndarray  # relative to the file's folder
    face_score: np.ndarray  # infinite if no face was found
    second_face_score: np.ndarray  # NaN if no second face was found


def ages(dob: np.ndarray, photo_taken: np.ndarray) -> np.ndarray:
    """Return the age in whole years on 1 July of the year `photo_taken`: int64; -1 if the day of birth is not a number.

    dob: MATLAB datenum: days, of which 719529 is 1 January 1970.
    """
    is_number = np.isfinite(np.asarray(dob, np.float64))
    birth = (np.floor(np.where(is_number, dob, _DATENUM_OF_1970)).astype(np.int64) - _DATENUM_OF_1970).astype("M8[D]")
    first_of_month = birth.astype("M8[M]")
    july = (np.asarray(photo_taken, np.int64) - 1970) * 12 + 6  # months since January 1970, as the number of an M8[M]
    months = july - first_of_month.astype(np.int64) - (birth > first_of_month)
    return np.where(is_number, months // 12, -1)


def read_table(path: Path) -> Table:
    """Return the columns of imdb.mat or wiki.mat. Raises ConfigError if unreadable or of another kind."""
    from scipy.io import loadmat

    name = path.stem
    try:
        content = loadmat(path, squeeze_me=True, variable_names=[name])
    except NotImplementedError as error:
        raise ConfigError(
            f"{path}: MATLAB's version 7.3, which is HDF5; expected version 5, as distributed. "
            f"In MATLAB: save('{path.name}', '{name}', '-v7')"
        ) from error
    except Exception as error:  # SciPy can raise anything on a damaged file
        raise ConfigError(f"{path}: not a complete MATLAB file of version 5: {error}") from error
    fields = content[name].dtype.names if name in content else None
    if missing := [field for field in _FIELDS if field not in (fields or ())]:
        raise ConfigError(f"{path}: expected the struct {name} with {', '.join(_FIELDS)}; missing {', '.join(missing)}")
    columns = [np.atleast_1d(content[name][field].item()) for field in _FIELDS]
    if len({column.shape for column in columns}) > 1:
        sizes = ", ".join(f"{field} {column.size}" for field, column in zip(_FIELDS, columns, strict=True))
        raise ConfigError(f"{path}: the fields of {name} differ in length: {sizes}")
    return Table(*columns)


def _images(config: RunConfig, path: Path, table: Table) -> image_files.Images:
    """Return the images with one face and a possible age, with a note on those that are left out."""
    age = ages(table.dob, table.photo_taken)
    no_face = ~np.isfinite(table.face_score.astype(np.float64))
    two_faces = ~no_face & ~np.isnan(table.second_face_score.astype(np.float64))
    impossible = ~no_face & ~two_faces & ((age < 0) | (age > _OLDEST))
    usable = ~(no_face | two_faces | impossible)
    note = (
        f"{path.name}: {len(age)} images listed; left out {no_face.sum()} without a face, {two_faces.sum()} with a "
        f"second face, {impossible.sum()} with an age outside 0 to {_OLDEST}; {usable.sum()} kept"
    )
    home = Path(config.dataset.data_dir or "").expanduser()
    inside = os.path.relpath(path.parent, home)
    names = [os.path.normpath(f"{inside}/{name}") for name in table.full_path[usable]]
    return image_files.Images(home, names, age[usable], (note,))


def _table_paths(config: RunConfig) -> dict[str, Path | None]:
    """Return the path of each set's table, None without one. Raises ConfigError if there is none at all."""

    def is_root(folder: Path) -> bool:
        return any((folder / f"{name}.mat").is_file() for name in _PUBLISHED)

    homes = image_files.roots(config, is_root, "imdb_crop with imdb.mat, or wiki_crop with wiki.mat, or both")
    homes.sort(key=lambda home: not home.name.endswith("_crop"))  # the uncropped images come with the same table
    return {
        name: next((home / f"{name}.mat" for home in homes if (home / f"{name}.mat").is_file()), None)
        for name in _PUBLISHED
    }


def find_imdb_wiki(config: RunConfig) -> reader.Parts:
    """Return the dataset in the folder: both sets, or one of them. Raises ConfigError."""
    if config.dataset.classes != _OLDEST + 1:
        raise ConfigError(f"dataset.classes={config.dataset.classes}: IMDB-WIKI has {_OLDEST + 1}, the ages from 0")
    notes: list[str] = []
    facts, sets = [], []
    for name, path in _table_paths(config).items():
        table = read_table(path) if path else None
        facts.append(reader.Fact(f"{name} images listed", len(table.dob) if table else 0, _PUBLISHED[name]))
        if path and table:
            sets.append(_images(config, path, table))
            notes += sets[-1].notes
        else:
            notes.append(f"{name}.mat is not there: without its images")
    names, labels = [name for part in sets for name in part.names], np.concatenate([part.labels for part in sets])
    images = image_files.Images(sets[0].folder, names, labels)
    facts.append(reader.Fact("images kept", len(images.names)))
    return reader.Parts(*image_files.split_parts(config, images), facts, notes)


DATASETS = {"imdb_wiki": reader.opener(find_imdb_wiki)}
