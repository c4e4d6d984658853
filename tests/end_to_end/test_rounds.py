"""Curves in one launch: the records after a fault, and rank groups. As a user starts one: test_diagnose.py."""

import json
import os

import pytest

from tests.helpers.kit import (
    LAUNCH,
    analyse,
    command_lines,
    finish,
    ranks,
    records,
    start,
    succeed,
    wait_for,
)
from tests.helpers.patched_ranks import ROUNDS_END, SLEEPING, UNCOUNTED, Hold, patch_ranks, rounds

pytestmark = pytest.mark.end_to_end

SMALL = ("model=tiny", "batch_per_rank=4", "measure.repeats=1", "tracking=none")
SHORT_WINDOWS = "measure.precision_fraction=0.9"
ENOUGH = rounds(6) | UNCOUNTED  # as many as an interval needs


def test_a_rank_that_stands_still_between_windows_is_named_and_costs_its_round_alone(tmp_path):
    curve = ("experiment=weak_scaling", "nodes=2", "--only=tiny-rounds", SHORT_WINDOWS, "measure.budget_s=3600")
    hold = Hold(
        tmp_path / "patch", ROUNDS_END, after=2, ranks=[1], changes=SLEEPING
    )  # all have recorded the rounds 0, 1 and 2
    limit = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "8"}
    launcher = start(*LAUNCH, *SMALL, *curve, f"results={tmp_path}", variables=hold.variables | limit)
    wait_for(hold.holds)
    ranks(tmp_path)[1].suspend()
    hold.off()
    finish(launcher, status=1)
    [failed] = records(tmp_path)
    assert failed.failure.reason.startswith(f"rank 1 ({os.uname().nodename}) did not come to the next window within ")
    assert (failed.failure.rank, failed.failure.phase) == (1, "timed")
    assert [{window.round for window in rank.windows} for rank in failed.ranks] == [{0, 1, 2}] * 2
    assert command_lines(tmp_path) == []


def test_ranks_with_and_without_horovod_measure_at_the_same_time(tmp_path):
    groups = ("experiment=overhead", "--only=tiny-ranks1-rounds", SHORT_WINDOWS, "measure.budget_s=1")
    succeed(*LAUNCH, *SMALL, *groups, f"results={tmp_path}", variables=patch_ranks(tmp_path, ENOUGH))
    [record] = records(tmp_path)
    assert record.config["rank_groups_at_once"]
    without_horovod, with_horovod = record.ranks
    assert {window.arm for window in without_horovod.windows} == {0}
    assert {window.arm for window in with_horovod.windows} == {1}
    assert [w.round for w in without_horovod.windows] == [w.round for w in with_horovod.windows]
    assert without_horovod.cores != with_horovod.cores
    output = analyse("summary", "overhead", "--results", str(tmp_path), "--format", "json")
    points = {point["arm"]: point for point in json.loads(output)}
    assert {arm for arm, point in points.items() if "ratio_to_base" in point} == {"one-rank-with-horovod"}
    ratio = points["one-rank-with-horovod"]["ratio_to_base"]
    assert ratio["value"] > 0  # rounds that drift, as on a busy machine, have no interval
