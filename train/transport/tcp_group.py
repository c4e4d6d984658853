"""Ranks that exchange small values and wait for each other over TCP: those of a launch in rounds between windows, and
the workers of a strategy of TensorFlow.

A rank that waits is blocked in the kernel and costs no CPU time; Horovod's ranks look for work every cycle.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from train.config.checks import ConfigError
from train.record import protocol
from train.transport import channel, messages, rendezvous_file
from train.transport.channel import Accepted, Address
from train.transport.failures import PeerLost
from train.transport.messages import Channel
from train.transport.rendezvous_file import IMPORT_WITHIN_S
from train.transport.secret import Secret

OnWait = Callable[[int, float], None]  # is called while a rank waits for another: its number, and for how long, in s


class AllRanks(Protocol):
    """All ranks of a job, as one of them sees them, whether or not they train together. All ranks call each method."""

    rank: int
    size: int

    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank. kind: their type."""

    def barrier(self) -> None:
        """Return when all ranks have called it."""


class TcpGroup:
    """Ranks that are connected, as one of them sees them."""

    def __init__(self, rank: int, size: int, channels: Sequence[Channel]) -> None:
        """Take the channels to all other ranks, in the order of ranks, on rank 0; on another rank that to rank 0."""
        self.rank, self.size = rank, size
        self.on_wait: OnWait | None = None  # raises where a rank is not to be waited for any longer
        self._channels = list(channels)

    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank. kind: their type.

        Raises PeerLost where one is gone, ConfigError where one sends another type, and what `on_wait` raises.
        """
        with self._missed():
            if self.rank:
                return messages.decode(self._exchange(messages.encode(value)), list[kind], "rank 0")
            received = self._receive_all()
            values = [value, *(messages.decode(one, kind, f"rank {n}") for n, one in enumerate(received, 1))]
            self._send_all(messages.encode(values))
            return values

    def barrier(self) -> None:
        """Return when all ranks have called it. Raises as `gather`."""
        with self._missed():
            if self.rank:
                self._exchange(b"")
            else:
                self._receive_all()
                self._send_all(b"")

    def _exchange(self, message: bytes) -> bytes:
        """Send rank 0 a message, and return its answer."""
        self._channels[0].send(message)
        return self._receive(0)

    def _receive_all(self) -> list[bytes]:
        return [self._receive(rank) for rank in range(1, self.size)]

    def _send_all(self, message: bytes) -> None:
        for one in self._channels:
            one.send(message)

    def _receive(self, rank: int) -> bytes:
        """Return the next message of a rank that this one is connected to."""
        on_wait = self.on_wait
        return self._channels[max(0, rank - 1)].receive(on_wait and (lambda waited_s: on_wait(rank, waited_s)))

    @contextmanager
    def _missed(self) -> Iterator[None]:
        """A context in which a rank that is gone raises PeerLost. After any error all others lose this rank."""
        try:
            yield
        except Exception as error:
            for one in self._channels:
                one.close()
            if isinstance(error, OSError):
                raise PeerLost(f"the exchange between the ranks failed: {error}") from error
            raise


def group_of(rank: int, size: int, connections: Accepted) -> TcpGroup:
    """Return the group of these connections, with the rank at the other end of each; on other ranks than 0 just one.

    Raises PeerLost where two say that they are the same rank, or one that there is not.
    """
    ranks = [number for number, _ in connections]
    if rank == 0 and sorted(ranks) != list(range(1, size)):
        raise PeerLost(f"ranks {sorted(ranks)} came, of {size}")
    return TcpGroup(rank, size, [Channel(one) for _, one in sorted(connections, key=lambda pair: pair[0])])


@contextmanager
def listeners(ranks: AllRanks) -> Iterator[tuple[socket.socket, list[Address]]]:
    """A context with a listener of this rank that all others reach, and the addresses of those of all ranks."""
    hosts = ranks.gather(socket.gethostname(), str)
    with channel.listen(channel.bind_host(hosts)) as listener:
        yield listener, ranks.gather(Address(*listener.getsockname()), Address)


def beside(joined: AllRanks, key: Callable[[], bytes]) -> TcpGroup:
    """Return all ranks of a job, which are joined already.

    key: gives the secret of the job.
    Raises PeerLost where they do not meet by TCP too.
    """
    rank, size = joined.rank, joined.size
    with listeners(joined) as (listener, addresses):
        try:
            if rank:
                return group_of(rank, size, [(0, channel.connect(addresses[0], key(), rank))])
            return group_of(rank, size, channel.accept(listener, key(), size - 1))
        except OSError as error:
            raise PeerLost(f"rank {rank}: the ranks that Horovod joined did not meet by TCP: {error}") from error


def on_this_machine(folder: Path, rank: int, size: int) -> TcpGroup:
    """Return all ranks of a launch, once they have come. Raises ConfigError where they do not.

    folder: of the run, where rank 0 leaves its port.
    """
    path, secret = protocol.rendezvous_path(folder), Secret(protocol.secret_folder(folder))
    return group_of(rank, size, [(0, _reach(path, secret, rank))] if rank else _receive_others(path, secret, size))


def _receive_others(path: Path, secret: Secret, size: int) -> Accepted:
    """Return the connections to the other ranks. Raises ConfigError where one does not come."""
    with channel.listen("127.0.0.1") as listener:
        rendezvous_file.write(path, str(listener.getsockname()[1]))
        try:
            return channel.accept(listener, secret.key(), size - 1, IMPORT_WITHIN_S)
        except TimeoutError as error:
            raise ConfigError(f"{path}: of the other ranks {error}: see their logs") from error


def _reach(path: Path, secret: Secret, rank: int) -> socket.socket:
    """Return the connection to rank 0. Raises ConfigError where it does not come, PeerLost where it is gone again."""
    port = int(rendezvous_file.wait(path, "see its log"))
    try:
        return channel.connect(Address("127.0.0.1", port), secret.key(), rank)
    except OSError as error:
        raise PeerLost(f"{path}: rank 0 does not answer: {error}") from error
