"""Keep cores awake while emulated nodes measure: a process on each, which runs only where nothing else would.

One node of eight uses its core for a fifth of the time. In between the core sleeps, and on a virtual machine the
hypervisor gives it to others: the node finds it slow, and less predictable than eight nodes do, which leave no pause.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable

_TURNS = 1_000_000  # of a loop that does nothing: some hundredths of a second


def start(cores: Iterable[int]) -> list[subprocess.Popen[bytes]]:
    """Return a process on each of these cores; each ends with this process. Ctrl-C does not reach them."""
    command = [sys.executable, "-m", __spec__.name]
    return [subprocess.Popen([*command, str(core), str(os.getpid())], start_new_session=True) for core in cores]


def stop(started: Iterable[subprocess.Popen[bytes]]) -> None:
    """End them."""
    for process in started:
        process.kill()
        process.wait()


def _spin(core: int, parent: int) -> None:
    """Use a core at idle priority as long as the parent of this process is there."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while os.getppid() == parent:
        for _ in range(_TURNS):
            pass


if __name__ == "__main__":
    _spin(*map(int, sys.argv[1:]))
