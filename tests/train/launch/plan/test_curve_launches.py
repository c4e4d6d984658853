import pytest

from tests.helpers.launched_curves import add, curve
from train.launch.plan import launches
from train.launch.plan.budget import Budget
from train.launch.plan.launches import CurveLaunches
from train.launch.plan.runs import Run
from train.record.intervals import Spread

# Two rounds below the speedup and two above it: their median is the speedup, and they scatter little.
SCATTER = (0.99, 0.995, 1.005, 1.01)


def rounds_of(speedup: float) -> list[float]:
    return [speedup * factor for factor in SCATTER]


def test_launches_that_agree_are_precise(tmp_path):
    point = curve(tmp_path)
    records = [add(point, repeat, rounds_of(1.6)) for repeat in range(4)]
    assert launches.is_precise(records, 0.05)
    result = launches.speedups(records)
    assert set(result) == {"nodes2-batch_per_rank1", "nodes2-batch_per_rank1-without-allreduce"}
    two = result["nodes2-batch_per_rank1"]
    assert two.value == pytest.approx(1.6, rel=1e-4)
    assert (two.n, two.covers) == (16, "launches")


def test_launches_must_be_precise_without_the_last_one_too(tmp_path):
    """Two launches of one curve have one degree of freedom, whose t is 12.7: no scatter at all is precise then."""
    point = curve(tmp_path)
    records = [add(point, repeat, rounds_of(1.6)) for repeat in range(3)]
    assert all(i.half_width_fraction < 0.05 for i in launches.speedups(records).values())
    assert not launches.is_precise(records, 0.05)
    assert launches.is_precise(records, 0.05, spread=Spread(0.0, 4))


def test_launches_that_differ_are_not_precise(tmp_path):
    point = curve(tmp_path)
    records = [add(point, repeat, rounds_of(speedup)) for repeat, speedup in enumerate((1.4, 1.6, 1.8, 1.5))]
    assert not launches.is_precise(records, 0.05)
    assert not launches.is_precise([], 0.05)


def test_a_result_says_what_its_interval_covers_and_what_more_time_would_give(tmp_path):
    point = curve(tmp_path)
    records = [add(point, 0, [1.6] * 6)]
    run = Run(point, 0)
    assert launches.result(run, records, None, is_last=False) == (
        "tiny-rounds, 1 launch: 2 nodes 1.6x (1.6 to 1.6, covers rounds), "
        "2 nodes without-allreduce 1.6x (1.6 to 1.6, covers rounds)"
    )
    records = [add(point, 1, rounds_of(1.5)), add(point, 2, rounds_of(1.7))]
    output = launches.result(run, records, None, is_last=True)
    assert ", covers launches; another launch " in output
    assert "; for ± 5 % about " in output
    assert output.endswith("with a larger measure.budget_s the same command goes on")
    too_few = launches.result(run, [add(point, 3, [1.6])], None, is_last=True)
    assert "too few rounds for an interval" in too_few
    assert "the time ended before ± 5 %" in too_few


def test_a_curve_that_reached_its_goal_asks_for_no_more_time(tmp_path):
    point = curve(tmp_path)
    records = [add(point, repeat, rounds_of(1.6)) for repeat in range(3)]
    assert not curve_launches.is_precise(records, 0.05)  # not yet without the last launch
    assert "measure.budget_s" not in curve_launches.result(Run(point, 2), records, None, is_last=True)


def test_the_spread_is_pooled_over_curves_and_generations_on_one_machine(tmp_path):
    point = curve(tmp_path)
    speedups = (1.5, 1.6, 1.7)
    for repeat in (0, 1):
        for speedup in speedups:
            last = add(point, repeat, rounds_of(speedup))
    result = launches.curve_records(tmp_path, "weak_scaling")
    assert {home: len(records) for home, records in result.items()} == {Run(point, 0).home: 6}
    assert launches.pooled_spread(list(result.values()), last).degrees == 5
    assert launches.pooled_spread([*result.values(), *result.values()], last).degrees == 10
    failed = add(point, 2, rounds_of(1.6), status="failed")
    assert failed not in launches.curve_records(tmp_path, "weak_scaling")[Run(point, 0).home]


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
    assert curves.spread(run) is None
    curves.add(run, add(point, 0, [1.6] * 6))
    assert len(curves.records(run)) == 1
    assert curves.spread(run).degrees == 3
    assert "covers launches" in curves.result(run, is_last=False)
