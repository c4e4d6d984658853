"""What is checked before the ranks start. That the launcher asks for it is tested in plan/test_checks.py."""

import pytest
from PIL import Image

from tests.helpers.small_sets import FRUIT
from train.config.checks import ConfigError
from train.config.compose import load
from train.tools.prepare import prepare, run

pytestmark = pytest.mark.slow


@pytest.fixture
def asked(tmp_path):
    """The overrides of a run on two training images and one test image a class."""
    for folder, count in (("train", 2), ("test", 1)):
        for name in FRUIT:
            (tmp_path / "fruit" / folder / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (20, 20)).save(tmp_path / "fruit" / folder / name / f"{number}.png")
    common = ["experiment=fruit", f"dataset.data_dir={tmp_path}/fruit", "model=tiny", "nodes=2"]
    return [*common, "dataset.training_samples=null"]


def test_samples_are_counted(asked, tmp_path, capsys):
    assert run([*asked, "batch_per_rank=6"]) == 0
    assert capsys.readouterr().out == f"fruit in {tmp_path}/fruit: 12 training and 6 validation samples\n"


def test_too_few_samples_for_the_global_batch(asked):
    with pytest.raises(ConfigError, match=r"global_batch=14: fruit has 12 training samples in .*allowed is up to that"):
        prepare(load([*asked, "batch_per_rank=7"]))


def test_a_run_that_reads_nothing_needs_nothing():
    assert prepare(load(["experiment=weak_scaling", "model=tiny"])) == []


def test_weights_that_are_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"weights=.*/missing\.h5"):
        prepare(load(["experiment=weak_scaling", "model=tiny", f"weights={tmp_path}/missing.h5"]))
