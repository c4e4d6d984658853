"""requirements/steps.py: commands side by side, their log, and what is shown."""

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "requirements"))
from steps import Step, StepFailed, Steps, doing_now, minutes, why_failed

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
    steps = Steps(tmp_path / "log", [Step("environment", 5), Step("packages", 5)])
    steps.run([python("print('error: of a step before, which did not matter')")])
    begin = time.monotonic()
    with pytest.raises(StepFailed, match=f"packages: failed; the whole log is in {tmp_path}/log"):
        steps.run(
            [python("import time; time.sleep(600)")],
            [python("print('no such package'); raise SystemExit(1)"), python("print('never')")],
        )
    assert time.monotonic() - begin < 300
    out = capsys.readouterr().out
    assert "  | no such package" in out
    assert "did not matter" not in out
    assert "never" not in (tmp_path / "log").read_text()


def test_what_a_compiler_said_is_shown_although_pip_cleans_up_after_it():
    compiled = [f"[ {number}%] Building CXX object" for number in range(90)]
    cause = ["In file included from a.cc:1:", "b.h:2:10: fatal error: nccl.h: No such file or directory"]
    clean_up = [f"removing {number}" for number in range(60)]
    shown = why_failed([*compiled, *cause, *clean_up])
    assert shown[:4] == [*compiled[-2:], *cause]
    assert shown[4:28] == clean_up[:24]
    assert shown[-26:] == ["...", *clean_up[-25:]]


def test_of_a_step_that_names_no_error_the_last_lines_are_shown():
    assert why_failed([f"line {number}" for number in range(60)]) == [f"line {number}" for number in range(35, 60)]
    assert why_failed(["short", "error: at the end"]) == ["short", "error: at the end"]
    assert why_failed([]) == []


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
