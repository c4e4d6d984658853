import os
import subprocess
import sys

from tests.helpers import ROOT as KIT

HELD = """import time
from train.rank import launcher_watch
launcher_watch.hold(1)
print('held', flush=True)
time.sleep(60)
"""


def held(output: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-S", "-c", HELD], stdout=output, stderr=subprocess.PIPE, cwd=KIT)


def test_a_process_ends_when_nobody_is_left_to_read_its_output():
    reading, writing = os.pipe()
    process = held(writing)
    os.close(writing)
    with os.fdopen(reading) as output:
        assert output.readline() == "held\n"
        assert process.poll() is None
    assert process.wait(timeout=5) == 1
    assert process.stderr
    assert process.stderr.read() == b"the launcher is gone: ending\n"


def test_a_process_that_writes_to_a_file_is_not_held(tmp_path):
    with (tmp_path / "log").open("wb") as log:
        process = held(log.fileno())
    while not (tmp_path / "log").read_text():
        assert process.poll() is None
    try:
        process.wait(timeout=0.1)
    except subprocess.TimeoutExpired:
        process.kill()
    assert process.wait() == -9
