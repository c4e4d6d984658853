"""Where ranks run, and what starts them: launcher, container, system, tracking: sections of the configuration."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from train.config.checks import Rule, allow, check

# Horovod's launcher takes plain names. Advice on a host with a user, with slots, or of another form.
_HOST_ADVICE = {
    r".*@": "give the name alone, and the user in ~/.ssh/config: Host NAME, User USER",
    r"[^:]+:\d+$": "give the name alone, and the ranks of each host as ranks_per_node",
    "": "a host is a name or an IPv4 address, over which ranks exchange, of letters, digits, dots, hyphens and _",
}


def check_hosts(hosts: tuple[str, ...]) -> None:
    """Raise ConfigError unless each host is a plain name, and named once."""
    duplicates = sorted({host for host in hosts if hosts.count(host) > 1})
    check(not duplicates, "launcher.hosts", ",".join(hosts), f"duplicate: {', '.join(duplicates)}")
    for host in hosts:
        why = next(advice for form, advice in _HOST_ADVICE.items() if re.match(form, host))
        check(re.fullmatch(r"[A-Za-z0-9_][\w.-]*", host, re.ASCII) is not None, "launcher.hosts", host, why)


@dataclass(frozen=True)
class LauncherConfig:
    """The launcher of the ranks. train/launch checks its requirements on the other values."""

    name: str
    # A job that takes longer has failed.
    timeout_s: int = field(metadata=allow(above=0, unit="seconds"))
    # Where and how ranks are started: here, on this machine; over_ssh on others, from this one; by_scheduler on others.
    starts: str = field(default="here", metadata=allow(names=("here", "over_ssh", "by_scheduler")))
    by_hand: bool = True  # ranks can also be started by hand, without this launcher
    # emulated: the fraction of the machine's cores that all nodes together get at the largest point
    cores_fraction: float = field(default=1.0, metadata=allow(above=0, maximum=1))
    # emulated: how far runs without allreduce may differ from the run on the fewest nodes
    flat_within_fraction: float = field(default=0.10, metadata=allow(above=0, maximum=1))
    separate_networks: bool = False  # emulated: each node in its own network, linked at system.link_mbit_per_s
    hosts: tuple[str, ...] = ()  # ssh: one per node; n nodes take the first n
    interface: str | None = None  # network interface of the allreduce, as ib0; null: the one towards the peers
    # batch system: the order of the points in one allocation
    order: str = field(default="small_first", metadata=allow(names=("small_first", "large_first")))
    split: bool = False  # batch system: one job per point, not one allocation for all
    # batch system: the estimate for a run before anything similar is measured
    assumed_run_s: int = field(default=300, metadata=allow(above=0, unit="seconds"))
    # batch system: the limit of a job
    time_limit_s: int | None = field(
        default=None, metadata=allow(minimum=60, unit="seconds", null="twice the estimate and ten minutes")
    )

    def __post_init__(self) -> None:
        """Check the hosts."""
        check_hosts(self.hosts)


@dataclass(frozen=True)
class ContainerConfig:
    """The container of the ranks: on one machine one container for the whole job, across hosts one for each rank."""

    name: str = field(metadata=allow(names=("none", "docker", "podman", "singularity")))
    # Its name, or the path of the SIF; null: the image that `make image` or `make sif` builds for the device.
    image: str | None = None
    # Folder of the host's MPI, ABI-compatible with the image's, to use in its place.
    mpi_home: str | None = None

    def rules(self) -> Iterator[Rule]:
        """Yield that image and MPI need a container."""
        for key in ("image", "mpi_home"):
            why = "there is no container; choose container=docker, podman or singularity"
            yield self.name != "none" or getattr(self, key) is None, key, why
        absolute = self.mpi_home is None or self.mpi_home.startswith("/")
        yield absolute, "mpi_home", "must be an absolute path"


def default_image(engine: str, device: str, mpi_home: str | None) -> str:
    """Return the name that `make image` and `make sif` give the image of this engine, device and MPI."""
    variant = "cuda" if device == "gpu" else "mvapich2" if mpi_home else "cpu"
    return f"images/kit-{variant}.sif" if engine == "singularity" else f"kit:{variant}"


@dataclass(frozen=True)
class SystemConfig:
    """The machine: the resources of a node, and the settings that its batch system requires."""

    name: str
    # null: all cores of a host; if nodes share this machine, its cores // the largest number of nodes
    cores_per_node: int | None = field(default=None, metadata=allow(minimum=1, null="all cores of the node"))
    smt: bool = False  # count and use each hardware thread as a core; else a rank has whole cores, one thread of each
    # CPU quota of a node, in cores.
    cpu_quota_per_node: float | None = field(default=None, metadata=allow(above=0, null="no limit"))
    # Bandwidth of a node's link in each direction.
    link_mbit_per_s: float | None = field(default=None, metadata=allow(above=0, unit="Mbit/s", null="no limit"))
    # Emulate nodes with CPU quotas, where possible, when they need more cores than this machine has.
    emulate: bool = False
    trust_others: bool = False  # those who may write to the results folder, as the group of a project
    gpus_per_node: int = field(default=0, metadata=allow(minimum=0))  # 0: as the batch system or the hosts say
    partition: str | None = None  # of Slurm; a queue of another batch system; null: the site's default
    account: str | None = None
    mpi: str = "pmix"  # srun's --mpi with distribution.controller=mpi: see `srun --mpi=list`
    sbatch: tuple[str, ...] = ()  # further options of the batch script, of any system, as --constraint=haswell
    setup: tuple[str, ...] = ()  # shell lines before the run, as module load cuda
    longest_s: int | None = None  # the site's limit on a job's time
    remark: str | None = None  # shown before a job is submitted

    def rules_with(self, run: Any) -> Iterator[Rule]:
        """Yield that only networks of emulated nodes have a limit."""
        linked = self.link_mbit_per_s is None or run.launcher.separate_networks
        yield linked, "system.link_mbit_per_s", "needs launcher=emulated launcher.separate_networks=true"
