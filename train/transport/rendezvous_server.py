"""Horovod's rendezvous server: its launcher starts it, and under srun rank 0. The ranks find each other there."""

from __future__ import annotations

import subprocess
import sys
from http.server import HTTPServer

from train.rank import placement, process


def prepare_server(ranks: int, host: str) -> None:
    """Let the server that this process starts next serve so many ranks, which all come at once, at this address alone.

    It asks nobody who he is: whoever reaches it may write to it.
    """
    from horovod.runner.http.http_server import RendezvousHTTPServer

    process.allow_open_files(ranks)
    # Its own queue is of 5 connections: with some hundred ranks the kernel refuses the others.
    RendezvousHTTPServer.server_bind = lambda server: _bind(server, host)
    RendezvousHTTPServer.request_queue_size = max(ranks, RendezvousHTTPServer.request_queue_size)


def _bind(server: HTTPServer, host: str) -> None:
    """Bind Horovod's server to one address: by itself it takes all."""
    server.server_address = (host, server.server_address[1])
    HTTPServer.server_bind(server)


def start(ranks: int, host: str) -> tuple[subprocess.Popen[str], int]:
    """Start a server at this address in a separate process, which ends with this one. Returns it, and its port.

    It has no rank, so the quota of no node holds for it: to serve eight ranks takes half a second of CPU time.
    """
    command = [sys.executable, "-m", __name__, str(ranks), host]
    server = subprocess.Popen(
        command, env=placement.without_rank(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    if not (line := server.stdout.readline()):
        raise OSError(f"{' '.join(command)} ended with exit code {server.wait()} before it served")
    return server, int(line)


def _serve(ranks: int, host: str) -> None:
    """Print the port, and serve until standard input ends."""
    from horovod.runner.http.http_server import RendezvousServer

    prepare_server(ranks, host)
    server = RendezvousServer()
    print(server.start(), flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2])
