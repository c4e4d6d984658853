"""A cost is paid once only if nothing that recurs explains the wall times as well."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis import explain
from analysis.explain import text

pytestmark = pytest.mark.slow  # each fit simulates

RANKS = np.array([1, 2, 4, 8, 16, 32])
STEPS = 512 / RANKS
STEP_S = 64 / 170  # a step of 64 images at 170 images/s
WORKS = np.repeat([1, 2, 4], 3), np.tile([50, 100, 200], 3)


def explained(cost_s, seed, ranks=RANKS, steps=STEPS, speeds=True, step_s=STEP_S, **more):
    """What is said of runs with this cost beside their steps, with noise of 1 % and of 0.5 % of the speeds."""
    rng = np.random.default_rng(seed)
    wall_s = (cost_s + steps * step_s) * (1 + rng.normal(0, 0.01, len(ranks)))
    speed = 64 / STEP_S * (1 + rng.normal(0, 0.005, len(ranks))) if speeds else math.nan
    columns = {"ranks": ranks, "steps_per_rank": steps, "batch_per_rank": 64, "wall_s": wall_s}
    return explain.explain(pd.DataFrame({"model": "m", **columns, "images_per_s_per_rank": speed, **more}))


def shapes(found):
    return {one.shape.paid_for for one in found.alternatives}


def test_contention_that_grows_with_the_ranks_is_a_constant_where_the_work_is_shared_out():
    """A quarter of a step for each rank: 512 steps / n x n / 4 = 48 s at every point. Nothing is paid once."""
    result = explained(0.0, 0, speeds=False, step_s=STEP_S * (1 + RANKS / 4))
    assert result.fit.fixed_s.value == pytest.approx(48, abs=4)
    assert result.has_fixed_cost is None
    assert {"each step and rank", "each epoch or checkpoint"} <= shapes(result)


def test_a_log_of_all_ranks_is_not_called_once():
    """12 s once, and 0.024 s for each step and rank: 12.3 s more."""
    result = explained(12 + 0.024 * STEPS * RANKS, 0)
    assert result.fit.fixed_s.value == pytest.approx(24.3, abs=1.5)
    assert result.has_fixed_cost is None
    assert "each step and rank" in shapes(result)
    assert result.hides_speedup  # the two speedups differ for that, whatever it is paid for


def test_evaluation_in_each_epoch_is_not_called_once():
    assert "each epoch or checkpoint" in shapes(explained(42.0, 0))
    assert "each epoch or checkpoint" in shapes(explained(42.0, 0, epochs=10))


def test_the_run_that_decides_is_named_with_both_wall_times():
    """4 times the 16 steps on 32 ranks: 12 s + 64 steps = 36 s once, 4 x 12 s + 64 steps = 72 s if it recurs."""
    output = " ".join(text.sentences(explained(12.0, 0)))
    assert (
        "Whether that is paid once cannot be decided: a cost that recurs, for each step and rank or for each" in output
    )
    assert "One run would decide, 4 times the steps on 32 ranks (64 steps a rank): 36" in output
    assert explained(12.0, 0).decider.others_s[0] == pytest.approx(72, abs=2)


@pytest.mark.parametrize("speeds", [True, False])
def test_several_works_at_one_number_of_ranks_decide(speeds):
    ranks, steps = WORKS
    result = explained(12.0, 0, ranks, steps, speeds)
    assert result.has_fixed_cost is True
    assert result.fit.fixed_s.low < 12 < result.fit.fixed_s.high


def test_a_cost_that_recurs_beside_a_fixed_one_is_split_off():
    ranks, steps = WORKS
    result = explained(12 + 0.03 * steps * ranks, 0, ranks, steps)
    assert result.fit.model.name.startswith("measured speeds, and a cost of each ")
    assert result.fit.fixed_s.low < 12 < result.fit.fixed_s.high


def test_with_equal_steps_a_cost_of_each_step_is_a_constant():
    result = explained(2.0, 1, steps=np.full(6, 100.0))
    assert "each step" in shapes(result)
    assert result.has_fixed_cost is None


def test_epochs_that_are_stated_are_not_taken_from_the_images():
    """With 1 and 4 epochs of the same steps the cost of 5 s an epoch is no constant; without them it would be."""
    ranks, epochs = np.array([2] * 6), np.array([1, 2, 4, 1, 2, 4])
    result = explained(5.0 * epochs, 0, ranks, np.full(6, 100.0), epochs=epochs)
    assert "each epoch or checkpoint" in shapes(result) or "epoch" in result.fit.model.name
