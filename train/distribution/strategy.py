"""What the ranks of TensorFlow's strategies have in common: how a strategy is made, and what it does not exchange."""

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from train.config.checks import ConfigError
from train.distribution import cluster as clusters
from train.distribution.base import Distribution, Function
from train.distribution.cluster import Cluster
from train.rank import placement
from train.transport import RankUnresponsive

READY_WITHIN_S = 300  # a strategy, once all have imported TensorFlow: then it takes a second, more on busy cores

Report = Callable[[str], None]  # takes why this process was ended, if it cannot say so itself


class StrategyRanks(Distribution):
    """Ranks of a strategy: they gather values and wait for each other over the connections of their cluster."""

    _strategy: tf.distribute.Strategy | None = None  # of this rank, if it makes variables

    def __init__(self, cluster: Cluster) -> None:
        """Take the ranks of this cluster."""
        self._group, self._peers = cluster.group, cluster.peers
        self._own = cluster.peers[cluster.group.rank]
        self.rank, self.size, self.local_rank = cluster.group.rank, cluster.group.size, placement.local_rank()

    def scope(self) -> AbstractContextManager[None]:
        """Return the scope of the strategy, which makes its own kinds of variables."""
        return self._strategy.scope() if self._strategy else nullcontext()

    def compiled(self, function: Function) -> Function:
        """Return the compiled function, as a replica of the strategy runs it."""

        def on_replica(*arguments: tf.Tensor) -> Any:
            assert self._strategy
            return self._strategy.run(function, arguments)

        return tf.function(on_replica, autograph=False)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the element-wise sum over ranks, on every rank."""
        received = self.gather(values.tobytes(), bytes)
        return np.sum([np.frombuffer(one, values.dtype).reshape(values.shape) for one in received], axis=0)

    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank. kind: their type."""
        return self._group.gather(value, kind)

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self._group.barrier()

    def leave(self) -> None:
        """Wait until no rank needs another one: a rank that ends breaks what others exchange with it."""
        self._group.barrier()


@contextmanager
def taking_port(cluster: Cluster, task: str) -> Iterator[None]:
    """Return a context in which TensorFlow starts its server for a task of this rank.

    Raises ConfigError if the port was taken since the ranks connected.
    """
    try:
        yield
    except tf.errors.UnknownError as error:  # so it says that its server did not start
        rank = cluster.group.rank
        own = cluster.peers[rank]
        raise ConfigError(
            f"rank {rank} ({own.host}): TensorFlow's server cannot have port {own.ports[task]}: {error.message}"
        ) from error


@contextmanager
def time_limited(cluster: Cluster, report: Report) -> Iterator[None]:
    """Return a context for making a strategy, which ends this process after a limit.

    TensorFlow waits for the other tasks without a limit, within a call that lets no Python run. So a child of this
    process watches: it reports, as this process would have, and kills it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        _watch(reading, cluster, report)
    os.close(reading)
    try:
        yield
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def _watch(reading: int, cluster: Cluster, report: Report) -> NoReturn:
    """End the parent of this process, unless the other end of the pipe closes within the limit."""
    try:
        if not select.select([reading], [], [], READY_WITHIN_S)[0]:
            parent, why = os.getppid(), "all others answer"
            try:
                clusters.check_servers(cluster.peers, {*range(len(cluster.peers))} - {cluster.group.rank})
            except RankUnresponsive as error:
                why = str(error)
            report(f"TensorFlow did not make its strategy within {READY_WITHIN_S} s: {why}")
            os.kill(parent, signal.SIGKILL)
    finally:
        os._exit(0)
