import json
import os
import subprocess
import sys
import time

import pytest

from train.launch.supervise import running


def test_a_run_is_in_progress_from_its_begin_to_its_end(tmp_path):
    assert not running.is_on(tmp_path)
    running.begin(tmp_path)
    assert running.is_on(tmp_path)
    running.end(tmp_path)
    assert not running.is_on(tmp_path)
    running.end(tmp_path)  # a second time changes nothing


def test_a_launcher_of_this_host_that_is_gone_is_known_at_once(tmp_path):
    subprocess.run(
        [sys.executable, "-c", "import pathlib, sys; from train.launch.supervise import running; "
                               "running.begin(pathlib.Path(sys.argv[1]))", str(tmp_path)],
        check=True,
    )  # fmt: skip
    assert (tmp_path / "running").exists()
    assert not running.is_on(tmp_path)


def test_another_process_with_its_number_is_not_the_launcher(tmp_path):
    running.begin(tmp_path)
    file = tmp_path / "running"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"since": 1.0}))
    assert not running.is_on(tmp_path)


@pytest.mark.parametrize(("age_s", "alive"), [(5, True), (300, False)])
def test_on_another_host_the_last_beat_tells(tmp_path, age_s, alive):
    file = tmp_path / "running"
    file.write_text(json.dumps({"host": "another", "pid": os.getpid(), "since": 1.0}))
    os.utime(file, (time.time() - age_s,) * 2)
    assert running.is_on(tmp_path) is alive


def test_the_launcher_beats_now_and_then(tmp_path, monkeypatch):
    running.begin(tmp_path)
    os.utime(tmp_path / "running", (1.0, 1.0))
    beat = running.beats(tmp_path)
    beat()
    assert (tmp_path / "running").stat().st_mtime == 1.0
    begin = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: begin + 60)
    beat()
    assert time.time() - (tmp_path / "running").stat().st_mtime < 60
    running.end(tmp_path)
    monkeypatch.setattr(time, "monotonic", lambda: begin + 120)
    beat()  # a folder that was cleared away ends nothing


def test_a_damaged_file_says_nothing(tmp_path):
    (tmp_path / "running").write_text("{")
    assert not running.is_on(tmp_path)
