from pathlib import Path

import pytest

from train.launch.slurm.batch import Submitted
from train.launch.status import of_jobs, repeats_of, state_of


@pytest.mark.parametrize(
    ("begun", "recorded", "job", "state"),
    [
        (False, False, None, "to do"),
        (False, False, "PENDING", "queued"),
        (False, False, "RUNNING", "queued"),  # its turn has not come
        (True, False, "RUNNING", "running"),
        (True, False, None, "failed"),  # nothing runs that could still write its record
        (True, True, None, "failed"),  # the record is no complete one
        (True, True, "PENDING", "queued"),
    ],
)
def test_what_a_run_is_follows_from_its_files_and_the_queue(tmp_path, begun, recorded, job, state):
    if begun:
        (tmp_path / "r0").mkdir()
    if recorded:
        (tmp_path / "r0" / "record.json").write_text("{}")
    assert state_of(tmp_path, 0, job) == state


def test_a_running_job_counts_before_a_pending_one():
    jobs = [Submitted("7", 2, 3, ["/r/a", "/r/b"]), Submitted("8", 2, 3, ["/r/b"]), Submitted("6", 2, 3, ["/r/c"])]
    assert of_jobs(jobs, {"7": "RUNNING", "8": "PENDING"}) == {Path("/r/a"): "RUNNING", Path("/r/b"): "RUNNING"}


def test_a_point_has_the_repeats_that_were_planned_or_that_are_there(tmp_path):
    for name in ("r0", "r1", "r1.2"):
        (tmp_path / name).mkdir()
    assert repeats_of(tmp_path, {}) == 2
    assert repeats_of(tmp_path, {str(tmp_path): 5}) == 5
