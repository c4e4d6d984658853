"""The job that a launcher starts, and its outcome. Data only."""

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from common import affinity
from record import protocol
from record.schema import NodeQuota
from record.this_kit import ROOT
from train.config import identity
from train.config.machine_config import ContainerConfig
from train.config.run_config import RunConfig
from train.rank import environment, placement, process

OPEN_MPI, MPICH = "openmpi", "mpich"  # implementations of mpirun
IMAGE_PYTHON = "python"  # of an image, by its PATH


@dataclass(frozen=True)
class Nodes:
    """The nodes of a job, and the resources of each."""

    hosts: tuple[str, ...]  # one per node; localhost if nodes share this machine
    ranks_per_node: int = 1
    cores_per_rank: int = 1
    gpus_per_node: int = 0

    @property
    def ranks(self) -> int:
        """Return the number of ranks of the whole job."""
        return len(self.hosts) * self.ranks_per_node


@dataclass(frozen=True)
class Exchange:
    """How the ranks find each other and exchange gradients."""

    controller: str  # gloo | mpi | none
    interface: str | None = None  # of the network, by name; None: each rank finds the one towards the others
    mpirun: str = OPEN_MPI  # the implementation that starts the ranks if the controller is mpi
    srun_mpi: str = "pmix"  # the value of srun's --mpi if the controller is mpi


@dataclass(frozen=True)
class Shared:
    """The folders and variables that a container shares with its host; every path is the same inside and outside."""

    kit: Path  # this code, read only: it is also the working folder
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()  # the folders that the ranks write their results to
    variables: tuple[str, ...] = ()  # names of environment variables to pass on; Singularity passes all
    cores: tuple[int, ...] = ()  # that the command may run on; none: all
    gpu: bool = False
    uid: int = 0  # owner of the files that it writes
    gid: int = 0


@dataclass(frozen=True)
class Job:
    """One launch of one point, independent of the launcher."""

    argv: tuple[str, ...]  # of every rank; of a user's program, of the process that starts it once
    folder: Path  # of the run
    nodes: Nodes
    exchange: Exchange
    env: dict[str, str] = field(default_factory=dict)  # of every rank, in addition to this process's own
    container: ContainerConfig = field(default_factory=lambda: ContainerConfig("none"))
    shared: Shared = field(default_factory=lambda: Shared(ROOT))  # by container and host
    cpu_quota_per_node: float | None = None  # of emulated nodes while they measure, in cores; None: no limit
    separate_networks: bool = False  # each emulated node has its own network
    link_mbit_per_s: float | None = None  # of each node's link, in each direction; None: no limit
    program: bool = False  # a user's command, which starts its processes itself
    first_rank: int = 0  # of a rank group, among all ranks of the job
    groups: tuple["Job", ...] = ()  # the rank groups, which share this machine; empty: all ranks are joined

    @property
    def ranks(self) -> int:
        """Return all processes that measure."""
        return sum(group.nodes.ranks for group in self.groups) or self.nodes.ranks

    def host_of(self, rank: int) -> str:
        """Return the host that runs a rank: nodes are filled one after the other; rank groups share this machine."""
        host = self.nodes.hosts[0 if self.groups else rank // self.nodes.ranks_per_node]
        return socket.gethostname() if host == "localhost" else host


@dataclass(frozen=True)
class JobOutcome:
    """The end of a launch, as seen from outside. Times in seconds."""

    started_at: float  # since the epoch
    job_s: float
    exit_code: int
    ended_by: str | None = None  # "timeout", "SIGINT", "SIGTERM", or None if it ended by itself
    output: str = field(default="", repr=False)  # of the launcher's command, not of the ranks
    node_quotas: tuple[NodeQuota, ...] = ()


def make_job(
    config: RunConfig,
    folder: Path,
    hosts: tuple[str, ...] = (),
    mpirun: str = OPEN_MPI,
    image_digest: str | None = None,
) -> Job:
    """Return the job that measures a point once and leaves its parts in `folder`, an absolute path.

    hosts: a point takes the first of them; empty: nodes share this machine. image_digest: of the container's image.
    """
    hosts = hosts[: config.all_nodes]
    env = _environment(config, hosts, image_digest)
    in_container = config.container.name != "none" and not config.program
    python, module = IMAGE_PYTHON if in_container else sys.executable, "train.program" if config.program else "train"
    job = Job(
        argv=(python, "-m", module, "--run-dir", str(folder)),
        folder=folder,
        nodes=_nodes(config, hosts),
        exchange=_exchange(config, mpirun),
        env=env,
        container=config.container,
        shared=_shared(config, folder, (*_passed_on(config, bool(hosts)), *env), on_this_machine=not hosts),
        cpu_quota_per_node=config.system.cpu_quota_per_node,
        separate_networks=config.launcher.separate_networks,
        link_mbit_per_s=config.system.link_mbit_per_s,
        program=config.program is not None,
    )
    groups = []
    for number, group in enumerate(config.launch.rank_groups):
        own = identity.config_of(config, number)
        own_exchange = _exchange(own, mpirun)
        groups.append(replace(job, nodes=_nodes(own, ()), exchange=own_exchange, first_rank=group.first_rank))
    return replace(job, groups=tuple(groups))


def _passed_on(config: RunConfig, on_hosts: bool) -> Iterator[str]:
    """Yield the names of this environment's variables that ranks get in a container, or on other hosts."""
    variables = process.variables_for_other_hosts() if on_hosts else process.recorded_variables()
    names = variables if config.container.name == "none" else process.in_container(variables)
    yield from (name for name in names if not process.is_launcher_variable(name))


def _nodes(config: RunConfig, hosts: tuple[str, ...]) -> Nodes:
    """Return the processes of each host; there is one process if it computes for all ranks."""
    hosts = hosts or ("localhost",) * min(config.all_nodes, config.processes)
    per_node = config.processes // len(hosts)
    return Nodes(
        hosts=hosts,
        ranks_per_node=per_node,
        cores_per_rank=(config.threads_per_rank or 1) * config.towers,
        gpus_per_node=per_node * config.towers if config.device == "gpu" else 0,
    )


def _exchange(config: RunConfig, mpirun: str) -> Exchange:
    settings = config.distribution
    controller = settings.controller
    if config.program or settings.backend == "none" or settings.in_one_process:
        controller = "none"
    return Exchange(controller, config.launcher.interface, mpirun, config.system.mpi)


def _environment(config: RunConfig, hosts: Sequence[str], image_digest: str | None) -> dict[str, str]:
    env = {protocol.PEERS: ",".join(hosts)} if hosts else {}
    if config.container.name != "none":
        # An image has no git: its ranks get the facts about image and code from here.
        commit, dirty = environment.git_state()
        env |= {protocol.IMAGE: str(config.container.image), protocol.IMAGE_DIGEST: image_digest or ""}
        env |= {protocol.GIT_COMMIT: commit or "", protocol.GIT_DIRTY: "" if dirty is None else str(int(dirty))}
    return env


def _cores(config: RunConfig) -> tuple[int, ...]:
    """Return the cores that a container may use here: all for ranks, which bind themselves; for a program its own."""
    usable = affinity.usable_cores()
    if not config.program:
        return tuple(usable)
    return tuple(sorted({core for cores in placement.cores_of_ranks(config, usable) for core in cores}))


def _shared(config: RunConfig, folder: Path, variables: tuple[str, ...], on_this_machine: bool) -> Shared:
    weights = config.weights if config.weights not in ("none", "imagenet") else None
    return Shared(
        kit=ROOT,
        reads=tuple(Path(path).resolve() for path in (config.dataset.data_dir, weights) if path),
        writes=(folder,),
        variables=(*variables, *protocol.PROCESS_VARIABLES, *(["OMP_NUM_THREADS"] if config.program else [])),
        cores=_cores(config) if on_this_machine else (),
        gpu=config.device == "gpu",
        uid=os.getuid(),
        gid=os.getgid(),
    )
