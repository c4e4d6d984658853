"""Ranks joined by Horovod. Import it after `train.distribution.prepare`: Horovod reads its settings when it loads."""

from __future__ import annotations

import copy
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
from train.config.schema import Distribution as Settings
from train.distribution.plain import Plain
from train.distribution.protocol import Distribution
from train.distribution.single import Single
from train.distribution.tapes import ExchangingTape, as_one
from train.transport import messages
from train.transport.failures import PeerLost

_COMPRESSIONS = {"none": hvd.Compression.none, "fp16": hvd.Compression.fp16}
_OPERATIONS = {"average": hvd.Average, "adasum": hvd.Adasum}


class _HorovodPeerLost(PeerLost, HorovodInternalError):
    """PeerLost by the name that Horovod's elastic mode knows."""


@contextmanager
def exchanges() -> Iterator[None]:
    """A context in which a failed exchange raises PeerLost.

    TensorFlow raises UnknownError or AbortedError for it, as for much else. Only the message tells that Horovod failed:
    it names the operation, by its type, or within a compiled step by its name. Both contain "Horovod". An exchange that
    fails because the ranks disagree on a shape or a type raises FailedPreconditionError, and no peer is lost.
    """
    try:
        yield
    except PeerLost:
        raise
    except HorovodInternalError as error:
        raise _HorovodPeerLost(_words(str(error))) from error
    except (tf.errors.UnknownError, tf.errors.AbortedError) as error:
        if "Horovod" not in str(error.message):
            raise
        raise _HorovodPeerLost(_words(str(error.message))) from error


def _words(message: str) -> str:
    return f"an exchange with the other ranks failed: {message}"


class Horovod(Plain):
    """Ranks joined by Horovod."""

    def __init__(self, settings: Settings, ranks: int, groups: Sequence[int] = ()) -> None:
        """Meet the other ranks. Raises ConfigError where there are not `ranks` of them.

        groups: the numbers of ranks of groups to prepare, neither 1 nor all.
        """
        self._settings, self._among = settings, hvd.global_process_set
        self._sets = {size: hvd.ProcessSet(list(range(size))) for size in groups}
        self.meet()
        if self.size != ranks and not settings.elastic:
            raise ConfigError(
                f"nodes x ranks_per_node={ranks}: Horovod's size is {hvd.size()}. "
                + (
                    "Each process started alone: start them with horovodrun or mpirun, or with srun and the --mpi "
                    "that the MPI library was built for (srun --mpi=list), and without --cleanenv in a container"
                    if hvd.size() == 1
                    else "Start as many processes as nodes x ranks_per_node, or change those"
                )
            )

    def meet(self) -> None:
        """Wait for all ranks."""
        hvd.init(process_sets=list(self._sets.values()))
        self.rank, self.size, self.local_rank = hvd.rank(), hvd.size(), hvd.local_rank()

    def tape(self, tape: tf.GradientTape) -> tf.GradientTape:
        """A tape that joins the gradients of all ranks, unless the run is a control without allreduce."""
        if not self._settings.allreduce or self.size == 1:
            return tape
        compression = _COMPRESSIONS[self._settings.compression]
        if self._settings.gradients == "flat":
            # `exchanges` recognises a failed exchange by this name, and the ranks the tensor: without its scope, which
            # is another one in the graphs of other ranks.
            how = {"op": hvd.Average, "compression": compression, "process_set": self._among, "ignore_name_scope": True}
            return ExchangingTape(tape, as_one(partial(hvd.allreduce, name="HorovodAllreduce_gradients", **how)))
        groups = 1 if self._settings.gradients == "grouped" else None
        op = _OPERATIONS[self._settings.op]
        return hvd.DistributedGradientTape(tape, groups=groups, process_set=self._among, compression=compression, op=op)

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to the values of rank 0."""
        # In place it is one operation for all, but it tells variables apart by name, and nested models repeat names.
        remaining = list(variables)
        while remaining:
            together = {variable.name: variable for variable in reversed(remaining)}
            hvd.broadcast_variables(list(together.values()), root_rank=0, inplace=True, process_set=self._among)
            remaining = [variable for variable in remaining if together[variable.name] is not variable]

    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to their mean over ranks."""
        if variables:
            means = hvd.grouped_allreduce([v.value() for v in variables], op=hvd.Average, process_set=self._among)
            for variable, mean in zip(variables, means, strict=True):
                variable.assign(mean)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The element-wise sum over ranks, on every rank."""
        return hvd.allreduce(tf.constant(values), op=hvd.Sum, process_set=self._among).numpy()

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """The element-wise sum over ranks, on every rank and on the tensor's device; `name` is the same on all."""
        return hvd.allreduce(tensor, op=hvd.Sum, name=name, process_set=self._among)

    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank. kind: their type.

        Horovod's own allgather_object would unpickle what comes from the network.
        """
        own = np.frombuffer(messages.encode(value), np.uint8)
        sizes = hvd.allgather(tf.constant([len(own)]), name="gather.sizes", process_set=self._among).numpy()
        together = hvd.allgather(tf.constant(own), name="gather.values", process_set=self._among).numpy()
        received = np.split(together, np.cumsum(sizes)[:-1])
        return [messages.decode(one.tobytes(), kind, f"rank {rank}") for rank, one in enumerate(received)]

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        hvd.allreduce(tf.zeros(1), op=hvd.Sum, name="barrier", process_set=self._among).numpy()

    def group(self, ranks: int, allreduce: bool) -> Distribution:
        """The first `ranks` ranks: those of a group that was prepared, rank 0 alone, or all.

        Without allreduce their gradients stay local.
        """
        if ranks == 1:
            return Single()
        made = copy.copy(self)
        made.size, made._among = ranks, self._sets.get(ranks, hvd.global_process_set)
        made._settings = replace(self._settings, allreduce=allreduce)
        return made

    def exchanges(self) -> AbstractContextManager[None]:
        """A context in which a failed exchange raises PeerLost."""
        return exchanges()

    def leave(self) -> None:
        """Shut down cleanly."""
        hvd.shutdown()
