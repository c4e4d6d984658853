from pathlib import Path

from train.launch.batch import submitted
from train.launch.batch.submitted import Submitted


def test_a_running_job_counts_before_a_pending_one():
    jobs = [Submitted("7", 2, 3, ["/r/a", "/r/b"]), Submitted("8", 2, 3, ["/r/b"]), Submitted("6", 2, 3, ["/r/c"])]
    queue = {"7": "RUNNING", "8": "PENDING"}
    assert submitted.states_of_points(jobs, queue) == {Path("/r/a"): "RUNNING", Path("/r/b"): "RUNNING"}


def test_jobs_are_read_back_for_the_launcher_that_submitted_them(tmp_path):
    home = tmp_path / "weak_scaling/tiny-nodes1/0a1b2c3d"
    for launcher, job_id in (("slurm", "7"), ("pbs", "8.head")):
        folder = submitted.jobs_folder(home, launcher)
        folder.mkdir(parents=True)
        submitted.keep(folder, Submitted(job_id, 2, 3, [str(home)]))
    assert submitted.read(tmp_path, "pbs") == [Submitted("8.head", 2, 3, [str(home)])]
    assert submitted.read(tmp_path, "local") == []


def test_a_file_that_is_no_job_is_named_and_left_out(tmp_path, capsys):
    folder = submitted.jobs_folder(tmp_path / "weak_scaling/tiny-nodes1/0a1b2c3d", "slurm")
    folder.mkdir(parents=True)
    submitted.keep(folder, Submitted("7", 2, 3, []))
    (folder / "8.json").write_text((folder / "7.json").read_text()[:20])
    assert submitted.read(tmp_path, "slurm") == [Submitted("7", 2, 3, [])]
    assert "8.json: no job of a launch" in capsys.readouterr().err
