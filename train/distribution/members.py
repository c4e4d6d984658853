"""Ranks that a strategy of TensorFlow joins, as one of them sees the others: by the connections on which they met."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from train.config.checks import ConfigError
from train.distribution.cluster import Cluster
from train.distribution.plain import OneDevice
from train.rank import placement


@contextmanager
def taking_port(cluster: Cluster, task: str) -> Iterator[None]:
    """A context in which TensorFlow starts its server for a task of this rank.

    Raises ConfigError where the port was taken since the ranks met.
    """
    try:
        yield
    except tf.errors.UnknownError as error:  # so it says that its server did not start
        rank = cluster.group.rank
        own = cluster.peers[rank]
        raise ConfigError(
            f"rank {rank} ({own.host}): TensorFlow's server cannot have port {own.ports[task]}: {error.message}"
        ) from error


class Members(OneDevice):
    """What of `protocol.Distribution` exchanges nothing by a strategy."""

    def __init__(self, cluster: Cluster) -> None:
        """The ranks of this cluster."""
        self._group, self._peers = cluster.group, cluster.peers
        self._own = cluster.peers[cluster.group.rank]
        self.rank, self.size, self.local_rank = cluster.group.rank, cluster.group.size, placement.local_rank()

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The element-wise sum over ranks, on every rank."""
        received = self.gather(values.tobytes(), bytes)
        return np.sum([np.frombuffer(one, values.dtype).reshape(values.shape) for one in received], axis=0)

    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank. kind: their type."""
        return self._group.gather(value, kind)

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self._group.barrier()

    def leave(self) -> None:
        """Wait until no rank needs another one: one that ends takes with it what others exchange with it."""
        self._group.barrier()
