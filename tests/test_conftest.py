import os
import subprocess
import sys

import pytest

from tests.helpers import ROOT, kit

CONFTEST = """
from tests.helpers import time_limit
from tests.conftest import (
    pytest_configure, pytest_runtest_call, pytest_runtest_logfinish, pytest_runtest_setup, pytest_runtest_teardown
)
time_limit._LIMIT_S = 0.5
"""
# A child that nobody ends holds the pipe, the other one is in a session of its own.
HANGS = """
import subprocess

def test_that_waits_for_ever():
    with subprocess.Popen(["sh", "-c", "setsid sleep {0} & sleep {0}"], stdout=subprocess.PIPE) as child:
        child.stdout.read()

def test_after_it():
    pass
"""


@pytest.mark.slow
def test_a_test_that_hangs_fails_with_its_stack_and_its_processes_end(tmp_path):
    seconds = f"{os.getpid()}.5"  # no other sleeps as long
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_hangs.py").write_text(HANGS.format(seconds))
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "--rootdir", ROOT, tmp_path]
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # those of `make test`
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=kit.TIMEOUT_S, env=own)
    assert "1 failed, 1 passed" in done.stdout
    assert "FAILED" in done.stdout
    assert "Failed: the test was not over after 0.5 s" in done.stdout
    assert 'test_hangs.py", line 6 in test_that_waits_for_ever' in done.stderr
    assert not kit.command_lines(f"sleep {seconds}")


def test_a_long_test_runs_if_a_file_that_it_names_has_changed(request):
    from tests.conftest import _is_left_out

    test = request.node
    assert not _is_left_out(test, [])
    test.add_marker(pytest.mark.on_change_of("train/loop/", "conf/experiment/tune.yaml"))
    for changed in ([], ["docs/design.md", "train/launch/job.py", "conf/experiment/overhead.yaml"]):
        assert _is_left_out(test, changed)
    # It, what it names, and what each training depends on.
    for changed in ("tests/test_conftest.py", "train/loop/step.py", "conf/experiment/tune.yaml", "uv.lock"):
        assert not _is_left_out(test, ["docs/design.md", changed])
