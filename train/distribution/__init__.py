"""How ranks meet and exchange gradients. Nothing here knows of models or training loops.

`prepare`, import TensorFlow, then `join`: Horovod and TensorFlow read their settings when they load.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from train.config.schema import Config
from train.distribution import rendezvous
from train.distribution.protocol import Distribution
from train.distribution.single import Single
from train.rank import placement
from train.record import protocol

if TYPE_CHECKING:
    import tensorflow as tf


def prepare(config: Config, meeting: Path) -> None:
    """Set the environment variables that Horovod reads, from the configuration: so it describes what was measured.

    meeting: a folder that all hosts see, where ranks that srun started may leave word for each other.
    Raises ConfigError where they do not find each other.
    """
    settings = {"HOROVOD_CYCLE_TIME": config.distribution.cycle_time_ms}
    settings["HOROVOD_FUSION_THRESHOLD"] = config.distribution.fusion_threshold_bytes
    for name, value in settings.items():
        os.environ[name] = str(value)
        if config.distribution.elastic:  # where these are set, Horovod 0.28.1 crashes when ranks meet a second time
            del os.environ[name]
    # A launcher that knows the hosts names them: each of them may call the interface between them by another name.
    peers = os.environ.get(protocol.PEERS)
    if config.distribution.controller == "gloo" and rendezvous.needed(os.environ):
        rendezvous.meet(meeting)
        peers = peers or os.environ.get("SLURM_SRUN_COMM_HOST")
    if interface := config.launcher.interface or (peers and placement.interface_towards(peers.split(","))):
        os.environ["HOROVOD_GLOO_IFACE"] = os.environ["NCCL_SOCKET_IFNAME"] = interface


def join(config: Config) -> Distribution:
    """The backend that the configuration names, with all ranks met. Raises ConfigError."""
    if config.distribution.backend == "none":
        return Single()
    joined = _joined_by_horovod(config)
    rendezvous.clear()
    return joined


def _joined_by_horovod(config: Config) -> Distribution:
    if config.distribution.elastic:
        from train.distribution.elastic import ElasticHorovod

        return ElasticHorovod(config.distribution, config.ranks)
    from train.distribution.horovod import Horovod

    sizes = {arm.ranks for arm in config.rounds if arm.world == placement.world()}
    return Horovod(config.distribution, config.ranks, sorted(sizes - {1, config.ranks}))


def weights_differ(distribution: Distribution, variables: Sequence[tf.Variable]) -> bool:
    """Whether any two ranks hold different values: compares a digest of each rank, so 32 bytes are sent."""
    if distribution.size == 1:
        return False
    digest = hashlib.sha256()
    for variable in variables:
        digest.update(memoryview(variable.numpy()).cast("B"))
    return len(set(distribution.gather(digest.digest()))) > 1
