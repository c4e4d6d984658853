from dataclasses import replace

import numpy as np

from analysis.study import Study
from analysis.table.checks import copies
from analysis.table.checks.copies import Trace
from tests.helpers import noisy_records
from tests.helpers.run_records import make_record, save, update_derived

LATER = "2026-11-21T12:00:00Z"


def noisy(seed=0, **run):
    return noisy_records.launch(np.random.default_rng(seed), **run)


def test_a_repeat_that_has_the_times_of_another_is_left_out_and_the_first_one_counts(results):
    first = noisy()
    original = str(save(first, results.folder))
    repeats = [str(save(replace(first, repeat=repeat, started_at=LATER), results.folder)) for repeat in (1, 2)]
    other = str(save(noisy(seed=1, repeat=3), results.folder))
    study = Study(results.folder)
    assert set(study.local["record"]) == {original, other}
    assert [notice.path for notice in study.left_out] == repeats
    (result,) = study.left_out[0].contradictions
    assert result.rule == "copied_run"
    assert result.follows.endswith(f"are those of {original}")


def test_a_copy_with_another_time_of_its_job_is_still_one(results):
    first = noisy()
    save(first, results.folder)
    changed = replace(first, repeat=1, started_at=LATER)
    changed.ranks[0].phases_s["build"] += 0.123456789
    save(changed, results.folder)
    assert len(Study(results.folder).left_out) == 1


def test_one_record_given_twice_is_no_copy(results, tmp_path):
    run = noisy()
    study = Study(save(run, results.folder), save(run, tmp_path / "backup"))
    assert study.left_out == []
    assert study.local["record"].nunique() == 1


def test_times_that_someone_typed_in_say_nothing():
    assert not len(copies.trace(update_derived(make_record(step_s=0.505)), "p").times_s)
    assert not list(copies.copied_steps(make_record(nodes=2, step_s=1 / 3, steps=20)))


def test_equal_by_chance():
    times_s = np.random.default_rng(0).uniform(1, 2, 10)
    traces = [Trace(str(i), str(i), str(i), times_s[i * 3 :]) for i in range(2)]  # 7 of 10 agree
    assert set(copies.find(traces)) == {"1"}
    few = [Trace("a", "a", "a", times_s), Trace("b", "b", "b", np.array([*times_s[:2], 0.1234567891]))]
    assert not copies.find(few)  # two of three
    assert not copies.find([])


def test_a_run_is_a_copy_of_the_one_that_most_of_its_times_are_of():
    times_s = np.random.default_rng(0).uniform(1, 2, 30)
    third = np.array([*times_s[:4], *times_s[10:20]])  # four times of the first, ten of the second
    times_by_name = {"c": third, "b": times_s[10:], "a": times_s[:10]}
    traces = [Trace(name, name, name, times) for name, times in times_by_name.items()]
    (result,) = copies.find(traces).values()
    assert (result.stated, result.follows) == ("14 times that a clock gave", "10 of them are those of b")


def test_a_window_that_was_copied_from_another_round_is_found():
    run = noisy_records.rounds(np.random.default_rng(2))
    assert not list(copies.copied_steps(run))
    source, copy = [window for window in run.ranks[1].windows if window.arm == 1][:2]
    copy.window_s, copy.step_times_s = source.window_s, [*source.step_times_s]
    (result,) = copies.copied_steps(run)
    assert result.stated.startswith(f"rank 1, round {copy.round}, arm 1: {source.window_s:.9g}, ")
    assert result.follows == f"rank 1, round {source.round}, arm 1 has the same, to the last digit"


def test_steps_that_were_copied_over_others_or_from_another_rank_are_found():
    run = noisy(nodes=2)
    assert not list(copies.copied_steps(run))
    run.ranks[0].step_times_s[7:10] = run.ranks[0].step_times_s[1:4]
    assert len(list(copies.copied_steps(run))) == 1
    run = noisy(nodes=2)
    run.ranks[1].step_times_s = [*run.ranks[0].step_times_s]
    assert len(list(copies.copied_steps(run))) == 8  # 8 sequences of three steps in 10 steps
