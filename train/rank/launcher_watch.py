"""End a rank when its launcher is gone: on another host neither ssh nor Horovod would end it."""

from __future__ import annotations

import os
import select
import sys
import threading


def end_with_launcher(output: int) -> None:
    """End this process at once when no process is left that could read what it writes to `output`.

    The launcher holds the other end of a rank's standard output: itself, or through ssh, mpirun or srun, whose server
    on this host closes it when they are gone. A file is never closed: then this does nothing.

    Args:
        output: a file descriptor, as the launcher handed it down.
    """

    def wait() -> None:
        closed = select.poll()
        closed.register(output, 0)  # no events: poll then reports only errors and the end (POLLERR, POLLHUP)
        closed.poll()
        print("the launcher has ended: this rank exits", file=sys.stderr, flush=True)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
