"""Runs commands as a user types them, and reads their records and processes."""

import io
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import psutil
import pytest

from analysis.__main__ import main
from record import schema as record
from record.parts import read_part
from record.schema import RunRecord
from tests.helpers import ROOT, shell
from tests.helpers.path_programs import write_program
from train.config import quoted

TIMEOUT_S = 500  # only ends a test that would hang: on a busy machine everything takes many times as long
_started: list[subprocess.Popen] = []
# Environment variables of the ranks of another job.
OTHER_JOB = {
    **{"HOROVOD_RANK": "0", "HOROVOD_SIZE": "1", "HOROVOD_LOCAL_RANK": "0", "HOROVOD_CONTROLLER": "mpi"},
    **{"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "3", "PMI_RANK": "3"},
}
LAUNCH = (sys.executable, "-m", "train.launch")
QUICK = ("model=tiny", "measure.design=launches", "measure.repeats=1", "tracking=none", "batch_per_rank=4")


def environment() -> dict[str, str]:
    """Return the user's environment, with the commands of this Python environment first on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{shell.ENVIRONMENT['PATH']}"
    return {**shell.ENVIRONMENT, "PATH": path, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def start(*command: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen:
    """Start a command in the kit's folder. variables: are added to the user's environment."""
    child = subprocess.Popen(
        command, cwd=ROOT, env=environment() | dict(variables or {}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    _started.append(child)
    return child


def end_started() -> None:
    """End the processes that a failed test has left running: they would take cores from other tests."""
    while _started:
        if (child := _started.pop()).poll() is None:
            child.terminate()
            try:
                child.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                child.kill()


def run(*command: str, variables: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a command; return its exit status and its output."""
    child = start(*command, variables=variables)
    output, _ = child.communicate(timeout=TIMEOUT_S)
    return child.returncode, output


def finish(child: subprocess.Popen, status: int = 0) -> str:
    """Wait for a started command; assert that it ends with `status`, and return its output."""
    output, _ = child.communicate(timeout=TIMEOUT_S)
    assert child.returncode == status, output
    return output


def succeed(*command: str, variables: Mapping[str, str] | None = None) -> str:
    """Run a command; assert that it ends with status 0, and return its output."""
    return finish(start(*command, variables=variables))


def analyse(*arguments: str, status: int = 0) -> str:
    """Run `python -m analysis` in this process, which is fast; assert that it ends with `status`, return its output.

    Notes on standard error are in it, but not beside a document in JSON.
    """
    output = io.StringIO()
    errors = io.StringIO() if "json" in arguments else output
    with redirect_stdout(output), redirect_stderr(errors):
        exit_status = main([*arguments])
    assert exit_status == status, output.getvalue()
    return output.getvalue()


# Without the set-up `make` would run it, for minutes.
needs_setup = pytest.mark.skipif(not Path(sys.prefix, ".installed-cpu").exists(), reason="not set up by make setup")


def make_command(folder: Path, *arguments: str) -> list[str]:
    """Return the command of `make` in a new kit in `folder`, with links to this kit and separate results and figures.

    Its set-up does nothing, because it would change the environment that runs the tests.
    """
    folder.mkdir(exist_ok=True)
    for part in ("Makefile", "analysis", "common", "conf", "docs", "record", "train"):
        if not (folder / part).exists():
            (folder / part).symlink_to(ROOT / part)
    if not (python := folder / ".venv/bin/python").exists():
        run = f'PYTHONPATH="$PATCHED_RANKS" exec "{sys.executable}" "$@"'
        write_program(python, f'[ "$PATCHED_RANKS" ] || exec "{sys.executable}" "$@"\n{run}')
    write_program(folder / "requirements/setup.sh", "")
    return ["make", "-C", str(folder), *arguments]


def launch_command(results: Path, *overrides: str) -> list[str]:
    """Return the command of the launcher for the tiny model, with its records in `results`."""
    return [*LAUNCH, *QUICK, f"results={quoted(str(results))}", *overrides]


def gloo(ranks: int) -> tuple[str, ...]:
    """Return the command prefix of Horovod's launcher, as for ranks that a user starts by hand."""
    return sys.executable, "-m", "train.launch.start.gloo", "--ranks", f"{ranks}", "--hosts", f"localhost:{ranks}", "--"


def ranks(results: Path) -> list[psutil.Process]:
    """Return the training processes with records below `results`, in the order of their ranks."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            command = process.cmdline()
            if command[1:3] == ["-m", "train"] and any(str(results) in argument for argument in command):
                processes.append((process.environ().get("HOROVOD_RANK", ""), process))
    return [process for _, process in sorted(processes, key=lambda pair: pair[0])]


def command_lines(text: Path | str = "") -> list[str]:
    """Return the command lines of all processes but this one that contain the text: of launchers and shells too."""
    lines = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid():
                lines.append(" ".join(process.cmdline()))
    return [line for line in lines if str(text) in line]


def wait_for(condition) -> None:
    """Return when `condition()` holds; fail after TIMEOUT_S seconds.

    The condition does not hold yet if it raises FileNotFoundError, because a file disappears while it reads. The longer
    it takes, the less often it is asked: it may start programs on several hosts, which take cores from the ranks.
    """
    began = time.monotonic()
    while (waited_s := time.monotonic() - began) < TIMEOUT_S:
        with suppress(FileNotFoundError):
            if condition():
                return
        time.sleep(min(0.5, 0.05 + waited_s / 20))
    raise AssertionError(f"the condition does not hold after {TIMEOUT_S} s")


def in_phase(results: Path, phase: str, files: str = "rank-*.jsonl") -> bool:
    """Return whether there are parts of ranks among these files, and all these ranks have reached the phase."""
    parts = [read_part(path) for path in results.rglob(files)]
    return bool(parts) and all(phase in (part.phase, *part.phases_s) for part in parts)


def records(results: Path) -> list[RunRecord]:
    """Return all records below `results`, in the order of their paths."""
    return [record.load(path) for path in record.find(results)]
