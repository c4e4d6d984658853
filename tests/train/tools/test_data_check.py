from pathlib import Path

import pytest

from tests.helpers import small_sets
from train.config.checks import ConfigError
from train.tools import data_check

pytestmark = pytest.mark.slow


@pytest.fixture
def fruit(tmp_path) -> Path:
    """Six training and two test images a class."""
    small_sets.fruit(tmp_path)
    return tmp_path


def test_a_whole_set_has_its_counts_beside_the_published_ones(fruit, capsys):
    assert data_check.run(["dataset=fruit", f"dataset.data_dir={fruit}"]) == 0
    output = capsys.readouterr().out
    assert "training images          36      10,901  differs\n" in output
    assert "classes                   6           6\n" in output
    assert "48 samples checked, 0 missing or damaged" in output


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
