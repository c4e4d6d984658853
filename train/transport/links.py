"""The links between ranks, measured over plain TCP: their throughput, and how far the clocks at their ends are apart.

Throughput is an upper bound for an allreduce, and for training: a ring allreduce sends from every rank to the next, so
that is what is measured, with one sender and with all ranks sending at once. Memory: a copy, on all ranks at once.

Clocks are compared as NTP does (RFC 5905, section 8). A rank asks rank 0 for the time, often. The answer was given
between the question and its arrival, so the offset of rank 0's clock is its answer less the middle of the two, at most
half of the round trip off. The quickest one counts.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from train.record.record import Transfer
from train.transport import connections
from train.transport.connections import Accepted
from train.transport.tcp_group import AllRanks, listeners

_BLOCK_BYTES = 1 << 20
_COPY_BYTES = 1 << 27  # beyond the caches

Key = Callable[[], bytes]  # gives the secret of the job

_QUESTIONS = 100
_TIME = struct.Struct("!d")


def memory_copy(seconds: float) -> Transfer:
    """Copy from one buffer to another for `seconds`, on one core, and return how much was copied."""
    source, target = np.ones(_COPY_BYTES, np.uint8), np.ones(_COPY_BYTES, np.uint8)  # ones: all pages are allocated
    copied, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        np.copyto(target, source)
        copied += _COPY_BYTES
    return Transfer("memory_copy", "", copied, passed)


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
    what: Literal["tcp_stream", "tcp_ring"], ranks: AllRanks, senders: list[int], seconds: float, key: Key
) -> tuple[list[Transfer], list[str]]:
    """Stream from every rank of `senders` to the next one, all at once; return what this rank received.

    Also returns the problems of all ranks: the same list on every rank.
    """
    outgoing, incoming, problem = _connect(ranks, senders, key)
    problems = [f"{what}: {text}" for text in ranks.gather(problem, str) if text]
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
            received = [Transfer(what, source, *receive(incoming))]
        except OSError as error:
            problem = f"rank {ranks.rank}, from {source}: {error}"
    if outgoing:
        sender.join()
    return received, [f"{what}: {text}" for text in ranks.gather(problem, str) if text]


def _connect(ranks: AllRanks, senders: list[int], key: Key) -> tuple[socket.socket | None, socket.socket | None, str]:
    """Return this rank's connections, if each of `senders` connects to the next rank, and the problem of it, or "".

    The connections: to the next rank and from the previous one; None without one.
    """
    rank, size = ranks.rank, ranks.size
    outgoing = incoming = None
    with listeners(ranks) as (listener, addresses), ThreadPoolExecutor(1) as pool:
        try:
            secret = key()
            expected = (rank - 1) % size in senders
            accepted = pool.submit(connections.accept, listener, secret, int(expected))  # while this one connects
            try:
                outgoing = connections.connect(addresses[(rank + 1) % size], secret, rank) if rank in senders else None
            finally:
                incoming = next((connection for _, connection in accepted.result()), None)
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


@dataclass(frozen=True)
class ClockOffset:
    """How far rank 0's clock is ahead of another one, in seconds."""

    ahead_s: float
    error_s: float  # at most


def measure_clock_offset(ranks: AllRanks, key: Key) -> tuple[ClockOffset | None, list[str]]:
    """Return the offset of rank 0's clock to this rank's, None if it could not be measured, and all ranks' problems.

    Every rank calls it. Ranks on rank 0's host have its clock. key: gives the secret of the job.
    """
    host = socket.gethostname()
    with listeners(ranks) as (listener, addresses):
        hosts = ranks.gather(host, str)
        remote = [rank for rank, other in enumerate(hosts) if other != hosts[0]]
        offset, problem = ClockOffset(0.0, 0.0) if host == hosts[0] else None, ""
        try:
            if ranks.rank == 0:
                _answer(connections.accept(listener, key(), len(remote)))
            elif ranks.rank in remote:
                offset = _ask(connections.connect(addresses[0], key(), ranks.rank))
        except OSError as error:
            problem = f"rank {ranks.rank} on {host}: {error}"
        problems = [text for text in ranks.gather(problem, str) if text]
    return offset, problems


def _answer(accepted: Accepted) -> None:
    """Tell these ranks the time whenever they ask, one rank after the other. Raises OSError."""
    for _, connection in accepted:
        with connection:
            while connection.recv(1):
                connection.sendall(_TIME.pack(time.time()))


def _ask(connection: socket.socket) -> ClockOffset:
    """Return how far the clock of the other end is ahead of this one. Raises OSError."""
    offsets = []
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(_QUESTIONS):
            asked_at = time.time()
            connection.sendall(b"?")
            answer = connection.recv(_TIME.size, socket.MSG_WAITALL)
            answered_at = time.time()
            if len(answer) < _TIME.size:
                raise ConnectionError("rank 0 closed the connection")
            [time_there] = _TIME.unpack(answer)
            offsets.append(ClockOffset(time_there - (asked_at + answered_at) / 2, (answered_at - asked_at) / 2))
    return min(offsets, key=lambda offset: offset.error_s)
