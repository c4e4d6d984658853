from collections import Counter
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
        ((1899, 5, 10), 1968, 69),  # nm0000001: the birthday was before 1 July
        ((1980, 7, 1), 2000, 20),  # on the day
        ((1980, 7, 2), 2000, 19),  # the day after
        ((1980, 12, 31), 2000, 19),
        ((2000, 2, 29), 2001, 1),
        ((2000, 8, 1), 2000, -1),  # not born yet
        ((1900, 1, 1), 2001, 101),
    ],
)
def test_age_on_the_first_of_july(birth, taken, age):
    assert imdb_wiki.ages(np.array([datenum(*birth)]), np.array([taken])).tolist() == [age]


def test_matlab_s_own_example_of_a_datenum():
    # MATLAB's documentation: datenum(2000, 1, 1) = 730486.
    assert imdb_wiki.ages(np.array([730486.5]), np.array([2010])).tolist() == [10]


def test_a_day_of_birth_that_is_no_number_or_before_the_calendar():
    assert imdb_wiki.ages(np.array([np.nan, 47.0]), np.array([2010, 2010])).tolist() == [-1, 2010]


@pytest.fixture
def faces(tmp_path, picture) -> Path:
    """20 usable portraits of IMDb, aged 10 to 29, and 4 of Wikipedia, aged 60 to 63; four to be left out."""
    entries = []
    for number in range(20):
        name = f"{number % 4:02}/nm{number:07}_rm1_1980-1-1_{1990 + number}.jpg"
        entries.append(((1980, 1, 1), 1990 + number, name, 3.5, NAN))
        picture(tmp_path / "imdb_crop" / name, (10 * number + 10, 50, 200))
    entries.insert(3, ((1980, 1, 1), 2000, "00/no_face.jpg", NONE, NAN))
    entries.insert(7, ((1980, 1, 1), 2000, "00/two_faces.jpg", 3.0, 2.0))
    entries.insert(9, ((1900, 1, 1), 2001, "00/old.jpg", 3.0, NAN))
    entries.append(((2010, 1, 1), 2001, "00/unborn.jpg", 3.0, NAN))
    write_mat(tmp_path / "imdb_crop/imdb.mat", entries)
    entries = []
    for number in range(4):
        name = f"{number:02}/{number}_1940-01-01_{2000 + number}.jpg"
        entries.append(((1940, 1, 1), 2000 + number, name, 4.0, NAN))
        picture(tmp_path / "wiki_crop" / name, (10 * number + 10, 150, 200))
    write_mat(tmp_path / "wiki_crop/wiki.mat", entries)
    return tmp_path


def age_of(colour: tuple[int, int, int]) -> int:
    number = round(colour[0] / 10) - 1
    return 10 + number if colour[1] < 100 else 60 + number


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_portrait_once_with_its_age_whatever_the_ranks(faces, ranks, configure, readers, seen):
    opened = readers(configure("imdb_wiki", faces, f"nodes={ranks}", "batch_per_rank=3"))
    trained = [seen(reader.training(0)) for reader in opened]
    counted = Counter()
    for part in trained:
        assert part.labels == [age_of(colour) for colour in part.colours]
        counted.update(part.labels)
    for part in (seen(reader.validation()) for reader in opened):
        assert part.labels == [age_of(colour) for colour in part.colours]
        for label, weight in zip(part.labels, part.weights, strict=True):
            counted[label] += weight
    assert set(counted) <= {*range(10, 30), *range(60, 64)}
    assert max(counted.values()) == 1
    assert sum(counted.values()) == 19 // (3 * ranks) * 3 * ranks + 5  # 24: round(4.8) = 5 validate
    assert opened[0].notes == [
        "imdb.mat: 24 images listed; left out 1 without a face, 1 with a second face, "
        "2 with an age outside 0 to 100; 20 kept",
        "wiki.mat: 4 images listed; left out 0 without a face, 0 with a second face, "
        "0 with an age outside 0 to 100; 4 kept",
    ]


def test_one_of_the_two_is_enough_and_reported(faces, configure, readers):
    (reader,) = readers(configure("imdb_wiki", faces / "wiki_crop", "nodes=1", "batch_per_rank=1"))
    assert reader.steps_per_epoch == 3
    assert reader.notes[0] == "imdb.mat is not there: without its images"
    assert [(fact.count, fact.published) for fact in reader.parts.facts[:2]] == [(0, 460_723), (4, 62_328)]


def test_the_crops_are_taken_where_the_whole_pictures_lie_there_too(faces, configure, readers):
    write_mat(faces / "imdb/imdb.mat", [((1980, 1, 1), 1990, "00/elsewhere.jpg", 3.0, NAN)])
    (reader,) = readers(configure("imdb_wiki", faces, "nodes=1"))
    assert reader.parts.facts[0].count == 24


def test_missing_and_damaged_crops_are_named(faces, configure, readers):
    (faces / "imdb_crop/02/nm0000002_rm1_1980-1-1_1992.jpg").unlink()
    cut = faces / "imdb_crop/03/nm0000003_rm1_1980-1-1_1993.jpg"
    cut.write_bytes(cut.read_bytes()[:-30])
    (reader,) = readers(configure("imdb_wiki", faces, "nodes=1", "dataset.validation_fraction=0"))
    assert reader.parts.training.samples == 22
    assert reader.notes[-1].endswith(
        "2 of 24 training images damaged and left out: "
        "imdb_crop/02/nm0000002_rm1_1980-1-1_1992.jpg (No such file or directory), "
        "imdb_crop/03/nm0000003_rm1_1980-1-1_1993.jpg (cut short)"
    )


def write_version_73(path: Path) -> None:
    with h5py.File(path, "w", userblock_size=512) as file:
        file["imdb/dob"] = np.zeros((3, 1))
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (write_version_73, r"imdb.mat: MATLAB's version 7.3, which is HDF5; expected version 5.*'-v7'"),
        (lambda path: path.write_text("<html>404</html>" * 20), r"imdb.mat: not a complete MATLAB file of version 5"),
        (lambda path: path.write_bytes(path.read_bytes()[:900]), r"imdb.mat: not a complete MATLAB file of version 5"),
        (
            lambda path: savemat(path, {"imdb": {"dob": row([1], np.int32)}}),
            r"imdb.mat: expected the struct imdb .*; missing photo_taken, full_path, face_score, second_face_score",
        ),
        (lambda path: savemat(path, {"wiki": 1}), r"imdb.mat: expected the struct imdb"),
    ],
)
def test_another_table_is_explained(faces, write, message, configure, readers):
    write(faces / "imdb_crop/imdb.mat")
    with pytest.raises(ConfigError, match=message):
        readers(configure("imdb_wiki", faces, "nodes=1"))


def test_pictures_without_their_table_are_refused(tmp_path, picture, configure, readers):
    picture(tmp_path / "imdb_crop/00/a.jpg", (0, 0, 0))
    with pytest.raises(ConfigError, match=r"found imdb_crop/; expected imdb_crop with imdb.mat"):
        readers(configure("imdb_wiki", tmp_path, "nodes=1"))
