"""Where every rank of a job is, told before anything is timed: a job in the wrong place measures something else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from train.config.schema import REMOTE, Config, ConfigError
from train.record.record import Host


@dataclass(frozen=True)
class Present:
    """One rank's answer."""

    rank: int
    host: Host
    cores: tuple[int, ...]
    gpu: str | None  # what tells it from the others of its host
    mpi: str | None  # the library that it has loaded


def _listed(items: Sequence[object], most: int = 8) -> str:
    shown = ", ".join(map(str, items[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def nodes_apart(config: Config, variables: Mapping[str, str]) -> int:
    """How many hosts the ranks must be on: the nodes, or as many as the Slurm step has; 1 where they may share one."""
    if config.launcher.name in REMOTE:
        return config.nodes
    return min(config.nodes, int(variables.get("SLURM_STEP_NUM_NODES", 1)))


def wrong(present: Sequence[Present], config: Config, apart: int) -> list[str]:
    """What makes the measurement another one than was asked for: cause and mend of each; empty where all is well.

    Args:
        present: the answers of all ranks.
        config: what was asked for.
        apart: on how many hosts the ranks must be, at least.
    """
    on: dict[str, list[Present]] = {}
    for one in present:
        on.setdefault(one.host.host, []).append(one)
    found = []
    if len(on) < apart:
        found.append(
            f"nodes={config.nodes}: the {len(present)} ranks run on {len(on)} host{'s' * (len(on) > 1)} "
            f"({_listed(list(on))}). Under Slurm: srun --nodes={config.nodes} "
            f"--ntasks-per-node={config.ranks_per_node}, and not horovodrun without -H; with mpirun or horovodrun: "
            "-H host1:1,host2:1"
        )
    elif apart > 1 and (uneven := [host for host, ranks in on.items() if len(ranks) != config.ranks_per_node]):
        counts = _listed([f"{host} {len(on[host])}" for host in uneven])
        found.append(
            f"ranks_per_node={config.ranks_per_node}: other numbers of ranks are on {counts}. "
            f"Under Slurm: srun --ntasks-per-node={config.ranks_per_node}"
        )
    for host, ranks in on.items():
        gpus = [one.gpu for one in ranks if one.gpu is not None]
        if len(set(gpus)) < len(gpus):
            found.append(
                f"{host}: {len(gpus)} ranks share {len(set(gpus))} GPU{'s' * (len(set(gpus)) > 1)}. Take at most as "
                "many ranks_per_node as it has GPUs; under Slurm ask for as many: --gpus-per-node"
            )
        taken = [core for one in ranks for core in one.cores]
        if apart > 1 and len(set(taken)) < len(taken):
            found.append(
                f"{host}: its {len(ranks)} ranks need {len(taken)} cores and may use {len(set(taken))}. Under Slurm "
                f"ask for them: --cpus-per-task={len(ranks[0].cores)}; else a smaller system.cores_per_node"
            )
    libraries = sorted({str(one.mpi) for one in present})
    if len(libraries) > 1:
        found.append(
            f"the ranks have loaded different MPI libraries: {_listed(libraries)}. Load the same module on all hosts, "
            "or bind the same one into the container (container.mpi_home)"
        )
    return found


def unequal(hosts: Sequence[Host]) -> str | None:
    """How the hosts differ in make, for the record; None where they are alike."""
    makes = {(host.cpu_model, host.cores, tuple(host.gpus)) for host in hosts}
    if len(makes) < 2:
        return None
    each = _listed([f"{host.host}: {host.cores} cores, {host.cpu_model}, {len(host.gpus)} GPUs" for host in hosts])
    return f"hosts of unequal make, and every step waits for the slowest: {each}"


def check(present: Sequence[Present], config: Config) -> None:
    """Raise ConfigError where ranks are in the wrong place."""
    apart = nodes_apart(config, os.environ)
    if config.distribution.elastic:  # goes on with fewer
        apart = min(apart, len(present) // config.ranks_per_node)
    if found := wrong(present, config, apart):
        raise ConfigError("; ".join(found))
