import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.helpers import ROOT, shell
from train.input.reader import Fact
from train.tools import data_check

pytestmark = pytest.mark.slow


CLASSES = ("freshapples", "freshbanana", "freshoranges", "rottenapples", "rottenbanana", "rottenoranges")


def command(*overrides: str) -> subprocess.CompletedProcess:
    asked = [sys.executable, "-m", "train.tools.data_check", *overrides]
    return subprocess.run(asked, cwd=ROOT, env=shell.ENVIRONMENT, capture_output=True, text=True)


@pytest.fixture
def fruit(tmp_path) -> Path:
    """Two training images and one test image a class."""
    for folder, count in (("train", 2), ("test", 1)):
        for name in CLASSES:
            (tmp_path / folder / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (40, 30), (9, 9, 9)).save(tmp_path / folder / name / f"{number}.png")
    return tmp_path


def test_counts_stand_beside_the_published_ones():
    assert data_check.fact_lines(
        [Fact("training images", 49_999, 50_000), Fact("classes", 10, 10), Fact("files", 3)]
    ) == [
        "                      found   published",
        "training images      49,999      50,000  differs",
        "classes                  10          10",
        "files                     3",
    ]


# TensorFlow 2.21 logs while it loads, and when reading is slow, whatever TF_CPP_MIN_LOG_LEVEL says.
NOTICE = re.compile(r"WARNING: All log messages before absl|[IW]\d{4} ")


def test_a_whole_set(fruit):
    done = command("dataset=fruit", f"dataset.data_dir={fruit}")
    assert (done.returncode, [line for line in done.stderr.splitlines() if not NOTICE.match(line)]) == (0, [])
    assert "training images          12      10,901  differs" in done.stdout
    assert "18 samples checked, 0 missing or damaged" in done.stdout


def test_every_damage_is_named(fruit):
    (fruit / "train/freshapples/1.png").write_bytes(b"")
    middle = bytearray((fruit / "test/freshbanana/0.png").read_bytes())
    place = middle.index(b"IDAT") + 6
    middle[place : place + 4] = bytes(4)
    (fruit / "test/freshbanana/0.png").write_bytes(bytes(middle))
    done = command("dataset=fruit", f"dataset.data_dir={fruit}")
    assert done.returncode == 1
    assert "1 of 12 training images damaged and left out: freshapples/1.png (empty)" in done.stdout
    assert "cannot be decoded: validation sample freshbanana/0.png: Invalid PNG data" in done.stdout
    assert "17 samples checked, 2 missing or damaged" in done.stdout


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["dataset=fruit", "dataset.data_dir=/nowhere"], "dataset.data_dir=/nowhere: there is no such folder"),
        (["dataset=fruit"], "dataset.data_dir=None: give the folder that holds fruit, as DATA_DIR=/data/fruit"),
        (["dataset=digits"], "dataset=digits: is not read from a folder"),
    ],
)
def test_what_cannot_be_checked_is_one_line(overrides, message):
    done = command(*overrides)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr
