"""How ranks join and exchange gradients. Nothing here knows of models or training loops.

`prepare`, import TensorFlow, then `join`, before any operation: Horovod and TensorFlow read their settings when they
load, and a strategy of TensorFlow must come first.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from train.config.backends import FUSION_THRESHOLD_BYTES
from train.config.schema import Distribution as Settings
from train.config.schema import RunConfig
from train.distribution.base import Distribution, Single
from train.rank import placement
from train.record import protocol
from train.transport import rendezvous
from train.transport.rendezvous import IMPORT_WITHIN_S, Secret

if TYPE_CHECKING:
    import tensorflow as tf

    from train.distribution.cluster import Cluster

# Horovod's autotuner takes the median of five samples for each setting that it tries. By default it needs a thousand
# steps; with these about 130.
_AUTOTUNE = {
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "1",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "1",
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "4",
}

_prepared: list[Cluster] = []  # the ranks of a strategy of TensorFlow, from `prepare` to `join`


def prepare(config: RunConfig, folder: Path, secret: Secret | None) -> None:
    """Set the environment variables that Horovod and TensorFlow read, from the configuration.

    So the configuration describes what was measured. The ranks of a strategy of TensorFlow connect here.

    folder: one that all hosts see, in which ranks that srun started find each other.
    secret: of the job; None without a launcher.
    Raises ConfigError if the ranks do not find each other.
    """
    if not config.distribution.is_strategy:
        _set_up_horovod(config.distribution, folder)
    # A launcher that knows the hosts names them: each of them may call the interface between them by another name.
    peers = os.environ.get(protocol.PEERS)
    if config.distribution.controller == "gloo" and rendezvous.is_started_by_srun(os.environ):
        rendezvous.set_gloo_variables(folder)
        peers = peers or os.environ.get("SLURM_SRUN_COMM_HOST")
    if interface := config.launcher.interface or (peers and placement.interface_towards(peers.split(","))):
        os.environ["HOROVOD_GLOO_IFACE"] = os.environ["NCCL_SOCKET_IFNAME"] = interface
    if config.distribution.is_strategy:
        from train.distribution import cluster

        _prepared.append(cluster.connect(config.distribution, config.ranks, secret, folder))
        os.environ["TF_CONFIG"] = _prepared[-1].config()


def _set_up_horovod(settings: Settings, folder: Path) -> None:
    """Set the variables that Horovod reads."""
    # If both are set Horovod 0.28.1 crashes when ranks join a second time, and its autotuner leaves them alone.
    unset = settings.elastic or settings.autotune
    fusion = None if settings.fusion_threshold_bytes == FUSION_THRESHOLD_BYTES else settings.fusion_threshold_bytes
    tuned = {"HOROVOD_CYCLE_TIME": settings.cycle_time_ms, "HOROVOD_FUSION_THRESHOLD": fusion}
    _set({name: None if unset or value is None else str(value) for name, value in tuned.items()})
    if settings.autotune:
        _set({"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": str(folder / "autotune.csv"), **_AUTOTUNE})
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(IMPORT_WITHIN_S))  # Horovod's own is 30 s
    # A user's own timeline is switched off: nothing that is timed has one.
    timeline = str(protocol.horovod_timeline_path(folder)) if settings.timeline else None
    _set({"HOROVOD_TIMELINE": timeline, "HOROVOD_TIMELINE_MARK_CYCLES": None})


def _set(variables: Mapping[str, str | None]) -> None:
    """Set environment variables; None: unset."""
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def inter_op_threads(config: RunConfig) -> int:
    """Return the number of TensorFlow's threads that run operations: one, if none waits for another rank.

    Several towers run at the same time, in a thread each.

    With one, workers and parameter servers on one core each never ended their first step, with one more than there are
    workers they did. A thread is probably blocked while another task works for it, until all wait for each other.
    """
    return config.ranks + 1 if config.distribution.asynchronous else config.towers


def join(config: RunConfig, folder: Path, report: Callable[[str], None] = print) -> Distribution:
    """Return the backend that the configuration names, with all ranks joined.

    folder: as `prepare` takes it.
    report: takes why this process was ended, if it cannot say so itself.
    Raises ConfigError, or RankUnresponsive if a rank hangs.
    """
    if config.distribution.backend == "none":
        return Single()
    if config.distribution.in_one_process:
        from train.distribution.strategies import CentralStorage

        return CentralStorage(config.towers)
    joined = _join_strategy(config, report) if config.distribution.is_strategy else _join_horovod(config, folder)
    rendezvous.remove_files()
    return joined


def _join_strategy(config: RunConfig, report: Callable[[str], None]) -> Distribution:
    if config.distribution.asynchronous:
        from train.distribution.parameter_servers import ParameterServers

        return ParameterServers(_prepared.pop(), report)
    from train.distribution.strategies import MultiWorker

    return MultiWorker(config.distribution, _prepared.pop(), report)


def _join_horovod(config: RunConfig, folder: Path) -> Distribution:
    if config.distribution.elastic:
        from train.distribution.horovod import ElasticHorovod

        return ElasticHorovod(config.distribution, config.ranks, folder)
    from train.distribution.horovod import Horovod, RejoiningHorovod

    if config.launch.join_in_turn:
        return RejoiningHorovod(config.distribution, config.ranks)
    sizes = {arm.ranks for arm in config.launch.rounds if arm.rank_group == placement.rank_group()}
    return Horovod(config.distribution, config.ranks, sorted(sizes - {1, config.ranks}))


def weights_differ(distribution: Distribution, variables: Sequence[tf.Variable]) -> bool:
    """Return whether any two ranks hold different values: compares a digest of each rank, so 32 bytes are sent."""
    if distribution.size == 1:
        return False
    digest = hashlib.sha256()
    for variable in distribution.local(variables):
        digest.update(memoryview(variable.numpy()).cast("B"))
    return len(set(distribution.gather(digest.digest(), bytes))) > 1
