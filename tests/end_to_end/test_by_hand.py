"""`python -m train` as a user starts it, without the launcher."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.kit import QUICK, records, run

pytestmark = pytest.mark.end_to_end

TRAIN = (sys.executable, "-m", "train", *QUICK, "measure.timed_steps=2")


@pytest.mark.parametrize(
    "launcher",
    [
        ("horovodrun", "-np", "2", "--gloo"),
        ("mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2"),
    ],
    ids=["horovodrun", "mpirun"],
)
def test_two_ranks_write_one_record(tmp_path: Path, launcher):
    if subprocess.run(["which", launcher[0]], capture_output=True).returncode and launcher[0] == "mpirun":
        pytest.skip("no mpirun on this machine")
    status, output = run(*launcher, *TRAIN, f"results={tmp_path}", "nodes=2")
    assert status == 0, output
    (record,) = records(tmp_path)
    assert (record.point, record.status, len(record.ranks)) == ("tiny-nodes2", "complete", 2)
    assert sorted(rank.rank for rank in record.ranks) == [0, 1]
    assert record.ranks[0].phases_s.get("exit", 0.0) == 0.0


def test_without_horovod_one_process_is_enough(tmp_path: Path):
    for _ in range(2):
        status, output = run(*TRAIN, f"results={tmp_path}", "nodes=1", "distribution=none")
        assert status == 0, output
    assert [record.repeat for record in records(tmp_path)] == [0, 1]


def test_singletons_are_refused(tmp_path: Path):
    status, output = run(*TRAIN, f"results={tmp_path}", "nodes=2")
    assert status == 1
    assert "nodes x ranks_per_node=2: Horovod's size is 1. Each process started alone" in output
    assert "Traceback" not in output
    assert records(tmp_path) == []


def test_bad_values_are_one_line(tmp_path: Path):
    status, output = run(*TRAIN, "model=vgg17")
    assert status == 1
    assert "model=vgg17: there is no conf/model/vgg17.yaml" in output
    assert "Traceback" not in output
