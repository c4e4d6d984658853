"""The limit of open files of this process, which is put back, and the end of a job."""

import os
import resource
import subprocess
import sys

import psutil
import pytest

from tests.helpers import ROOT as KIT
from train.rank import process as rank_process
from train.record.protocol import JOB_ID


@pytest.fixture(autouse=True)
def limit():
    """A function that sets the limit of this process, as `ulimit -Sn`."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda soft: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def soft():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_it_is_raised_as_far_as_needed_and_never_lowered(limit):
    limit(1024)
    rank_process.allow_open_files(8)
    assert soft() == 1024
    rank_process.allow_open_files(128)
    assert soft() == 512 + 8 * 128
    rank_process.allow_open_files(8)
    assert soft() == 512 + 8 * 128


@pytest.mark.parametrize(
    ("hard", "raised"), [(1_000_000, 512 + 8 * 1024), (resource.RLIM_INFINITY, 512 + 8 * 1024), (4096, 4096)]
)
def test_a_thousand_ranks_get_what_they_need_or_all_that_is_allowed(monkeypatch, hard, raised):
    asked = []
    monkeypatch.setattr(rank_process.resource, "getrlimit", lambda of: (1024, hard))
    monkeypatch.setattr(rank_process.resource, "setrlimit", lambda of, limits: asked.append(limits))
    rank_process.allow_open_files(1024)
    monkeypatch.undo()  # before the limits of this process are put back
    assert asked == [(raised, hard)]


WATCHING = """import time
from train.rank import process
process.end_with_launcher(1)
print('watching', flush=True)
time.sleep(600)
"""


def watching(output: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", WATCHING], stdout=output, stderr=subprocess.PIPE, cwd=KIT)


@pytest.mark.slow
def test_a_process_ends_when_nobody_can_read_its_output():
    reading, writing = os.pipe()
    process = watching(writing)
    os.close(writing)
    with os.fdopen(reading) as output:
        assert output.readline() == "watching\n"
        assert process.poll() is None
    assert process.wait() == 1
    assert process.stderr
    assert process.stderr.read() == b"the launcher has ended: this rank exits\n"


@pytest.mark.slow
def test_a_process_that_writes_to_a_file_is_left_alone(tmp_path):
    with (tmp_path / "log").open("wb") as log:
        process = watching(log.fileno())
    while not (tmp_path / "log").read_text():
        assert process.poll() is None
    try:
        process.wait(timeout=0.1)
    except subprocess.TimeoutExpired:
        process.kill()
    assert process.wait() == -9


def sleeper(job_id: str) -> subprocess.Popen:
    """A process of that job, in a session of its own, as Horovod starts its ranks."""
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    child = subprocess.Popen(
        command, env={**os.environ, JOB_ID: job_id}, stdout=subprocess.PIPE, start_new_session=True
    )
    child.stdout.readline()
    return child


@pytest.mark.slow
def test_the_processes_of_a_job_are_killed_and_no_others():
    mine, others = sleeper("job-of-a-test"), sleeper("job-of-another")
    try:
        assert [one.pid for one in rank_process.of_job("job-of-a-test")] == [mine.pid]
        rank_process.kill_job("job-of-a-test")
        assert not psutil.pid_exists(mine.pid)
        assert others.poll() is None
    finally:
        for child in (mine, others):
            child.kill()
            child.wait()
            child.stdout.close()
