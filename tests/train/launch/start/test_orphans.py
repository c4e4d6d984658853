import os
import subprocess
import sys

import psutil
import pytest

from train.launch.start import orphans
from train.record.protocol import JOB_ID


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
        assert [process.pid for process in orphans.job_processes("job-of-a-test")] == [mine.pid]
        orphans.kill("job-of-a-test")
        assert not psutil.pid_exists(mine.pid)
        assert others.poll() is None
    finally:
        for child in (mine, others):
            child.kill()
            child.wait()
            child.stdout.close()


def test_where_no_host_is_asked_all_have_answered():
    assert orphans.kill_on([], "job-of-a-test") == []
