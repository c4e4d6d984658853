"""The reports' experiments by their make targets, on small sets in the true layouts."""

import os
import sys
from pathlib import Path

import pytest
from kit import ROOT, records, run

SET_UP = Path(sys.prefix, ".installed-cpu")  # else make would set the environment up, for minutes
pytestmark = [pytest.mark.end_to_end, pytest.mark.skipif(not SET_UP.exists(), reason="not set up by make setup")]

DATASETS = {"tf-benchmarks": "imagenet"}  # else the experiment's own


@pytest.mark.parametrize("target", ["cifar10", "imdb-wiki", "fruit", "caltech256", "tf-benchmarks"])
def test_an_experiment_runs_as_a_user_types_it(target, tmp_path):
    name = DATASETS.get(target, target.replace("-", "_"))
    data, kit = tmp_path / "data", tmp_path / "kit"
    status, output = run(sys.executable, "tests/train/datasets/small_sets.py", name, str(data))
    assert status == 0, output
    kit.mkdir()  # the user's own results and figures stay as they are
    for part in ("Makefile", "analysis", "conf", "docs", "requirements", "train"):
        os.symlink(ROOT / part, kit / part)
    os.symlink(sys.prefix, kit / ".venv")
    more = "ARGS=tracking=none" + (" batch_per_rank=4" if target == "tf-benchmarks" else "")
    given = ("NODES=2", f"DATA_DIR={data}", "MODELS=tiny", "REPEATS=1", more)
    status, output = run("make", "-C", str(kit), target, *given)
    assert status == 0, output
    made = records(kit / "results")
    assert {(record.config["dataset"]["name"], len(record.ranks)) for record in made} >= {(name, 1), (name, 2)}
    assert all(record.status == "complete" and record.config["assumed"] for record in made)
    assert f"{made[0].experiment}, assumed, not stated by the report: weights" in output
    trained = [record for record in made if record.config["measure"]["epochs"]]
    assert len(trained) == (0 if target in ("cifar10", "tf-benchmarks") else len(made))
    for record in trained:
        assert len(record.epochs) == 2
        assert (record.epochs[-1].validation_mean_absolute_error is not None) == (name == "imdb_wiki")
