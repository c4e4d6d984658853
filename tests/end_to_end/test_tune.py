"""A contest of real launches: each arm as its own, Horovod's autotuner too, and the ranking of what they left."""

import csv
import json
import sys
from pathlib import Path

import pytest

from tests.helpers.kit import records, run

pytestmark = pytest.mark.end_to_end

ARMS = ("as-configured", "horovods-autotuner")


def test_arms_are_launched_and_ranked(tmp_path: Path):
    given = ("experiment=tune", "model=tiny", "nodes=2", "measure.repeats=1", "tracking=none", f"results={tmp_path}")
    only = ",".join(f"tiny-{arm}" for arm in ARMS)
    status, output = run(sys.executable, "-m", "train.launch", f"--only={only}", *given)
    assert status == 0, output
    found = {record.arm: record for record in records(tmp_path)}
    tuned = found["horovods-autotuner"]
    assert "cycle_time_ms" not in tuned.config["distribution"]
    assert tuned.environment.variables["HOROVOD_AUTOTUNE"] == "1"
    assert "HOROVOD_CYCLE_TIME" not in tuned.environment.variables
    [log] = tmp_path.rglob("autotune.csv")
    tried = list(csv.DictReader(log.open()))
    assert len({(row["cycle_time_ms"], row["tensor_fusion_threshold"]) for row in tried}) > 3

    command = (sys.executable, "-m", "analysis", "tune", "--results", str(tmp_path), "--format", "json")
    status, output = run(*command)
    assert status == 0, output
    [contest] = json.loads(output)["contests"]
    assert {arm["arm"] for arm in contest["arms"]} == set(ARMS)
    assert contest["winner"] is None
    # What limits them was measured in the same launches.
    for record in found.values():
        assert record.work.gradient_bytes > 0
        assert record.work.operations_per_image > 0
        for rank in record.ranks:
            assert 1e9 < 2 * rank.matrix_products[0].rows ** 3 / min(rank.matrix_products[0].times_s) < 1e13
            assert [transfer.what for transfer in rank.transfers] == ["tcp_ring"]
