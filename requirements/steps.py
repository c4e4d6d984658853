"""The steps of a set-up: runs their commands, shows what it waits for, and estimates the time left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.2
_TAIL_BYTES = 4096
_TELLING = ("Collecting", "Downloading", "Processing", "Installing", "Building", "[")  # how lines of pip, cmake begin

Commands = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Step:
    """One step: what it is for, and how long it takes on the machine of requirements/install.py."""

    what: str
    expected_s: float


class StepFailed(Exception):
    """A command of a step ended with another status than 0."""


class Steps:
    """Runs steps one after the other, and shows the current one, its time, and an estimate of the time left."""

    def __init__(self, log: Path, planned: Sequence[Step]) -> None:
        """Set up for the planned steps; nothing runs yet."""
        self._log, self._waiting = log, list(planned)
        self._number, self._count = 0, len(planned)
        self._terminal = sys.stdout.isatty()

    def replace(self, count: int, steps: Sequence[Step]) -> None:
        """Plan these steps in place of the next `count` ones."""
        self._waiting[:count] = steps
        self._count += len(steps) - count

    def run(self, commands: Commands, env: Mapping[str, str] | None = None) -> None:
        """Run the commands of the next step side by side, to their end.

        env: variables that they get beside this program's own.
        Raises StepFailed when one of them fails: the others are ended, the end of the log is shown. Exits on Ctrl-C.
        """
        step = self._waiting.pop(0)
        self._number += 1
        label, begin = f"[{self._number}/{self._count}] {step.what}", time.monotonic()
        after_s = sum(later.expected_s for later in self._waiting)
        if not self._terminal:
            print(f"{label} ... about {minutes(after_s + step.expected_s)} left", flush=True)
        with self._log.open("ab") as log:
            children = [
                subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})})
                for command in commands
            ]
            try:
                while _running(children) and not _failed(children):
                    time.sleep(_POLL_S)
                    spent_s = time.monotonic() - begin
                    left = minutes(after_s + max(step.expected_s - spent_s, 5))
                    self._show(f"{label} ... {spent_s:3.0f} s, about {left} left")
            except KeyboardInterrupt:
                _end(children)
                sys.exit("\ninterrupted: nothing is lost, the same command resumes")
            finally:
                _end(children)
        erase = "\r\033[K" if self._terminal else ""
        if _failed(children):
            tail = self._log.read_text(errors="replace").splitlines()[-25:]
            print("".join([erase, *(f"  | {line}\n" for line in tail)]), end="")
            raise StepFailed(f"{step.what}: failed; the whole log is in {self._log}")
        print(f"{erase}{label}: {time.monotonic() - begin:.0f} s", flush=True)

    def _show(self, text: str) -> None:
        """Show a line in place of the one before, with what the log says is being done; nothing where it is a file."""
        if self._terminal:
            doing = doing_now(self._log)
            line = f"{text}: {doing}" if doing else text
            print(f"\r{line[: shutil.get_terminal_size().columns - 1]}\033[K", end="", flush=True)


def _running(children: Sequence[subprocess.Popen]) -> bool:
    return None in [child.poll() for child in children]


def _failed(children: Sequence[subprocess.Popen]) -> bool:
    return any(child.returncode for child in children)


def _end(children: Sequence[subprocess.Popen]) -> None:
    """End those that still run."""
    for child in children:
        if child.poll() is None:
            child.terminate()
    for child in children:
        child.wait()


def doing_now(log: Path) -> str:
    """The last line of the log that says what is being done; "" where none of the last ones does."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()[1:]]
    return next((line for line in reversed(lines) if line.startswith(_TELLING)), "")


def minutes(seconds: float) -> str:
    """A time in words: 2 min 05 s."""
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
