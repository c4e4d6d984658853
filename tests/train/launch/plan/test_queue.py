import pytest

from tests.helpers.launched_curves import add, curve
from train.launch.plan.budget import Budget
from train.launch.plan.queue import Queue
from train.launch.plan.runs import Run

DIFFER = ([1.4] * 3, [1.6] * 3, [1.8] * 3)


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
