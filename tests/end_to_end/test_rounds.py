"""A whole curve in one launch, as a user starts it: rounds, their records, and what a fault leaves of them."""

import json
import sys
from pathlib import Path

import pytest

from tests.helpers.kit import ranks, records, run, start, wait_for
from train.record import parts

pytestmark = pytest.mark.end_to_end

CURVE = ("experiment=weak_scaling", "model=tiny", "nodes=2", "batch_per_rank=4", "tracking=none")


def command(results: Path, *overrides: str) -> list[str]:
    return [sys.executable, "-m", "train.launch", *CURVE, f"results={results}", *overrides]


def rounds_of(folder: Path) -> set[int]:
    """The rounds that rank 0 has recorded below a folder."""
    found = [parts.read_part(path) for path in folder.rglob("rank-0.*.jsonl")]
    return {window.round for part in found for window in part.windows}


def test_a_curve_and_its_points(tmp_path):
    status, output = run(*command(tmp_path, "measure.budget_s=90", "measure.precision_fraction=0.5"))
    assert status == 0, output
    one, two, curve = sorted(records(tmp_path), key=lambda record: (bool(record.config["rounds"]), len(record.ranks)))
    assert [(r.point, r.status, len(r.ranks)) for r in (one, two, curve)] == [
        ("tiny-nodes1", "complete", 1),
        ("tiny-nodes2", "complete", 2),
        ("tiny-rounds", "complete", 2),
    ]
    assert [(arm["nodes"], arm["allreduce"]) for arm in curve.config["rounds"]] == [(1, True), (2, True), (2, False)]
    first, second = (rank.windows for rank in curve.ranks)
    rounds = {window.round for window in first}
    assert {(w.round, w.arm) for w in first} == {(number, arm) for number in rounds for arm in (0, 1, 2)}
    assert {(w.round, w.arm) for w in second} == {(number, arm) for number in rounds for arm in (1, 2)}
    assert curve.weights_differ is False
    status, output = run(
        sys.executable, "-m", "analysis", "summary", "weak_scaling", "--results", str(tmp_path), "--format", "json"
    )
    assert status == 0, output
    points = {(point["nodes"], point["arm"]): point for point in json.loads(output)}
    speedup = points[2, ""]["speedup_throughput"]
    assert speedup["low"] <= speedup["value"] <= speedup["high"]
    assert speedup["n"] == len(rounds)


def test_a_rank_that_is_killed_costs_its_round_alone(tmp_path):
    asked = command(tmp_path, "--only=tiny-rounds", "measure.budget_s=90")
    launcher = start(*asked, "measure.precision_fraction=0.02")
    wait_for(lambda: len(rounds_of(tmp_path)) > 1 and len(ranks(tmp_path)) == 2)
    ranks(tmp_path)[1].kill()
    output, _ = launcher.communicate(timeout=120)
    assert launcher.returncode == 1, output
    [failed] = records(tmp_path)
    assert (failed.status, failed.failure.rank) == ("failed", 1)
    kept = {window.round for window in failed.ranks[1].windows}
    assert len(kept) > 1
    assert kept <= rounds_of(tmp_path)

    status, output = run(*asked, "measure.precision_fraction=0.5")
    assert status == 0, output
    assert [(r.repeat, r.generation, r.status) for r in records(tmp_path)][:2] == [(0, 1, "failed"), (0, 2, "complete")]


OVERHEAD = ("experiment=overhead", "model=tiny", "batch_per_rank=4", "tracking=none", "measure.precision_fraction=0.5")


def test_ranks_with_and_without_horovod_measure_at_the_same_time(tmp_path):
    asked = [sys.executable, "-m", "train.launch", *OVERHEAD, "measure.budget_s=60", f"results={tmp_path}"]
    status, output = run(*asked)
    assert status == 0, output
    one, two = sorted(records(tmp_path), key=lambda record: record.point)
    assert (one.point, two.point) == ("tiny-ranks1-rounds", "tiny-ranks2-rounds")
    assert one.config["worlds_at_once"]
    without, with_horovod = one.ranks
    assert {window.arm for window in without.windows} == {0}
    assert {window.arm for window in with_horovod.windows} == {1}
    assert [w.round for w in without.windows] == [w.round for w in with_horovod.windows]
    assert without.cores != with_horovod.cores
    command = (sys.executable, "-m", "analysis", "summary", "overhead", "--results", str(tmp_path), "--format", "json")
    points = {point["arm"]: point for point in json.loads(run(*command)[1])}
    assert {arm for arm, point in points.items() if "ratio_to_first_arm" in point} == {
        "one-rank-with-horovod",
        "two-ranks-with-allreduce",
    }
    ratio = points["one-rank-with-horovod"]["ratio_to_first_arm"]
    assert ratio["low"] <= ratio["value"] <= ratio["high"]


def test_a_rank_of_one_world_that_is_killed_ends_the_other_world_and_is_named(tmp_path):
    asked = [sys.executable, "-m", "train.launch", *OVERHEAD, f"results={tmp_path}", "--only=tiny-ranks1-rounds"]
    launcher = start(*asked, "measure.precision_fraction=0.05")
    wait_for(lambda: len(rounds_of(tmp_path)) > 1 and len(ranks(tmp_path)) == 2)
    of_worlds = {process.environ()["KIT_WORLD"]: process for process in ranks(tmp_path)}
    of_worlds["1"].kill()
    output, _ = launcher.communicate(timeout=120)
    assert launcher.returncode == 1, output
    [failed] = records(tmp_path)
    assert (failed.failure.rank, failed.failure.exit_code) == (1, 137)
    assert ranks(tmp_path) == []
    assert len(failed.ranks[0].windows) > 1
