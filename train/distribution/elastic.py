"""Ranks whose number may change while they train: Horovod's elastic mode."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import horovod.tensorflow as hvd
from horovod.common import elastic as horovod_elastic

from train.config.schema import Distribution as Settings
from train.distribution.base import Result
from train.distribution.horovod import Horovod
from train.record import protocol
from train.transport import RankDropped
from train.transport.rendezvous import IMPORT_WITHIN_S

_TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
LOST_AFTER_S = 10  # a rank that does not answer for this long during an exchange is lost

State = horovod_elastic.ObjectState  # what is committed: it must be able to save, restore and sync itself
S = TypeVar("S")  # a State


class ElasticHorovod(Horovod):
    """Ranks that may become fewer or more."""

    def __init__(self, settings: Settings, ranks: int, folder: Path) -> None:
        """Join the other ranks. folder: of the run, in which the launcher notes that hosts have changed."""
        super().__init__(settings, ranks)
        self._folder = folder

    def join(self) -> None:
        """Join the other ranks with a long timeout, then once more with the short one that training needs.

        Horovod has one timeout for joining and for all exchanges after it, and reads it when it starts.
        """
        os.environ[_TIMEOUT] = str(IMPORT_WITHIN_S)
        super().join()
        hvd.shutdown()
        os.environ[_TIMEOUT] = str(LOST_AFTER_S)
        super().join()

    def rejoin(self) -> None:
        """Join the ranks that are there now. Raises RankDropped if they continue without this one."""
        hvd.shutdown()
        try:
            self.join()
        except ValueError as error:
            raise RankDropped(f"rank {self.rank} cannot join the others: {error}") from error
        self.rank, self.size, self.local_rank = hvd.rank(), hvd.size(), hvd.local_rank()

    def hosts_change(self) -> protocol.HostsChange:
        """Return the latest change of the hosts that the launcher has noted."""
        return protocol.read_message(protocol.hosts_change_path(self._folder), protocol.HostsChange)

    def from_first(self, value: Any, kind: Any) -> Any:
        """Return the value of rank 0, on every rank. kind: its type."""
        with self.exchanges():
            return self.gather(value, kind)[0]

    def run(self, train: Callable[[S], Result], state: S, rejoin: Callable[[], None]) -> Result:
        """Return the result of `train(state)`, which is called again whenever the ranks have changed.

        If a rank was lost, `state` returns to its last commit; if one came, it stays. Then `rejoin` is called, and
        `state` is synchronized with rank 0.
        """

        def watched(state: S) -> Result:
            with self.exchanges():
                return train(state)

        # Horovod tells a rank of new hosts by a service that unpickles what it is sent; anyone can read its key in the
        # launcher's store.
        horovod_elastic.notification_manager.init = lambda: None
        return horovod_elastic.run_fn(watched, rejoin)(state)
