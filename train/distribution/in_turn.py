"""Ranks that Horovod joins anew for each group: those that wait take part in nothing.

Horovod negotiates in every cycle among all ranks that it has joined, whether or not they exchange. On a whole core that
is lost in the noise. Of a node that has a fifth of a core it takes up to a tenth, most where one node works and seven
wait. A rank that is not joined waits in a `TcpGroup`, which costs nothing.
"""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import horovod.tensorflow as hvd

from train.config.schema import Distribution as Settings
from train.distribution.horovod import Horovod
from train.distribution.protocol import Distribution
from train.distribution.single import Single
from train.rank import rendezvous_server
from train.transport import channel
from train.transport.channel import Address


class HorovodInTurn(Horovod):
    """Ranks of one machine, which Horovod joins all together, or one group at a time."""

    def __init__(self, settings: Settings, ranks: int) -> None:
        """Meet the other ranks. Raises ConfigError where there are not `ranks` of them."""
        super().__init__(settings, ranks)
        # The launcher's own server forgets the addresses of a meeting only where all ranks came to it.
        self._server: subprocess.Popen[str] | None  # serves as long as this process has its standard input
        host = channel.bind_host([])
        self._server, port = rendezvous_server.start(self.size, host) if self.rank == 0 else (None, 0)
        address = self.gather(Address(host, port), Address)[0]
        os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = address.host
        os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"] = str(address.port)
        # Horovod 0.28.1 keeps its cycle time from one meeting to the next; it must not be told a second time.
        os.environ.pop("HOROVOD_CYCLE_TIME", None)

    def group(self, ranks: int, allreduce: bool) -> Distribution:
        """The first `ranks` ranks, within `joined`; rank 0 alone needs no Horovod."""
        if ranks == 1:
            return Single()
        made = copy.copy(self)
        made.size, made._settings = ranks, replace(self._settings, allreduce=allreduce)
        return made

    @contextmanager
    def joined(self) -> Iterator[None]:
        """A context in which Horovod joins these ranks and no others. Only for use within `apart`."""
        self._join()
        try:
            yield
        finally:
            hvd.shutdown()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """A context in which Horovod joins no ranks but those of a group in its `joined`; at its end it joins all."""
        hvd.shutdown()
        yield
        self._join()

    def _join(self) -> None:
        os.environ["HOROVOD_SIZE"] = os.environ["HOROVOD_LOCAL_SIZE"] = str(self.size)
        with self.exchanges():
            hvd.init()
