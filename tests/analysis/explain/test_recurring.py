"""A cost is paid once only if nothing that recurs explains the wall times as well."""

import math

import numpy as np
import pytest

from analysis import explain
from analysis.explain import text
from tests.helpers.wall_times import curve

pytestmark = pytest.mark.slow  # each fit simulates

RANKS = np.array([1, 2, 4, 8, 16, 32])
STEPS = 512 / RANKS
STEP_S = 64 / 170  # a step of 64 images at 170 images/s
WORK_RANKS, WORK_STEPS = np.repeat([1, 2, 4], 3), np.tile([50, 100, 200], 3)


def explained(cost_s, ranks=RANKS, steps=STEPS, speeds=True, step_s=STEP_S, **more):
    """Return the explanation of runs with this cost beside their steps; noise of 1 %, of 0.5 % in the speeds."""
    rng = np.random.default_rng(0)
    wall_s = (cost_s + steps * step_s) * (1 + rng.normal(0, 0.01, len(ranks)))
    speed = 64 / STEP_S * (1 + rng.normal(0, 0.005, len(ranks))) if speeds else math.nan
    return explain.explain(curve(ranks, steps, wall_s, speed=speed, **more))


@pytest.mark.parametrize(
    ("cost_s", "more", "fixed_s", "recurring", "hides"),
    [
        # A quarter of a step for each rank: 512 steps / n x n / 4 = 48 s at every point. Nothing is paid once.
        (0.0, {"speeds": False, "step_s": STEP_S * (1 + RANKS / 4)}, 48, {"each step and rank"}, False),
        (12 + 0.024 * STEPS * RANKS, {}, 24.3, {"each step and rank"}, True),  # 12 s once, and 12.3 s for all ranks
        (42.0, {}, 42, {"each epoch or checkpoint"}, True),
        (42.0, {"epochs": 10}, 42, {"each epoch or checkpoint"}, True),
        (12.0, {"steps": np.full(6, 100.0)}, 12, {"each step"}, False),
    ],
    ids=["contention without speeds", "a log of all ranks", "evaluation", "evaluation in 10 epochs", "equal steps"],
)
def test_a_cost_that_recurs_is_not_called_once(cost_s, more, fixed_s, recurring, hides):
    result = explained(cost_s, **more)
    assert result.fit.fixed_s.value == pytest.approx(fixed_s, rel=0.06)
    assert result.has_fixed_cost is None
    assert recurring <= {alternative.shape.paid_for for alternative in result.alternatives}
    assert result.hides_speedup is hides  # the speedups differ, whether it recurs or not


def test_the_run_that_decides_is_named_with_both_wall_times():
    """4 times the 16 steps on 32 ranks: 12 s + 64 steps = 36 s once, 4 x 12 s + 64 steps = 72 s if it recurs."""
    result = explained(12.0)
    output = " ".join(text.sentences(result))
    assert "be decided: a cost that recurs, for each step and rank or for each" in output
    assert "One run would decide, 4 times the steps on 32 ranks (64 steps a rank): 36" in output
    assert result.decider.if_recurring_s[0] == pytest.approx(72, abs=2)


@pytest.mark.parametrize("speeds", [True, False])
def test_several_works_at_one_number_of_ranks_decide(speeds):
    result = explained(12.0, WORK_RANKS, WORK_STEPS, speeds)
    assert result.has_fixed_cost is True
    assert result.fit.fixed_s.contains(12)


def test_a_cost_that_recurs_beside_a_fixed_one_is_split_off():
    result = explained(12 + 0.03 * WORK_STEPS * WORK_RANKS, WORK_RANKS, WORK_STEPS)
    assert result.fit.model.name.startswith("measured speeds, and a cost of each ")
    assert result.fit.fixed_s.contains(12)


def test_epochs_that_are_stated_are_not_taken_from_the_images():
    """With 1 and 4 epochs of the same steps the cost of 5 s an epoch is no constant; without them it would be."""
    epochs = np.array([1, 2, 4, 1, 2, 4])
    result = explained(5.0 * epochs, np.full(6, 2), np.full(6, 100.0), epochs=epochs)
    assert result.fit.model.name == "measured speeds, and a cost of each epoch or checkpoint"
