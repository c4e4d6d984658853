"""Ranks joined by TensorFlow's own strategies: MultiWorkerMirroredStrategy and CentralStorageStrategy.

Also the parts that they share with parameter servers (parameter_servers.py): the server's port, and the values that a
strategy does not exchange.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import numpy as np
import tensorflow as tf

from train.config.checks import ConfigError
from train.config.distribution_config import DistributionConfig as Settings
from train.distribution import Distribution, Function, Result, Single, exchange_flat
from train.distribution.cluster import WORKER, Cluster, Report, time_limited, while_servers_answer
from train.rank import placement
from train.transport import PeerLost, RankUnresponsive

_SUM, _MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
# The errors of a collective whose peer is gone; each of them also has other causes.
_LOST_PEER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.FailedPreconditionError,
)
_VARIABLES_ON = "/CPU:0"


class StrategyRanks(Distribution):
    """Ranks of a strategy: they gather values and wait for each other over the connections of their cluster."""

    _strategy: tf.distribute.Strategy | None = None  # of this rank, if it makes variables

    def __init__(self, cluster: Cluster) -> None:
        """Take the ranks of this cluster."""
        self._group, self._peers = cluster.group, cluster.peers
        self._peer = cluster.peers[cluster.group.rank]
        self.rank, self.size, self.local_rank = cluster.group.rank, cluster.group.size, placement.local_rank()

    def scope(self) -> AbstractContextManager[None]:
        """Return the scope of the strategy, which makes its own types of variables."""
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
        return np.sum([np.frombuffer(content, values.dtype).reshape(values.shape) for content in received], axis=0)

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
    except tf.errors.UnknownError as error:  # raised if the server did not start
        rank = cluster.group.rank
        peer = cluster.peers[rank]
        raise ConfigError(
            f"rank {rank} ({peer.host}): TensorFlow's server cannot have port {peer.ports[task]}: {error.message}"
        ) from error


class MultiWorker(StrategyRanks):
    """Ranks joined by MultiWorkerMirroredStrategy, one worker with one replica each.

    Gradients, broadcasts and means are its collectives: a ring over gRPC on CPUs, NCCL on GPUs. All else goes over the
    connections of the cluster (train/distribution/cluster.py).
    """

    _strategy: tf.distribute.Strategy

    def __init__(self, settings: Settings, cluster: Cluster, report: Report) -> None:
        """Make the strategy, before any operation of TensorFlow. Raises ConfigError if its port is taken."""
        super().__init__(cluster)
        self._settings = settings
        self.barrier()
        self._strategy = _strategy(cluster, report)
        self._group.on_wait = while_servers_answer(self._peers)
        self._sum = self.compiled(_sum)

    def local(self, variables: Sequence[tf.Variable]) -> list[tf.Variable]:
        """Return this worker's copy of each of the strategy's variables."""
        return [self._strategy.experimental_local_results(variable)[0] for variable in variables]

    def exchange(self, gradients: list[tf.Tensor], variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
        """Return the mean gradients of all ranks, in a compiled function; in a control those of this rank."""
        if not self._settings.allreduce:
            return gradients
        if self._settings.gradients == "flat":
            return exchange_flat(_mean, gradients, variables)
        return _means(gradients, variables)

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to the values of rank 0."""
        self._set(variables, lambda value: value if self.rank == 0 else tf.zeros_like(value))

    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to their mean over ranks."""
        self._set(variables, lambda value: value / self.size)

    def _set(self, variables: Sequence[tf.Variable], share: Callable[[tf.Tensor], tf.Tensor]) -> None:
        """Set the variables to the sums of all ranks' shares: one exchange for each type."""
        local = self.local(variables)
        for dtype in dict.fromkeys(variable.dtype for variable in local):
            same_type = [variable for variable in local if variable.dtype == dtype]
            sums = exchange_flat(self._sum, [share(variable.value()) for variable in same_type], same_type)
            for variable, value in zip(same_type, sums, strict=True):
                variable.assign(value)

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Return the element-wise sum over ranks, on every rank and on the tensor's device."""
        return self._sum(tensor)

    @contextmanager
    def exchanges(self) -> Iterator[None]:
        """Return a context in which a failed exchange of this rank raises PeerLost; RankUnresponsive if another hangs.

        TensorFlow has no special error for it. The errors that a lost peer causes name the collective operation, or say
        that the peer is not there.
        """
        try:
            yield
        except _LOST_PEER_ERRORS as error:
            message = str(error.message)
            if not isinstance(error, tf.errors.UnavailableError) and "ollective" not in message:
                raise
            # The coordination service, whose messages name no task, runs on the first worker.
            workers = {int(number) for number in re.findall(r"/task:(\d+)", message)}
            named = workers or ({0} if "CoordinationService" in message else set())
            lost = ", ".join(f"rank {rank} ({self._peers[rank].host})" for rank in sorted(named - {self.rank}))
            if lost and "eartbeat" in message:  # the rank exists but hangs: it is the cause, not a consequence
                why = re.sub(r"\s+", " ", message[message.find("Collective ops") :].partition("The error could be")[0])
                raise RankUnresponsive(f"{lost} does not answer: {why.strip()}") from error
            raise PeerLost(f"an exchange with {lost or 'the other ranks'} failed: {message}") from error


def _sum(tensor: tf.Tensor) -> tf.Tensor:
    """Return the sum over ranks, within a replica."""
    placed = tf.identity(tensor)  # on the device of the replica: an argument of a function is on none
    return tf.distribute.get_replica_context().all_reduce(_SUM, placed)


def _mean(tensor: tf.Tensor) -> tf.Tensor:
    """Return the mean over ranks, within a replica."""
    return tf.distribute.get_replica_context().all_reduce(_MEAN, tensor)


def _means(gradients: list[tf.Tensor], variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """Return the mean of each gradient over ranks, within a replica: all in one call, as tf_keras' optimizers do."""

    def reduce(strategy: tf.distribute.Strategy, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        return strategy.extended.batch_reduce_to(_MEAN, list(zip(tensors, variables, strict=True)))

    return tf.distribute.get_replica_context().merge_call(reduce, (gradients,))


def _strategy(cluster: Cluster, report: Report) -> tf.distribute.Strategy:
    """Return the strategy of this worker, once all workers run. Raises ConfigError if its port is taken meanwhile."""
    kinds = tf.distribute.experimental.CommunicationImplementation
    implementation = kinds.NCCL if tf.config.get_visible_devices("GPU") else kinds.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    with taking_port(cluster, WORKER), time_limited(cluster, report):
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


class CentralStorage(Single):
    """The only process of a job, which computes for all ranks, each on its own device (a tower).

    In each step every tower computes the gradients of its share of the batch; the CPU, where the variables are,
    averages them and applies the mean once. That is synchronous SGD. On GPUs a tower is a GPU, on CPUs a logical
    device: their operations share the threads, and so the cores, of the process.
    """

    def __init__(self, towers: int) -> None:
        """Take this many devices. Raises ConfigError if there are other processes."""
        if (processes := placement.size()) != 1:
            raise ConfigError(
                f"distribution.backend=ps_cpu: this is one of {processes} processes. One alone computes for all "
                f"{towers} ranks: start it without horovodrun and mpirun, or with srun --ntasks=1"
            )
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        names = [device.name for device in devices[:towers]]
        self._strategy = tf.distribute.experimental.CentralStorageStrategy(names, _VARIABLES_ON)

    def scope(self) -> AbstractContextManager[None]:
        """Return the scope of the strategy, whose variables are on the CPU."""
        return self._strategy.scope()

    def compiled(self, function: Function) -> Function:
        """Return the compiled function; operations that belong to no tower run where the variables are."""

        def on_the_cpu(*arguments: tf.Tensor) -> Any:
            with tf.device(_VARIABLES_ON):
                return function(*arguments)

        return super().compiled(cast(Function, on_the_cpu))

    def on_devices(self, function: Callable[..., Result], *batch: tf.Tensor) -> list[Result]:
        """Return the function's results for equal parts of a batch, each computed on its tower."""
        towers = range(self._strategy.num_replicas_in_sync)
        parts = [tf.split(tensor, len(towers)) for tensor in batch]
        results = self._strategy.run(function, [self._one_per_tower(tensors) for tensors in parts])

        def tower_result(tower: int) -> Any:
            return tf.nest.map_structure(lambda value: self._strategy.experimental_local_results(value)[tower], results)

        return [tower_result(tower) for tower in towers]

    def _one_per_tower(self, values: list[tf.Tensor]) -> Any:
        """Return the values as the strategy takes them, one for each tower."""
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: values[context.replica_id_in_sync_group]
        )
