"""How the ranks of a job find each other and exchange gradients: alone, or with Horovod.

Import TensorFlow after `prepare`: both read their settings when they load.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from train.config.schema import Config, ConfigError
from train.config.schema import Distribution as Settings
from train.distribution import rendezvous
from train.rank import placement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    import numpy as np
    import tensorflow as tf


class Distribution(Protocol):
    """What training needs from a backend."""

    rank: int
    size: int
    local_rank: int

    def tape(self, tape: tf.GradientTape) -> tf.GradientTape:
        """The tape whose gradients are those of the whole job."""

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Give every rank the values of rank 0."""

    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Give every rank the mean over ranks."""

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The element-wise sum over ranks, on every rank."""

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """The element-wise sum over ranks, on every rank and on the tensor's device; `name` is the same on all."""

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, in the order of ranks, on every rank."""

    def barrier(self) -> None:
        """Return when all ranks have called it."""

    def leave(self) -> None:
        """Part from the other ranks, in order."""


class LeftBehind(Exception):
    """The others go on without this rank: it was silent for too long."""


def prepare(config: Config, meeting: Path) -> None:
    """Put Horovod's settings where it reads them when it starts: the configuration is what was measured.

    meeting: a folder that all hosts see, where ranks that srun started may leave word for each other.
    Raises ConfigError where they do not find each other.
    """
    settings = {"HOROVOD_CYCLE_TIME": config.distribution.cycle_time_ms}
    settings["HOROVOD_FUSION_THRESHOLD"] = config.distribution.fusion_threshold_bytes
    for name, value in settings.items():
        os.environ[name] = str(value)
        if config.distribution.elastic:  # where these are set, Horovod 0.28.1 crashes when ranks meet a second time
            del os.environ[name]
    # A launcher that knows the hosts says them: each of them may call the interface between them by another name.
    peers = os.environ.get(placement.PEERS)
    if config.distribution.controller == "gloo" and rendezvous.needed(os.environ):
        rendezvous.meet(meeting)
        peers = peers or os.environ.get("SLURM_SRUN_COMM_HOST")
    if interface := config.launcher.interface or (peers and placement.interface_towards(peers.split(","))):
        os.environ["HOROVOD_GLOO_IFACE"] = os.environ["NCCL_SOCKET_IFNAME"] = interface


class Alone:
    """One process, without Horovod."""

    rank, size, local_rank = 0, 1, 0

    def tape(self, tape: tf.GradientTape) -> tf.GradientTape:
        """The tape as it is."""
        return tape

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Nobody to tell."""

    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Nothing to average with."""

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The values themselves."""
        return values

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """The tensor itself."""
        return tensor

    def gather(self, value: Any) -> list[Any]:
        """The value alone."""
        return [value]

    def barrier(self) -> None:
        """Nobody to wait for."""

    def leave(self) -> None:
        """Nobody to part from."""


class FlatTape:
    """A gradient tape that averages over ranks as Horovod's own does, but all gradients as one tensor.

    Many times a second Horovod's ranks tell each other which of all tensors that they ever exchanged are there again, a
    bit for each, in messages of 64 bits: one tensor needs one message. docs/tuning.md has what it gave.
    """

    def __init__(self, tape: tf.GradientTape, hvd: ModuleType, tensorflow: ModuleType) -> None:
        """Average what this tape gives."""
        self._tape, self._hvd, self._tf = tape, hvd, tensorflow

    def __getattr__(self, name: str) -> Any:
        """All else is the tape's own."""
        return getattr(self._tape, name)

    def gradient(self, target: tf.Tensor, sources: Sequence[tf.Variable]) -> list[tf.Tensor | None]:
        """The mean over ranks of the gradient of each source; None, on all ranks, for what the target is none of."""
        gradients = self._tape.gradient(target, sources)
        found = [number for number, gradient in enumerate(gradients) if gradient is not None]
        flat = self._tf.concat([self._tf.reshape(gradients[number], [-1]) for number in found], 0)
        # When an exchange fails TensorFlow names it, and elastic mode must see that it is Horovod's.
        mean = self._hvd.allreduce(flat, op=self._hvd.Average, name="HorovodAllreduce_gradients")
        parts = self._tf.split(mean, [sources[number].shape.num_elements() for number in found])
        for number, part in zip(found, parts, strict=True):
            gradients[number] = self._tf.reshape(part, sources[number].shape)
        return gradients


class Horovod:
    """Ranks joined by Horovod. Raises ConfigError where they are not as many as asked for."""

    def __init__(self, settings: Settings, ranks: int) -> None:
        """Meet the other ranks."""
        import horovod.tensorflow as hvd
        import tensorflow as tf

        self._hvd, self._tf, self._settings = hvd, tf, settings
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
        self._hvd.init()
        self.rank, self.size, self.local_rank = self._hvd.rank(), self._hvd.size(), self._hvd.local_rank()

    def tape(self, tape: tf.GradientTape) -> tf.GradientTape:
        """A tape that averages gradients over ranks, unless the run is a control without allreduce."""
        if not self._settings.allreduce or self.size == 1:
            return tape
        if self._settings.gradients == "flat":
            return FlatTape(tape, self._hvd, self._tf)
        return self._hvd.DistributedGradientTape(tape, groups=1 if self._settings.gradients == "grouped" else None)

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Give every rank the values of rank 0."""
        # In place is one operation for all, but it tells variables apart by name, and a nested model may repeat names.
        remaining = list(variables)
        while remaining:
            together = {variable.name: variable for variable in reversed(remaining)}
            self._hvd.broadcast_variables(list(together.values()), root_rank=0, inplace=True)
            remaining = [variable for variable in remaining if together[variable.name] is not variable]

    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Give every rank the mean over ranks."""
        if variables:
            means = self._hvd.grouped_allreduce([v.value() for v in variables], op=self._hvd.Average)
            for variable, mean in zip(variables, means, strict=True):
                variable.assign(mean)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The element-wise sum over ranks, on every rank."""
        return self._hvd.allreduce(self._tf.constant(values), op=self._hvd.Sum).numpy()

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """The element-wise sum over ranks, on every rank and on the tensor's device; `name` is the same on all."""
        return self._hvd.allreduce(tensor, op=self._hvd.Sum, name=name)

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, in the order of ranks, on every rank."""
        from horovod.tensorflow.functions import allgather_object

        return allgather_object(value)

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self._hvd.allreduce(self._tf.zeros(1), op=self._hvd.Sum, name="barrier").numpy()

    def leave(self) -> None:
        """Part from the other ranks, in order."""
        self._hvd.shutdown()


def join(config: Config) -> Distribution:
    """The backend that the configuration names, with all ranks met. Raises ConfigError."""
    if config.distribution.backend == "none":
        return Alone()
    joined: Horovod
    if config.distribution.elastic:
        from train.loop.elastic_epochs import ElasticHorovod

        joined = ElasticHorovod(config.distribution, config.ranks)
    else:
        joined = Horovod(config.distribution, config.ranks)
    rendezvous.clear()
    return joined


def weights_differ(distribution: Distribution, variables: Sequence[tf.Variable]) -> bool:
    """Whether any two ranks hold different values: compares a digest per rank, so 32 bytes travel."""
    if distribution.size == 1:
        return False
    digest = hashlib.sha256()
    for variable in variables:
        digest.update(memoryview(variable.numpy()).cast("B"))
    return len(set(distribution.gather(digest.digest()))) > 1
