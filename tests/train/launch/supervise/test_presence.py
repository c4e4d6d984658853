import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from tests.helpers import ROOT
from train.config.checks import ConfigError
from train.launch.supervise import presence
from train.launch.supervise.presence import Holder

OTHER = """
import sys, time
from pathlib import Path
from train.launch.supervise.presence import alone
with alone(Path(sys.argv[1])):
    print("in", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that launches in this folder."""
    command = [sys.executable, "-c", OTHER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "in\n"
        yield child
        child.kill()


def told(folder, holder):
    (folder / ".launch").write_bytes(msgspec.json.encode(holder))


def test_one_launch_follows_another(tmp_path):
    for _ in range(2):
        with presence.alone(tmp_path / "results"):
            pass


@pytest.mark.slow
def test_a_second_launch_names_the_first_and_comes_in_when_that_is_killed(tmp_path, other):
    with pytest.raises(
        ConfigError, match=rf"results={tmp_path}: .*process {other.pid} on {os.uname().nodename}, since "
    ):
        with presence.alone(tmp_path):
            pass
    other.send_signal(signal.SIGKILL)
    other.wait()
    with presence.alone(tmp_path):
        pass


def test_of_many_at_once_one_comes_in(tmp_path):
    begin, end, came = threading.Barrier(8), threading.Event(), []

    def launch(_):
        begin.wait()
        try:
            with presence.alone(tmp_path):
                came.append(True)
                end.wait(30)
        except ConfigError:
            refused.release()

    refused = threading.Semaphore(0)
    with ThreadPoolExecutor(8) as pool:
        made = pool.map(launch, range(8))
        assert all(refused.acquire(timeout=30) for _ in range(7))
        end.set()
        list(made)
    assert came == [True]


@pytest.fixture
def no_locks(monkeypatch):
    def flock(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(presence.fcntl, "flock", flock)


@pytest.mark.parametrize("locks", [True, False])
def test_one_on_another_host_lives_as_long_as_its_file_is_fresh(tmp_path, request, locks):
    if not locks:
        request.getfixturevalue("no_locks")
    told(tmp_path, Holder("far-away", 7, 1_700_000_000.0))
    with pytest.raises(ConfigError, match="process 7 on far-away, since 2023-11-1"):
        with presence.alone(tmp_path):
            pass
    file = tmp_path / ".launch"
    long_ago = file.stat().st_mtime - 61
    os.utime(file, (long_ago, long_ago))
    with presence.alone(tmp_path):
        assert msgspec.json.decode(file.read_bytes(), type=Holder) == Holder.own()
    assert file.read_bytes() == b""


def test_the_clock_of_this_host_does_not_count(tmp_path, monkeypatch):
    told(tmp_path, Holder("far-away", 7, 1_700_000_000.0))
    monkeypatch.setattr("time.time", lambda: 4e9)
    with pytest.raises(ConfigError, match="far-away"):
        with presence.alone(tmp_path):
            pass


@pytest.mark.slow
@pytest.mark.usefixtures("no_locks")
def test_without_locks_one_on_this_host_is_looked_up(tmp_path, other):
    with pytest.raises(ConfigError, match=f"process {other.pid} on "):
        with presence.alone(tmp_path):
            pass
    other.kill()
    other.wait()
    with presence.alone(tmp_path):
        pass


def test_a_file_that_cannot_be_read_holds_nobody_up(tmp_path):
    (tmp_path / ".launch").write_bytes(b"\xff{")
    with presence.alone(tmp_path):
        pass


def test_the_file_is_kept_fresh(tmp_path, monkeypatch):
    monkeypatch.setattr(presence, "BEAT_S", 0.02)
    beaten = threading.Event()
    monkeypatch.setattr(presence.os, "utime", lambda file: beaten.set())
    with presence.alone(tmp_path):
        assert beaten.wait(30)


def test_a_run_is_in_progress_from_its_begin_to_its_end(tmp_path):
    assert not presence.is_on(tmp_path)
    presence.begin(tmp_path)
    assert presence.is_on(tmp_path)
    presence.end(tmp_path)
    assert not presence.is_on(tmp_path)
    presence.end(tmp_path)  # a second time changes nothing


@pytest.mark.slow
def test_a_launcher_of_this_host_that_is_gone_is_known_at_once(tmp_path):
    subprocess.run(
        [sys.executable, "-c", "import pathlib, sys; from train.launch.supervise import presence; "
                               "presence.begin(pathlib.Path(sys.argv[1]))", str(tmp_path)],
        check=True,
    )  # fmt: skip
    assert (tmp_path / "running").exists()
    assert not presence.is_on(tmp_path)


def test_another_process_with_its_number_is_not_the_launcher(tmp_path):
    presence.begin(tmp_path)
    file = tmp_path / "running"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"since": 1.0}))
    assert not presence.is_on(tmp_path)


@pytest.mark.parametrize(("age_s", "alive"), [(5, True), (300, False)])
def test_on_another_host_the_last_beat_tells(tmp_path, age_s, alive):
    file = tmp_path / "running"
    file.write_text(json.dumps({"host": "another", "pid": os.getpid(), "since": 1.0}))
    os.utime(file, (time.time() - age_s,) * 2)
    assert presence.is_on(tmp_path) is alive


def test_the_launcher_beats_now_and_then(tmp_path, monkeypatch):
    presence.begin(tmp_path)
    os.utime(tmp_path / "running", (1.0, 1.0))
    beat = presence.beats(tmp_path)
    beat()
    assert (tmp_path / "running").stat().st_mtime == 1.0
    begin = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: begin + 60)
    beat()
    assert time.time() - (tmp_path / "running").stat().st_mtime < 60
    presence.end(tmp_path)
    monkeypatch.setattr(time, "monotonic", lambda: begin + 120)
    beat()  # a folder that was cleared away ends nothing


def test_a_damaged_file_says_nothing(tmp_path):
    (tmp_path / "running").write_text("{")
    assert not presence.is_on(tmp_path)
