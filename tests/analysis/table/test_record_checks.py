from pathlib import Path

import pytest

from analysis.table.record_checks import faults
from record import schema as record
from record.schema import CoreUse, Failure, NodeQuota
from tests.helpers.run_records import as_sweep, make_record, make_rounds

REAL = sorted((Path(__file__).parents[2] / "golden/results").rglob(record.RECORD_NAME))


def test_real_records_have_no_fault():
    assert len(REAL) == 25
    assert [path for path in REAL if faults(record.load(path))] == []


ROUNDS = [(0.5, 0.8, 0.55)] * 3
WRONG = {
    "a rank is missing": (lambda run: run.ranks.pop(), "1 ranks numbered [0], but 2 are configured"),
    "ranks out of order": (lambda run: run.ranks.reverse(), "2 ranks numbered [1, 0], but 2 are configured"),
    "a step is missing": (lambda run: run.ranks[1].step_times_s.pop(), "timed steps and allreduces differ"),
    "other steps": (lambda run: run.config["measure"].update(timed_steps=9), "4 timed steps, but measure.timed_st"),
    "steps beyond the phase": (lambda run: run.ranks[0].step_times_s.__setitem__(0, 9.0), "timed steps add up to 10.5"),
    "no time": (lambda run: run.ranks[0].step_times_s.__setitem__(0, 0.0), "timed steps add up to 1.5 s"),
    "negative": (lambda run: run.ranks[1].phases_s.update({"import": -1.0}), "rank 1: a phase takes negative time"),
    "computing": (lambda run: run.ranks[0].compute_times_s.append(0.1), "rank 0: 1 compute_times_s, 4 steps"),
}  # fmt: skip
WRONG |= {
    "failed": (lambda run: setattr(run, "failure", Failure("killed")), "complete, but it failed: killed"),
    "quota": (lambda run: run.node_quotas.append(NodeQuota(0, 0.5, 0.02, 1, 1, 0.1, "cgroups")), "a quota of node 0"),
    "groups": (lambda run: run.config.update(rank_groups_at_once=True), "rank_groups_at_once, but no rank_groups"),
    "delay": (
        lambda run: setattr(run.ranks[0], "timed_cores", CoreUse(2.0, 1.0, 1.0, 0.0, delay_s=2.2)),
        "rank 0: 2.2 s without one of its cores, of 2.08 s at most",
    ),
}
WRONG_ROUNDS = {
    "a window is missing": (lambda windows: windows.pop(), "its windows are not one of each of its arms in each of 3"),
    "a window twice": (lambda windows: windows.append(windows[0]), "its windows are not one of each"),
    "a far round": (lambda windows: setattr(windows[-1], "round", 6), "rank 1: round 6, of 6 windows"),
    "another arm": (lambda windows: setattr(windows[0], "arm", 0), "its windows are not one of each"),
    "longer than the phase": (lambda windows: setattr(windows[0], "window_s", 99.0), "rank 1: windows add up to"),
    "steps beyond it": (lambda windows: windows[0].step_times_s.append(9.0), "steps add up to"),
}


@pytest.mark.parametrize(("change", "text"), WRONG.values(), ids=WRONG)
def test_numbers_that_cannot_be_right(change, text):
    run = make_record(nodes=2)
    change(run)
    assert text in "; ".join(faults(run))


@pytest.mark.parametrize(("change", "text"), WRONG_ROUNDS.values(), ids=WRONG_ROUNDS)
def test_windows_that_cannot_be_right(change, text):
    run = make_rounds(ROUNDS)
    assert faults(run) == []
    change(run.ranks[1].windows)
    assert text in "; ".join(faults(run))


def test_controls_may_be_in_every_fourth_round_alone():
    run = make_rounds([(0.5, 0.8, 0.55)] * 6)
    for rank in run.ranks:
        rank.windows = [window for window in rank.windows if window.arm < 2 or window.round in (0, 4)]
    assert faults(run) == []
    run.ranks[1].windows = [window for window in run.ranks[1].windows if (window.round, window.arm) != (4, 2)]
    assert "rank 1: its windows are not one of each" in "; ".join(faults(run))


def test_what_a_launch_cannot_have_is_not_missed():
    assert faults(as_sweep(make_record(nodes=2), {1024: [[0.1] * 3] * 2})) == []
    interrupted = make_rounds(ROUNDS)  # during the import: no rank knows its node, and one has written nothing
    interrupted.status, interrupted.failure = "failed", Failure("interrupted by SIGINT")
    interrupted.ranks.pop()
    interrupted.ranks[0].windows.pop()
    assert faults(interrupted) == []
