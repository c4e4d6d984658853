"""Horovod's rendezvous server: its launcher starts it, and under srun rank 0. The ranks find each other there."""

from __future__ import annotations

from train.rank import open_files


def allow_for(ranks: int) -> None:
    """Let the server that this process starts next serve so many ranks, which all come at once."""
    from horovod.runner.http.http_server import RendezvousHTTPServer

    open_files.allow_for(ranks)
    # Its own queue is of 5 connections: with some hundred ranks the kernel refuses the others.
    RendezvousHTTPServer.request_queue_size = max(ranks, RendezvousHTTPServer.request_queue_size)
