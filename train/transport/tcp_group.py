"""Groups of ranks that exchange small values and wait for each other over TCP.

Launches in rounds use them between windows, and the workers of a strategy of TensorFlow. A rank that waits is blocked
in the kernel and uses no CPU time; Horovod's ranks look for work in every cycle.
"""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from record import protocol
from train.config.checks import ConfigError
from train.transport import PeerLost, RankUnresponsive, connections, rendezvous
from train.transport.connections import Accepted, Address, Channel
from train.transport.rendezvous import IMPORT_WITHIN_S, Secret

_LOOPBACK = "127.0.0.1"
OnWait = Callable[[int, float], None]  # is called while a rank waits for another, with its number and the duration in s


def time_limit(limit_s: float, rank: int, hosts: Sequence[str], action: str) -> OnWait:
    """Return a check that ends a wait after a limit; on other ranks than 0 after twice that, as rank 0 may itself wait.

    rank: the one that waits. hosts: of all ranks. action: the one that the awaited rank has not done.
    """
    rank_limit_s = limit_s if rank == 0 else 2 * limit_s

    def check(awaited: int, waited_s: float) -> None:
        if waited_s > rank_limit_s:
            message = f"rank {awaited} ({hosts[awaited]}) did not {action} within {rank_limit_s:.0f} s"
            raise RankUnresponsive(message, awaited, hosts[awaited])

    return check


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
        """Take the channels: on rank 0 those to all other ranks, in order; on other ranks the one to rank 0."""
        self.rank, self.size = rank, size
        self.on_wait: OnWait | None = None  # raises to end the wait for a rank
        self._channels = list(channels)

    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank. kind: their type.

        Raises PeerLost if one is gone, ConfigError if one sends another type, and what `on_wait` raises.
        """
        with self._peer_errors():
            if self.rank:
                self._channels[0].send(connections.encode(value))
                return connections.decode(self._receive(0), list[kind], "rank 0")
            received = [self._receive(rank) for rank in range(1, self.size)]
            values = [value, *(connections.decode(item, kind, f"rank {n}") for n, item in enumerate(received, 1))]
            message = connections.encode(values)
            for channel in self._channels:
                channel.send(message)
            return values

    def barrier(self) -> None:
        """Return when all ranks have called it. Raises as `gather`."""
        self.gather(None, None)

    def _receive(self, rank: int) -> bytes:
        """Return the next message of a rank that this one is connected to."""
        on_wait = self.on_wait
        return self._channels[max(0, rank - 1)].receive(on_wait and (lambda waited_s: on_wait(rank, waited_s)))

    @contextmanager
    def _peer_errors(self) -> Iterator[None]:
        """Return a context in which a lost rank raises PeerLost. Any error closes all connections of this rank."""
        try:
            yield
        except Exception as error:
            for channel in self._channels:
                channel.close()
            if isinstance(error, OSError):
                raise PeerLost(f"the exchange between the ranks failed: {error}") from error
            raise


def group_from_connections(rank: int, size: int, accepted: Accepted) -> TcpGroup:
    """Return the group of these connections, each with the rank at its other end; only rank 0 has several.

    They have no time limit from now on: the connection to a lost rank closes.
    Raises PeerLost if two of them have the same rank, or one a rank that does not exist.
    """
    ranks = [number for number, _ in accepted]
    if rank == 0 and sorted(ranks) != list(range(1, size)):
        raise PeerLost(f"ranks {sorted(ranks)} came, of {size}")
    channels = [channel for _, channel in sorted(accepted, key=lambda pair: pair[0])]
    for channel in channels:
        channel.socket.settimeout(None)
    return TcpGroup(rank, size, channels)


def connect_to_first(rank: int, size: int, listener: socket.socket, first: Address, key: bytes) -> TcpGroup:
    """Return the group of all ranks: rank 0 listens, the others connect. Raises OSError, and PeerLost as above."""
    if rank:
        return group_from_connections(rank, size, [(0, connections.connect(first, key, rank))])
    return group_from_connections(rank, size, connections.accept(listener, key, size - 1))


@contextmanager
def listeners(ranks: AllRanks) -> Iterator[tuple[socket.socket, list[Address]]]:
    """Return a context with a listener of this rank that all others reach, and the addresses of all listeners."""
    hosts = ranks.gather(socket.gethostname(), str)
    with connections.listen(connections.bind_host(hosts)) as listener:
        yield listener, ranks.gather(Address(*listener.getsockname()), Address)


def connect_joined(joined: AllRanks, key: Callable[[], bytes]) -> TcpGroup:
    """Connect all ranks of a job, which Horovod has joined, also by TCP. Raises PeerLost if they do not all connect.

    key: returns the secret of the job.
    """
    with listeners(joined) as (listener, addresses):
        try:
            return connect_to_first(joined.rank, joined.size, listener, addresses[0], key())
        except OSError as error:
            raise PeerLost(
                f"rank {joined.rank}: the ranks that Horovod joined did not connect by TCP: {error}"
            ) from error


def connect_on_machine(folder: Path, rank: int, size: int) -> TcpGroup:
    """Connect all ranks of a launch, which are on this machine.

    folder: of the run, into which rank 0 writes its port.
    Raises ConfigError if some do not come, PeerLost if rank 0 is gone again.
    """
    path, key = protocol.rendezvous_path(folder), Secret(protocol.secret_folder(folder)).key()
    if rank:
        port = int(rendezvous.wait_for_file(path, "see its log"))
        try:
            return group_from_connections(rank, size, [(0, connections.connect(Address(_LOOPBACK, port), key, rank))])
        except OSError as error:
            raise PeerLost(f"{path}: rank 0 does not answer: {error}") from error
    with connections.listen(_LOOPBACK) as listener:
        rendezvous.write_file(path, str(listener.getsockname()[1]))
        try:
            return group_from_connections(0, size, connections.accept(listener, key, size - 1, IMPORT_WITHIN_S))
        except TimeoutError as error:
            raise ConfigError(f"{path}: of the other ranks {error}: see their logs") from error
