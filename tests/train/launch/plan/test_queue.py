import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from record import protocol
from record import run_files as files
from record.parts import PartWriter
from record.protocol import RoundsTask
from record.schema import ProgramFacts, Window
from tests.helpers.launched_curves import add, curve
from tests.helpers.run_records import make_record
from train.config.measure_config import LaunchPlan
from train.launch.plan.launch_results import CurveState
from train.launch.plan.planned_runs import Run
from train.launch.plan.queue import Budget, Cost, Queue, RoundsBudget, earlier_launch, launch_cost

ALIKE = [1.6] * 4
DIFFER = ([1.4] * 3, [1.6] * 3, [1.8] * 3)
AGREE = ([1.59, 1.6, 1.61],) * 3
COST = Cost(before_s=10.0, after_s=3.0, round_s=5.0, scatter=0.01)


@pytest.fixture
def set_left_s(monkeypatch):
    """Set the time that is left of every budget, in s."""
    return partial(monkeypatch.setattr, Budget, "left_s")


@pytest.fixture
def runs(tmp_path):
    """Three launches of a curve."""
    point = curve(tmp_path)
    return [Run(point, repeat) for repeat in range(3)]


@pytest.fixture
def singles(runs):
    """Three launches of a single point."""
    config = replace(runs[0].point.config, launch=LaunchPlan())
    return [replace(run, point=replace(run.point, name="tiny-nodes2", config=config)) for run in runs]


def test_what_a_launch_takes_is_read_from_its_record(runs, monkeypatch):
    record = add(runs[0].point, 0, [1.6, 1.6 * math.exp(0.02)], job_s=23.0)
    record.ranks[1].phases_s |= {"first_step": 4.0, "timed": 12.0}  # the slowest rank
    scatter = pytest.approx(math.sqrt(math.pi) * 0.01)
    assert launch_cost(record) == Cost(before_s=8.0, after_s=3.0, round_s=6.0, scatter=scatter)
    assert launch_cost(add(runs[0].point, 1, [1.6], job_s=14.0)) == Cost(10.0, 0.0, 5.0, 0.01)  # at least
    monkeypatch.setattr(time, "monotonic", lambda: 25.0)
    assert (Budget(100.0, began=5.0).left_s, Budget(100.0, spent_s=30.0, began=5.0).left_s) == (80.0, 50.0)


def test_the_fixed_costs_of_later_launches_are_set_aside(runs, set_left_s):
    """Three launches take 13 s each besides their rounds, so that 61 s of 100 s are left for rounds."""
    set_left_s(300.0)
    budget = Budget(100.0)
    first = budget.rounds(runs[0], runs[1:])  # nothing is known: equal shares, without 30 s for each launch
    assert (first.end_s, first.task.rounds_s) == pytest.approx((100, 70))
    budget.add(runs[0], add(runs[0].point, 0, ALIKE, job_s=33.0))
    set_left_s(100.0)
    assert budget.rounds(runs[0], runs[1:]).end_s == pytest.approx(10 + 61 / 3)
    set_left_s(69.0)  # each takes 13 s and two rounds of 5 s
    assert budget.is_enough_for(*runs)
    set_left_s(68.9)
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


@pytest.mark.parametrize(
    ("repeats", "left_s", "cost", "expected_s"),
    [
        (3, 300.0, None, 300.0),  # no launch is measured: any number of rounds
        (3, 1.0, None, 30.0),  # the first is made none the less: 30 s are assumed for what it takes besides its rounds
        (3, 300.0, COST, 2 * (13.0 + 17 * 5)),  # enough rounds
        (3, 1000.0, Cost(150.0, 50.0, 5.0, 0.01), 2 * (200.0 + 200.0)),  # rounds as long as the fixed costs
        (1, 300.0, COST, 300.0),  # of a single launch as many as there is time for
    ],
)
def test_two_launches_are_to_take_what_is_left_or_less(tmp_path, set_left_s, repeats, left_s, cost, expected_s):
    set_left_s(left_s)
    point = curve(tmp_path, f"measure.repeats={repeats}")
    budget = Budget(100.0, {point.name: cost} if cost else {})
    assert budget.expected_s([Run(point, 0), Run(point, 1)]) == expected_s


def test_only_missing_runs_are_made_unless_all_are_forced_and_then_earlier_ones_do_not_count(runs, singles, set_left_s):
    """The second launch was made twice, the newer one took 40 s, 15 s of it after its rounds; a fourth took 30 s."""
    set_left_s(100.0)
    point, single = runs[0].point, singles[0]
    add(point, 1, DIFFER[1], job_s=50.0)
    fourth = add(point, 3, DIFFER[2])
    newest = add(point, 1, DIFFER[1], job_s=40.0, started_at="2026-01-03T00:00:00+00:00")
    add(single.point, 0, [], job_s=7.0)
    queue = Queue([*runs, single], force=False)
    assert [run.repeat for run in queue.runs] == [0, 2]
    assert queue.remarks() == [
        "2 of 4 runs are measured already; FORCE=1 measures again",
        "about 2 min for all launches",
    ]
    assert queue.curves() == [CurveState(point, [newest, fourth], 4)]
    budget = Budget(100.0, {"tiny-rounds": replace(COST, after_s=15.0)}, [7.0], 40.0 + 30.0 + 7.0, 0.0)
    assert replace(queue._budget, began=0.0) == budget
    assert budget.expected_s(singles) == 3 * 7.0
    forced = Queue([*runs, single], force=True)
    assert forced.runs == [*runs, single]
    assert forced.curves() == [CurveState(point, [], 3)]
    assert replace(forced._budget, began=0.0) == replace(budget, spent_s=0.0)
    forced.add(runs[0], add(point, 0, [1.6] * 6), None)
    assert forced.curve_result(runs[0]).startswith("tiny-rounds, 1 launch: 2 nodes 1.6x")
    forced.add(single, add(single.point, 0, [], job_s=9.0), None)
    assert (forced._budget.singles_s, forced.rounds(single), forced.curve_result(single)) == ([7.0, 9.0], None, "")


def test_the_time_of_single_points_is_assumed_until_one_is_measured(singles):
    """The launcher assumes 60 s for each."""
    queue = Queue(singles, force=False)
    assert queue.remarks() == ["about 3 min for all launches; assumed, as none like them was measured yet"]
    assert (queue.expected_s(), queue.time_left()) == (180.0, "about 2 min left")
    queue.add(singles[0], add(singles[0].point, 0, [], job_s=90.0), None)
    assert queue.time_left() == "about 3 min left"
    assert Queue(singles, force=False).remarks()[1:] == ["about 3 min for all launches"]


def test_earlier_launches_by_another_code_are_named_before_more_are_made(runs, set_left_s, tmp_path):
    """The first was interrupted after a round, the second is complete and by this code, but not of this program."""
    set_left_s(100.0)
    solver = tmp_path / "solver"
    solver.write_text("today's")
    program = ProgramFacts(["run"], {str(solver): "0" * 64, __file__: files.digest(Path(__file__))}, "", [], 0)

    def made(run, source, **fields):
        record = add(run.point, run.repeat, ALIKE, **fields)
        folder = files.run_folder(run.home, run.repeat, record.generation)
        protocol.write_assignment(folder, protocol.Assignment({}, "", run.repeat, source, False, False))
        for rank, windows in enumerate(([Window(0, 0, 1.0, [1.0])], [])):
            PartWriter(protocol.part_path(folder, rank, "n", 1), rank=rank, windows=windows)

    here = dict(files.source_files())
    before = here | {"train/loop/step.py": "before"}
    made(runs[0], before, status="failed")
    made(runs[1], dict([*here.items()][1:]), program=program)  # a file was added since
    assert Queue(runs, force=False).remarks()[0] == (
        f"warning: tiny-rounds r0, tiny-rounds r1 ran with other code; changed since: {solver}, train/loop/step.py. "
        "All count together; RESULTS=folder keeps the two apart"
    )
    assert not any("other code" in line for line in Queue(runs, force=True).remarks())
    made(runs[2], before)
    made(runs[0], here)  # nothing is left to do
    assert Queue(runs, force=False).remarks() == ["3 of 3 runs are measured already; FORCE=1 measures again"]


def test_a_budget_below_the_least_time_is_named_with_that_time_and_further_launches_are_skipped(runs, set_left_s):
    """One launch of a curve is always made: it takes 13 s and two rounds of 5 s. The second took 33 s of 100 s."""
    add(runs[1].point, 1, ALIKE, job_s=33.0)
    queue = Queue(runs, force=False)
    set_left_s(23.0)
    lines = ["1 of 3 runs are measured already; FORCE=1 measures again", "about 23 s for all launches"]
    assert (queue.remarks(), queue.skip_reason(runs[2])) == (lines, "")
    set_left_s(20.0)
    why = "one launch of each takes about 23 s, which is the least: more than the 67 s of measure.budget_s"
    assert queue.remarks() == [*lines, why]
    over = "the time is over; with a larger measure.budget_s the same command makes it"
    assert [queue.skip_reason(run) for run in runs] == ["", over, over]


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
    ("speedups", "left_s", "fails", "expected", "again"),
    [
        (DIFFER, 100.0, None, [0, 1, 2, 3, 4], [4]),
        (DIFFER, 0.0, None, [0, 1, 2], []),
        (DIFFER, 100.0, 3, [0, 1, 2, 3], [4]),
        (AGREE, 100.0, None, [0, 1, 2], []),
    ],
    ids=["as long as it is not precise", "no time is left", "none after a failure", "it is precise"],
)
def test_the_last_launch_is_followed_by_another_of_a_curve(runs, set_left_s, speedups, left_s, fails, expected, again):
    """again: the launches of the next command."""
    set_left_s(left_s)
    queue, begun = Queue(runs, force=False), []
    for run in queue:
        begun.append(run.repeat)
        if run.repeat < 4:
            record = add(run.point, run.repeat, speedups[run.repeat % 3])
            queue.add(run, record, "it failed" if run.repeat == fails else None)
            assert queue.curve_result(run)
    assert begun == expected
    assert queue.failed == [f"tiny-rounds r{number}" for number in begun if number == fails]
    assert [run.repeat for run in Queue(runs, force=False).runs] == again


def test_a_curve_whose_points_were_all_left_out_is_launched_again_while_there_is_time(runs, set_left_s):
    set_left_s(100.0)
    for run in runs:
        add(
            run.point,
            run.repeat,
            ALIKE,
            arms_left_out={run.point.config.launch.rounds[1].name: "its batch is too large"},
        )
    assert [run.repeat for run in Queue(runs, force=False).runs] == [3]
    set_left_s(0.0)
    assert (queue := Queue(runs, force=False)).runs == []
    assert queue.shortfalls() == []  # its result names what was left out


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
