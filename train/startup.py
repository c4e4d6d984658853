"""A rank's cores, threads and GPU, and TensorFlow on them: set before TensorFlow starts its threads."""

import gc
import os
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from train import distribution
from train.config.checks import ConfigError
from train.config.schema import RunConfig
from train.rank import placement
from train.transport.rendezvous import Secret

# tf_keras imports these if it can, for data and layers that no model of this kit has; a fifth of TensorFlow's import.
_NOT_NEEDED = ("pandas", "scipy")


@dataclass(frozen=True)
class Gpu:
    """The GPU of a rank, or those of its towers."""

    name: str
    identity: str  # index or UUID: distinguishes it from the others of its host; of several, separated by commas


def bind_cores(config: RunConfig, local_rank: int) -> tuple[RunConfig, list[list[int]]]:
    """Bind this process to its cores; return them, and of rank groups that swap cores then those of the other groups.

    A process with several towers has the cores of all of them; no tower is bound to its own.

    The configuration that is returned has cores per node and threads per rank also where no launcher has set them.
    """
    available = placement.usable_cores()
    nodes_here = max(1, placement.local_size() * config.towers // config.ranks_per_node)
    per_node = config.system.cores_per_node or placement.share(len(available), nodes_here)
    config = config.on_cores(per_node, placement.share(per_node, config.ranks_per_node))
    shape = config.ranks_per_node, per_node, config.threads_per_rank or 1
    groups = len(config.launch.rank_groups) if config.launch.rank_groups_at_once else 1  # side by side, all of one size
    own_first = [(placement.rank_group() + number) % groups for number in range(groups)]
    firsts = [local_rank + number * config.ranks for number in own_first]
    core_sets = [
        sorted({core for n in range(config.towers) for core in placement.cores_of_rank(available, first + n, *shape)})
        for first in firsts
    ]
    placement.bind(core_sets[0])
    return config, core_sets


def start_tensorflow(
    config: RunConfig, local_rank: int, threads: int, folder: Path, secret: Secret | None
) -> Gpu | None:
    """Return the GPU of this rank, if any, with TensorFlow imported and limited to it and to so many threads.

    folder, secret: as `distribution.prepare` takes them.
    Raises ConfigError where there is no GPU and one was asked for.
    """
    # TensorFlow loads one Keras itself; tf_keras is the one that is used here, and loading Keras 3 too would take 2 s.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # TensorFlow leaves oneDNN off on CPUs without AVX-512, where it makes VGG16 1.5 and AlexNet 3.6 times faster.
    if config.distribution.onednn == "always":
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    if config.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    distribution.prepare(config, folder, secret)
    with without(_NOT_NEEDED), uncollected():
        import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(distribution.inter_op_threads(config))
    gpu = None if config.device == "cpu" else _own_gpus(local_rank, config.towers)
    if config.device == "cpu" and config.towers > 1:
        [processor] = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range(config.towers)]
        tf.config.set_logical_device_configuration(processor, parts)
    if config.distribution.backend == "horovod":
        with uncollected():
            import horovod.tensorflow  # noqa: F401  here, so that its time counts as import
    return gpu


@contextmanager
def without(packages: Iterable[str]) -> Iterator[None]:
    """Within this context these packages are as if they were not installed, but for those that are imported already."""
    hidden = [package for package in packages if package not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: an import raises ModuleNotFoundError
    try:
        yield
    finally:
        for package in hidden:
            del sys.modules[package]


@contextmanager
def uncollected() -> Iterator[None]:
    """Within this context no garbage is collected, and what is made in it is never searched for garbage.

    Modules stay until the end. Searching them takes a tenth of an import, and later pauses that fall into timed steps.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _own_gpus(local_rank: int, towers: int) -> Gpu:
    """Return the GPU of this rank, or one for each of its towers: all that TensorFlow uses from now on.

    Raises ConfigError where there are too few.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) < towers:
        raise ConfigError(
            f"device=gpu: TensorFlow finds {len(gpus) or 'no'} GPU{'s' * (len(gpus) > 1)} on {socket.gethostname()}, "
            f"{towers} needed; under Slurm request them (--gpus-per-node), in Singularity they need --nv; or use "
            "device=cpu"
        )
    # Slurm may show each rank only its own GPU. The roll call finds out whether two ranks got the same one.
    indices = range(towers) if towers > 1 else [local_rank % len(gpus)]
    tf.config.set_visible_devices([gpus[index] for index in indices], "GPU")
    for index in indices:
        tf.config.experimental.set_memory_growth(gpus[index], True)
    name = tf.config.experimental.get_device_details(gpus[indices[0]]).get("device_name", "GPU")
    return Gpu(name, ",".join(map(_identity, indices)))


def _identity(index: int) -> str:
    """Return what CUDA_VISIBLE_DEVICES calls the GPU with this index."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return visible[index] if index < len(visible) and visible[index] else str(index)
