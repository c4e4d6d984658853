"""What is said before anything starts: too little memory, no GPU, cores that must be shared."""

from __future__ import annotations

from collections.abc import Sequence

from train import placement
from train.launch.job import planned_cores
from train.launch.points import Point
from train.schema import Config, ConfigError

# A process with TensorFlow and Horovod loaded: its peak resident memory before a model is built.
PROCESS_BYTES = 580_000_000
# Weights, gradients, momentum, what allreduce works in, and what the update and TensorFlow's allocator hold on the way.
# Chosen to lie just above the peaks of two ranks: VGG16 4.2 to 4.6 GB (estimate 4.7), ResNet50 1.4 GB (1.5).
COPIES_OF_WEIGHTS = 7


def memory_per_rank_bytes(config: Config) -> int:
    """What one rank is estimated to need: process + 7 x parameters x 4 bytes + batch x activations."""
    weights = COPIES_OF_WEIGHTS * 4 * config.model.parameters
    return PROCESS_BYTES + weights + (config.batch_per_rank or 1) * config.model.activation_bytes_per_image


def check_memory(points: Sequence[Point], available_bytes: int) -> None:
    """Raise ConfigError, with the estimate, for the first point whose ranks need more than this machine has free."""
    for point in points:
        each = memory_per_rank_bytes(point.config)
        if point.config.device == "cpu" and each * point.config.ranks > available_bytes:
            raise ConfigError(
                f"{point.name}: {point.config.ranks} ranks of about {each / 2**30:.1f} GiB need "
                f"{each * point.config.ranks / 2**30:.1f} GiB; this machine has {available_bytes / 2**30:.1f} GiB. "
                "Take fewer nodes, a smaller batch_per_rank or another model"
            )


def check_gpus(points: Sequence[Point], gpus: Sequence[str]) -> None:
    """Raise ConfigError where a point wants more GPUs than this machine has."""
    for point in points:
        if point.config.device == "gpu" and point.config.ranks > len(gpus):
            raise ConfigError(
                f"device=gpu: {point.name} needs {point.config.ranks} GPUs; nvidia-smi shows {len(gpus)} here. "
                "Take fewer nodes, or device=cpu"
            )


def warnings(points: Sequence[Point]) -> list[str]:
    """What the user should know although the experiment can run."""
    available = placement.usable_cores()
    crowded = [p.name for p in points if placement.shared(planned_cores(p.config, available))]
    if not crowded:
        return []
    return [
        f"{len(available)} cores are too few for {', '.join(crowded)}: ranks share cores there. "
        "The records say so, and the figures draw those points hollow: they are no measurement of scaling."
    ]
