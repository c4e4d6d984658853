"""The bandwidth of the links between ranks, measured over plain TCP, and of their memory.

It is an upper bound for an allreduce, and for training. A ring allreduce sends from every rank to the next; this is
measured with one sender, and with all ranks sending at once. Memory: a copy, on all ranks at once.
"""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np

from record.schema import Transfer
from train.transport import connections
from train.transport.tcp_group import AllRanks, listeners

_BLOCK_BYTES = 1 << 20
_COPY_BYTES = 1 << 27  # beyond the caches

Key = Callable[[], bytes]  # returns the secret of the job


def memory_copy(seconds: float) -> Transfer:
    """Copy from one buffer to another for `seconds`, on one core, and return how much was copied."""
    source, target = np.ones(_COPY_BYTES, np.uint8), np.ones(_COPY_BYTES, np.uint8)  # ones: all pages are allocated
    copied, begin = 0, time.perf_counter()
    while (elapsed_s := time.perf_counter() - begin) < seconds:
        np.copyto(target, source)
        copied += _COPY_BYTES
    return Transfer("memory_copy", "", copied, elapsed_s)


def send(connection: socket.socket, seconds: float) -> None:
    """Send for `seconds`, then close the stream. The receiver reports an error of the stream."""
    block, begin = bytes(_BLOCK_BYTES), time.perf_counter()
    with connection:
        try:
            while time.perf_counter() - begin < seconds:
                connection.sendall(block)
        except OSError:
            return


def receive(connection: socket.socket) -> tuple[int, float]:
    """Return the bytes received from the first block to the end of the stream, and their time in s. Raises OSError."""
    block = bytearray(_BLOCK_BYTES)
    with connection:
        connection.recv_into(block)
        received, begin = 0, time.perf_counter()
        while count := connection.recv_into(block):
            received += count
        return received, time.perf_counter() - begin


def _stream(
    kind: Literal["tcp_stream", "tcp_ring"], ranks: AllRanks, senders: list[int], seconds: float, key: Key
) -> tuple[list[Transfer], list[str]]:
    """Stream from every rank of `senders` to the next one, all at once; return what this rank received.

    Also returns the problems of all ranks: the same list on every rank.
    """
    outgoing, incoming, problem = _connect(ranks, senders, key)
    problems = [f"{kind}: {text}" for text in ranks.gather(problem, str) if text]
    if problems:
        for connection in (outgoing, incoming):
            if connection:
                connection.close()
        return [], problems
    sender = threading.Thread(target=send, args=(outgoing, seconds))
    if outgoing:
        sender.start()
    received: list[Transfer] = []
    if incoming:
        source = incoming.getpeername()[0]
        try:
            received = [Transfer(kind, source, *receive(incoming))]
        except OSError as error:
            problem = f"rank {ranks.rank}, from {source}: {error}"
    if outgoing:
        sender.join()
    return received, [f"{kind}: {text}" for text in ranks.gather(problem, str) if text]


def _connect(ranks: AllRanks, senders: list[int], key: Key) -> tuple[socket.socket | None, socket.socket | None, str]:
    """Return this rank's connections, if each of `senders` connects to the next rank, and the problem, or "".

    The first connection is to the next rank, the second from the previous one; None if there is none.
    """
    rank, size = ranks.rank, ranks.size
    outgoing = incoming = None
    with listeners(ranks) as (listener, addresses), ThreadPoolExecutor(1) as pool:
        try:
            secret = key()
            expected = (rank - 1) % size in senders
            accepted = pool.submit(connections.accept, listener, secret, int(expected))  # while this one connects
            try:
                if rank in senders:
                    outgoing = connections.connect(addresses[(rank + 1) % size], secret, rank).socket
            finally:
                incoming = next((channel.socket for _, channel in accepted.result()), None)
        except OSError as error:
            return outgoing, incoming, f"rank {rank}: {error}"
    return outgoing, incoming, ""


def first_between_hosts(hosts: list[str]) -> int:
    """Return the first rank whose next one is on another host, 0 if all are on one; `hosts` by rank."""
    return next((rank for rank, host in enumerate(hosts) if host != hosts[(rank + 1) % len(hosts)]), 0)


def measure_bandwidth(ranks: AllRanks, seconds: float, key: Key) -> tuple[list[Transfer], list[str]]:
    """Measure link and memory for `seconds` each; return what this rank received and copied, and all ranks' problems.

    Every rank calls it. If a link cannot be measured (a firewall) only its number is missing.
    """
    first = first_between_hosts(ranks.gather(socket.gethostname(), str))
    streamed, stream_problems = _stream("tcp_stream", ranks, [first], seconds, key)
    received, ring_problems = ring(ranks, seconds, key)
    ranks.barrier()
    return [*streamed, *received, memory_copy(seconds)], stream_problems + ring_problems


def ring(ranks: AllRanks, seconds: float, key: Key) -> tuple[list[Transfer], list[str]]:
    """Send on all ranks for `seconds`; return what this rank received from the one before, and all ranks' problems.

    Every rank calls it.
    """
    return _stream("tcp_ring", ranks, list(range(ranks.size)), seconds, key)
