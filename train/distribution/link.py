"""The throughput of link and memory without Horovod: upper limits for an allreduce, and for training.

Plain TCP: a ring allreduce sends from every rank to the next, so that is what is measured, with one sender and with all
ranks sending at once. Memory: a copy, on all ranks at once.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
import psutil

from train.distribution.protocol import Distribution
from train.record.record import Transfer

_BLOCK_BYTES = 1 << 20
_COPY_BYTES = 1 << 27  # beyond the caches
_SILENCE_S = 20.0
_TOKEN_WITHIN_S = 5.0  # of a connection: who knows it sends it at once


def addresses() -> list[str]:
    """The IPv4 addresses of this machine: those of the interface that Horovod chose first, those of loopback last."""
    chosen = os.environ.get("HOROVOD_GLOO_IFACE", "")
    found = [
        (card not in chosen.split(","), entry.address.startswith("127."), entry.address)
        for card, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET
    ]
    return [address for *_, address in sorted(found)]


def memory_copy(seconds: float) -> Transfer:
    """Copies from one buffer to another for `seconds`, on one core."""
    source, target = np.ones(_COPY_BYTES, np.uint8), np.ones(_COPY_BYTES, np.uint8)  # ones: all pages are allocated
    copied, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        np.copyto(target, source)
        copied += _COPY_BYTES
    return Transfer("memory_copy", "", copied, passed)


def connect(places: list[str], port: int, token: bytes) -> socket.socket:
    """A connection to the listener on `port` at the first of `places` that answers. Raises ConnectionError.

    They share the time for which the listener waits: on a link that is full, first packets are lost.
    """
    for place in places:
        try:
            connection = socket.create_connection((place, port), _SILENCE_S / len(places))
        except OSError:
            continue
        connection.settimeout(_SILENCE_S)
        connection.sendall(token)
        return connection
    raise ConnectionError(f"no TCP connection to port {port} at {' or '.join(places) or 'a host without address'}")


def greets(place: str, port: int) -> bool:
    """Whether the gRPC server there sends its first message: the kernel alone would accept a connection."""
    try:
        with connect([place], port, b"") as connection:
            return bool(connection.recv(1))
    except OSError:
        return False


def accept(listener: socket.socket, token: bytes, within_s: float | None = None) -> socket.socket:
    """The connection that begins with `token`; others are closed, also one that says nothing, as of a port scanner.

    within_s: it comes; by default as long as `connect` tries. Raises TimeoutError where it does not.
    """
    end = time.monotonic() + (within_s or _SILENCE_S)
    while (left_s := end - time.monotonic()) > 0:
        listener.settimeout(left_s)
        connection, _ = listener.accept()
        if _begins_with(token, connection):
            connection.settimeout(_SILENCE_S)
            return connection
        connection.close()
    raise TimeoutError("timed out")


def _begins_with(token: bytes, connection: socket.socket) -> bool:
    connection.settimeout(_TOKEN_WITHIN_S)
    try:
        return connection.recv(len(token)) == token  # sent at once, and short: it comes in one piece
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
    what: Literal["tcp_stream", "tcp_ring"], distribution: Distribution, senders: list[int], seconds: float
) -> tuple[list[Transfer], list[str]]:
    """What this rank received when every rank of `senders` streamed to the next one, all at once.

    Also returns what failed on any rank: the same list on every rank.
    """
    streams, problem = _connect(distribution, senders)
    failed = [f"{what}: {text}" for text in distribution.gather(problem) if text]
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
    return received, [f"{what}: {text}" for text in distribution.gather(problem) if text]


def _connect(distribution: Distribution, senders: list[int]) -> tuple[_Streams, str]:
    """The connections of this rank where each of `senders` connects to the next rank, and why one failed, else ""."""
    rank, size = distribution.rank, distribution.size
    outgoing = incoming = None
    with socket.create_server(("", 0)) as listener:
        local = (addresses(), listener.getsockname()[1], secrets.token_bytes(16))
        everyone = distribution.gather(local)
        try:
            outgoing = connect(*everyone[(rank + 1) % size]) if rank in senders else None
            incoming = accept(listener, local[2]) if (rank - 1) % size in senders else None
        except OSError as error:
            return _Streams(outgoing, incoming), f"rank {rank}: {error}"
    return _Streams(outgoing, incoming), ""


def first_between_hosts(hosts: list[str]) -> int:
    """The first rank whose next one is on another host, 0 where all are on one; `hosts` by rank."""
    return next((rank for rank, host in enumerate(hosts) if host != hosts[(rank + 1) % len(hosts)]), 0)


def measure(distribution: Distribution, seconds: float) -> tuple[list[Transfer], list[str]]:
    """What this rank received and copied, link and memory measured for `seconds` each, and what failed on any rank.

    Every rank calls it. Where a link cannot be measured (a firewall) only its number is missing.
    """
    first = first_between_hosts(distribution.gather(socket.gethostname()))
    one, failed = _stream("tcp_stream", distribution, [first], seconds)
    around, also_failed = ring(distribution, seconds)
    distribution.barrier()
    return [*one, *around, memory_copy(seconds)], failed + also_failed


def ring(distribution: Distribution, seconds: float) -> tuple[list[Transfer], list[str]]:
    """What this rank received from the one before while all ranks sent for `seconds`, and what failed on any rank.

    Every rank calls it.
    """
    return _stream("tcp_ring", distribution, list(range(distribution.size)), seconds)
