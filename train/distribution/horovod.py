"""Ranks joined by Horovod.

Import it after `train.distribution.prepare`: Horovod reads its settings when it loads.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from horovod.common.exceptions import HorovodInternalError

from train.config.checks import ConfigError
from train.config.distribution_config import DistributionConfig as Settings
from train.distribution import Distribution, Single, exchange_flat
from train.transport import PeerLost, connections, rendezvous

_COMPRESSIONS = {"none": hvd.Compression.none, "fp16": hvd.Compression.fp16}
_OPERATIONS = {"average": hvd.Average, "adasum": hvd.Adasum}


def _peer_lost(reason: object) -> PeerLost:
    return PeerLost(f"an exchange with the other ranks failed: {reason}")


@contextmanager
def exchanges() -> Iterator[None]:
    """Return a context in which a failed exchange raises PeerLost.

    TensorFlow raises UnknownError or AbortedError for it, as for much else. Only the message shows that Horovod failed:
    it names the operation, by its type, or within a compiled step by its name. Both contain "Horovod". An exchange that
    fails because the ranks disagree on a shape or a type raises FailedPreconditionError, and no peer is lost.
    """
    try:
        yield
    except PeerLost:
        raise
    except HorovodInternalError as error:
        raise _peer_lost(error) from error
    except (tf.errors.UnknownError, tf.errors.AbortedError) as error:
        if "Horovod" not in str(error.message):
            raise
        raise _peer_lost(error.message) from error


class _ComputedTape(tf.GradientTape):
    """A tape that computes nothing: its target are gradients, which Horovod's tape, a subclass of it, exchanges."""

    def gradient(
        self, target: list[tf.Tensor], sources: Sequence[tf.Variable], output_gradients: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        return target


class HorovodGroup(Distribution):
    """Ranks that exchange within one process set of Horovod."""

    def __init__(self, settings: Settings, size: int, process_set: hvd.ProcessSet) -> None:
        """Take the first `size` ranks of the job, which Horovod has joined, and their process set."""
        self._settings, self._process_set = settings, process_set
        self.rank, self.size, self.local_rank = hvd.rank(), size, hvd.local_rank()

    def exchange(self, gradients: list[tf.Tensor], variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
        """Return the joined gradients of all ranks; those of this rank in a control without allreduce."""
        if not self._settings.allreduce or self.size == 1:
            return gradients
        compression = _COMPRESSIONS[self._settings.compression]
        if self._settings.gradients == "flat":
            # `exchanges` recognises a failed exchange by this name. The ranks match the tensor by it, without the name
            # scope, which differs between the graphs of ranks.
            allreduce = partial(
                hvd.allreduce,
                name="HorovodAllreduce_gradients",
                op=hvd.Average,
                compression=compression,
                process_set=self._process_set,
                ignore_name_scope=True,
            )
            return exchange_flat(allreduce, gradients, variables)
        groups = 1 if self._settings.gradients == "grouped" else None
        op = _OPERATIONS[self._settings.op]
        tape = hvd.DistributedGradientTape(
            _ComputedTape(), groups=groups, process_set=self._process_set, compression=compression, op=op
        )
        return tape.gradient(gradients, variables)

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to the values of rank 0."""
        # In place it is one operation for all, but it tells variables apart by name, and nested models repeat names.
        remaining = list(variables)
        while remaining:
            by_name = {variable.name: variable for variable in reversed(remaining)}
            hvd.broadcast_variables(list(by_name.values()), root_rank=0, inplace=True, process_set=self._process_set)
            remaining = [variable for variable in remaining if by_name[variable.name] is not variable]

    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to their mean over ranks."""
        if variables:
            values = [variable.value() for variable in variables]
            means = hvd.grouped_allreduce(values, op=hvd.Average, process_set=self._process_set)
            for variable, mean in zip(variables, means, strict=True):
                variable.assign(mean)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the element-wise sum over ranks, on every rank."""
        return hvd.allreduce(tf.constant(values), op=hvd.Sum, process_set=self._process_set).numpy()

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Return the element-wise sum over ranks, on every rank and the tensor's device; `name` is the same on all."""
        return hvd.allreduce(tensor, op=hvd.Sum, name=name, process_set=self._process_set)

    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank. kind: their type.

        Horovod's own allgather_object would unpickle data from the network.
        """
        content = np.frombuffer(connections.encode(value), np.uint8)
        sizes = hvd.allgather(tf.constant([len(content)]), name="gather.sizes", process_set=self._process_set).numpy()
        joined = hvd.allgather(tf.constant(content), name="gather.values", process_set=self._process_set).numpy()
        received = np.split(joined, np.cumsum(sizes)[:-1])
        return [connections.decode(message.tobytes(), kind, f"rank {rank}") for rank, message in enumerate(received)]

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        hvd.allreduce(tf.zeros(1), op=hvd.Sum, name="barrier", process_set=self._process_set).numpy()

    def exchanges(self) -> AbstractContextManager[None]:
        """Return a context in which a failed exchange raises PeerLost."""
        return exchanges()


def size_advice(size: int) -> str:
    """Return what to do if Horovod has joined another number of ranks than the configuration has."""
    if size > 1:
        return "Start as many processes as nodes x ranks_per_node, or change those"
    if not hvd.mpi_built() and not {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}.isdisjoint(os.environ):
        return (
            "MPI started these processes, and this Horovod was compiled without MPI: install mpicc (Debian: "
            "libopenmpi-dev), then make clean-env and the same command again; or take distribution.controller=gloo"
        )
    return (
        "Each process started alone: start them with horovodrun or mpirun, or with srun and the --mpi that the MPI "
        "library was built for (srun --mpi=list), and without --cleanenv in a container"
    )


class Horovod(HorovodGroup):
    """All ranks of a job."""

    def __init__(self, settings: Settings, ranks: int, groups: Sequence[int] = ()) -> None:
        """Join the other ranks. Raises ConfigError if there are not `ranks` of them.

        groups: the sizes of groups to prepare, neither 1 nor all.
        """
        self._process_sets = {size: hvd.ProcessSet(list(range(size))) for size in groups}
        self.join()
        super().__init__(settings, hvd.size(), hvd.global_process_set)
        if self.size != ranks:
            raise ConfigError(
                f"nodes x ranks_per_node={ranks}: Horovod's size is {self.size}. {size_advice(self.size)}"
            )

    def join(self) -> None:
        """Wait for all ranks."""
        hvd.init(process_sets=list(self._process_sets.values()))

    def group(self, ranks: int, allreduce: bool) -> Distribution:
        """Return the first `ranks` ranks: those of a group that was prepared, rank 0 alone, or all."""
        if ranks == 1:
            return Single()
        process_set = self._process_sets.get(ranks, hvd.global_process_set)
        return HorovodGroup(replace(self._settings, allreduce=allreduce), ranks, process_set)

    def leave(self) -> None:
        """Shut down cleanly."""
        hvd.shutdown()


def _rejoin(size: int) -> None:
    """Join the first `size` ranks of the machine, and no others."""
    os.environ["HOROVOD_SIZE"] = os.environ["HOROVOD_LOCAL_SIZE"] = str(size)
    with exchanges():
        hvd.init()


class _RejoinedGroup(HorovodGroup):
    """Ranks that Horovod joins only within `joined`."""

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Return a context in which Horovod joins these ranks and no others. Only for use within `apart`."""
        _rejoin(self.size)
        try:
            yield
        finally:
            hvd.shutdown()


class RejoiningHorovod(Horovod):
    """Ranks of one machine, which Horovod joins all together, or one group at a time.

    Horovod negotiates in every cycle among all ranks that it has joined, whether or not they exchange. On a whole core
    the cost is within the noise. On a node with a fifth of a core it is up to a tenth of the node's time, most if one
    node works and seven wait. A rank that is not joined waits in a `TcpGroup`, which costs nothing.
    """

    def __init__(self, settings: Settings, ranks: int) -> None:
        """Join the other ranks. Raises ConfigError if there are not `ranks` of them."""
        super().__init__(settings, ranks)
        # The launcher's own server forgets addresses only after all ranks have come.
        self._server: subprocess.Popen[str] | None  # serves while this process holds its standard input open
        host = connections.bind_host([])
        self._server, port = rendezvous.start_server(self.size, host) if self.rank == 0 else (None, 0)
        address = self.gather(connections.Address(host, port), connections.Address)[0]
        os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = address.host
        os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"] = str(address.port)
        # Horovod 0.28.1 keeps its cycle time when it joins ranks again; it must not be given a second time.
        os.environ.pop("HOROVOD_CYCLE_TIME", None)

    def group(self, ranks: int, allreduce: bool) -> Distribution:
        """Return the first `ranks` ranks, for use within their `joined`; rank 0 alone needs no Horovod."""
        if ranks == 1:
            return Single()
        return _RejoinedGroup(replace(self._settings, allreduce=allreduce), ranks, hvd.global_process_set)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Return a context in which Horovod joins only the ranks of a group in `joined`; at its end it joins all."""
        hvd.shutdown()
        yield
        _rejoin(self.size)
