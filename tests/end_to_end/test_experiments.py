"""Experiments as a user starts them: of a report, by Horovod's autotuner, and the proof of equal steps.

On data: test_datasets.py, tests/train/loop/test_training.py. A report's page: tests/analysis/page. The ranking of
settings: tests/analysis/experiments.
"""

import csv
import json
import sys
from pathlib import Path

import pytest

from analysis import judged_claims
from analysis.study import Study
from analysis.table.record_checks import faults
from record import reproduction
from tests.helpers.kit import LAUNCH, analyse, records, succeed

pytestmark = pytest.mark.end_to_end


def test_what_can_run_of_a_report_is_measured_and_what_cannot_is_named(tmp_path: Path):
    overrides = ("nodes=1", "model=tiny", "measure.repeats=1", "measure.design=launches", "tracking=none")
    command = (sys.executable, "-m", "train.launch.reproduce", "--", "000", *overrides, f"results={tmp_path}")
    output = succeed(*command)
    (record,) = records(tmp_path)
    assert (record.experiment, record.status, len(record.ranks[0].step_times_s)) == ("fixed_work", "complete", 16)
    outcomes = {row.experiment: row for row in reproduction.read_reproduction(tmp_path, "000").outcomes}
    assert (outcomes["fixed_work"].status, outcomes["cifar10"].status) == ("measured", "not run")
    assert len(outcomes) == 2
    assert f"cannot run here: cifar10: {outcomes['cifar10'].why}" in output


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


@pytest.mark.on_change_of("train/loop/", "train/distribution/", "analysis/claims/")
def test_two_ranks_make_the_steps_of_one_and_the_claim_is_judged_by_it(tmp_path: Path):
    """In ten steps, by Horovod and by TensorFlow's strategies; a claim needs a counterexample."""
    points = [f"nodes{name}" for name in ("1-same-steps", "2-same-steps", "2-same-steps-mwms", "2-same-steps-ps-cpu")]
    only = ",".join([*points, "nodes2-batch-per-rank-kept"])
    overrides = ("experiment=equivalence", "nodes=2", "measure.timed_steps=10", "tracking=none")
    succeed(*LAUNCH, f"--only={only}", *overrides, f"results={tmp_path}")
    [mwms] = [record for record in records(tmp_path) if record.arm == "same-steps-mwms"]
    assert mwms.weights_differ is False
    assert len({*json.loads(mwms.environment.variables["TF_CONFIG"])["cluster"]["worker"]}) == 2
    assert mwms.environment.variables["TF_ENABLE_ONEDNN_OPTS"] == "1"
    assert [transfer.what for transfer in mwms.ranks[1].transfers] == ["tcp_ring"]
    assert faults(mwms) == []
    output = analyse("summary", "equivalence", "--results", str(tmp_path))
    agree = [line.split()[0] for line in output.splitlines() if line.endswith("the same steps: agree")]
    assert agree == ["horovod", "mwms", "ps_cpu"]
    assert output.count("other steps: differ") == 1
    assert "Does averaging gradients lose precision? no" in output
    [claim] = [claim for claim in judged_claims.read_claims() if claim.id == "004-averaging-loses-precision"]
    [judged] = judged_claims.judge([claim], Study(tmp_path))
    assert judged.verdict == "contradicted"
