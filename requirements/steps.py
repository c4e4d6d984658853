"""The steps of a set-up: runs their commands, shows what it waits for, and estimates the time left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_POLL_S = 0.2
_TAIL_BYTES = 4096
_SHOWN = 25  # lines of the log of a step that failed
# What compilers, linkers and CMake say.
_ERROR = re.compile(r"\berror: |CMake Error|undefined reference|\bnvcc fatal\b")
_TELLING = ("Collecting", "Downloading", "Processing", "Installing", "Building", "[")  # how lines of pip, cmake begin

Command = Sequence[str]


@dataclass(frozen=True)
class Step:
    """One step: what it is for, and how long it takes on the machine of requirements/installation.py."""

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

    def run(self, *lanes: Sequence[Command], env: Mapping[str, str] | None = None) -> None:
        """Run the commands of the next step to their end: those of a lane one after the other, lanes side by side.

        env: variables that they get beside this program's own.
        Raises StepFailed when one of them fails: the others are ended, what it said is shown. Exits on Ctrl-C.
        """
        step = self._waiting.pop(0)
        self._number += 1
        label, begin = f"[{self._number}/{self._count}] {step.what}", time.monotonic()
        after_s = sum(later.expected_s for later in self._waiting)
        if not self._terminal:
            print(f"{label} ... about {minutes(after_s + step.expected_s)} left", flush=True)
        with self._log.open("ab") as log:
            start = log.tell()
            running = [_Lane(commands, log, {**os.environ, **(env or {})}) for commands in lanes]
            try:
                while any([lane.goes_on() for lane in running]) and not any(lane.failed for lane in running):
                    time.sleep(_POLL_S)
                    spent_s = time.monotonic() - begin
                    left = minutes(after_s + max(step.expected_s - spent_s, 5))
                    self._show(f"{label} ... {spent_s:3.0f} s, about {left} left")
            except KeyboardInterrupt:
                for lane in running:
                    lane.end()
                sys.exit("\ninterrupted: nothing is lost, the same command resumes")
            finally:
                for lane in running:
                    lane.end()
        erase = "\r\033[K" if self._terminal else ""
        if any(lane.failed for lane in running):
            said = self._log.read_bytes()[start:].decode(errors="replace").splitlines()
            print("".join([erase, *(f"  | {line}\n" for line in why_failed(said))]), end="")
            raise StepFailed(f"{step.what}: failed; the whole log is in {self._log}")
        print(f"{erase}{label}: {time.monotonic() - begin:.0f} s", flush=True)

    def _show(self, text: str) -> None:
        """Show a line in place of the one before, with what the log says is being done; nothing where it is a file."""
        if self._terminal:
            doing = doing_now(self._log)
            line = f"{text}: {doing}" if doing else text
            print(f"\r{line[: shutil.get_terminal_size().columns - 1]}\033[K", end="", flush=True)


class _Lane:
    """Commands that run one after the other."""

    def __init__(self, commands: Sequence[Command], log: IO[bytes], env: Mapping[str, str]) -> None:
        """Start the first of them."""
        self._waiting, self._log, self._env = list(commands), log, env
        self._start()

    def _start(self) -> None:
        command = self._waiting.pop(0)
        self._child = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT, env=self._env)

    @property
    def failed(self) -> bool:
        """Whether the command that was started last has ended with another status than 0."""
        return bool(self._child.poll())

    def goes_on(self) -> bool:
        """Whether a command runs; where one has ended well, the next is started."""
        if self._child.poll() == 0 and self._waiting:
            self._start()
        return self._child.poll() is None

    def end(self) -> None:
        """End the command that runs, if there is one."""
        if self._child.poll() is None:
            self._child.terminate()
            self._child.wait()


def why_failed(said: Sequence[str]) -> list[str]:
    """The lines to show of what a step said that failed: those at its first error, and the last ones.

    pip's clean-up follows what the compiler said, so the cause may not be among the last lines. In the build of an
    image these lines are all that is left: the log goes with the layer.
    """
    last = max(len(said) - _SHOWN, 0)
    first = next((number for number, line in enumerate(said) if _ERROR.search(line)), last)
    if first >= last:
        return list(said[last:])
    cause = said[max(first - 3, 0) : min(first + _SHOWN, last)]  # a compiler says before an error where it is
    return [*cause, "...", *said[last:]]


def doing_now(log: Path) -> str:
    """The last line of the log that says what is being done; "" where none of the last ones does."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()[1:]]
    return next((line for line in reversed(lines) if line.startswith(_TELLING)), "")


def minutes(seconds: float) -> str:
    """A time in words: 2 min 05 s."""
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
