"""Ranks joined by TensorFlow's own MultiWorkerMirroredStrategy, one worker with one replica each.

Gradients, broadcasts and means are its collectives: a ring over gRPC on CPUs, NCCL on GPUs. All else goes over the
connections of the cluster (train/distribution/cluster.py).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import tensorflow as tf

from train.config.schema import Distribution as Settings
from train.distribution.base import ExchangingTape, flat_exchange
from train.distribution.cluster import WORKER, Cluster, Peer, while_servers_answer
from train.distribution.strategy import Report, StrategyRanks, taking_port, time_limited
from train.transport import PeerLost, RankUnresponsive

_SUM, _MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
# What a collective raises whose peer is gone; each of them also has other causes.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.FailedPreconditionError,
)


@contextmanager
def exchanges(rank: int, peers: Sequence[Peer]) -> Iterator[None]:
    """Return a context in which a failed exchange of this rank raises PeerLost; RankUnresponsive if another rank hangs.

    TensorFlow has no special error for it: those that a lost peer causes name the collective operation, or say that
    the peer is not there.
    """
    try:
        yield
    except _LOST as error:
        message = str(error.message)
        if not isinstance(error, tf.errors.UnavailableError) and "ollective" not in message:
            raise
        lost = [f"rank {number} ({peers[number].host})" for number in named_workers(message) if number != rank]
        if lost and "eartbeat" in message:  # it is there, and does nothing: the cause, and no consequence
            why = re.sub(r"\s+", " ", message[message.find("Collective ops") :].partition("The error could be")[0])
            raise RankUnresponsive(f"{', '.join(lost)} does not answer: {why.strip()}") from error
        raise PeerLost(f"an exchange with {', '.join(lost) or 'the other ranks'} failed: {message}") from error


def named_workers(message: str) -> list[int]:
    """Return the workers that a message of TensorFlow is about. The first of them watches over all."""
    workers = {int(number) for number in re.findall(r"/task:(\d+)", message)}
    return sorted(workers or ({0} if "CoordinationService" in message else set()))


class MultiWorker(StrategyRanks):
    """Ranks joined by a strategy of TensorFlow."""

    _strategy: tf.distribute.Strategy

    def __init__(self, settings: Settings, cluster: Cluster, report: Report) -> None:
        """Make the strategy: it must come before any operation of TensorFlow.

        report: takes why this process was ended, if another rank hangs meanwhile.
        Raises ConfigError if its port is taken.
        """
        super().__init__(cluster)
        self._settings = settings
        self.barrier()
        self._strategy = _strategy(cluster, report)
        self._group.on_wait = while_servers_answer(self._peers)
        self._sum = self.compiled(_sum)

    def local(self, variables: Sequence[tf.Variable]) -> list[tf.Variable]:
        """Return the one variable that this worker has of each of the strategy's."""
        return [self._strategy.experimental_local_results(variable)[0] for variable in variables]

    def tape(self, tape: tf.GradientTape) -> tf.GradientTape:
        """Return a tape that averages the gradients of all ranks, for use in a compiled function."""
        if not self._settings.allreduce:
            return tape
        return ExchangingTape(tape, flat_exchange(_mean) if self._settings.gradients == "flat" else _means)

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to the values of rank 0."""
        self._set(variables, lambda value: value if self.rank == 0 else tf.zeros_like(value))

    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to their mean over ranks."""
        self._set(variables, lambda value: value / self.size)

    def _set(self, variables: Sequence[tf.Variable], share: Callable[[tf.Tensor], tf.Tensor]) -> None:
        """Set the variables to the sums over ranks of what each contributes: one exchange for each type."""
        own = self.local(variables)
        for dtype in dict.fromkeys(variable.dtype for variable in own):
            same_type = [variable for variable in own if variable.dtype == dtype]
            add = flat_exchange(lambda flat: self.allreduce(flat, "variables"))
            sums = add([share(variable.value()) for variable in same_type], same_type)
            for variable, value in zip(same_type, sums, strict=True):
                variable.assign(value)

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Return the element-wise sum over ranks, on every rank and on the tensor's device."""
        return self._sum(tensor)

    def exchanges(self) -> AbstractContextManager[None]:
        """Return a context in which a failed exchange raises PeerLost."""
        return exchanges(self.rank, self._peers)


def _sum(tensor: tf.Tensor) -> tf.Tensor:
    """Return the sum over ranks, within a replica."""
    placed = tf.identity(tensor)  # on the device of the replica: an argument of a function is on none
    return tf.distribute.get_replica_context().all_reduce(_SUM, placed)


def _mean(tensor: tf.Tensor) -> tf.Tensor:
    """Return the mean over ranks, within a replica."""
    return tf.distribute.get_replica_context().all_reduce(_MEAN, tensor)


def _means(gradients: list[tf.Tensor], variables: list[tf.Variable]) -> list[tf.Tensor]:
    """Return the mean of each gradient over ranks, within a replica: all in one call, as tf_keras' optimizers do."""

    def reduce(strategy: tf.distribute.Strategy, own: list[tf.Tensor]) -> list[tf.Tensor]:
        return strategy.extended.batch_reduce_to(_MEAN, list(zip(own, variables, strict=True)))

    return tf.distribute.get_replica_context().merge_call(reduce, (gradients,))


def _strategy(cluster: Cluster, report: Report) -> tf.distribute.Strategy:
    """Return the strategy of this worker, with all others there. Raises ConfigError if its port is taken meanwhile."""
    kinds = tf.distribute.experimental.CommunicationImplementation
    implementation = kinds.NCCL if tf.config.get_visible_devices("GPU") else kinds.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    with taking_port(cluster, WORKER), time_limited(cluster, report):
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
