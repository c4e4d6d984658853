"""How ranks join and exchange gradients. Nothing here depends on models or training loops.

Call `prepare`, import TensorFlow, then call `join`, before any operation: Horovod and TensorFlow read their settings
when they load, and a strategy of TensorFlow must come first. `Distribution` is the interface of the joined ranks.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from record import protocol
from train.config.distribution_config import FUSION_THRESHOLD_BYTES
from train.config.distribution_config import DistributionConfig as Settings
from train.config.run_config import RunConfig
from train.rank import placement
from train.transport import rendezvous

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from train.distribution.cluster import Cluster

Function = TypeVar("Function", bound=Callable)
Result = TypeVar("Result")

# Horovod's autotuner takes the median of five samples for each setting that it tries. By default it needs a thousand
# steps; with these about 130.
_AUTOTUNE = {
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "1",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "1",
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "4",
}

_prepared: list[Cluster] = []  # the ranks of a strategy of TensorFlow, from `prepare` to `join`


class Distribution(ABC):
    """Ranks that train together, as one of them sees them. All ranks call each method."""

    rank: int
    size: int
    local_rank: int

    def scope(self) -> AbstractContextManager[None]:
        """Return a context for making model and optimizer: on all ranks the same variables in the same order."""
        return nullcontext()

    def compiled(self, function: Function) -> Function:
        """Return the compiled function, a step of this rank among the others. Gradients are exchanged only within one.

        AutoGraph has nothing to convert here, and would spend 3 s of every first step on Horovod's and Keras' code.
        """
        import tensorflow as tf  # here: a rank imports this module before it makes TensorFlow's settings

        return tf.function(function, autograph=False)

    def on_devices(self, function: Callable[..., Result], *batch: tf.Tensor) -> list[Result]:
        """Return the function's results for equal parts of a batch, one for each device of this rank.

        For use within a compiled function; all tensors of the batch are split along their first axis.
        """
        return [function(*batch)]

    def local(self, variables: Sequence[tf.Variable]) -> list[tf.Variable]:
        """Return the variables of this rank alone: reading or setting them exchanges nothing."""
        return list(variables)

    @abstractmethod
    def exchange(self, gradients: list[tf.Tensor], variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
        """Return the gradients of the whole job from those of this rank: one for each of the variables."""

    @abstractmethod
    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to the values of rank 0."""

    @abstractmethod
    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to their mean over ranks."""

    @abstractmethod
    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the element-wise sum over ranks, on every rank."""

    @abstractmethod
    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Return the element-wise sum over ranks, on every rank and the tensor's device; `name` is the same on all."""

    @abstractmethod
    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank. kind: their type."""

    @abstractmethod
    def barrier(self) -> None:
        """Return when all ranks have called it."""

    def exchanges(self) -> AbstractContextManager[None]:
        """Return a context in which a failed exchange, also one within a compiled step, raises PeerLost."""
        return nullcontext()

    def group(self, ranks: int, allreduce: bool) -> Distribution:
        """Return the first `ranks` ranks, to exchange among themselves; without allreduce their gradients stay local.

        Only its members may call its methods, and only within its `joined`.
        """
        raise NotImplementedError("only Horovod's ranks form groups: no launch in rounds is planned for a strategy")

    def apart(self) -> AbstractContextManager[None]:
        """Return a context in which only groups exchange; exchanges of all ranks wait until its end."""
        return nullcontext()

    def joined(self) -> AbstractContextManager[None]:
        """Return a context in which the ranks of a group are joined, for use within `apart`."""
        return nullcontext()

    def leave(self) -> None:
        """Shut down cleanly, once no rank needs another one."""
        return


class Single(Distribution):
    """The only rank of a job."""

    rank, size, local_rank = 0, 1, 0

    def exchange(self, gradients: list[tf.Tensor], variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
        """Return the gradients of this rank."""
        return gradients

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Do nothing."""

    average = broadcast

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the values."""
        return values

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Return the tensor."""
        return tensor

    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return a list of this value."""
        return [value]

    def barrier(self) -> None:
        """Do nothing."""

    def group(self, ranks: int, allreduce: bool) -> Single:
        """Return this rank."""
        return self


def exchange_flat(
    exchange: Callable[[tf.Tensor], tf.Tensor], tensors: Sequence[tf.Tensor], variables: Sequence[tf.Variable]
) -> list[tf.Tensor]:
    """Exchange tensors of one type, in the shapes of these variables, as one tensor with their values in a row.

    Many times a second Horovod's ranks tell each other which of all tensors that they ever exchanged are ready again.
    They send a bit for each, in messages of 64 bits: one tensor needs one message. See docs/tuning.md.
    """
    import tensorflow as tf

    flat = exchange(tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0))
    parts = tf.split(flat, [variable.shape.num_elements() for variable in variables])
    return [tf.reshape(part, variable.shape) for part, variable in zip(parts, variables, strict=True)]


def prepare(config: RunConfig, folder: Path, secret: rendezvous.Secret | None) -> None:
    """Set the environment variables that Horovod and TensorFlow read. The ranks of a strategy connect here.

    folder: one that all hosts see, in which ranks that srun started find each other.
    secret: of the job; None without a launcher.
    Raises ConfigError if the ranks do not find each other.
    """
    if not config.distribution.is_strategy:
        _set_up_horovod(config.distribution, folder)
    # A launcher that knows the hosts names them: the interface between them may have another name on each.
    peers = os.environ.get(protocol.PEERS)
    if config.distribution.controller == "gloo" and rendezvous.is_started_by_srun(os.environ):
        rendezvous.set_gloo_variables(folder)
        peers = peers or os.environ.get("SLURM_SRUN_COMM_HOST")
    if interface := config.launcher.interface or (peers and placement.interface_towards(peers.split(","))):
        os.environ["HOROVOD_GLOO_IFACE"] = os.environ["NCCL_SOCKET_IFNAME"] = interface
    if config.distribution.is_strategy:
        from train.distribution import cluster

        # gRPC would send what ranks say to each other through the site's proxy.
        _set(dict.fromkeys(("grpc_proxy", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")))
        _prepared.append(cluster.connect(config.distribution, config.ranks, secret, folder))
        os.environ["TF_CONFIG"] = _prepared[-1].config()


def _set_up_horovod(settings: Settings, folder: Path) -> None:
    # Horovod's autotuner leaves alone what is set.
    fusion = None if settings.fusion_threshold_bytes == FUSION_THRESHOLD_BYTES else settings.fusion_threshold_bytes
    tuned = {"HOROVOD_CYCLE_TIME": settings.cycle_time_ms, "HOROVOD_FUSION_THRESHOLD": fusion}
    _set({name: None if settings.autotune or value is None else str(value) for name, value in tuned.items()})
    if settings.autotune:
        _set({"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": str(folder / "autotune.csv"), **_AUTOTUNE})
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(rendezvous.IMPORT_WITHIN_S))  # Horovod's own is 30 s
    # A user's own timeline is switched off: timed steps have none.
    timeline = str(protocol.horovod_timeline_path(folder)) if settings.timeline else None
    _set({"HOROVOD_TIMELINE": timeline, "HOROVOD_TIMELINE_MARK_CYCLES": None})


def _set(variables: Mapping[str, str | None]) -> None:
    """Set environment variables; None: unset."""
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def inter_op_threads(config: RunConfig) -> int:
    """Return the number of TensorFlow's threads that run operations: one, if no operation waits for another rank.

    Several towers run at the same time, each in its own thread.

    With one thread, workers and parameter servers on one core each never ended their first step; with one more than
    there are workers they did. A thread probably blocks while another task works for it, until all wait for each other.
    """
    return config.ranks + 1 if config.distribution.asynchronous else config.towers


def join(config: RunConfig, folder: Path, report: Callable[[str], None] = print) -> Distribution:
    """Return the backend that the configuration names, with all ranks joined.

    folder: as `prepare` takes it.
    report: is called with the reason if this process is ended from outside.
    Raises ConfigError, or RankUnresponsive if a rank hangs.
    """
    if config.distribution.backend == "none":
        return Single()
    if config.distribution.in_one_process:
        from train.distribution.strategies import CentralStorage

        return CentralStorage(config.towers)
    joined: Distribution
    if config.distribution.asynchronous:
        from train.distribution.parameter_servers import ParameterServers

        joined = ParameterServers(_prepared.pop(), report)
    elif config.distribution.is_strategy:
        from train.distribution.strategies import MultiWorker

        joined = MultiWorker(config.distribution, _prepared.pop(), report)
    else:
        joined = _join_horovod(config)
    rendezvous.remove_files()
    return joined


def _join_horovod(config: RunConfig) -> Distribution:
    from train.distribution.horovod import Horovod, RejoiningHorovod

    if config.launch.join_in_turn:
        return RejoiningHorovod(config.distribution, config.ranks)
    sizes = {arm.ranks for arm in config.launch.rounds if arm.rank_group == placement.rank_group()}
    return Horovod(config.distribution, config.ranks, sorted(sizes - {1, config.ranks}))


def weights_differ(distribution: Distribution, variables: Sequence[tf.Variable]) -> bool:
    """Return whether any two ranks hold different values. Compares digests, so each rank sends 32 bytes."""
    if distribution.size == 1:
        return False
    digest = hashlib.sha256()
    for variable in distribution.local(variables):
        digest.update(memoryview(variable.numpy()).cast("B"))
    return len(set(distribution.gather(digest.digest(), bytes))) > 1
