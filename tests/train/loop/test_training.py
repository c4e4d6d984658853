import pytest

from tests.helpers import small_sets
from tests.helpers.context import FirstOfTwo, make_context
from tests.helpers.launch_plans import plan_points
from tests.helpers.lazy import Lazy
from train.config.checks import ConfigError
from train.config.compose import load

pytestmark = pytest.mark.slow

TINY = ["model=tiny", "model.image_size=16", "nodes=1"]
DIGITS = [*TINY, "dataset=digits", "dataset.training_samples=32", "dataset.validation_samples=10", "batch_per_rank=8"]


roofline, training = Lazy("train.loop.roofline"), Lazy("train.loop.training")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("train.loop.roofline.BURST_S", 0.01)


def test_epochs_learn_and_are_recorded_and_a_later_launch_resumes_from_the_checkpoint(tmp_path):
    # 32 of the 1438 training samples in batches of 8: 4 steps an epoch.
    config = load([*DIGITS, "measure.epochs=3"])
    context = make_context(config, checkpoints=tmp_path)
    predictions = training.train(context)
    part = context.part.part
    assert [(epoch.epoch, epoch.steps) for epoch in part.epochs] == [(1, 4), (2, 4), (3, 4)]
    assert part.epochs[-1].train_loss < part.epochs[0].train_loss
    assert part.epochs[-1].validation_accuracy * 10 == pytest.approx(round(part.epochs[-1].validation_accuracy * 10))
    assert predictions.confusion.sum() == 10
    assert len(part.losses) == 11
    assert any("32 of 1438 training samples" in note for note in part.notes)
    # The roofline is measured after the last epoch: none of it is in a step.
    assert (part.phase, len(part.step_times_s)) == ("evaluate", 11)
    assert [product.arm for product in part.matrix_products] == [None]
    assert part.work.operations_per_image > 0
    assert part.work.gradient_bytes > 0

    assert [path.name for path in sorted(tmp_path.iterdir())] == ["epoch-00001.npz", "epoch-00002.npz"]
    (tmp_path / "epoch-00002.npz").unlink()
    resumed = make_context(config, checkpoints=tmp_path)
    training.train(resumed)
    again = resumed.part.part
    assert "resumed after its epoch 1;" in again.notes[0]
    assert again.losses == pytest.approx(part.losses, rel=1e-5)
    assert [epoch.validation_accuracy for epoch in again.epochs] == [epoch.validation_accuracy for epoch in part.epochs]
    assert len(again.step_times_s) == 7  # two epochs without the first step


# The experiments of reports on small sets in the true layouts. Over a launcher: tests/end_to_end/test_datasets.py.
@pytest.mark.parametrize(
    ("experiment", "dataset", "name", "epochs"),
    [
        ("caltech256", "caltech256", "nodes1", 2),
        ("imdb_wiki", "imdb_wiki", "tiny-nodes1", 2),
        ("tf_benchmarks", "imagenet", "tiny-imagenet-batch_per_rank4-nodes1", 0),
    ],
)
def test_an_experiment_trains_on_its_data(experiment, dataset, name, epochs, tmp_path):
    small_sets.SETS[dataset](tmp_path)
    points = plan_points(f"experiment={experiment}", "nodes=2", f"dataset.data_dir={tmp_path}", "model=tiny")
    [config] = [point.config for point in points if point.name == name]
    assert config.dataset.name == dataset
    assert config.assumed
    context = make_context(config)
    training.train(context)
    part = context.part.part
    assert [epoch.epoch for epoch in part.epochs] == list(range(1, epochs + 1))
    assert {epoch.validation_mean_absolute_error is None for epoch in part.epochs} <= {dataset != "imdb_wiki"}
    assert part.losses


def test_ranks_that_find_different_samples_stop_before_training():
    config = load([*DIGITS, "dataset.data_dir=/data/set", "measure.epochs=1"])
    context = make_context(config, FirstOfTwo(lambda fingerprint: "other"))
    with pytest.raises(ConfigError, match=r"dataset\.data_dir=/data/set: the ranks find different samples in it"):
        training.train(context)
    assert context.clock.phase == "data"


def test_weights_that_differ_after_training_fail_the_run():
    ranks = FirstOfTwo(lambda value: b"other" if isinstance(value, bytes) else value)
    context = make_context(load([*TINY, "batch_per_rank=2", "measure.timed_steps=1"]), ranks)
    with pytest.raises(RuntimeError, match="the ranks hold different weights after training"):
        training.train(context)
    part = context.part.part
    assert (part.weights_differ, len(part.losses), part.phase) == (True, 1, "evaluate")
    assert list(part.phases_s) == ["start", "data", "build", "broadcast", "first_step", "warm_up", "timed"]
