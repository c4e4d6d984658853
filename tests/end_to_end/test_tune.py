"""The arm of a contest whose settings Horovod chooses itself. The ranking of arms: tests/analysis/experiments."""

import csv
from pathlib import Path

import pytest

from tests.helpers.kit import LAUNCH, records, succeed

pytestmark = pytest.mark.end_to_end


def test_horovods_autotuner_tries_settings(tmp_path: Path):
    overrides = ("experiment=tune", "model=tiny", "nodes=2", "measure.repeats=1", "tracking=none")
    succeed(*LAUNCH, "--only=tiny-horovods-autotuner", *overrides, f"results={tmp_path}")
    [tuned] = records(tmp_path)
    assert "cycle_time_ms" not in tuned.config["distribution"]
    assert tuned.environment.variables["HOROVOD_AUTOTUNE"] == "1"
    assert "HOROVOD_CYCLE_TIME" not in tuned.environment.variables
    [log] = tmp_path.rglob("autotune.csv")
    rows = list(csv.DictReader(log.open()))
    assert len({(row["cycle_time_ms"], row["tensor_fusion_threshold"]) for row in rows}) > 3
    # The same launch measures the numbers of its roofline.
    assert tuned.work.gradient_bytes > 0
    assert tuned.work.operations_per_image > 0
    for rank in tuned.ranks:
        assert 1e9 < 2 * rank.matrix_products[0].rows ** 3 / min(rank.matrix_products[0].times_s) < 1e13
        assert [transfer.what for transfer in rank.transfers] == ["tcp_ring"]
