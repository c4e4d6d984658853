"""The reports' experiments by their make targets, on small sets in the true layouts."""

import sys

import pytest

from tests.helpers.kit import make_command, needs_setup, records, run

pytestmark = [pytest.mark.end_to_end, needs_setup]


@pytest.mark.parametrize(
    ("target", "dataset", "point", "ranks", "epochs"),
    [
        ("cifar10", "cifar10", "tiny-nodes1", 1, 0),
        ("imdb-wiki", "imdb_wiki", "tiny-nodes2", 2, 2),
        ("fruit", "fruit", "nodes1", 1, 2),
        ("caltech256", "caltech256", "nodes1", 1, 2),
        ("tf-benchmarks", "imagenet", "tiny-imagenet-batch_per_rank4-nodes2", 2, 0),
    ],
)
def test_an_experiment_runs_as_a_user_types_it(target, dataset, point, ranks, epochs, tmp_path):
    data, kit = tmp_path / "data", tmp_path / "kit"
    status, output = run(sys.executable, "tests/helpers/small_sets.py", dataset, str(data))
    assert status == 0, output
    given = ("NODES=2", f"DATA_DIR={data}", "MODELS=tiny", "REPEATS=1", f"ONLY={point}", "ARGS=tracking=none")
    status, output = run(*make_command(kit, target, *given))
    assert status == 0, output
    (record,) = records(kit / "results")
    assert (record.status, record.config["dataset"]["name"], len(record.ranks)) == ("complete", dataset, ranks)
    assert f"{record.experiment}, assumed, not stated by the report: {', '.join(record.config['assumed'])}" in output
    assert len(record.epochs) == epochs
    last = record.epochs[-1] if epochs else None
    assert (last is not None and last.validation_mean_absolute_error is not None) == (dataset == "imdb_wiki")
    assert list((kit / "figures").glob("*.png"))
