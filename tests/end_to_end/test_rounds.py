"""A whole curve in one launch, as a user starts it: rounds, their records, and the records after a fault."""

import json
import os
from pathlib import Path

import pytest

from tests.helpers.kit import (
    LAUNCH,
    TIMEOUT_S,
    analyse,
    command_lines,
    make_command,
    needs_setup,
    ranks,
    records,
    start,
    succeed,
    wait_for,
)
from tests.helpers.patched_ranks import ROUNDS_END, UNCOUNTED, Hold, patch_ranks, rounds

pytestmark = pytest.mark.end_to_end

SMALL = ("model=tiny", "batch_per_rank=4", "tracking=none")
SHORT_WINDOWS = "measure.precision_fraction=0.9"
SHORT = (SHORT_WINDOWS, "measure.budget_s=1", "measure.repeats=1")  # one launch
ENDLESS = (SHORT_WINDOWS, "measure.budget_s=3600", "measure.repeats=1")
ROUNDS = 6  # as many as an interval needs
ENOUGH = rounds(ROUNDS) | UNCOUNTED


def hold_after_three_rounds(folder: Path, held_ranks: list[int]) -> Hold:
    """Hold these ranks of a launch when all ranks have recorded the rounds 0, 1 and 2."""
    return Hold(folder / "patch", ROUNDS_END, after=2, ranks=held_ranks)


def summary(experiment: str, results: Path) -> list[dict]:
    """Return the points in the summary of an experiment."""
    return json.loads(analyse("summary", experiment, "--results", str(results), "--format", "json"))


@needs_setup
def test_make_measures_a_curve_and_its_points_and_says_and_draws_where_the_time_goes(tmp_path):
    kit = tmp_path / "kit"
    short = f"ARGS=tracking=none batch_per_rank=4 {' '.join(SHORT)}"
    command = make_command(kit, "diagnose", "NODES=2", "MODELS=tiny", "ONLY=tiny-rounds", short)
    output = succeed(*command, variables=patch_ranks(tmp_path / "patch", ENOUGH))
    assert "computing, as one node alone does" in output
    assert "where the time of a whole job goes" in output
    assert (kit / "figures/own-diagnose-diagnosis.png").exists()

    [curve] = records(kit / "results")
    assert (curve.point, curve.status, len(curve.ranks)) == ("tiny-rounds", "complete", 2)
    assert [(arm["nodes"], arm["allreduce"]) for arm in curve.config["rounds"]] == [(1, True), (2, True), (2, False)]
    first, second = (rank.windows for rank in curve.ranks)
    assert {(w.round, w.arm) for w in first} == {(number, arm) for number in range(ROUNDS) for arm in (0, 1, 2)}
    assert {(w.round, w.arm) for w in second} == {(number, arm) for number in range(ROUNDS) for arm in (1, 2)}
    assert curve.weights_differ is False
    points = {(point["nodes"], point["arm"]): point for point in summary("diagnose", kit / "results")}
    speedup = points[2, ""]["speedup_throughput"]
    assert speedup["low"] <= speedup["value"] <= speedup["high"]
    assert speedup["n"] == ROUNDS

    output = succeed(*make_command(kit, "diagnose", "EXPERIMENT=diagnose", "MODELS=tiny"))
    assert "measured step" in output


def test_a_rank_that_stands_still_between_windows_is_named_and_costs_its_round_alone(tmp_path):
    curve = ("experiment=weak_scaling", "nodes=2", "--only=tiny-rounds", *ENDLESS)
    hold = hold_after_three_rounds(tmp_path, [1])
    # Also the limit for ranks to join: on a busy machine their starts differ by less.
    limit = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "60"}
    launcher = start(*LAUNCH, *SMALL, *curve, f"results={tmp_path}", variables=hold.variables | limit)
    wait_for(hold.holds)
    ranks(tmp_path)[1].suspend()
    hold.off()
    output, _ = launcher.communicate(timeout=TIMEOUT_S)
    assert launcher.returncode == 1, output
    [failed] = records(tmp_path)
    assert failed.failure.reason.startswith(f"rank 1 ({os.uname().nodename}) did not come to the next window within ")
    assert (failed.failure.rank, failed.failure.phase) == (1, "timed")
    assert [{window.round for window in rank.windows} for rank in failed.ranks] == [{0, 1, 2}] * 2
    assert command_lines(tmp_path) == []


RANK_GROUPS = ("experiment=overhead", "--only=tiny-ranks1-rounds")


def test_ranks_with_and_without_horovod_measure_at_the_same_time(tmp_path):
    succeed(*LAUNCH, *SMALL, *RANK_GROUPS, *SHORT, f"results={tmp_path}", variables=patch_ranks(tmp_path, ENOUGH))
    [record] = records(tmp_path)
    assert record.config["rank_groups_at_once"]
    without_horovod, with_horovod = record.ranks
    assert {window.arm for window in without_horovod.windows} == {0}
    assert {window.arm for window in with_horovod.windows} == {1}
    assert [w.round for w in without_horovod.windows] == [w.round for w in with_horovod.windows]
    assert without_horovod.cores != with_horovod.cores
    points = {point["arm"]: point for point in summary("overhead", tmp_path)}
    assert {arm for arm, point in points.items() if "ratio_to_base" in point} == {"one-rank-with-horovod"}
    ratio = points["one-rank-with-horovod"]["ratio_to_base"]
    assert ratio["low"] <= ratio["value"] <= ratio["high"]


def test_a_rank_of_one_rank_group_that_is_killed_ends_the_other_group_and_is_named(tmp_path):
    hold = hold_after_three_rounds(tmp_path, [0])  # the only rank of each rank group
    launcher = start(*LAUNCH, *SMALL, *RANK_GROUPS, *ENDLESS, f"results={tmp_path}", variables=hold.variables)
    wait_for(hold.holds)
    by_group = {process.environ()["KIT_RANK_GROUP"]: process for process in ranks(tmp_path)}
    by_group["1"].kill()
    hold.off()
    output, _ = launcher.communicate(timeout=TIMEOUT_S)
    assert launcher.returncode == 1, output
    [failed] = records(tmp_path)
    assert (failed.failure.rank, failed.failure.exit_code) == (1, 137)
    assert ranks(tmp_path) == []
    assert [window.round for window in failed.ranks[0].windows] == [0, 1, 2]
