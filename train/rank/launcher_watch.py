"""A rank ends when the launcher is gone: neither ssh nor Horovod would end it on another host."""

from __future__ import annotations

import os
import select
import sys
import threading


def hold(output: int) -> None:
    """End this process at once when nobody is left who could read what it writes to `output`.

    The launcher holds the other end of a rank's standard output: itself, or through ssh, mpirun or srun, whose server
    on this host closes it when they are gone. A file never closes: there nothing is held.

    Args:
        output: a file descriptor, as the launcher handed it down.
    """

    def wait() -> None:
        closed = select.poll()
        closed.register(output, 0)  # asks for nothing, and so is told only of the end (POLLERR, POLLHUP)
        closed.poll()
        print("the launcher is gone: ending", file=sys.stderr, flush=True)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
