"""What is said before anything starts: too little memory, no GPU, cores that must be shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig

from train.config.schema import REMOTE, Config, ConfigError, default_image
from train.launch.plan.job import planned_cores
from train.launch.plan.points import Point
from train.rank import placement

# A process with TensorFlow and Horovod loaded: its peak resident memory before a model is built.
PROCESS_BYTES = 580_000_000
# Weights, gradients, momentum, what allreduce works in, and what the update and TensorFlow's allocator hold on the way.
# Chosen to lie just above the peaks of two ranks: VGG16 4.2 to 4.6 GB (estimate 4.7), ResNet50 1.4 GB (1.5).
COPIES_OF_WEIGHTS = 7
# Variables that a key of the configuration stands for: the ranks set them (train/distribution/backends.py).
FROM_CONFIGURATION = {
    "HOROVOD_CYCLE_TIME": "distribution.cycle_time_ms",
    "HOROVOD_FUSION_THRESHOLD": "distribution.fusion_threshold_bytes",
}
_TUNING = ("HOROVOD_", "TF_", "OMP_", "KMP_", "NCCL_", "MALLOC_")
_TERRAFORM = ("TF_CLI_", "TF_VAR_", "TF_LOG", "TF_DATA_DIR")  # another program's, with TensorFlow's prefix


def memory_per_rank_bytes(config: Config) -> int:
    """What one rank is estimated to need: process + 7 x parameters x 4 bytes + batch x activations.

    A sweep of allreduces leaves out the messages that do not fit, so there the process alone counts.
    """
    if config.allreduce_sweep:
        return PROCESS_BYTES
    weights = COPIES_OF_WEIGHTS * 4 * config.model.parameters
    return PROCESS_BYTES + weights + (config.batch_per_rank or 1) * config.model.activation_bytes_per_image


def memory_shortage(config: Config, available_bytes: int) -> str | None:
    """Why the ranks of a point do not fit into the free memory of this machine, or of each host; None where they do."""
    each = memory_per_rank_bytes(config)
    remote = config.launcher.name in REMOTE
    ranks = config.ranks_per_node if remote else config.ranks
    if config.device != "cpu" or each * ranks <= available_bytes:
        return None
    return (
        f"{ranks} ranks of about {each / 2**30:.1f} GiB need {each * ranks / 2**30:.1f} GiB; "
        f"{'a host' if remote else 'this machine'} has {available_bytes / 2**30:.1f} GiB free. "
        f"Take fewer {'ranks_per_node' if remote else 'nodes'}, a smaller batch_per_rank or another model"
    )


def check_gpus(config: Config, point: str, needed: int, there: int, source: str) -> None:
    """Raise ConfigError where a point wants more GPUs than `source` has, on this machine or on one host."""
    if config.device == "gpu" and needed > there:
        raise ConfigError(
            f"device=gpu: {point} needs {needed} GPUs; {source} {there}. "
            "Take fewer nodes or ranks_per_node, or device=cpu"
        )


def sif(config: Config | DictConfig) -> str | None:
    """The SIF that the ranks of an experiment need on every host, as an absolute path; None without."""
    container = config.container
    if container.name != "singularity":
        return None
    return str(Path(container.image or default_image("singularity", config.device, container.mpi_home)).resolve())


def check_networks(points: Sequence[Point], missing: str | None) -> None:
    """Raise ConfigError where a point wants nodes with networks of their own, and they cannot be made: why."""
    for point in points:
        if missing and point.config.launcher.separate_networks:
            raise ConfigError(f"launcher.separate_networks=True: {missing}")


def emulation(config: Config) -> str | None:
    """How the nodes of an experiment are emulated, in words; None where they are not."""
    cpus = config.system.cpus_per_node
    if cpus is None:
        return None
    return (
        f"Nodes are emulated: each is held to {100 * cpus:.4g} % of a core from its warm-up on. Every point is "
        "measured with and without allreduce: without, nodes that do not disturb each other are equally fast."
    )


def shares_cores(config: Config, available: list[int]) -> bool:
    """Whether ranks of this machine compete for cores; those that are held to a quota do not."""
    return config.system.cpus_per_node is None and placement.shared(planned_cores(config, available))


def warnings(points: Sequence[Point], variables: Mapping[str, str], no_quotas: str | None = None) -> list[str]:
    """What the user should know although the experiment can run.

    variables: of the environment, that can matter; no_quotas: why nodes cannot be emulated here.
    """
    available = placement.usable_cores()
    local = [point for point in points if point.config.launcher.name not in REMOTE]
    crowded = [p.name for p in local if shares_cores(p.config, available)]
    found = []
    if crowded:
        found.append(
            f"{len(available)} cores are too few for {', '.join(crowded)}: ranks share cores there. "
            "The records say so, and the figures draw those points hollow: they are no measurement of scaling."
            + (f" CPU quotas, to emulate nodes with, cannot be had here: {no_quotas}" if no_quotas else "")
        )
    if replaced := sorted(FROM_CONFIGURATION.keys() & variables.keys()):
        keys = ", ".join(FROM_CONFIGURATION[name] for name in replaced)
        found.append(f"{', '.join(replaced)}: set in your environment, but the configuration decides: {keys}")
    if others := [f"{name}={value}" for name, value in variables.items() if _tunes(name)]:
        found.append(
            f"{', '.join(others)}: set in your environment. The records keep it, but a run counts as measured "
            "whatever it was: FORCE=1 measures again, RESULTS=folder keeps the two apart"
        )
    return found


def _tunes(name: str) -> bool:
    return name.startswith(_TUNING) and not name.startswith(_TERRAFORM) and name not in FROM_CONFIGURATION
