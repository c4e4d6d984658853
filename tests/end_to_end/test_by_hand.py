"""`python -m train`, started by hand. With horovodrun: test_datasets.py. With srun: test_clusters.py."""

import signal
import sys
from pathlib import Path

import pytest

from tests.helpers import mpi
from tests.helpers.kit import QUICK, finish, in_phase, records, run, start, succeed, wait_for
from tests.helpers.patched_ranks import SLEEPING, patch_ranks

pytestmark = pytest.mark.end_to_end

TRAIN = (sys.executable, "-m", "train", *QUICK)
SHORT = (*TRAIN, "measure.timed_steps=2")
DIGITS = ("model=digits_plain", "dataset=digits", "batch_per_rank=16", "nodes=2")


def test_two_ranks_of_mpirun_write_one_record(tmp_path: Path):
    if reason := mpi.missing():
        pytest.skip(reason)
    launcher = ("mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2")
    variables = patch_ranks(tmp_path / "patch", SLEEPING)
    succeed(*launcher, *SHORT, f"results={tmp_path}", "nodes=2", variables=variables)
    (record,) = records(tmp_path)
    assert (record.point, record.status, len(record.ranks)) == ("tiny-nodes2", "complete", 2)
    assert sorted(rank.rank for rank in record.ranks) == [0, 1]
    assert record.ranks[0].phases_s.get("exit", 0.0) == 0.0
    assert record.swept == {"model": "tiny", "nodes": 2}


def test_bad_values_are_one_line(tmp_path: Path):
    status, output = run(*SHORT, "model=vgg17")
    assert status == 1
    assert "model=vgg17: there is no conf/model/vgg17.yaml" in output
    assert "Traceback" not in output


def test_after_ctrl_c_in_the_timed_steps_what_was_measured_before_is_recorded(tmp_path: Path):
    overrides = ("nodes=1", "distribution=none", "measure.warm_up_steps=2", "measure.timed_steps=1000000")
    child = start(*TRAIN, *overrides, f"results={tmp_path}", variables=patch_ranks(tmp_path / "patch", SLEEPING))
    wait_for(lambda: in_phase(tmp_path, "timed"))
    child.send_signal(signal.SIGINT)
    finish(child, status=130)
    (record,) = records(tmp_path)
    assert (record.failure.reason, record.failure.phase) == ("ended by SIGINT", "timed")
    (rank,) = record.ranks
    assert len(rank.warm_up_step_times_s) == 2
    assert rank.phases_s["first_step"] > 0
    assert rank.step_times_s == []
