import math

import pytest

from tests.helpers.launched_curves import add, curve
from train.launch.plan.queue import Budget, Cost, CurveLaunches, Queue, launch_cost
from train.launch.plan.runs import Run

ALIKE = [1.6] * 4

DIFFER = ([1.4] * 3, [1.6] * 3, [1.8] * 3)
AGREE = ([1.59, 1.6, 1.61],) * 3


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


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Three launches of a curve, with 100 s left for more."""
    monkeypatch.setattr(Budget, "left_s", 100.0)
    point = curve(tmp_path)
    return [Run(point, repeat) for repeat in range(3)]


def test_only_what_is_not_measured_yet_is_made_unless_it_is_forced(planned):
    add(planned[1].point, 1, DIFFER[1])
    queue = Queue(planned, force=False)
    assert [run.repeat for run in queue.runs] == [0, 2]
    assert queue.remarks() == [
        "1 of 3 runs are measured already; FORCE=1 measures again",
        "about 2 min for all launches",
    ]
    assert [run.repeat for run in Queue(planned, force=True).runs] == [0, 1, 2]


def test_the_last_run_is_followed_by_another_of_a_curve_that_is_not_precise(planned):
    queue, made = Queue(planned, force=False), []
    for run in queue:
        made.append(run.repeat)
        if run.repeat < len(DIFFER):
            queue.add(run, add(run.point, run.repeat, DIFFER[run.repeat]), None)
            assert queue.curve_result(run)
    assert made == [0, 1, 2, 3]


def test_after_a_failure_nothing_is_added(planned):
    queue = Queue(planned, force=False)
    for run in queue:
        failed = run.repeat == 1
        queue.add(run, add(run.point, run.repeat, DIFFER[run.repeat]), "it failed" if failed else None)
    assert [run.repeat for run in queue.runs] == [0, 1, 2]
    assert queue.failed == [planned[1].label]


@pytest.fixture
def point(tmp_path):
    return curve(tmp_path)


def three(point) -> list[Run]:
    return [Run(point, repeat) for repeat in range(3)]


def test_launches_that_differ_are_followed_by_more_as_long_as_there_is_time(point):
    for repeat, speedups in enumerate(DIFFER):
        add(point, repeat, speedups)
    curves = CurveLaunches(three(point), force=False)
    assert [run.repeat for run in curves.further(Budget(100.0))] == [3]
    assert [run.repeat for run in curves.further(Budget(100.0))] == [4]
    assert curves.further(Budget(0.0)) == []


def test_precise_curves_and_those_whose_launches_are_not_made_need_no_more(point):
    curves = CurveLaunches(three(point), force=False)
    for repeat, speedups in enumerate(AGREE):
        assert curves.further(Budget(100.0)) == []
        curves.add(Run(point, repeat), add(point, repeat, speedups))
    assert curves.further(Budget(100.0)) == []


def test_if_all_is_measured_again_earlier_launches_only_tell_how_much_they_differ(point):
    for repeat, speedups in enumerate(DIFFER):
        add(point, repeat, speedups)
    [run, *_] = runs = three(point)
    assert len(CurveLaunches(runs, force=False).records(run)) == 3
    curves = CurveLaunches(runs, force=True)
    assert curves.records(run) == []
    assert curves.spread(run) is None
    curves.add(run, add(point, 0, [1.6] * 6))
    assert len(curves.records(run)) == 1
    assert curves.spread(run).degrees == 3
    assert "covers launches" in curves.result(run, is_last=False)
