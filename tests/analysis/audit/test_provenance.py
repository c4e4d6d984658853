from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.audit import launches, provenance
from tests.helpers import noisy_records
from tests.helpers.run_records import WEAK, make_record, make_rounds, record_path, update_derived
from train.record import rounds
from train.record.record import Order


def noisy(seed, **run):
    return noisy_records.launch(np.random.default_rng(seed), steps=20, **run)


def launch(run, path="p"):
    return launches.launch(run, path)


def order_findings(run):
    return list(provenance.order_of_rounds(run, "the/record.json"))


def test_the_arms_of_each_round_come_in_the_order_drawn_from_seed_and_repeat():
    # numpy.random.default_rng([0, 3]).permutation(3), three times
    drawn = np.random.default_rng([0, 3])
    expected = [drawn.permutation(3).tolist() for _ in range(3)]
    orders = rounds.orders(0, 3, 3)
    assert [next(orders) for _ in range(3)] == expected
    run = update_derived(make_rounds([(0.5, 0.8, 0.55)] * 3, repeat=3))
    assert [[w.arm for w in run.ranks[0].windows if w.round == n] for n in range(3)] == expected
    assert not order_findings(run)


def test_rounds_that_were_dropped_or_are_of_another_launch_come_in_another_order():
    for seed in range(3):
        run = noisy_records.rounds(np.random.default_rng(seed), number=12, repeat=seed)
        assert not order_findings(run)
        for rank in run.ranks:
            rank.windows = [window for window in rank.windows if window.round != 3]
            for window in rank.windows:
                window.round -= window.round > 3
        (finding,) = order_findings(run)
        assert "of 11 rounds, the first of them round" in finding.stated
        assert f"which seed 0 and repeat {seed} give" in finding.follows


def test_an_arm_that_was_left_out_and_a_round_that_was_not_finished_change_no_order():
    run = update_derived(make_rounds([(0.5, 0.8)] * 4, WEAK[:2]))
    run.config["rounds"].append(run.config["rounds"][1] | {"name": "nodes2-large"})
    run.arms_left_out = {"nodes2-large": "a round with it would take 900 s"}
    assert not order_findings(run)
    run.ranks[0].windows.pop()
    assert not order_findings(run)


def test_a_record_says_what_its_folder_says():
    run = make_record(repeat=2)
    location = f"results/weak_scaling/{run.point}/{run.config_hash[:8]}/r2/record.json"
    for path in (location, "record.json", location.replace("/r2/", "/r2.3/")):
        assert not list(provenance.misplaced_record(run, path))
    for old, new in (("/r2/", "/r1/"), (run.config_hash[:8], "00000000"), ("weak_scaling", "strong_scaling")):
        (finding,) = provenance.misplaced_record(run, location.replace(old, new))
        assert new.strip("/").removeprefix("r") in finding.follows


@pytest.mark.parametrize(("factor", "jitter"), [(1.0, 0.001), (1.02, 0.0), (0.7, 0.001)])
def test_a_launch_made_from_another_scatters_as_it_does(factor, jitter):
    run, copy = noisy(1), noisy(1, repeat=1)
    changes = np.random.default_rng(9).uniform(1 - jitter, 1 + jitter, 20)
    copy.ranks[0].step_times_s = (np.array(run.ranks[0].step_times_s) * factor * changes).tolist()
    (finding,) = provenance.copied_scatter([launch(run, "one"), launch(copy, "other"), launch(noisy(2, repeat=2))])
    assert (finding.place, finding.severity) == ("other", "serious")
    assert "scatter as those of one" in finding.stated


@pytest.mark.slow
def test_launches_that_share_a_slow_step_and_a_drift_are_no_copies():
    for seed in range(20):
        runs = [noisy([seed, repeat], repeat=repeat) for repeat in range(4)]
        for run in runs:
            times = run.ranks[0].step_times_s
            run.ranks[0].step_times_s = [t * (5 if n == 9 else 1.3 - 0.01 * n) for n, t in enumerate(times)]
        assert not list(provenance.copied_scatter([launch(run) for run in runs]))


@pytest.mark.parametrize("seed", range(3))
def test_a_round_made_from_another_scatters_as_it_does(seed):
    rng = np.random.default_rng(seed)
    run = noisy_records.rounds(rng, number=8)
    for window in run.ranks[0].windows:
        window.step_times_s = rng.lognormal(np.log(0.8), 0.05, 20).tolist()
    assert not list(provenance.copied_rounds(run, "p"))
    windows = [window for window in run.ranks[0].windows if window.arm == 1]
    windows[6].step_times_s = (1.05 * np.array(windows[2].step_times_s) * rng.uniform(0.999, 1.001, 20)).tolist()
    (finding,) = provenance.copied_rounds(run, "p")
    assert finding.severity == "serious"
    assert finding.stated == "round 6, arm 1: 19 steps that scatter as those of round 2"


def test_steps_that_no_clock_gave_say_nothing_of_copies():
    assert not list(provenance.copied_scatter([launch(make_record(steps=20, repeat=repeat)) for repeat in range(2)]))


def started(minute, path="p", core=0, **run):
    """A launch of two minutes, on this core."""
    result = make_record(**run)
    result.ranks[0].cores = [core]
    result.started_at, result.order, result.job_s = f"2026-11-20T12:{minute:02d}:00Z", Order(0, minute, 9), 120.0
    return launch(result, path)


def test_launches_on_the_same_cores_come_one_after_the_other():
    assert not list(provenance.runs_at_once([started(0), started(2), started(4, nodes=2)]))
    (finding,) = provenance.runs_at_once([started(2, "b"), started(1, "a")])
    assert (finding.place, finding.stated) == ("b", "began 60 s before the end of a")
    assert not list(provenance.runs_at_once([started(0), started(1, core=3)]))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["r0", "r1.2"], [("note", "no record of r1, generation 1")]),
        (["r0", "r1", "r1.2"], []),
        (["r0", "r1", "r4"], [("warning", "no record of r2, r3")]),
    ],
)
def test_a_repeat_without_a_record_is_missed(tmp_path, names, expected):
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text("{}")
    assert [(finding.severity, finding.stated) for finding in provenance.missing([tmp_path])] == expected


PLAN = [(1, 0), (2, 0), (2, 1), (1, 1), (1, 2), (2, 2)]  # nodes and repeat, in the order of the launches


def write(folder, positions, plan=PLAN, failed=(), **run):
    """Create the record files of the launches at these positions of a plan; return the complete launches."""
    complete = []
    for position in positions:
        record = make_record(nodes=plan[position][0], repeat=plan[position][1], **run)
        record.order = Order(0, position, len(plan))
        path = folder / record_path(record)
        path.parent.mkdir(parents=True)
        path.touch()
        if position not in failed:
            complete.append(launch(record, str(path)))
    return complete


def missing(runs):
    folders = {Path(run.path).parents[1] for run in runs}
    return [*provenance.missing_run(runs), *provenance.missing(folders)]


@pytest.mark.parametrize("after", range(1, 7))
@pytest.mark.parametrize("failed", [(), (0,), (1, 2), (2, 3)])
def test_an_experiment_that_was_interrupted_or_failed_in_part_is_not_reported_to_lack_launches(tmp_path, after, failed):
    findings = missing(write(tmp_path, range(after), failed=failed))
    assert {finding.severity for finding in findings} <= (set() if after == 6 else {"note"})


@pytest.mark.parametrize("removed", [*((position,) for position in range(6)), (4, 5), (3, 4, 5), (0, 3, 4), (1, 2)])
@pytest.mark.parametrize("failed", [(), (2,)])
def test_launches_that_were_removed_are_missed(tmp_path, removed, failed):
    """The finding is a warning if a later launch remains, else a note."""
    remaining = [position for position in range(6) if position not in removed]
    findings = missing(write(tmp_path, remaining, failed=failed))
    last = max(position for position in remaining if position not in failed)
    assert any(finding.severity == "warning" for finding in findings) == (min(removed) < last)
    assert findings


def test_the_launches_that_are_missed_are_named(tmp_path):
    (finding,) = provenance.missing_run(write(tmp_path, [0, 1, 2, 3, 5]))
    assert finding.place == str(tmp_path / "weak_scaling")
    assert "1 launch that came before others" in finding.stated
    assert finding.stated.endswith("without one are resnet50_nodes=1 r2")
    (finding,) = provenance.missing_run(write(tmp_path / "other", [0, 1, 2, 3, 4]))
    assert (finding.stated, finding.severity) == ("no record of resnet50_nodes=2 r2", "note")


def test_launches_of_another_plan_or_that_are_dropped_are_not_missed(tmp_path):
    one_node, whole = [(1, 0), (1, 1), (1, 2)], tmp_path / "whole"
    assert not missing(write(whole, range(3), one_node) + write(whole, [1, 2, 5]))  # first one node alone, then two
    runs = write(tmp_path / "two", range(6)) + write(tmp_path / "two", [0, 1, 2, 5], model="vgg16")
    assert not [finding for finding in provenance.missing_run(runs) if finding.severity == "warning"]
    assert not missing(write(tmp_path / "compete", [0, 1, 2, 3, 5], **{"measure.compete": True}))


def test_launches_begin_in_the_order_of_their_plan(tmp_path):
    def findings(*at_s):
        return list(provenance.starts_in_order([replace(run, began_at=s) for run, s in zip(runs, at_s, strict=True)]))

    runs = write(tmp_path, range(4))
    assert not findings(0, 100, 200, 300)
    (finding,) = findings(0, 100, -5000, 300)
    assert (finding.place, finding.stated) == (runs[2].path, f"began 5100 s before {runs[1].path}")
    runs[1] = replace(runs[1], path=runs[1].path.replace("/r0/", "/r0.2/"))  # made again
    assert not findings(0, 900, 200, 300)
