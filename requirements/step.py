"""Run one step of the set-up, with one line in a terminal that says what it does; what its programs print is in a log.

    python3 requirements/step.py .venv/install.log "installing packages" uv pip install ...

If the step fails, what they printed is shown. It needs only the standard library, of any Python from 3.7 on.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_PERCENT = re.compile(r"\[ *(\d+%)\]")  # of CMake
_WAITS = re.compile(r"Waiting to acquire .*lock for")  # of uv --verbose
_SHOWN = re.compile(r"(Downloading|Building|Prepared|Installing|Installed) \S.*|Collecting \S+")  # of uv and pip
_ERROR = re.compile(r"\berror: |CMake Error|undefined reference|\bnvcc fatal\b")
_LAST_LINES = 25


def news(line: str) -> str:
    """Return what a line of output says of the progress; "" if nothing."""
    if percent := _PERCENT.search(line):
        return percent[1]
    if _WAITS.search(line):
        return "waiting: another set-up of this user works on the same in uv's cache"
    return shown[0] if (shown := _SHOWN.fullmatch(line.strip())) else ""


def reasons(lines: Sequence[str]) -> list[str]:
    """Return the lines of a failed step that say why: those at the first error, and the last ones."""
    last = max(len(lines) - _LAST_LINES, 0)
    first = next((number for number, line in enumerate(lines) if _ERROR.search(line)), last)
    cause = [*lines[max(first - 3, 0) : min(first + _LAST_LINES, last)], "..."] if first < last else []
    return [*cause, *lines[last:]]


class SetupProgress:
    """A line that is rewritten in a terminal; elsewhere the step and each wait have separate lines."""

    def __init__(self, label: str) -> None:
        """Show the step."""
        self._label, self._news, self._begin = label, "", time.monotonic()
        self._rewrites = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        if self._rewrites:
            self.draw()
        else:
            print(label, flush=True)

    def draw(self) -> None:
        """Rewrite the line with the time that has passed."""
        if self._rewrites:
            seconds = int(time.monotonic() - self._begin)
            time_text = f"  {seconds // 60}:{seconds % 60:02d}"
            text = f"{self._label}  {self._news}"[: shutil.get_terminal_size().columns - len(time_text) - 1]
            print(f"\r\033[K{text.rstrip()}{time_text}", end="", flush=True)

    def show(self, text: str) -> None:
        """Show what the step does now."""
        if text == self._news:
            return
        self._news = text
        if not self._rewrites and text.startswith("waiting"):
            print(text, flush=True)
        self.draw()

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._rewrites:
            print("\r\033[K", end="", flush=True)


def run(log: Path, label: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
    """Run a command as a step; return what it printed if it fails, at least one line, else nothing."""
    progress, output = SetupProgress(label), []
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            close_fds=False,  # the lock of setup.sh
        )
        threading.Thread(target=_read, args=(child, lines), daemon=True).start()
        with log.open("a", encoding="utf-8") as file:
            while True:
                try:
                    line = lines.get(timeout=1)
                except queue.Empty:
                    progress.draw()
                    continue
                if line is None:
                    break
                output.append(line)
                print(line, file=file, flush=True)
                if text := news(line):
                    progress.show(text)
        status = child.wait()
    finally:
        progress.clear()
    return [*output, f"{command[0]} ended with status {status}"] if status else []


def _read(child: subprocess.Popen[bytes], lines: queue.SimpleQueue[str | None]) -> None:
    assert child.stdout
    for line in child.stdout:
        lines.put(line.decode(errors="replace").rstrip())
    lines.put(None)


def show(lines: Sequence[str]) -> None:
    """Show why a step failed."""
    print("\n".join(f"  | {line}" for line in reasons(lines)), flush=True)


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if failed := run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]):
            show(failed)
            sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)  # setup.sh says that it was interrupted
