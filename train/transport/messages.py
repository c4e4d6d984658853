"""Messages over a connection: eight bytes of length, then a value as MessagePack, decoded only as the type expected."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from train.config.checks import ConfigError

_LENGTH_BYTES = 8
_RECEIVE_BYTES = 1 << 20  # at once, of a message that is longer than its first piece
_FIRST_BYTES = 1 << 12  # what is asked for at first: memory for more would take longer than the message
MAX_BYTES = 1 << 28  # of a message: a thousand ranks send a tenth of it at once
LOOK_EVERY_S = 10.0  # whether to wait on

OnWait = Callable[[float], None]  # is called with how long the wait has been, in s; raises to end it


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
        """Take over a connection; it waits without a limit: a connection to a rank that is gone closes."""
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
        """Return the next message. on_wait: is asked every ten seconds whether to wait on.

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

    def _more(self, most: int) -> bytes:
        if not (received := self._connection.recv(most)):
            raise ConnectionError("it hung up")
        return received

    def close(self) -> None:
        """Close the connection: the other end loses this one."""
        self._connection.close()
