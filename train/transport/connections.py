"""TCP connections between processes of one job, each of which has proved that it knows the job's secret.

Before that nothing is decoded. Both ends send a nonce; then each sends the HMAC-SHA256 of both nonces under the secret,
first the end that connects, which also says its rank.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
from collections.abc import Sequence
from typing import NamedTuple

from train.rank import placement

SILENCE_S = 20.0  # for which an end waits while it connects
PROOF_WITHIN_S = 5.0  # of a caller
_MAX_STRANGERS = 64  # callers at a time, beside the ranks that are waited for
_RETRY_S = 0.1  # after a caller could not be accepted
_NONCE_BYTES = _MAC_BYTES = 32
_RANK_BYTES = 8
_HELLO_BYTES = _NONCE_BYTES + _RANK_BYTES + _MAC_BYTES

Accepted = list[tuple[int, socket.socket]]  # the rank that each says it is


class Address(NamedTuple):
    """The address at which a process listens."""

    host: str
    port: int


def bind_host(hosts: Sequence[str]) -> str:
    """Return the IPv4 address of this host at which ranks on these hosts reach it.

    It belongs to the interface that Horovod was given; else it is loopback if all are on one host.
    """
    own = placement.addresses()
    for interface in os.environ.get("HOROVOD_GLOO_IFACE", "").split(","):
        for address, name in own.items():
            if name == interface:
                return address
    if len(set(hosts)) <= 1:
        return "127.0.0.1"
    try:
        return placement.address_towards(hosts)
    except OSError:  # a name has no address
        return min(own, key=lambda address: address.startswith("127."))


def listen(host: str, port: int = 0) -> socket.socket:
    """Return a listener at this address alone. Raises OSError."""
    return socket.create_server((host, port), backlog=1024)


def open_connection(address: Address) -> socket.socket:
    """Return a TCP connection of which neither end has proved anything. Raises ConnectionError."""
    try:
        return socket.create_connection(address, SILENCE_S)
    except OSError as error:
        raise ConnectionError(f"no TCP connection to {address.host}:{address.port}: {error}") from error


def connect(address: Address, key: bytes, rank: int) -> socket.socket:
    """Return a connection to a process of this job, to which this one says its rank.

    Raises ConnectionError if there is none, or it does not know the secret.
    """
    connection = open_connection(address)
    try:
        own, number = secrets.token_bytes(_NONCE_BYTES), rank.to_bytes(_RANK_BYTES, "big")
        theirs = _read(connection, _NONCE_BYTES)
        connection.sendall(own + number + _mac(key, b"connect", own, theirs, number))
        if not hmac.compare_digest(_read(connection, _MAC_BYTES), _mac(key, b"accept", own, theirs, number)):
            raise ConnectionError("it does not know the secret of this job")
    except OSError as error:
        connection.close()
        raise ConnectionError(f"no connection to a rank at {address.host}:{address.port}: {error}") from error
    return connection


def accept(listener: socket.socket, key: bytes, count: int = 1, within_s: float = SILENCE_S) -> Accepted:
    """Return the connections of `count` processes of this job. Others are closed, also those that send nothing.

    Raises TimeoutError, which says how many came, if not all come within this time.
    """
    reception = _Reception(key, count)
    if count == 0:
        return []
    try:
        asyncio.run(reception.hold(listener, within_s))
    except TimeoutError as error:
        for _, connection in reception.accepted:
            connection.close()
        raise TimeoutError(f"{len(reception.accepted)} of {count} came within {within_s:g} s") from error
    for _, connection in reception.accepted:
        connection.settimeout(SILENCE_S)
    return reception.accepted


class _Reception:
    """Accepts all callers at the same time: one that sends nothing keeps no other waiting."""

    def __init__(self, key: bytes, count: int) -> None:
        self.accepted: Accepted = []
        self._key, self._count = key, count
        self._complete, self._free = asyncio.Event(), asyncio.Semaphore(count + _MAX_STRANGERS)

    async def hold(self, listener: socket.socket, within_s: float) -> None:
        """Return when enough are accepted. Raises TimeoutError."""
        listener.setblocking(False)
        hearing = {asyncio.create_task(self._hear_all(listener))}
        try:
            async with asyncio.timeout(within_s):
                await self._complete.wait()
        finally:
            for task in hearing:
                task.cancel()
            await asyncio.gather(*hearing, return_exceptions=True)

    async def _hear_all(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as hearing:
            while True:
                await self._free.acquire()
                try:
                    caller, _ = await loop.sock_accept(listener)
                except OSError:  # it hung up, or no file can be opened now
                    self._free.release()
                    await asyncio.sleep(_RETRY_S)
                else:
                    hearing.create_task(self._hear(caller))

    async def _hear(self, caller: socket.socket) -> None:
        rank = None
        try:
            async with asyncio.timeout(PROOF_WITHIN_S):
                rank = await self._proved_rank(caller)
        except OSError:
            pass
        finally:
            self._free.release()
            if rank is None or len(self.accepted) == self._count:
                caller.close()
            else:
                self.accepted.append((rank, caller))
            if len(self.accepted) == self._count:
                self._complete.set()

    async def _proved_rank(self, caller: socket.socket) -> int:
        """Return the rank of a caller that proves that it knows the secret. Raises OSError if it does not."""
        loop, own, hello = asyncio.get_running_loop(), secrets.token_bytes(_NONCE_BYTES), b""
        await loop.sock_sendall(caller, own)
        while len(hello) < _HELLO_BYTES:
            if not (more := await loop.sock_recv(caller, _HELLO_BYTES - len(hello))):
                raise ConnectionError("it hung up")
            hello += more
        theirs, rank, proof = hello[:_NONCE_BYTES], hello[_NONCE_BYTES:-_MAC_BYTES], hello[-_MAC_BYTES:]
        if not hmac.compare_digest(proof, _mac(self._key, b"connect", theirs, own, rank)):
            raise ConnectionError("it does not know the secret of this job")
        await loop.sock_sendall(caller, _mac(self._key, b"accept", theirs, own, rank))
        return int.from_bytes(rank, "big")


def _mac(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(parts), "sha256")


def _read(connection: socket.socket, count: int) -> bytes:
    """Return exactly so many bytes. Raises OSError."""
    received = b""
    while len(received) < count:
        if not (more := connection.recv(count - len(received))):
            raise ConnectionError("it hung up")
        received += more
    return received
