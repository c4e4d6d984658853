import os
import subprocess
import sys

from tests.helpers import ROOT as KIT

WATCHING = """import time
from train.rank import launcher_watch
launcher_watch.end_with_launcher(1)
print('watching', flush=True)
time.sleep(600)
"""


def watching(output: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-S", "-c", WATCHING], stdout=output, stderr=subprocess.PIPE, cwd=KIT)


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
