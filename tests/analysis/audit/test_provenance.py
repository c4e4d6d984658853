import numpy as np
import pytest

from analysis.audit import provenance, series
from tests.helpers import noisy_records
from tests.helpers.own_records import WEAK, make_record, make_rounds, settle
from train.record import rounds
from train.record.record import Order


def launch(seed, **run):
    return noisy_records.launch(np.random.default_rng(seed), steps=20, **run)


def made(run, path="p"):
    return series.made(run, path)


def order_of(run):
    return list(provenance.order_of_rounds(run, "the/record.json"))


def test_the_arms_of_each_round_come_in_the_order_drawn_from_seed_and_repeat():
    # numpy.random.default_rng([0, 3]).permutation(3), three times
    drawn = np.random.default_rng([0, 3])
    expected = [drawn.permutation(3).tolist() for _ in range(3)]
    orders = rounds.orders(0, 3, 3)
    assert [next(orders) for _ in range(3)] == expected
    run = settle(make_rounds([(0.5, 0.8, 0.55)] * 3, repeat=3))
    assert [[w.arm for w in run.ranks[0].windows if w.round == n] for n in range(3)] == expected
    assert not order_of(run)


def test_rounds_that_were_dropped_or_are_of_another_launch_come_in_another_order():
    for seed in range(3):
        run = noisy_records.rounds(np.random.default_rng(seed), number=12, repeat=seed)
        assert not order_of(run)
        for rank in run.ranks:
            rank.windows = [window for window in rank.windows if window.round != 3]
            for window in rank.windows:
                window.round -= window.round > 3
        (finding,) = order_of(run)
        assert "of 11 rounds, the first of them round" in finding.stated
        assert f"which seed 0 and repeat {seed} give" in finding.follows


def test_an_arm_that_was_left_out_and_a_round_that_was_not_finished_change_no_order():
    run = settle(make_rounds([(0.5, 0.8)] * 4, WEAK[:2]))
    run.config["rounds"].append(run.config["rounds"][1] | {"name": "nodes2-large"})
    run.arms_left_out = {"nodes2-large": "a round with it would take 900 s"}
    assert not order_of(run)
    run.ranks[0].windows.pop()
    assert not order_of(run)


def test_a_record_says_what_its_folder_says():
    run = make_record(repeat=2)
    place = f"results/weak_scaling/{run.point}/{run.config_hash[:8]}/r2/record.json"
    assert not list(provenance.misplaced_record(run, place))
    assert not list(provenance.misplaced_record(run, "record.json"))
    assert not list(provenance.misplaced_record(run, place.replace("/r2/", "/r2.3/")))
    for old, new in (("/r2/", "/r1/"), (run.config_hash[:8], "00000000"), ("weak_scaling", "strong_scaling")):
        (finding,) = provenance.misplaced_record(run, place.replace(old, new))
        assert new.strip("/").removeprefix("r") in finding.follows


@pytest.mark.parametrize(("factor", "jitter"), [(1.0, 0.001), (1.02, 0.0), (0.7, 0.001)])
def test_a_launch_made_from_another_scatters_as_it_does(factor, jitter):
    run, copy = launch(1), launch(1, repeat=1)
    changes = np.random.default_rng(9).uniform(1 - jitter, 1 + jitter, 20)
    copy.ranks[0].step_times_s = [
        float(t * factor * x) for t, x in zip(run.ranks[0].step_times_s, changes, strict=True)
    ]
    (finding,) = provenance.copied_scatter([made(run, "one"), made(copy, "other"), made(launch(2, repeat=2))])
    assert (finding.place, finding.severity) == ("other", "serious")
    assert "scatter as those of one" in finding.stated


def test_launches_that_share_a_slow_step_and_a_drift_are_no_copies():
    for seed in range(20):
        runs = [launch([seed, repeat], repeat=repeat) for repeat in range(4)]
        for run in runs:
            times = run.ranks[0].step_times_s
            run.ranks[0].step_times_s = [t * (5 if n == 9 else 1.3 - 0.01 * n) for n, t in enumerate(times)]
        assert not list(provenance.copied_scatter([made(run) for run in runs]))


def test_steps_that_no_clock_gave_say_nothing_of_copies():
    assert not list(provenance.copied_scatter([made(make_record(steps=20, repeat=repeat)) for repeat in range(2)]))


def started(minute, **run):
    found = make_record(**run)
    found.started_at, found.order, found.job_s = f"2026-11-20T12:{minute:02d}:00Z", Order(0, minute, 9), 120.0
    return found


def test_launches_on_the_same_cores_come_one_after_the_other():
    assert not list(provenance.runs_at_once([made(started(0)), made(started(2)), made(started(4, nodes=2))]))
    (finding,) = provenance.runs_at_once([made(started(2), "b"), made(started(1), "a")])
    assert (finding.place, finding.stated) == ("b", "began 60 s before the end of a")
    elsewhere = started(1)
    elsewhere.ranks[0].cores = [3]
    assert not list(provenance.runs_at_once([made(started(0)), made(elsewhere)]))


def test_a_repeat_without_a_record_is_missed(tmp_path):
    def file(name):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text("{}")

    file("r0")
    file("r1.2")
    (finding,) = provenance.missing([tmp_path])
    assert (finding.severity, finding.stated) == ("note", "no record of r1, generation 1")
    file("r1")
    assert not list(provenance.missing([tmp_path]))
    file("r4")
    (finding,) = provenance.missing([tmp_path])
    assert (finding.severity, finding.stated) == ("warning", "no record of r2, r3")
