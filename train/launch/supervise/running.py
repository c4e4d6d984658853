"""Whether a run is in progress: its launcher keeps a file in the run folder fresh while it lives.

So another terminal, and another host that shares the folder, can tell a run in progress from one that was cut off.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

_NAME = "running"
_BEAT_S = 10.0
_DEAD_AFTER_S = 60.0  # without a beat, on another host: clocks differ, and shared folders are slow


def begin(folder: Path) -> None:
    """Say that this process is the launcher of the run. Raises OSError."""
    me = {"host": socket.gethostname(), "pid": os.getpid(), "since": psutil.Process().create_time()}
    (folder / _NAME).write_text(json.dumps(me))


def beats(folder: Path) -> Callable[[], None]:
    """A function to call often while the run is in progress: now and then it says so."""
    last = time.monotonic()

    def beat() -> None:
        nonlocal last
        if time.monotonic() - last > _BEAT_S:
            last = time.monotonic()
            with suppress(OSError):  # a shared folder may be away for a while
                os.utime(folder / _NAME)

    return beat


def end(folder: Path) -> None:
    """Say that the run has ended."""
    (folder / _NAME).unlink(missing_ok=True)


def is_on(folder: Path) -> bool:
    """Whether the run in this folder is in progress."""
    try:
        launcher = json.loads((folder / _NAME).read_text())
        beaten_s = time.time() - (folder / _NAME).stat().st_mtime
    except (OSError, ValueError):
        return False
    if launcher["host"] != socket.gethostname():
        return beaten_s < _DEAD_AFTER_S
    try:
        return psutil.Process(launcher["pid"]).create_time() == launcher["since"]
    except psutil.NoSuchProcess:
        return False
