"""The reports' experiments on small sets in the true layouts."""

import sys
from pathlib import Path

import pytest

from tests.helpers import small_sets
from tests.helpers.kit import records, run

pytestmark = pytest.mark.end_to_end


# On the fruit: test_datasets.py.
@pytest.mark.parametrize(
    ("experiment", "dataset", "point", "epochs"),
    [
        ("imdb_wiki", "imdb_wiki", "tiny-nodes1", 2),
        ("cifar10", "cifar10", "tiny-nodes1", 0),
        ("caltech256", "caltech256", "nodes1", 2),
        ("tf_benchmarks", "imagenet", "tiny-imagenet-batch_per_rank4-nodes1", 0),
    ],
)
def test_it_trains_on_its_data(experiment, dataset, point, epochs, tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    small_sets.SETS[dataset](data)
    given = ("nodes=2", f"dataset.data_dir={data}", "model=tiny", "measure.repeats=1", "tracking=none")
    command = (sys.executable, "-m", "train.launch", f"experiment={experiment}", f"--only={point}", *given)
    status, output = run(*command, f"results={tmp_path}")
    assert status == 0, output
    (record,) = records(tmp_path)
    assert (record.status, record.experiment, len(record.ranks)) == ("complete", experiment, 1)
    assert record.config["dataset"]["name"] == dataset
    assert [epoch.epoch for epoch in record.epochs] == list(range(1, epochs + 1))
    errors = [epoch.validation_mean_absolute_error is not None for epoch in record.epochs]
    assert errors == [dataset == "imdb_wiki"] * epochs
    assert record.config["assumed"]
