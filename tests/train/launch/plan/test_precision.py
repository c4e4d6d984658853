from dataclasses import replace

import pytest

from tests.helpers.bare_record import bare_record
from tests.helpers.launches import points_of
from train.config.identity import config_hash, resolved
from train.launch.plan import curves, precision
from train.launch.plan.runs import Run
from train.record import paths
from train.record.record import RECORD_NAME, Rank, Window, dumps, write_atomically


@pytest.fixture
def curve(tmp_path):
    overrides = ["experiment=weak_scaling", "model=tiny", "nodes=2", f"results={tmp_path}", "measure.budget_s=100"]
    [found] = curves.plan(points_of(*overrides, cores=2), cores=2).curves
    return found


def rank(number: int, times_s: list[dict[int, float]]) -> Rank:
    """A rank of 2-step windows: for each round, the time of each arm that it takes part in."""
    windows = [Window(i, arm, s, [s / 2] * 2) for i, of_round in enumerate(times_s) for arm, s in of_round.items()]
    return Rank(number, number, number, "n", [number], None, {"timed": 1.0}, [], [], 0, windows=windows)


def add_launch(curve, repeat: int, rounds: int, speedup: float, job_s: float = 30.0, status: str = "complete") -> Run:
    """The record of a launch whose rounds all gave this speedup, and the same without allreduce."""
    run = Run(curve, repeat)
    first = [{0: 1.0, 1: 2.0 / speedup, 2: 2.0 / speedup}] * rounds
    second = [{1: 2.0 / speedup, 2: 2.0 / speedup}] * rounds
    record = bare_record(
        config=resolved(curve.config),
        config_hash=config_hash(curve.config),
        ranks=[rank(0, first), rank(1, second)],
        repeat=repeat,
        job_s=job_s,
        status=status,
    )
    folder, _ = paths.new_run(run.home, repeat)
    write_atomically(folder / RECORD_NAME, dumps(record))
    return run


def test_a_precise_curve_needs_no_more(curve):
    run = add_launch(curve, 0, rounds=17, speedup=1.6)
    found = precision.speedups(precision.launches(run.home))
    assert {name: (i.value, i.low, i.high, i.n) for name, i in found.items()} == {
        name: (pytest.approx(1.6), pytest.approx(1.6), pytest.approx(1.6), 17)
        for name in ("nodes2-batch_per_rank1", "nodes2-batch_per_rank1-without-allreduce")
    }
    assert precision.next_launch(run) is None
    assert precision.result(run) == (
        "tiny-rounds: nodes2-batch_per_rank1 1.6x (1.6 to 1.6), "
        "nodes2-batch_per_rank1-without-allreduce 1.6x (1.6 to 1.6)"
    )


def test_too_few_rounds_need_another_launch_until_the_budget_is_spent(curve):
    run = add_launch(curve, 0, rounds=3, speedup=1.6, job_s=45.0)
    assert precision.next_launch(run).repeat == 1
    assert precision.budget_left_s(curve, run.home) == 55.0
    run = add_launch(curve, 1, rounds=2, speedup=1.6, job_s=60.0)
    assert precision.next_launch(run) is None
    assert precision.budget_left_s(curve, run.home) == 1.0
    assert "too few rounds for an interval; the budget of 100 s ended before ± 5 %" in precision.result(run)


def test_no_launch_begins_that_could_not_make_enough_rounds(curve):
    """Each took 29 s before its 17 rounds of 1/17 s: six rounds more are 29.4 s, and 29.2 s are left."""
    add_launch(curve, 0, rounds=17, speedup=1.6, job_s=30.0)
    run = add_launch(curve, 1, rounds=17, speedup=1.9, job_s=40.8)
    assert precision.next_launch(run) is None
    more = replace(curve.config.measure, budget_s=120)
    assert precision.next_launch(replace(run, point=replace(curve, config=replace(curve.config, measure=more))))


def test_launches_that_disagree_are_not_precise(curve):
    add_launch(curve, 0, rounds=17, speedup=1.6)
    run = add_launch(curve, 1, rounds=17, speedup=1.9)
    assert not precision.precise_enough(curve, precision.launches(run.home))
    assert precision.next_launch(run).repeat == 2


def test_a_failed_launch_is_made_again(curve):
    run = add_launch(curve, 0, rounds=17, speedup=1.6, status="failed")
    assert precision.launches(run.home) == []
    assert precision.budget_left_s(curve, run.home) == 100.0
