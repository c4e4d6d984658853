import math

import pytest

from tests.helpers.launched_curves import add, curve
from train.launch.plan.budget import Budget, Cost, launch_cost
from train.launch.plan.runs import Run

ALIKE = [1.6] * 4


@pytest.fixture
def left(monkeypatch):
    """Set the time that is left of any budget, in s."""
    return lambda seconds: monkeypatch.setattr(Budget, "left_s", seconds)


def test_what_a_launch_takes_is_read_from_its_record(tmp_path):
    point = curve(tmp_path)
    result = launch_cost(add(point, 0, [1.6, 1.6 * math.exp(0.02)], job_s=23.0))
    assert result == Cost(before_s=10.0, after_s=3.0, round_s=5.0, scatter=pytest.approx(0.02 / math.sqrt(2)))
    assert launch_cost(add(point, 1, ALIKE)).scatter == 0.01  # at least


def test_launches_of_which_nothing_is_known_have_equal_shares(tmp_path, left):
    point = curve(tmp_path)
    left(300.0)
    assert Budget(300.0).rounds_end_s(Run(point, 0), [Run(point, 1), Run(point, 2)]) == pytest.approx(100)


def test_the_fixed_costs_of_later_launches_are_set_aside(tmp_path, left):
    """Of 100 s three launches take 13 s each beside their rounds: 61 s are left for rounds."""
    point = curve(tmp_path)
    budget = Budget(100.0)
    budget.add(Run(point, 0), add(point, 0, ALIKE, job_s=33.0))
    left(100.0)
    runs = [Run(point, repeat) for repeat in (1, 2, 3)]
    assert budget.rounds_end_s(runs[0], runs[1:]) == pytest.approx(10 + 61 / 3)
    assert budget.is_enough_for(*runs)
    left(60.0)  # each takes 13 s and two rounds of 5 s
    assert not budget.is_enough_for(*runs)
    left(1.0)  # a launch that is made none the less has as many rounds as an interval needs
    assert budget.rounds_end_s(runs[0], []) == pytest.approx(10 + 2 * 5)


def test_a_launch_ends_after_enough_rounds_where_others_can_follow(tmp_path, left):
    point = curve(tmp_path)
    left(1000.0)
    for repeats, end_s in ((3, 10 + 17 * 5), (1, 10 + 1000 - 13)):
        single = curve(tmp_path, f"measure.repeats={repeats}")
        budget = Budget(1000.0)
        budget.add(Run(single, 0), add(point, repeats, ALIKE, job_s=33.0))
        assert budget.rounds_end_s(Run(single, 1), []) == pytest.approx(end_s)


def test_a_curve_with_longer_rounds_or_more_scatter_has_more_time(tmp_path, left):
    """Weights are scatter x root of a round's time: 0.01 x root 4 and 0.04 x root 1, as 1 to 2."""
    curves = [curve(tmp_path, f"model={model}") for model in ("tiny", "digits_cnn")]
    costs = {curves[0].name: Cost(10.0, 0.0, 4.0, 0.01), curves[1].name: Cost(10.0, 0.0, 1.0, 0.04)}
    left(47.0)
    budget = Budget(47.0, costs)
    assert budget.rounds_end_s(Run(curves[0], 1), [Run(curves[1], 1)]) == pytest.approx(10 + 9)
    assert budget.rounds_end_s(Run(curves[1], 1), [Run(curves[0], 1)]) == pytest.approx(10 + 17)
