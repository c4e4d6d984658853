from dataclasses import replace

import pytest

from tests.helpers.context import make_context
from train.config.compose import load
from train.config.schema import RoundArm
from train.distribution.single import Single

pytestmark = pytest.mark.slow

ONE = RoundArm("one", 1, 2, True)
TWO = RoundArm("two", 2, 2, True)


class FirstOfTwo(Single):
    """Rank 0 of two ranks; the other one takes part in the second arm alone, and is as fast."""

    size = 2

    def gather(self, value):
        windows = getattr(value, "windows", None)
        return [value, value if windows is None else replace(value, windows=[w for w in windows if w.arm == 1])]


@pytest.fixture
def measured():
    """What rank 0 records, for a budget in ticks of the context's clock."""
    from train.datasets import DATASETS
    from train.loop.learner import Learner
    from train.loop.rounds import measure_rounds
    from train.models import build

    def measure(*overrides: str, arms=(ONE, TWO)):
        config = load(["model=tiny", "nodes=2", "batch_per_rank=2", "measure.precision_fraction=0.9", *overrides])
        config.rounds = list(arms)
        context = make_context(config, FirstOfTwo())
        data = DATASETS["synthetic"](config, 0)
        model = build("tiny", config.model.image_size, config.dataset.channels, config.dataset.classes)
        learner = Learner(config, context.distribution, data, model)
        before = [variable.numpy().copy() for variable in learner.variables()]
        measure_rounds(context, learner)
        return context, before, learner

    return measure


def test_a_round_has_a_window_of_every_arm_in_an_order_of_its_own(measured):
    context, _, _ = measured()
    windows = context.part.part.windows
    rounds = max(window.round for window in windows) + 1
    orders = [[w.arm for w in windows if w.round == number] for number in range(rounds)]
    assert all(sorted(order) == [0, 1] for order in orders)
    assert {tuple(order) for order in orders} == {(0, 1), (1, 0)}
    assert rounds == 17  # a precision of 0.9 is reached at once: two looks running, after 12 and 17 rounds
    for window in windows:
        assert 0 < sum(window.step_times_s) <= window.window_s
        assert len(window.compute_times_s) == len(window.step_times_s) >= 2


def test_the_budget_ends_the_rounds(measured):
    context, _, _ = measured("measure.budget_s=0.001")
    assert {window.round for window in context.part.part.windows} == {0}


def test_the_order_is_drawn_from_the_seed_and_the_launch(measured):
    def order(*overrides):
        return [window.arm for window in measured(*overrides)[0].part.part.windows]

    assert order("seed=1") == order("seed=1") != order("seed=2")


def test_every_window_starts_from_the_same_weights(measured, monkeypatch):
    import numpy as np

    from train.loop import rounds

    begun = []
    restore = rounds._Bench.restore

    def noted(bench):
        restore(bench)
        begun.append([variable.numpy().copy() for variable in bench._variables])

    monkeypatch.setattr(rounds._Bench, "restore", noted)
    _, before, learner = measured("measure.budget_s=0.001")
    assert len(begun) == 2 + 2 + 2 + 1  # tracing, warm-up, one round, and the step that all make at the end
    for values in begun:
        for value, first in zip(values, before, strict=True):
            np.testing.assert_array_equal(value, first)
    moved = [not np.array_equal(v.numpy(), first) for v, first in zip(learner.variables(), before, strict=True)]
    assert any(moved)


def test_a_window_is_long_beside_the_cycle_of_the_background_thread():
    from train.loop.rounds import _steps

    config = load(["model=tiny", "distribution.cycle_time_ms=20", "measure.precision_fraction=0.05"])
    assert _steps(config, step_s=0.5) == 4  # 4 x 20 ms / 0.05 = 1.6 s
    assert _steps(config, step_s=5.0) == 2
