"""TCP connections between processes of one job, each of which has proved that it knows the job's secret.

Before the proof nothing is decoded. Both ends send a nonce; then each sends the HMAC-SHA256 of both nonces under the
secret, first the end that connects, which also sends its rank. A message is eight bytes of length, a value as
MessagePack, and an HMAC-SHA256 of its direction, its number and the value, under a key of this connection alone. It is
decoded only if the HMAC is right, and only as the expected type.
"""

import asyncio
import hmac
import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from train.config.checks import ConfigError
from train.rank import placement

SILENCE_S = 20.0  # for a connection and both proofs; afterwards the longest silence of the other end
PROOF_WITHIN_S = 5.0  # the proof of a caller
_MAX_STRANGERS = 256  # callers at a time, in addition to the awaited ranks; the next one takes the oldest one's turn
_RETRY_S = 0.1  # after a caller could not be accepted
_NONCE_BYTES = _MAC_BYTES = 32
_RANK_BYTES = 8
_HELLO_BYTES = _NONCE_BYTES + _RANK_BYTES + _MAC_BYTES

_LENGTH_BYTES = 8
_RECEIVE_BYTES = 1 << 20  # at most at once, after the first piece of a message
_FIRST_BYTES = 1 << 12  # the first piece: to allocate memory for more would take longer than the message
MAX_BYTES = 1 << 28  # of a message: a thousand ranks send a tenth of it at once
LOOK_EVERY_S = 10.0  # how often a waiting rank checks whether to wait on

Accepted = list[tuple[int, "Channel"]]  # with the rank that each has sent
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


def connect(address: Address, key: bytes, rank: int) -> "Channel":
    """Return a connection to a process of this job, to which this one sends its rank.

    Raises ConnectionError if there is none within SILENCE_S, or it does not know the secret.
    """
    end = time.monotonic() + SILENCE_S
    connection = open_connection(address)
    try:
        nonce, number = secrets.token_bytes(_NONCE_BYTES), rank.to_bytes(_RANK_BYTES, "big")
        received = _read(connection, _NONCE_BYTES, end)
        connection.sendall(nonce + number + _mac(key, b"connect", nonce, received, number))
        if not hmac.compare_digest(_read(connection, _MAC_BYTES, end), _mac(key, b"accept", nonce, received, number)):
            raise ConnectionError("it does not know the secret of this job")
    except OSError as error:
        connection.close()
        raise ConnectionError(f"no connection to a rank at {address.host}:{address.port}: {error}") from error
    return Channel(connection, _mac(key, b"messages", nonce, received, number), is_caller=True)


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
        for _, channel in reception.accepted:
            channel.close()
        raise TimeoutError(f"{len(reception.accepted)} of {count} came within {within_s:g} s") from error
    return reception.accepted


class _Reception:
    """Accepts all callers at the same time: those that send nothing, however many, do not keep a rank out."""

    def __init__(self, key: bytes, count: int) -> None:
        self.accepted: Accepted = []
        self._key, self._count, self._complete = key, count, asyncio.Event()
        self._hearing: dict[asyncio.Task[tuple[int, bytes]], None] = {}  # the oldest first

    async def hold(self, listener: socket.socket, within_s: float) -> None:
        """Return when enough are accepted. Raises TimeoutError."""
        listener.setblocking(False)
        accepting = asyncio.create_task(self._accept_all(listener))
        try:
            async with asyncio.timeout(within_s):
                await self._complete.wait()
        finally:
            tasks = [accepting, *self._hearing]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept_all(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                caller, _ = await loop.sock_accept(listener)
            except OSError:  # it hung up, or no file can be opened now
                await asyncio.sleep(_RETRY_S)
                continue
            if len(self._hearing) == self._count + _MAX_STRANGERS:
                next(iter(self._hearing)).cancel()
            task = asyncio.create_task(self._prove(caller))
            self._hearing[task] = None
            task.add_done_callback(partial(self._end_hearing, caller))
            await asyncio.sleep(0)  # the others are heard, also while more callers come

    def _end_hearing(self, caller: socket.socket, task: asyncio.Task[tuple[int, bytes]]) -> None:
        del self._hearing[task]
        if task.cancelled() or task.exception() or self._complete.is_set():
            caller.close()
            return
        rank, key = task.result()
        self.accepted.append((rank, Channel(caller, key, is_caller=False)))
        if len(self.accepted) == self._count:
            self._complete.set()

    async def _prove(self, caller: socket.socket) -> tuple[int, bytes]:
        """Return the rank of a caller that proves that it knows the secret, and the key of its messages.

        Raises OSError if it does not.
        """
        loop, nonce, hello = asyncio.get_running_loop(), secrets.token_bytes(_NONCE_BYTES), b""
        async with asyncio.timeout(PROOF_WITHIN_S):
            await loop.sock_sendall(caller, nonce)
            while len(hello) < _HELLO_BYTES:
                if not (more := await loop.sock_recv(caller, _HELLO_BYTES - len(hello))):
                    raise ConnectionError("it hung up")
                hello += more
            received, rank, proof = hello[:_NONCE_BYTES], hello[_NONCE_BYTES:-_MAC_BYTES], hello[-_MAC_BYTES:]
            if not hmac.compare_digest(proof, _mac(self._key, b"connect", received, nonce, rank)):
                raise ConnectionError("it does not know the secret of this job")
            await loop.sock_sendall(caller, _mac(self._key, b"accept", received, nonce, rank))
        return int.from_bytes(rank, "big"), _mac(self._key, b"messages", received, nonce, rank)


def _mac(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(parts), "sha256")


def _read(connection: socket.socket, count: int, end: float) -> bytes:
    """Return exactly so many bytes. Raises OSError if they do not come until `end`, as time.monotonic."""
    received = b""
    while len(received) < count:
        connection.settimeout(max(0.001, end - time.monotonic()))
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

    def __init__(self, connection: socket.socket, key: bytes, is_caller: bool) -> None:
        """Take over a connection, whose other end may be silent for SILENCE_S. key: of its messages, on both ends."""
        connection.settimeout(SILENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket, self._key, self._ready = connection, key, select.poll()
        self._ready.register(connection, select.POLLIN)
        self._sent = self._received = 0
        self._own, self._other = (b"connect", b"accept") if is_caller else (b"accept", b"connect")

    def send(self, message: bytes) -> None:
        """Send a message. Raises OSError if the other end is gone, ConfigError if it has more than MAX_BYTES."""
        if len(message) > MAX_BYTES:
            size = f"{len(message) / 1e6:.0f} MB for another rank; at most {MAX_BYTES / 1e6:.0f} MB are sent at once"
            raise ConfigError(f"this rank has {size}; measure fewer steps, or record usage less often")
        code = self._code(self._own, self._sent, message)
        self.socket.sendall(len(message).to_bytes(_LENGTH_BYTES, "big") + message + code)
        self._sent += 1

    def receive(self, on_wait: OnWait | None = None) -> bytes:
        """Return the next message. on_wait: is called every ten seconds of waiting.

        Raises OSError if the other end is gone, announces more than a message may hold, or did not send the message.
        """
        begun_at = time.monotonic()
        while on_wait and not self._ready.poll(1000 * LOOK_EVERY_S):
            on_wait(time.monotonic() - begun_at)
        received = self.socket.recv(_FIRST_BYTES)
        while 0 < len(received) < _LENGTH_BYTES:
            received += self._more(_LENGTH_BYTES - len(received))
        if not received:
            raise ConnectionError("it hung up")
        length, whole = int.from_bytes(received[:_LENGTH_BYTES], "big"), bytearray(received[_LENGTH_BYTES:])
        if not len(whole) <= length + _MAC_BYTES <= MAX_BYTES + _MAC_BYTES:
            raise ConnectionError(f"a message of {length} bytes was announced")
        while len(whole) < length + _MAC_BYTES:
            whole += self._more(min(length + _MAC_BYTES - len(whole), _RECEIVE_BYTES))
        message = bytes(whole[:length])
        if not hmac.compare_digest(whole[length:], self._code(self._other, self._received, message)):
            raise ConnectionError("a message was changed on its way, or is not from this rank")
        self._received += 1
        return message

    def _code(self, direction: bytes, number: int, message: bytes) -> bytes:
        return _mac(self._key, b"%b %d:" % (direction, number), message)

    def _more(self, max_bytes: int) -> bytes:
        if not (received := self.socket.recv(max_bytes)):
            raise ConnectionError("it hung up")
        return received

    def close(self) -> None:
        """Close the connection: the other end gets an error."""
        self.socket.close()
