"""Horovod's rendezvous server: its launcher starts it, and under srun rank 0. The ranks find each other there."""

from __future__ import annotations

import subprocess
import sys

from train.rank import open_files, placement


def allow_for(ranks: int) -> None:
    """Let the server that this process starts next serve so many ranks, which all come at once."""
    from horovod.runner.http.http_server import RendezvousHTTPServer

    open_files.allow_for(ranks)
    # Its own queue is of 5 connections: with some hundred ranks the kernel refuses the others.
    RendezvousHTTPServer.request_queue_size = max(ranks, RendezvousHTTPServer.request_queue_size)


def start(ranks: int) -> tuple[subprocess.Popen[str], int]:
    """Start a server for so many ranks in a process of its own, which ends with this one. Returns it, and its port.

    It has no rank, so the quota of no node holds for it: to serve eight ranks takes half a second of CPU time.
    """
    command = [sys.executable, "-m", __name__, str(ranks)]
    server = subprocess.Popen(
        command, env=placement.without_rank(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    if not (line := server.stdout.readline()):
        raise OSError(f"{' '.join(command)} ended with exit code {server.wait()} before it served")
    return server, int(line)


def _serve(ranks: int) -> None:
    """Print the port, and serve until standard input ends."""
    from horovod.runner.http.http_server import RendezvousServer

    allow_for(ranks)
    server = RendezvousServer()
    print(server.start(), flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
