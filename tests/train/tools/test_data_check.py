import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT, shell, small_sets
from train.config.checks import ConfigError
from train.input.reader import Fact
from train.tools import data_check

pytestmark = pytest.mark.slow


@pytest.fixture
def fruit(tmp_path) -> Path:
    """Six training and two test images a class."""
    small_sets.fruit(tmp_path)
    return tmp_path


def test_counts_are_shown_beside_the_published_ones():
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
    argv = [sys.executable, "-m", "train.tools.data_check", "dataset=fruit", f"dataset.data_dir={fruit}"]
    done = subprocess.run(argv, cwd=ROOT, env=shell.ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if not NOTICE.match(line)]) == (0, [])
    assert "training images          36      10,901  differs" in done.stdout
    assert "48 samples checked, 0 missing or damaged" in done.stdout


def test_every_damage_is_named(fruit, capsys):
    (fruit / "train/freshapples/1.jpg").write_bytes(b"")
    (fruit / "test/freshbanana/0.jpg").write_bytes(b"\xff\xd8\xff" + bytes(50) + b"\xff\xd9")
    assert data_check.run(["dataset=fruit", f"dataset.data_dir={fruit}"]) == 1
    output = capsys.readouterr().out
    assert "1 of 36 training images damaged and left out: freshapples/1.jpg (empty)" in output
    assert "cannot be decoded: validation sample freshbanana/0.jpg: Invalid JPEG data" in output
    assert "47 samples checked, 2 missing or damaged" in output


def test_a_dataset_that_cannot_be_checked_is_an_error():
    with pytest.raises(ConfigError, match="dataset=digits: is not read from a folder, so there is nothing to check"):
        data_check.run(["dataset=digits"])
