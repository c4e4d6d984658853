"""An experiment of a report on a small dataset in the true layout. Others: tests/train/loop/test_training.py."""

from pathlib import Path

import pytest

from tests.helpers import small_sets
from tests.helpers.kit import LAUNCH, records, succeed

pytestmark = pytest.mark.end_to_end


# With the dataset fruit: test_datasets.py.
def test_it_trains_on_its_data(tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    small_sets.SETS["imdb_wiki"](data)
    overrides = ("nodes=2", f"dataset.data_dir={data}", "model=tiny", "measure.repeats=1", "tracking=none")
    command = (*LAUNCH, "experiment=imdb_wiki", "--only=tiny-nodes1", *overrides)
    succeed(*command, f"results={tmp_path}")
    (record,) = records(tmp_path)
    assert (record.status, record.experiment, len(record.ranks)) == ("complete", "imdb_wiki", 1)
    assert record.config["dataset"]["name"] == "imdb_wiki"
    assert [epoch.epoch for epoch in record.epochs] == [1, 2]
    assert all(epoch.validation_mean_absolute_error is not None for epoch in record.epochs)
    assert record.config["assumed"]
