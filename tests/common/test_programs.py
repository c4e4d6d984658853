import ast
import sys

import pytest

from common.programs import NO_ANSWER, finished
from tests.helpers import ROOT


@pytest.mark.slow
def test_a_program_that_does_not_end_is_killed_and_says_so():
    done = finished([sys.executable, "-c", "import time; time.sleep(600)"], within_s=0.1)
    assert (done.returncode, done.stderr) == (NO_ANSWER, f"{sys.executable} did not end within 0.1 s")


@pytest.mark.slow
def test_the_output_of_a_program_is_text_whatever_its_bytes():
    lines = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); print('why', file=sys.stderr); sys.exit(3)"
    done = finished([sys.executable, "-c", lines], content=b"a\xff")
    assert (done.returncode, done.stdout, done.stderr) == (3, "a\ufffd", "why\n")


# Programs that take as long as there is data to check or to upload, or commands to evaluate.
_WITHOUT_END = {"train/launch/plan/point_checks.py", "train/tracking/mirror.py", "analysis/commands/evaluate.py"}


@pytest.mark.slow
def test_every_program_that_is_waited_for_has_a_time_limit():
    for path in [
        path for folder in ("train", "record", "common", "analysis") for path in (ROOT / folder).rglob("*.py")
    ]:
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        runs = [call for call in calls if ast.unparse(call.func) == "subprocess.run"]
        limited = all(any(keyword.arg == "timeout" for keyword in call.keywords) for call in runs)
        assert limited or path.relative_to(ROOT).as_posix() in _WITHOUT_END, path
