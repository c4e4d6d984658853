import pytest

from train.launch.batch.submitted import Submitted
from train.launch.status import Jobs, counts, repeats_of, state_of


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


def test_a_point_has_the_repeats_that_were_planned_or_that_are_there(tmp_path):
    for name in ("r0", "r1", "r1.2"):
        (tmp_path / name).mkdir()
    assert repeats_of(tmp_path, {}) == 2
    assert repeats_of(tmp_path, {str(tmp_path): 5}) == 5


def test_points_are_counted_that_have_runs_or_that_a_job_will_run(tmp_path):
    begun, waiting = (tmp_path / "weak_scaling" / name / "0a1b2c3d" for name in ("tiny-nodes1", "tiny-nodes2"))
    (begun / "r0").mkdir(parents=True)
    jobs = Jobs([Submitted("7", 2, 3, [str(waiting)])], {"7": "PENDING"})
    assert counts(tmp_path, jobs) == {begun: {"failed": 1}, waiting: {"queued": 3}}
