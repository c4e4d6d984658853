"""Runs the true commands, as a user would type them, and looks at what they leave."""

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
from tests.helpers import shell
from train.config import quoted
from train.record import record
from train.record.parts import read_part
from train.record.record import RunRecord

ROOT = Path(__file__).parents[2]
# No test judges how long anything takes: where others use the machine, many times as long. This only ends a test that
# would hang.
TIMEOUT_S = 900
_started: list[subprocess.Popen] = []
# What the ranks of another job have in their environment.
OTHER_JOB = {
    **{"HOROVOD_RANK": "0", "HOROVOD_SIZE": "1", "HOROVOD_LOCAL_RANK": "0", "HOROVOD_CONTROLLER": "mpi"},
    **{"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "3", "PMI_RANK": "3"},
}
LAUNCH = (sys.executable, "-m", "train.launch")
QUICK = ("model=tiny", "measure.design=launches", "measure.repeats=1", "tracking=none", "batch_per_rank=4")


def environment() -> dict[str, str]:
    """The user's own, with this environment's commands first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{shell.ENVIRONMENT['PATH']}"
    return {**shell.ENVIRONMENT, "PATH": path, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def start(*command: str, terminal: bool = False, variables: Mapping[str, str] | None = None) -> subprocess.Popen:
    """Start a command in the kit's folder; as a shell starts it in a terminal, whose Ctrl-C all of it gets.

    variables: of its environment, beside the user's own.
    """
    child = subprocess.Popen(
        command, cwd=ROOT, env=environment() | dict(variables or {}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=terminal, preexec_fn=shell.heed_ctrl_c,
    )  # fmt: skip
    _started.append(child)
    return child


def end_started() -> None:
    """End what a test has started and, as it failed, left running: it would take the cores from other tests."""
    while _started:
        if (child := _started.pop()).poll() is None:
            child.terminate()
            try:
                child.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                child.kill()


def run(*command: str, variables: Mapping[str, str] | None = None) -> tuple[int, str]:
    """The exit status and the output of a command."""
    child = start(*command, variables=variables)
    output, _ = child.communicate(timeout=TIMEOUT_S)
    return child.returncode, output


def succeed(*command: str, variables: Mapping[str, str] | None = None) -> str:
    """The output of a command that ends with status 0."""
    status, output = run(*command, variables=variables)
    assert status == 0, output
    return output


def analyse(*words: str, status: int = 0) -> str:
    """The output of `python -m analysis`, which ends with this status, in this process: a new one takes longer."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        ended = main([*words])
    assert ended == status, output.getvalue()
    return output.getvalue()


# Without it make would set the environment up, for minutes.
needs_setup = pytest.mark.skipif(not Path(sys.prefix, ".installed-cpu").exists(), reason="not set up by make setup")


def make_command(folder: Path, *words: str) -> list[str]:
    """`make` of a kit in `folder` that shares all but results and figures with this one: a user's stay as they are.

    Its set-up does nothing: it would change the environment that runs the tests.
    """
    folder.mkdir(exist_ok=True)
    for part in ("Makefile", "analysis", "conf", "docs", "train"):
        if not (folder / part).exists():
            (folder / part).symlink_to(ROOT / part)
    for name, text in ((".venv/bin/python", f'exec "{sys.executable}" "$@"'), ("requirements/setup.sh", "")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return ["make", "-C", str(folder), *words]


def launch_command(results: Path, *overrides: str) -> list[str]:
    """The launcher on the tiny model, with its records in `results`."""
    return [*LAUNCH, *QUICK, f"results={quoted(str(results))}", *overrides]


def gloo(ranks: int) -> tuple[str, ...]:
    """Horovod's launcher, as a user starts ranks by hand."""
    return sys.executable, "-m", "train.launch.start.gloo", "--ranks", f"{ranks}", "--hosts", f"localhost:{ranks}", "--"


def ranks(results: Path) -> list[psutil.Process]:
    """The processes that train below `results`, by rank."""
    result = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if words[1:3] == ["-m", "train"] and any(str(results) in word for word in words):
                result.append((process.environ().get("HOROVOD_RANK", ""), process))
        except psutil.Error:
            continue
    return [process for _, process in sorted(result, key=lambda pair: pair[0])]


def command_lines(results: Path | str) -> list[str]:
    """The command lines of all processes that name `results`, launchers and shells too, but not of this test."""
    lines = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if str(results) in line and process.pid != os.getpid():
                lines.append(line)
        except psutil.Error:
            continue
    return lines


def wait_for(condition) -> None:
    """Return when `condition()` holds; fail after END_S seconds.

    A file or folder that goes while the condition looks at it means: not yet.
    """
    end = time.monotonic() + TIMEOUT_S
    while True:
        with suppress(FileNotFoundError):
            if condition():
                return
        assert time.monotonic() < end, f"waited in vain for {TIMEOUT_S} s"
        time.sleep(0.1)


def in_phase(results: Path, phase: str, files: str = "rank-*.jsonl") -> bool:
    """Whether every rank whose part is among these files has come to the phase, and there is one."""
    parts = [read_part(path) for path in results.rglob(files)]
    return bool(parts) and all(phase in (part.phase, *part.phases_s) for part in parts)


def records(results: Path) -> list[RunRecord]:
    """All records below `results`, in the order of their paths."""
    return [record.load(path) for path in record.find(results)]
