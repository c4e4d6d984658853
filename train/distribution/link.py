"""The throughput of link and memory without Horovod: upper limits for an allreduce, and for training.

Plain TCP: a ring allreduce sends from every rank to the next, so that is what is measured, with one sender and with all
ranks sending at once. Memory: a copy, on all ranks at once.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from train.distribution.protocol import Distribution
from train.record.record import Transfer
from train.transport import channel
from train.transport.channel import Address
from train.transport.tcp_group import listeners

_BLOCK_BYTES = 1 << 20
_COPY_BYTES = 1 << 27  # beyond the caches


def memory_copy(seconds: float) -> Transfer:
    """Copies from one buffer to another for `seconds`, on one core."""
    source, target = np.ones(_COPY_BYTES, np.uint8), np.ones(_COPY_BYTES, np.uint8)  # ones: all pages are allocated
    copied, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        np.copyto(target, source)
        copied += _COPY_BYTES
    return Transfer("memory_copy", "", copied, passed)


def answers(address: Address) -> bool:
    """Return whether the gRPC server there sends its first message: the kernel alone would accept a connection."""
    try:
        with channel.open_connection(address) as connection:
            return bool(connection.recv(1))
    except OSError:
        return False


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
    """The bytes received after the first block until the end of the stream, and their time in s. Raises OSError."""
    block = bytearray(_BLOCK_BYTES)
    with connection:
        connection.recv_into(block)
        received, begin = 0, time.perf_counter()
        while count := connection.recv_into(block):
            received += count
        return received, time.perf_counter() - begin


@dataclass(frozen=True)
class _Streams:
    """This rank's connections: to the next rank, and from the previous one; None where it has none."""

    outgoing: socket.socket | None
    incoming: socket.socket | None


def _stream(
    what: Literal["tcp_stream", "tcp_ring"],
    distribution: Distribution,
    senders: list[int],
    seconds: float,
    key: Callable[[], bytes],
) -> tuple[list[Transfer], list[str]]:
    """What this rank received when every rank of `senders` streamed to the next one, all at once.

    Also returns what failed on any rank: the same list on every rank.
    """
    streams, problem = _connect(distribution, senders, key)
    failed = [f"{what}: {text}" for text in distribution.gather(problem, str) if text]
    if failed:
        for connection in (streams.outgoing, streams.incoming):
            if connection:
                connection.close()
        return [], failed
    sender = threading.Thread(target=send, args=(streams.outgoing, seconds))
    if streams.outgoing:
        sender.start()
    received: list[Transfer] = []
    if streams.incoming:
        source = streams.incoming.getpeername()[0]
        try:
            received = [Transfer(what, source, *receive(streams.incoming))]
        except OSError as error:
            problem = f"rank {distribution.rank}, from {source}: {error}"
    if streams.outgoing:
        sender.join()
    return received, [f"{what}: {text}" for text in distribution.gather(problem, str) if text]


def _connect(distribution: Distribution, senders: list[int], key: Callable[[], bytes]) -> tuple[_Streams, str]:
    """The connections of this rank where each of `senders` connects to the next rank, and why one failed, else ""."""
    rank, size = distribution.rank, distribution.size
    outgoing = incoming = None
    with listeners(distribution) as (listener, addresses), ThreadPoolExecutor(1) as beside:
        try:
            secret = key()
            expected = (rank - 1) % size in senders
            accepted = beside.submit(channel.accept, listener, secret, int(expected))  # while this one connects
            try:
                outgoing = channel.connect(addresses[(rank + 1) % size], secret, rank) if rank in senders else None
            finally:
                incoming = next((connection for _, connection in accepted.result()), None)
        except OSError as error:
            return _Streams(outgoing, incoming), f"rank {rank}: {error}"
    return _Streams(outgoing, incoming), ""


def first_between_hosts(hosts: list[str]) -> int:
    """The first rank whose next one is on another host, 0 where all are on one; `hosts` by rank."""
    return next((rank for rank, host in enumerate(hosts) if host != hosts[(rank + 1) % len(hosts)]), 0)


def measure(distribution: Distribution, seconds: float, key: Callable[[], bytes]) -> tuple[list[Transfer], list[str]]:
    """What this rank received and copied, link and memory measured for `seconds` each, and what failed on any rank.

    Every rank calls it. Where a link cannot be measured (a firewall) only its number is missing.

    key: gives the secret of the job.
    """
    first = first_between_hosts(distribution.gather(socket.gethostname(), str))
    one, failed = _stream("tcp_stream", distribution, [first], seconds, key)
    around, also_failed = ring(distribution, seconds, key)
    distribution.barrier()
    return [*one, *around, memory_copy(seconds)], failed + also_failed


def ring(distribution: Distribution, seconds: float, key: Callable[[], bytes]) -> tuple[list[Transfer], list[str]]:
    """What this rank received from the one before while all ranks sent for `seconds`, and what failed on any rank.

    Every rank calls it. key: gives the secret of the job.
    """
    return _stream("tcp_ring", distribution, list(range(distribution.size)), seconds, key)
