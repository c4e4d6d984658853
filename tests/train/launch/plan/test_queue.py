import math
from dataclasses import replace
from functools import partial

import pytest

from record import protocol
from record import run_files as files
from record.parts import PartWriter
from record.protocol import RoundsTask
from record.schema import Window
from tests.helpers.launched_curves import add, curve
from tests.helpers.run_records import make_record
from train.launch.plan.planned_runs import Run
from train.launch.plan.queue import Budget, Cost, Queue, RoundsBudget, earlier_launch, launch_cost

ALIKE = [1.6] * 4
DIFFER = ([1.4] * 3, [1.6] * 3, [1.8] * 3)
AGREE = ([1.59, 1.6, 1.61],) * 3


@pytest.fixture
def set_left_s(monkeypatch):
    """Set the time that is left of every budget, in s."""
    return partial(monkeypatch.setattr, Budget, "left_s")


@pytest.fixture
def runs(tmp_path):
    """Three launches of a curve."""
    point = curve(tmp_path)
    return [Run(point, repeat) for repeat in range(3)]


def test_what_a_launch_takes_is_read_from_its_record(runs):
    result = launch_cost(add(runs[0].point, 0, [1.6, 1.6 * math.exp(0.02)], job_s=23.0))
    assert result == Cost(before_s=10.0, after_s=3.0, round_s=5.0, scatter=pytest.approx(math.sqrt(math.pi) * 0.01))
    assert launch_cost(add(runs[0].point, 1, ALIKE)).scatter == 0.01  # at least
    assert 0 < Budget(100.0).left_s <= 100


def test_the_fixed_costs_of_later_launches_are_set_aside(runs, set_left_s):
    """Three launches take 13 s each besides their rounds, so that 61 s of 100 s are left for rounds."""
    set_left_s(300.0)
    budget = Budget(100.0)
    first = budget.rounds(runs[0], runs[1:])  # nothing is known: equal shares, without 30 s for each launch
    assert (first.end_s, first.task.rounds_s) == pytest.approx((100, 70))
    budget.add(runs[0], add(runs[0].point, 0, ALIKE, job_s=33.0))
    set_left_s(100.0)
    assert budget.rounds(runs[0], runs[1:]).end_s == pytest.approx(10 + 61 / 3)
    assert budget.is_enough_for(*runs)
    set_left_s(60.0)  # each takes 13 s and two rounds of 5 s
    assert not budget.is_enough_for(*runs)
    set_left_s(1.0)  # a launch that is made none the less has as many rounds as an interval needs
    assert budget.rounds(runs[0], []).end_s == pytest.approx(10 + 2 * 5)


@pytest.mark.parametrize(("repeats", "enough"), [(3, 17), (1, None)])
def test_a_launch_ends_after_enough_rounds_where_others_can_follow(tmp_path, set_left_s, repeats, enough):
    set_left_s(1000.0)
    point, budget = curve(tmp_path, f"measure.repeats={repeats}"), Budget(1000.0)
    budget.add(Run(point, 0), add(point, 0, ALIKE, job_s=33.0))
    assert budget.rounds(Run(point, 1), []) == RoundsBudget(pytest.approx(10 + 1000 - 13), RoundsTask(0.0, enough))
    budget.costs[point.name] = Cost(before_s=150.0, after_s=50.0, round_s=5.0, scatter=0.01)
    assert budget.rounds(Run(point, 1), []).task.enough_rounds == (enough and 200 / 5)  # as long as the fixed costs


def test_a_curve_with_longer_rounds_or_more_scatter_has_more_time(tmp_path, set_left_s):
    """Weights are scatter x root of a round's time: 0.01 x root 4 and 0.04 x root 1, as 1 to 2."""
    point = curve(tmp_path)
    first, second = (Run(replace(point, name=name), 1) for name in ("first", "second"))
    set_left_s(47.0)
    budget = Budget(47.0, {"first": Cost(10.0, 0.0, 4.0, 0.01), "second": Cost(10.0, 0.0, 1.0, 0.04)})
    assert budget.rounds(first, [second]).end_s == pytest.approx(10 + 9)
    assert budget.rounds(second, [first]).end_s == pytest.approx(10 + 18)


def test_only_missing_runs_are_made_unless_all_are_forced_and_then_earlier_ones_do_not_count(runs, set_left_s):
    set_left_s(100.0)
    add(runs[1].point, 1, DIFFER[1])
    queue = Queue(runs, force=False)
    assert [run.repeat for run in queue.runs] == [0, 2]
    assert queue.remarks() == [
        "1 of 3 runs are measured already; FORCE=1 measures again",
        "about 2 min for all launches",
    ]
    assert [len(curve.launches) for curve in queue.curves()] == [1]
    forced = Queue(runs, force=True)
    assert [run.repeat for run in forced.runs] == [0, 1, 2]
    assert [(curve.launches, curve.planned) for curve in forced.curves()] == [([], 3)]
    forced.add(runs[0], add(runs[0].point, 0, [1.6] * 6), None)
    assert forced.curve_result(runs[0]).startswith("tiny-rounds, 1 launch: 2 nodes 1.6x")


def test_earlier_launches_by_another_code_are_named_before_more_are_made(runs, set_left_s):
    """The first was interrupted after a round, the second is complete and by this code."""
    set_left_s(100.0)

    def made(run, source, status="complete"):
        record = add(run.point, run.repeat, ALIKE, status=status)
        folder = files.run_folder(run.home, run.repeat, record.generation)
        protocol.write_assignment(folder, protocol.Assignment({}, "", run.repeat, source, False, False))
        PartWriter(protocol.part_path(folder, 0, "n", 1), windows=[Window(0, 0, 1.0, [1.0])])

    here = dict(files.source_files())
    made(runs[0], here | {"train/loop/step.py": "before"}, "failed")
    made(runs[1], here)
    assert Queue(runs, force=False).remarks()[0] == (
        "warning: tiny-rounds r0 ran with other code; changed since: train/loop/step.py. All count together; "
        "RESULTS=folder keeps the two apart"
    )
    assert not any("other code" in line for line in Queue(runs, force=True).remarks())
    made(runs[2], here)
    made(runs[0], here)  # nothing is left to do
    assert Queue(runs, force=False).remarks() == ["3 of 3 runs are measured already; FORCE=1 measures again"]


def test_a_budget_below_the_least_time_is_named_with_that_time(runs, set_left_s):
    """One launch of a curve is always made: 30 s are assumed for what it takes besides its rounds."""
    set_left_s(20.0)
    assert Queue(runs, force=False).remarks() == [
        "about 30 s for all launches",
        "one launch of each takes about 30 s, which is the least: more than the 2 min of measure.budget_s",
    ]


def test_what_would_make_a_curve_precise_is_its_budget_and_the_launches_it_lacks(runs, set_left_s):
    queue = Queue(runs, force=False)
    assert queue.shortfalls() == []  # nothing is measured
    for run, speedup in zip(runs, (1.4, 1.6, 1.8), strict=True):
        queue.add(run, add(run.point, run.repeat, [speedup] * 3), None)
    set_left_s(queue._budget.given_s - 90.0)
    [short] = queue.shortfalls()
    assert short.text.startswith("tiny-rounds: ± ")
    assert queue.sufficient_s([short]) == 60 * math.ceil((90 + short.more_s) / 60)


@pytest.mark.parametrize(
    ("speedups", "left_s", "fails", "expected"),
    [
        (DIFFER, 100.0, None, [0, 1, 2, 3, 4]),
        (DIFFER, 0.0, None, [0, 1, 2]),
        (DIFFER, 100.0, 1, [0, 1, 2]),
        (AGREE, 100.0, None, [0, 1, 2]),
    ],
    ids=["as long as it is not precise", "no time is left", "none after a failure", "it is precise"],
)
def test_the_last_launch_is_followed_by_another_of_a_curve(runs, set_left_s, speedups, left_s, fails, expected):
    set_left_s(left_s)
    queue, begun = Queue(runs, force=False), []
    for run in queue:
        begun.append(run.repeat)
        if run.repeat < 4:
            record = add(run.point, run.repeat, speedups[run.repeat % 3])
            queue.add(run, record, "it failed" if run.repeat == fails else None)
            assert queue.curve_result(run)
    assert begun == expected
    assert queue.failed == [run.label for run in runs if run.repeat == fails]


def test_a_launch_gets_what_an_earlier_one_of_its_curve_measured(runs, set_left_s):
    """Two nodes do a step of two batches at 1.6 times the rate of one node's, so it takes 2 / 1.6 as long."""
    set_left_s(300.0)
    queue = Queue(runs, force=False)
    assert queue.rounds(runs[0]).task.earlier is None
    record = add(runs[0].point, 0, ALIKE)
    assert earlier_launch(record) is None  # its hosts are not known
    record.environment = make_record().environment
    queue.add(runs[0], record, None)
    earlier = queue.rounds(runs[1]).task.earlier
    assert earlier.hosts == [(host.host, host.cpu_model, host.cores) for host in record.environment.hosts]
    base_s, two_nodes_s, *_ = earlier.step_times_s
    assert two_nodes_s / base_s == pytest.approx(2 / 1.6)
