"""TCP connections between processes of one job, each of which has proved that it knows the job's secret.

Before the proof nothing is decoded. Both ends send a nonce; then each sends the HMAC-SHA256 of both nonces under the
secret, first the end that connects, which also sends its rank. A message is eight bytes of length, then a value as
MessagePack, decoded only as the expected type.
"""

import asyncio
import hmac
import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from train.config.checks import ConfigError
from train.rank import placement

SILENCE_S = 20.0  # the longest silence of the other end while connecting
PROOF_WITHIN_S = 5.0  # the proof of a caller
_MAX_STRANGERS = 64  # callers at a time, in addition to the awaited ranks
_RETRY_S = 0.1  # after a caller could not be accepted
_NONCE_BYTES = _MAC_BYTES = 32
_RANK_BYTES = 8
_HELLO_BYTES = _NONCE_BYTES + _RANK_BYTES + _MAC_BYTES

_LENGTH_BYTES = 8
_RECEIVE_BYTES = 1 << 20  # at most at once, after the first piece of a message
_FIRST_BYTES = 1 << 12  # the first piece: to allocate memory for more would take longer than the message
MAX_BYTES = 1 << 28  # of a message: a thousand ranks send a tenth of it at once
LOOK_EVERY_S = 10.0  # how often a waiting rank checks whether to wait on

Accepted = list[tuple[int, socket.socket]]  # with the rank that each has sent
OnWait = Callable[[float], None]  # is called with the duration of the wait, in s; raises to end it


class Address(NamedTuple):
    """The address at which a process listens."""

    host: str
    port: int


def bind_host(hosts: Sequence[str]) -> str:
    """Return the IPv4 address of this host at which ranks on these hosts reach it.

    It belongs to the interface that Horovod uses, if that is set; else it is loopback if all are on one host.
    """
    addresses = placement.addresses()
    for interface in os.environ.get("HOROVOD_GLOO_IFACE", "").split(","):
        for address, name in addresses.items():
            if name == interface:
                return address
    if len(set(hosts)) <= 1:
        return "127.0.0.1"
    try:
        return placement.address_towards(hosts)
    except OSError:  # a name has no address
        return min(addresses, key=lambda address: address.startswith("127."))


def listen(host: str, port: int = 0) -> socket.socket:
    """Return a listener at this address alone. Raises OSError."""
    return socket.create_server((host, port), backlog=1024)


def open_connection(address: Address) -> socket.socket:
    """Return a TCP connection without any proof yet. Raises ConnectionError."""
    try:
        return socket.create_connection(address, SILENCE_S)
    except OSError as error:
        raise ConnectionError(f"no TCP connection to {address.host}:{address.port}: {error}") from error


def connect(address: Address, key: bytes, rank: int) -> socket.socket:
    """Return a connection to a process of this job, to which this one sends its rank.

    Raises ConnectionError if there is none, or it does not know the secret.
    """
    connection = open_connection(address)
    try:
        nonce, number = secrets.token_bytes(_NONCE_BYTES), rank.to_bytes(_RANK_BYTES, "big")
        received = _read(connection, _NONCE_BYTES)
        connection.sendall(nonce + number + _mac(key, b"connect", nonce, received, number))
        if not hmac.compare_digest(_read(connection, _MAC_BYTES), _mac(key, b"accept", nonce, received, number)):
            raise ConnectionError("it does not know the secret of this job")
    except OSError as error:
        connection.close()
        raise ConnectionError(f"no connection to a rank at {address.host}:{address.port}: {error}") from error
    return connection


def accept(listener: socket.socket, key: bytes, count: int = 1, within_s: float = SILENCE_S) -> Accepted:
    """Return the connections of `count` processes of this job. Others are closed, also those that send nothing.

    Raises TimeoutError, which names the number that came, if not all come within this time.
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
    """Accepts all callers at the same time: one that sends nothing does not delay others."""

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
        loop, nonce, hello = asyncio.get_running_loop(), secrets.token_bytes(_NONCE_BYTES), b""
        await loop.sock_sendall(caller, nonce)
        while len(hello) < _HELLO_BYTES:
            if not (more := await loop.sock_recv(caller, _HELLO_BYTES - len(hello))):
                raise ConnectionError("it hung up")
            hello += more
        received, rank, proof = hello[:_NONCE_BYTES], hello[_NONCE_BYTES:-_MAC_BYTES], hello[-_MAC_BYTES:]
        if not hmac.compare_digest(proof, _mac(self._key, b"connect", received, nonce, rank)):
            raise ConnectionError("it does not know the secret of this job")
        await loop.sock_sendall(caller, _mac(self._key, b"accept", received, nonce, rank))
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


def encode(value: Any) -> bytes:
    """Return a value of plain data and data classes as MessagePack."""
    return msgspec.msgpack.encode(value)


def decode(message: bytes, kind: Any, sender: str) -> Any:
    """Return the value of a message, which must be of this type.

    Raises ConfigError, which names the sender, if it is not.
    """
    try:
        return msgspec.msgpack.decode(message, type=kind)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"{sender} sent another message than expected ({error}): all ranks need the same code"
        ) from error


class Channel:
    """Messages over one connection, in both directions. The ends take turns."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over a connection, without a time limit: the connection to a lost rank closes."""
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection, self._ready = connection, select.poll()
        self._ready.register(connection, select.POLLIN)

    def send(self, message: bytes) -> None:
        """Send a message. Raises OSError if the other end is gone, ValueError if the message is too long."""
        if len(message) > MAX_BYTES:
            raise ValueError(f"a message of {len(message)} bytes: at most {MAX_BYTES} are allowed")
        self._connection.sendall(len(message).to_bytes(_LENGTH_BYTES, "big") + message)

    def receive(self, on_wait: OnWait | None = None) -> bytes:
        """Return the next message. on_wait: is called every ten seconds of waiting.

        Raises OSError if the other end is gone, or announces more than a message may hold.
        """
        begun_at = time.monotonic()
        while on_wait and not self._ready.poll(1000 * LOOK_EVERY_S):
            on_wait(time.monotonic() - begun_at)
        received = self._connection.recv(_FIRST_BYTES)
        while 0 < len(received) < _LENGTH_BYTES:
            received += self._more(_LENGTH_BYTES - len(received))
        length, message = int.from_bytes(received[:_LENGTH_BYTES], "big"), received[_LENGTH_BYTES:]
        if not received:
            raise ConnectionError("it hung up")
        if not len(message) <= length <= MAX_BYTES:
            raise ConnectionError(f"a message of {length} bytes was announced")
        if len(message) == length:
            return message
        whole = bytearray(message)
        while len(whole) < length:
            whole += self._more(min(length - len(whole), _RECEIVE_BYTES))
        return bytes(whole)

    def _more(self, max_bytes: int) -> bytes:
        if not (received := self._connection.recv(max_bytes)):
            raise ConnectionError("it hung up")
        return received

    def close(self) -> None:
        """Close the connection: the other end gets an error."""
        self._connection.close()
