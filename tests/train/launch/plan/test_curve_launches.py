import pytest

from tests.helpers.launched_curves import add, curve
from train.launch.plan.budget import Budget
from train.launch.plan.curve_launches import CurveLaunches
from train.launch.plan.runs import Run

AGREE = ([1.59, 1.6, 1.61],) * 3
DIFFER = ([1.4] * 3, [1.6] * 3, [1.8] * 3)


@pytest.fixture
def point(tmp_path):
    return curve(tmp_path)


def planned(point) -> list[Run]:
    return [Run(point, repeat) for repeat in range(3)]


def test_launches_that_differ_are_followed_by_more_as_long_as_there_is_time(point):
    for repeat, speedups in enumerate(DIFFER):
        add(point, repeat, speedups)
    curves = CurveLaunches(planned(point), force=False)
    assert [run.repeat for run in curves.further(Budget(100.0))] == [3]
    assert [run.repeat for run in curves.further(Budget(100.0))] == [4]
    assert curves.further(Budget(0.0)) == []


def test_precise_curves_and_those_whose_launches_are_not_made_need_no_more(point):
    curves = CurveLaunches(planned(point), force=False)
    for repeat, speedups in enumerate(AGREE):
        assert curves.further(Budget(100.0)) == []
        curves.add(Run(point, repeat), add(point, repeat, speedups))
    assert curves.further(Budget(100.0)) == []


def test_if_all_is_measured_again_earlier_launches_only_tell_how_much_they_differ(point):
    for repeat, speedups in enumerate(DIFFER):
        add(point, repeat, speedups)
    [run, *_] = runs = planned(point)
    assert len(CurveLaunches(runs, force=False).records(run)) == 3
    curves = CurveLaunches(runs, force=True)
    assert curves.records(run) == []
    assert curves.known(run) is None
    curves.add(run, add(point, 0, [1.6] * 6))
    assert len(curves.records(run)) == 1
    assert curves.known(run).degrees == 3
    assert "covers launches" in curves.result(run, is_last=False)
