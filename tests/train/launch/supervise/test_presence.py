"""One launch at a time in a folder. Of two processes, with locks: tests/end_to_end/test_launch.py."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import msgspec
import psutil
import pytest

from tests.helpers.kit import wait_for
from train.config.checks import ConfigError
from train.launch.supervise import presence
from train.launch.supervise.presence import Holder


@pytest.fixture(params=[True, False], ids=["locks", "no locks"])
def locks(request, monkeypatch):
    """A file system with and without locks."""

    def flock(*_):
        raise OSError(38, "Function not implemented")

    if not request.param:
        monkeypatch.setattr(presence.fcntl, "flock", flock)


@pytest.mark.usefixtures("locks")
def test_a_second_launch_names_the_first_and_comes_in_when_that_has_ended(tmp_path):
    other = psutil.Process().parent()
    holder = Holder(os.uname().nodename, other.pid, other.create_time())
    (tmp_path / ".launch").write_bytes(msgspec.json.encode(holder))
    message = rf"results={tmp_path}: .*process {other.pid} on {holder.host}, since "
    with pytest.raises(ConfigError, match=message), presence.alone(tmp_path):
        pass
    for nobody in (msgspec.json.encode(replace(holder, since=1.0)), b"\xff{"):  # another has its number now; damaged
        (tmp_path / ".launch").write_bytes(nobody)
        with presence.alone(tmp_path):
            pass


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("other"), os.mkfifo], ids=["a link", "a pipe"])
def test_what_another_user_left_in_place_of_the_file_is_refused(tmp_path, make):
    (tmp_path / "other").write_text("content")
    make(tmp_path / ".launch")
    with pytest.raises(ConfigError, match=r"\.launch: must be a regular file"), presence.alone(tmp_path):
        pass
    assert (tmp_path / "other").read_text() == "content"


def test_only_one_of_many_launches_at_once_comes_in(tmp_path):
    begin, end, entered, refused = threading.Barrier(8), threading.Event(), [], threading.Semaphore(0)

    def launch(_):
        begin.wait()
        try:
            with presence.alone(tmp_path):
                entered.append(True)
                end.wait(30)
        except ConfigError:
            refused.release()

    with ThreadPoolExecutor(8) as pool:
        launches = pool.map(launch, range(8))
        assert all(refused.acquire(timeout=30) for _ in range(7))
        end.set()
        list(launches)
    assert entered == [True]


@pytest.mark.usefixtures("locks")
def test_a_launch_on_another_host_lives_as_long_as_its_file_is_fresh(tmp_path, monkeypatch):
    file = tmp_path / ".launch"
    file.write_bytes(msgspec.json.encode(Holder("far-away", 7, 1_700_000_000.0)))
    with monkeypatch.context() as wrong_clock:
        wrong_clock.setattr("time.time", lambda: 4e9)  # the clock of this host does not count
        with pytest.raises(ConfigError, match="process 7 on far-away, since 2023-11-1"), presence.alone(tmp_path):
            pass
    long_ago = file.stat().st_mtime - 61
    os.utime(file, (long_ago, long_ago))
    with presence.alone(tmp_path):
        assert msgspec.json.decode(file.read_bytes(), type=Holder) == Holder.this_process()
    assert file.read_bytes() == b""


def test_the_file_is_kept_fresh_and_nobody_else_can_lock_it(tmp_path, monkeypatch):
    monkeypatch.setattr(presence, "BEAT_S", 0.02)
    beaten = threading.Event()
    monkeypatch.setattr(presence.os, "utime", lambda file: beaten.set())
    with presence.alone(tmp_path):
        assert beaten.wait(30)
        assert (tmp_path / ".launch").stat().st_mode & 0o077 == 0


def test_a_run_is_in_progress_from_its_begin_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(presence, "BEAT_S", 0.02)
    assert not presence.is_on(tmp_path)
    with presence.in_progress(tmp_path):
        os.utime(tmp_path / "running", (1.0, 1.0))
        wait_for(lambda: (tmp_path / "running").stat().st_mtime > 1.0)  # it is touched
        assert presence.is_on(tmp_path)
        for _ in range(2):  # a second time changes nothing
            presence.note_end(tmp_path)
            assert not presence.is_on(tmp_path)


@pytest.mark.parametrize(
    ("changed", "age_s", "alive"),
    [
        ({}, 300, True),
        ({"pid": 2**22 + 1}, 0, False),  # above the kernel's largest
        ({"host": "another"}, 5, True),  # there the last beat decides
        ({"host": "another"}, 300, False),
    ],
)
def test_the_launcher_of_a_run_is_the_process_that_began_it(tmp_path, changed, age_s, alive):
    presence.note_begin(tmp_path)
    file = tmp_path / "running"
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))
    os.utime(file, (time.time() - age_s,) * 2)
    assert presence.is_on(tmp_path) is alive
