"""requirements/steps.py: commands side by side, their log, and what is shown."""

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "requirements"))
from steps import Step, StepFailed, Steps, doing_now, minutes

pytestmark = pytest.mark.slow  # starts processes


def python(program: str) -> list[str]:
    return [sys.executable, "-S", "-c", program]


def test_commands_run_side_by_side_and_into_the_log(tmp_path, capsys):
    steps = Steps(tmp_path / "log", [Step("first", 65), Step("second", 5)])
    meet = (
        "import pathlib,sys,time\npathlib.Path({0!r}).touch()\nwhile not pathlib.Path({1!r}).exists(): time.sleep(.01)"
    )
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    steps.run([python(meet.format(a, b))], [python(meet.format(b, a))])  # each waits for the other
    speak = python("import os; print(os.environ['WORD'])")
    steps.run([speak, python("print('then')"), speak], env={"WORD": "spoken"})
    assert (tmp_path / "log").read_text() == "spoken\nthen\nspoken\n"
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "[1/2] first ... about 1 min 10 s left"
    assert out[1].startswith("[1/2] first: ")
    assert out[2] == "[2/2] second ... about 0 min 05 s left"


def test_a_command_that_fails_ends_the_others_and_shows_the_end_of_the_log(tmp_path, capsys):
    steps = Steps(tmp_path / "log", [Step("packages", 5)])
    begin = time.monotonic()
    with pytest.raises(StepFailed, match=f"packages: failed; the whole log is in {tmp_path}/log"):
        steps.run(
            [python("import time; time.sleep(600)")],
            [python("print('no such package'); raise SystemExit(1)"), python("print('never')")],
        )
    assert time.monotonic() - begin < 300
    assert "  | no such package" in capsys.readouterr().out
    assert "never" not in (tmp_path / "log").read_text()


def test_steps_can_be_planned_in_place_of_others(tmp_path, capsys):
    steps = Steps(tmp_path / "log", [Step("guess", 60), Step("guessed", 60), Step("last", 10)])
    steps.replace(2, [Step("known", 5)])
    steps.run([python("")])
    steps.run([python("")])
    out = capsys.readouterr().out
    assert "[1/2] known ... about 0 min 15 s left" in out
    assert "[2/2] last ... about 0 min 10 s left" in out


def test_the_log_tells_what_is_being_done(tmp_path):
    log = tmp_path / "log"
    log.write_text("Collecting wandb\n  Downloading wandb-0.31.0.whl (23 MB)\n     ----- 23/23 MB\n")
    assert doing_now(log) == "Downloading wandb-0.31.0.whl (23 MB)"
    log.write_text("x" * 9000 + "\n[ 45%] Building CXX object mpi_ops.cc.o\nnoise\n")
    assert doing_now(log) == "[ 45%] Building CXX object mpi_ops.cc.o"
    log.write_text("noise\n")
    assert doing_now(log) == ""


def test_times_are_said_in_minutes_and_seconds():
    assert minutes(125.7) == "2 min 05 s"
