"""The reports' experiments on small sets in the true layouts."""

import sys
from pathlib import Path

import pytest

from tests.helpers.kit import make_command, needs_setup, records, run

pytestmark = [pytest.mark.end_to_end, needs_setup]


@pytest.fixture
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A small set in the layout of the dataset that the test names."""
    folder = tmp_path / "data"
    status, output = run(sys.executable, "tests/helpers/small_sets.py", request.param, str(folder))
    assert status == 0, output
    return folder


@pytest.mark.parametrize("data", ["imdb_wiki"], indirect=True)
def test_an_experiment_runs_as_a_user_types_it(data, tmp_path):
    kit = tmp_path / "kit"
    given = ("NODES=2", f"DATA_DIR={data}", "MODELS=tiny", "REPEATS=1", "ONLY=tiny-nodes2", "ARGS=tracking=none")
    status, output = run(*make_command(kit, "imdb-wiki", *given))
    assert status == 0, output
    (record,) = records(kit / "results")
    assert (record.status, record.config["dataset"]["name"], len(record.ranks)) == ("complete", "imdb_wiki", 2)
    assert f"imdb_wiki, assumed, not stated by the report: {', '.join(record.config['assumed'])}" in output
    assert len(record.epochs) == 2
    assert record.epochs[-1].validation_mean_absolute_error is not None
    assert list((kit / "figures").glob("*.png"))


# On the fruit: test_datasets.py.
@pytest.mark.parametrize(
    ("experiment", "data", "point", "ranks", "epochs"),
    [
        ("cifar10", "cifar10", "tiny-nodes1", 1, 0),
        ("caltech256", "caltech256", "nodes1", 1, 2),
        ("tf_benchmarks", "imagenet", "tiny-imagenet-batch_per_rank4-nodes2", 2, 0),
    ],
    indirect=["data"],
)
def test_the_others_train_on_their_data(experiment, data, point, ranks, epochs, tmp_path):
    given = ("nodes=2", f"dataset.data_dir={data}", "model=tiny", "measure.repeats=1", "tracking=none")
    command = (sys.executable, "-m", "train.launch", f"experiment={experiment}", f"--only={point}", *given)
    status, output = run(*command, f"results={tmp_path}")
    assert status == 0, output
    (record,) = records(tmp_path)
    assert (record.status, record.experiment, len(record.ranks)) == ("complete", experiment, ranks)
    assert [epoch.epoch for epoch in record.epochs] == list(range(1, epochs + 1))
    assert all(epoch.validation_mean_absolute_error is None for epoch in record.epochs)
    assert record.config["assumed"]
