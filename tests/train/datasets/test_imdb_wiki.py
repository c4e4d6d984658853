from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from tests.helpers.small_sets import NAN, NONE, datenum, row, write_mat
from train.config.checks import ConfigError
from train.datasets import imdb_wiki

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("birth", "taken", "age"),
    [
        (datenum(1899, 5, 10), 1968, 69),  # nm0000001: the birthday was before 1 July
        (datenum(1980, 7, 1), 2000, 20),  # on the day
        (datenum(1980, 7, 2), 2000, 19),  # the day after
        (datenum(2000, 2, 29), 2001, 1),
        (datenum(2000, 8, 1), 2000, -1),  # not born yet
        (datenum(1900, 1, 1), 2001, 101),
        (730486.5, 2010, 10),  # MATLAB's documentation: datenum(2000, 1, 1) = 730486
        (NAN, 2010, -1),
        (47.0, 2010, 2010),  # before the calendar
    ],
)
def test_age_on_the_first_of_july(birth, taken, age):
    assert imdb_wiki.ages(np.array([birth]), np.array([taken])).tolist() == [age]


def portrait(number: int) -> tuple[tuple[int, int, int], int]:
    """The colour and age of a portrait: 20 are of IMDb, aged 10 to 29, and 4 of Wikipedia, aged 60 to 63."""
    return ((10 * number + 10, 50, 200), 10 + number) if number < 20 else ((10 * number - 190, 150, 200), 40 + number)


@pytest.fixture
def faces(tmp_path, write_picture) -> Path:
    """The portraits, and four to be left out."""
    imdb, wiki = [], []
    for number in range(24):
        colour, age = portrait(number)
        path = f"{number % 4:02}/nm{number:07}_rm1_1980-1-1_{1980 + age}.jpg"
        (imdb if number < 20 else wiki).append(((1980, 1, 1), 1980 + age, path, 3.5, NAN))
        write_picture(tmp_path / ("imdb_crop" if number < 20 else "wiki_crop") / path, colour)
    imdb.insert(3, ((1980, 1, 1), 2000, "00/no_face.jpg", NONE, NAN))
    imdb.insert(7, ((1980, 1, 1), 2000, "00/two_faces.jpg", 3.0, 2.0))
    imdb.insert(9, ((1900, 1, 1), 2001, "00/old.jpg", 3.0, NAN))
    imdb.append(((2010, 1, 1), 2001, "00/unborn.jpg", 3.0, NAN))
    write_mat(tmp_path / "imdb_crop/imdb.mat", imdb)
    write_mat(tmp_path / "wiki_crop/wiki.mat", wiki)
    return tmp_path


def test_every_portrait_once_with_its_age(faces, open_dataset, validation_weights, check_each_once):
    readers = open_dataset("imdb_wiki", faces, "batch_per_rank=3")
    validation = set(validation_weights(readers))
    assert len(validation) == 5  # of 24: round(4.8)
    check_each_once(readers, {portrait(number) for number in range(24)} - validation, validation)
    assert readers[0].notes == [
        "imdb.mat: 24 images listed; left out 1 without a face, 1 with a second face, "
        "2 with an age outside 0 to 100; 20 kept",
        "wiki.mat: 4 images listed; left out 0 without a face, 0 with a second face, "
        "0 with an age outside 0 to 100; 4 kept",
    ]


def test_one_of_the_two_sets_is_enough_and_reported(faces, open_dataset):
    (reader,) = open_dataset("imdb_wiki", faces / "wiki_crop", "batch_per_rank=1")
    assert reader.steps_per_epoch == 3
    assert reader.notes[0] == "imdb.mat is not there: without its images"
    assert [(fact.count, fact.published) for fact in reader.parts.facts[:2]] == [(0, 460_723), (4, 62_328)]


def test_the_crops_are_read_where_the_folder_has_the_whole_pictures_too(faces, open_dataset):
    write_mat(faces / "imdb/imdb.mat", [((1980, 1, 1), 1990, "00/elsewhere.jpg", 3.0, NAN)])
    (reader,) = open_dataset("imdb_wiki", faces)
    assert reader.parts.facts[0].count == 24


def write_version_73(path: Path) -> None:
    with h5py.File(path, "w", userblock_size=512) as file:
        file["imdb/dob"] = np.zeros((3, 1))
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (write_version_73, r"imdb.mat: MATLAB's version 7.3, which is HDF5; expected version 5.*'-v7'"),
        (lambda path: path.write_bytes(path.read_bytes()[:900]), r"imdb.mat: not a complete MATLAB file of version 5"),
        (
            lambda path: savemat(path, {"imdb": {"dob": row([1], np.int32)}}),
            r"imdb.mat: expected the struct imdb .*; missing photo_taken, full_path, face_score, second_face_score",
        ),
    ],
)
def test_another_table_is_explained(faces, write, message, open_dataset):
    write(faces / "imdb_crop/imdb.mat")
    with pytest.raises(ConfigError, match=message):
        open_dataset("imdb_wiki", faces)
