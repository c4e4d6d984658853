"""Ranks that no Horovod joins: of a launch in rounds between windows, and the workers of a strategy of TensorFlow.

They meet over plain TCP. A rank that waits is blocked in the kernel and costs no CPU time; Horovod's ranks look for
work every cycle.
"""

from __future__ import annotations

import pickle
import secrets
import socket
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from train.config.checks import ConfigError
from train.distribution import link, word
from train.distribution.patience import Patience
from train.distribution.protocol import IMPORT_WITHIN_S, Everyone, PeerLost, Silent
from train.record import protocol

_LOOK_EVERY_S = 10.0  # whether to wait on
_NUMBER_WITHIN_S = 60.0  # of a connection: a rank says at once which one it is


class Meeting:
    """Ranks that are connected, as one of them sees them."""

    def __init__(self, rank: int, size: int, connections: Sequence[Connection]) -> None:
        """Say who this rank is, or learn who the others are.

        connections: on rank 0 those to all other ranks, in any order; on another rank that to rank 0.
        Raises PeerLost where one is gone, Silent where one does not say which rank it is.
        """
        self.rank, self.size = rank, size
        self.patience: Patience | None = None  # is asked whether to wait on; None: without a limit
        self._others = list(connections)  # on rank 0 in the order of ranks
        try:
            if rank:
                self._others[0].send(rank)
            else:
                came = [(_number(one), one) for one in self._others]
                self._others = [one for _, one in sorted(came, key=lambda pair: pair[0])]
        except (EOFError, OSError) as error:
            raise PeerLost(f"the ranks did not meet: {error or 'a rank is gone'}") from error

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, in the order of ranks, on every rank.

        Raises PeerLost where one is gone, Silent where `patience` ends.
        """
        try:
            if self.rank:
                self._others[0].send(value)
                return self._from(0)
            values = [value, *(self._from(rank) for rank in range(1, self.size))]
            packed = pickle.dumps(values)  # once, and not for each rank
            for one in self._others:
                one.send_bytes(packed)
            return values
        except (EOFError, OSError) as error:
            for one in self._others:  # so that all miss this one
                one.close()
            raise PeerLost(f"the meeting of the ranks failed: {error or 'a rank is gone'}") from error

    def _from(self, rank: int) -> Any:
        """The next value of a rank that this one is connected to."""
        connection, begun_at = self._others[max(0, rank - 1)], time.monotonic()
        while self.patience and not connection.poll(_LOOK_EVERY_S):
            self.patience(rank, time.monotonic() - begun_at)
        return connection.recv()

    def barrier(self) -> None:
        """Return when all ranks have called it. Raises as `gather`."""
        self.gather(None)


def for_objects(accepted: socket.socket) -> Connection:
    """A connection for whole objects, which waits without a limit: a rank that is gone closes it."""
    accepted.settimeout(None)
    return Connection(accepted.detach())


def _number(one: Connection) -> int:
    """Which rank is at the other end. Raises Silent where it does not say so, EOFError or OSError where it is gone."""
    if not one.poll(_NUMBER_WITHIN_S):
        raise Silent(f"a rank connected and did not say which one it is within {_NUMBER_WITHIN_S:.0f} s: see the logs")
    number: int = one.recv()
    return number


def beside(joined: Everyone) -> Meeting:
    """All ranks of a job, which have met already. Raises PeerLost where they do not meet here too."""
    with socket.create_server(("", 0), backlog=joined.size) as listener:
        place = (link.addresses(), listener.getsockname()[1], secrets.token_bytes(16))
        addresses, port, token = joined.gather(place)[0]
        try:
            if joined.rank:
                came = [link.connect(addresses, port, token)]
            else:
                came = [link.accept(listener, token) for _ in range(joined.size - 1)]
        except OSError as error:
            raise PeerLost(f"rank {joined.rank}: the ranks that Horovod joined did not meet by TCP: {error}") from error
    return Meeting(joined.rank, joined.size, [for_objects(one) for one in came])


def on_this_machine(folder: Path, rank: int, size: int) -> Meeting:
    """All ranks of a launch, once they have come. Raises ConfigError where they do not.

    folder: of the run, where rank 0 leaves word of its port, and of what those that connect must know.
    """
    path = protocol.meeting_path(folder)
    return Meeting(rank, size, [_attend(path)] if rank else _invite(path, size))


def _invite(path: Path, size: int) -> list[Connection]:
    """The connections to the other ranks. Raises ConfigError where one does not come."""
    token, came = secrets.token_hex(16), []
    with socket.create_server(("127.0.0.1", 0), backlog=size) as listener:
        word.leave(path, f"{listener.getsockname()[1]} {token}")
        try:
            for _ in range(size - 1):
                came.append(for_objects(link.accept(listener, token.encode(), IMPORT_WITHIN_S)))
        except TimeoutError as error:
            late = f"{size - 1 - len(came)} of {size} ranks did not come within {IMPORT_WITHIN_S} s"
            raise ConfigError(f"{path}: {late}: see their logs") from error
    return came


def _attend(path: Path) -> Connection:
    """The connection to rank 0. Raises ConfigError where it does not come, PeerLost where it is gone again."""
    port, token = word.wait(path, "see its log").split()
    try:
        return for_objects(link.connect(["127.0.0.1"], int(port), token.encode()))
    except OSError as error:
        raise PeerLost(f"{path}: rank 0 does not answer: {error}") from error
