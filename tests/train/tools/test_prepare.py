"""Checks before the ranks start. plan/test_point_checks.py tests that the launcher runs them."""

import pytest

from tests.helpers import small_sets
from train.config.checks import ConfigError
from train.config.compose import load
from train.tools.prepare import prepare, run

pytestmark = pytest.mark.slow


@pytest.fixture
def overrides(tmp_path):
    """The overrides of a run on six training and two test images a class."""
    small_sets.fruit(tmp_path / "fruit")
    common = ["experiment=fruit", f"dataset.data_dir={tmp_path}/fruit", "model=tiny", "nodes=2"]
    return [*common, "dataset.training_samples=null"]


def test_samples_are_counted(overrides, tmp_path, capsys):
    assert run([*overrides, "batch_per_rank=18"]) == 0
    assert capsys.readouterr().out == f"fruit in {tmp_path}/fruit: 36 training and 12 validation samples\n"


def test_too_few_samples_for_the_global_batch(overrides):
    with pytest.raises(ConfigError, match=r"global_batch=38: fruit has 36 training samples in .*allowed is up to that"):
        prepare(load([*overrides, "batch_per_rank=19"]))


def test_a_run_that_reads_nothing_needs_nothing():
    assert prepare(load(["experiment=weak_scaling", "model=tiny"])) == []


def test_weights_that_are_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"weights=.*/missing\.h5"):
        prepare(load(["experiment=weak_scaling", "model=tiny", f"weights={tmp_path}/missing.h5"]))
