"""Ranks that no Horovod joins: the worlds of a launch between windows, and the workers of a strategy of TensorFlow.

They meet over plain TCP. A rank that waits is blocked in the kernel and costs no CPU time; Horovod's ranks look for
work every cycle.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from train.config.checks import ConfigError
from train.distribution.patience import Patience
from train.distribution.protocol import IMPORT_WITHIN_S, PeerLost
from train.record import protocol

_POLL_S = 0.05
_LOOK_EVERY_S = 10.0  # whether to wait on


class Meeting:
    """Ranks that are connected, as one of them sees them."""

    def __init__(self, rank: int, size: int, connections: Sequence[Connection]) -> None:
        """Say who this rank is, or learn who the others are.

        connections: on rank 0 those to all other ranks, in any order; on another rank that to rank 0.
        """
        self.rank, self.size = rank, size
        self.patience: Patience | None = None  # is asked whether to wait on; None: without a limit
        self._others = list(connections)  # on rank 0 in the order of ranks
        if rank:
            self._others[0].send(rank)
        else:
            came = [(one.recv(), one) for one in self._others]
            self._others = [one for _, one in sorted(came, key=lambda pair: pair[0])]

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


def on_this_machine(folder: Path, rank: int, size: int) -> Meeting:
    """All ranks of a launch, once they have come. Raises ConfigError where they do not.

    folder: of the run, where rank 0 leaves word of its port.
    """
    path = protocol.meeting_path(folder)
    return Meeting(rank, size, [_attend(path)] if rank else _invite(path, size))


def _invite(path: Path, size: int) -> list[Connection]:
    """The connections to the other ranks."""
    with Listener(("127.0.0.1", 0), backlog=size) as listener:
        writing = path.with_suffix(".writing")
        writing.write_text(str(listener.address[1]))
        writing.rename(path)
        return [listener.accept() for _ in range(size - 1)]


def _attend(path: Path) -> Connection:
    """The connection to rank 0."""
    end = time.monotonic() + IMPORT_WITHIN_S
    while not path.exists():
        if time.monotonic() > end:
            raise ConfigError(f"{path}: rank 0 did not write this within {IMPORT_WITHIN_S} s: see its log")
        time.sleep(_POLL_S)
    return Client(("127.0.0.1", int(path.read_text())))
