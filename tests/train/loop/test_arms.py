"""Arms with a model, data and compiled steps. test_windows.py has their windows."""

import pytest

from tests.helpers.configs import arm, with_values
from tests.helpers.context import FirstOfTwo, make_context
from tests.helpers.lazy import Lazy
from train.config.compose import load
from train.config.measure_config import LaunchPlan
from train.loop import Length
from train.models import build

pytestmark = pytest.mark.slow

datasets, reader = Lazy("train.datasets"), Lazy("train.input.reader")
arms, learners = Lazy("train.loop.arms"), Lazy("train.loop.learner")


ONE_NODE, TWO_NODES, CONTROL = arm(), arm(2), arm(2, allreduce=False)


def prepare(*rounds, overrides=()):
    """The context of rank 0 of two, which measures these rounds, and a model that it trains."""
    config = load(["model=tiny", "model.image_size=8", "nodes=2", "batch_per_rank=2", *overrides])
    context = make_context(with_values(config, {"launch": LaunchPlan(rounds)}), FirstOfTwo())
    data = datasets.DATASETS[config.dataset.name](context.config, 0)
    model = build("tiny", config.model.image_size, config.dataset.channels, config.dataset.classes)
    return context, learners.Learner(context.config, context.distribution, data, model)


def test_every_window_starts_from_the_same_weights_also_after_others_have_moved_them():
    context, learner = prepare(ONE_NODE)
    runner = arms.window_runner(context, learner)

    def weights_after_a_window():
        window, finite = runner.run_window((0,), 0, Length(2))
        assert 0 < sum(window.step_times_s) <= window.window_s <= window.cores.wall_s
        assert min(window.compute_times_s) > 0
        assert finite
        return [variable.numpy().tolist() for variable in learner.model.trainable_variables]

    first = [variable.numpy().tolist() for variable in learner.model.trainable_variables]
    assert first != weights_after_a_window() == weights_after_a_window()


def test_arms_of_one_batch_share_a_compiled_step_if_gradients_are_one_tensor():
    larger = arm(2, batch_per_rank=4)
    rounds = ONE_NODE, TWO_NODES, CONTROL, arm(2, link_mbit_per_s=100.0), larger, arm(rank_group=1)
    one, two, control, slow_link, four, elsewhere = arms.local_arms(*prepare(*rounds))
    assert elsewhere is None  # of another rank group
    assert one.step is control.step is two.local_step is one.local_step
    assert two.step is slow_link.step is not one.step
    assert four.local_step not in (None, four.step, one.step)
    with two.batches() as batches, four.batches() as larger_batches:
        assert [next(batches)[0].shape[0] for _ in range(2)] == [2, 2]
        assert next(larger_batches)[0].shape[0] == 4
    overrides = ["distribution.gradients=separate"]
    one, two, four = arms.local_arms(*prepare(ONE_NODE, TWO_NODES, larger, overrides=overrides))
    assert (two.local_step, four.local_step) == (one.step, None)


def test_a_split_has_the_exchange_of_each_number_of_ranks_and_rate_of_links():
    rounds = ONE_NODE, TWO_NODES, CONTROL, arm(2, link_mbit_per_s=100.0), arm(2, batch_per_rank=4)
    context, learner = prepare(*rounds, overrides=["measure.split=true"])
    exchanges = arms.window_runner(context, learner).exchanges
    assert [*exchanges] == [1, 3]
    assert exchanges[1]().dtype == "float32"
    assert arms.local_exchanges(*prepare(*rounds), []) == {}


def test_arms_that_read_go_on_in_their_epochs_and_read_nothing_between_windows(monkeypatch):
    begun, ended = [], []
    training = reader.Reader.training

    def recorded(data, epoch):
        begun.append(epoch)
        try:
            yield from training(data, epoch)
        finally:
            ended.append(epoch)

    monkeypatch.setattr(reader.Reader, "training", recorded)
    overrides = ["dataset=digits", "dataset.training_samples=8"]
    reading, in_memory = arms.local_arms(*prepare(arm(reads=True), ONE_NODE, overrides=overrides))
    assert begun == [0]  # the batch that is kept in memory
    for window in ([0, 1], [1, 2]):  # an epoch has four batches
        begun.clear()
        with reading.batches() as batches:
            for _ in range(5):
                next(batches)
        assert begun == window
        assert len(ended) == 1 + 2 * window[1]
    assert reading.settle_steps > in_memory.settle_steps == 0
