"""requirements/step.py: what is shown of a step, in a terminal, in a pipe, and when it fails."""

import subprocess
import sys
import time

import pytest

from tests.helpers import ROOT
from tests.helpers.path_programs import write_program
from tests.helpers.pseudo_terminal import Terminal
from tests.requirements.test_setup import UV_OF_TESTS

sys.path.insert(0, str(ROOT / "requirements"))
import step

STEP = [sys.executable, str(ROOT / "requirements/step.py")]


def test_the_error_of_a_compiler_is_shown_although_much_follows():
    compiled = [f"[ {number}%] Building CXX object" for number in range(90)]
    cause = ["In file included from a.cc:1:", "b.h:2:10: fatal error: nccl.h: No such file or directory"]
    rest = [f"line {number}" for number in range(60)]
    lines = step.reasons([*compiled, *cause, *rest])
    assert lines[:4] == [*compiled[-2:], *cause]
    assert lines[4:28] == rest[:24]
    assert lines[-26:] == ["...", *rest[-25:]]


def test_the_last_lines_are_shown_of_a_build_that_names_no_error():
    assert step.reasons([f"line {number}" for number in range(60)]) == [f"line {n}" for n in range(35, 60)]
    assert step.reasons(["short", "error: at the end"]) == ["short", "error: at the end"]
    assert step.reasons([]) == []


@pytest.mark.parametrize(
    ("line", "news"),
    [
        ("[ 42%] Building CXX object a.cc.o", "42%"),
        ("Downloading tensorflow-cpu (248.9MiB)", "Downloading tensorflow-cpu (248.9MiB)"),
        ("Prepared 87 packages in 12.31s", "Prepared 87 packages in 12.31s"),
        ("Collecting uv==0.9.0 (from -r uv.txt (line 1))", ""),
        (" + numpy==2.4.1", ""),
        ("DEBUG Searching for a compatible version of horovod", ""),
    ],
)
def test_the_progress_of_uv_pip_and_cmake_is_read(line, news):
    assert step.news(line) == news


@pytest.mark.slow
def test_in_a_terminal_a_step_is_one_line_that_goes_when_it_is_done(tmp_path):
    talk = "echo 'Downloading numpy (16.0MiB)'; echo ' + numpy==2.4.1'; while [ ! -e go ]; do sleep 0.05; done"
    terminal = Terminal(
        *STEP, str(tmp_path / "log"), "Installing 87 packages", "sh", "-c", f"cd {tmp_path}; {talk}", columns=60
    )
    while not any("Downloading" in line for line in terminal.lines()):
        time.sleep(0.02)
    [line] = terminal.lines()
    assert line.startswith("Installing 87 packages  Downloading numpy (16.0MiB)  0:0")
    (tmp_path / "go").touch()
    assert (terminal.wait(60), terminal.lines()) == (0, [])
    assert (tmp_path / "log").read_text() == "Downloading numpy (16.0MiB)\n + numpy==2.4.1\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "status", "shown"), [("true", 0, []), ("exit 3", 1, ["  | lost", "  | sh ended with status 3"])]
)
def test_in_a_pipe_it_is_a_plain_line_and_what_was_said_if_it_fails(tmp_path, end, status, shown):
    command = [*STEP, tmp_path / "log", "Installing", "sh", "-c", f"echo lost >&2; {end}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (status, ["Installing", *shown], "")


BUILD = """
import os, sys, time
from setuptools import setup
if "bdist_wheel" in sys.argv:
    open({folder!r} + "/builds", "w").close()
    while not os.path.exists({folder!r} + "/go"):
        time.sleep(0.05)
setup(name="horovod", version="1.0", py_modules=[])
"""


@pytest.mark.slow
@pytest.mark.skipif(not UV_OF_TESTS.name, reason="no uv")
def test_a_second_set_up_of_a_user_waits_for_what_the_first_compiles_and_says_so(tmp_path):
    """The real uv: two installations of one package, which is built when the file `go` is there, with one cache."""
    write_program(package := tmp_path / "horovod/setup.py", BUILD.format(folder=str(tmp_path)))
    install = [UV_OF_TESTS, "pip", "install", "--verbose", "--offline", "--no-deps", "--no-build-isolation"]
    install += ["--python", sys.executable, package.parent, "--target"]
    variables = {"PATH": "/usr/bin:/bin", "UV_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    pipes = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "env": variables}

    def start(name):
        return subprocess.Popen([*STEP, tmp_path / f"{name}.log", "Compiling", *install, tmp_path / name], **pipes)

    with start("first") as first:
        while first.poll() is None and not (tmp_path / "builds").exists():
            time.sleep(0.05)
        assert first.poll() is None, first.stdout.read()
        with start("second") as second:
            lines = [second.stdout.readline(), second.stdout.readline()]
            assert lines == ["Compiling\n", "waiting: another set-up of this user works on the same in uv's cache\n"]
            (tmp_path / "go").touch()
            assert (first.wait(60), second.wait(60)) == (0, 0), first.stdout.read()
    assert (tmp_path / "second/horovod-1.0.dist-info").exists()
