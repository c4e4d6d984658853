"""The ranks of all worlds of a launch: they are not joined by Horovod, and meet over plain TCP between windows.

A rank that waits here is blocked in the kernel and costs no CPU time; Horovod's ranks look for work every cycle.
"""

from __future__ import annotations

import time
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from train.config.checks import ConfigError
from train.distribution.protocol import PeerLost
from train.record import protocol

_WAIT_S = 300.0  # as long as Horovod's ranks wait for each other: importing TensorFlow takes minutes on shared cores
_POLL_S = 0.05


class Meeting:
    """All ranks of a launch on one machine, as one of them sees them."""

    def __init__(self, folder: Path, rank: int, size: int) -> None:
        """Meet the others. Raises ConfigError where they do not come.

        folder: of the run, where rank 0 leaves word of its port.
        """
        self.rank, self.size = rank, size
        self._others: list[Connection] = []  # on rank 0 those of the other ranks, in their order; else that of rank 0
        if rank == 0:
            self._invite(protocol.meeting_path(folder))
        else:
            self._others.append(_attend(protocol.meeting_path(folder)))
            self._others[0].send(rank)

    def _invite(self, path: Path) -> None:
        with Listener(("127.0.0.1", 0), backlog=self.size) as listener:
            writing = path.with_suffix(".writing")
            writing.write_text(str(listener.address[1]))
            writing.rename(path)
            came = [listener.accept() for _ in range(self.size - 1)]
        self._others = [one for _, one in sorted(((one.recv(), one) for one in came), key=lambda pair: pair[0])]

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, in the order of ranks, on every rank. Raises PeerLost where one is gone."""
        try:
            if self.rank:
                self._others[0].send(value)
                return self._others[0].recv()
            values = [value, *(one.recv() for one in self._others)]
            for one in self._others:
                one.send(values)
            return values
        except (EOFError, OSError) as error:
            for one in self._others:  # so that all miss this one
                one.close()
            raise PeerLost(f"the meeting of all worlds failed: {error or 'a rank is gone'}") from error

    def barrier(self) -> None:
        """Return when all ranks have called it. Raises PeerLost where one is gone."""
        self.gather(None)


def _attend(path: Path) -> Connection:
    """The connection to rank 0."""
    end = time.monotonic() + _WAIT_S
    while not path.exists():
        if time.monotonic() > end:
            raise ConfigError(f"{path}: rank 0 did not write this within {_WAIT_S:.0f} s: see its log")
        time.sleep(_POLL_S)
    return Client(("127.0.0.1", int(path.read_text())))
