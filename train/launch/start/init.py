"""The first process of a job: it runs a command, and when the command has ended, no process that it started is left.

    python -IS train/launch/start/init.py COMMAND...
    python -IS train/launch/start/init.py --client COMMAND...    of a container engine: its containers are not its own

The launcher holds its standard input. When that ends, because the launcher is gone, or in a container the engine's
client, it ends the command, as after SIGTERM. It adopts processes that detach (PR_SET_CHILD_SUBREAPER, prctl(2)).
In an image the Python of the image runs it, without the kit's packages.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

GRACE_S = 8.0  # from SIGTERM to SIGKILL: Horovod's launcher gives its ranks 5 s
_PR_SET_CHILD_SUBREAPER = 36


def command(python: str, argv: Sequence[str], client: bool = False) -> list[str]:
    """Return the command that runs this one; python: the program to do so."""
    return [python, "-IS", __file__, *(["--client"] if client else []), "--", *argv]


def run(argv: Sequence[str], client: bool) -> int:
    """Run a command; return its exit status as a shell does, once all that it started has ended."""
    if not client:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until there is a process to pass it on to
    nothing = [] if client else [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    ignored = [signal.SIGPIPE, signal.SIGXFSZ]  # by Python, which starts programs without that
    try:
        child = os.posix_spawnp(argv[0], [*argv], os.environ, file_actions=nothing, setsigmask=[], setsigdef=ignored)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        return 127
    threading.Thread(target=_end_with_input, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: _end(child))
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    ended, status = os.wait()
    while ended != child:  # an adopted process
        ended, status = os.wait()
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _kill_children()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _end(child: int) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(child, signal.SIGTERM)
    signal.setitimer(signal.ITIMER_REAL, GRACE_S)


def _end_with_input() -> None:
    while os.read(0, 4096):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


def _kill_children() -> None:
    """Kill all children until there are none: those of a killed one become children of this process."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Return the children of this process, also those that have ended (proc_pid_stat(5): state, parent)."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):  # it has ended
            _, parent, *_ = stat.read_text(errors="replace").rpartition(") ")[2].split()
            children += [int(stat.parent.name)] if int(parent) == os.getpid() else []
    return children


if __name__ == "__main__":
    separator = sys.argv.index("--")
    sys.exit(run(sys.argv[separator + 1 :], "--client" in sys.argv[1:separator]))
