"""A job: what is to be started, and what came of it. Data only."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from train.config.schema import Config, Container, Distribution
from train.launch.plan.points import Point
from train.launch.start import containers
from train.rank import environment, placement
from train.record.record import NodeQuota

ROOT = Path(__file__).resolve().parents[3]  # the kit

# In the environment of every process of a job: how strays are found, and when the phase `start` began.
JOB_ID, JOB_STARTED_AT = OF_EVERY_PROCESS = ("KIT_JOB_ID", "KIT_JOB_STARTED_AT")
PEERS = placement.PEERS
OPEN_MPI, MPICH = "openmpi", "mpich"  # whose mpirun


@dataclass(frozen=True)
class Job:
    """One launch of one point: what every launcher needs to know, and nothing of how it does it."""

    ranks: int
    ranks_per_node: int
    controller: str  # gloo | elastic | mpi | none
    argv: tuple[str, ...]  # of every rank
    env: dict[str, str]
    folder: Path
    hosts: tuple[str, ...]  # one per node
    launcher: str = "local"
    interface: str | None = None  # of the network, by name; None: each rank finds the one towards the others
    cores_per_rank: int = 1
    gpus_per_node: int = 0
    mpi: str = "pmix"  # what srun is told where the controller is mpi
    mpirun: str = OPEN_MPI  # whose starts the ranks where the controller is mpi, and no srun does
    container: Container = field(default_factory=lambda: Container("none"))
    shared: containers.Shared = field(default_factory=lambda: containers.Shared(ROOT))  # by container and host
    cpus_per_node: float | None = None  # cores' worth of time that each node is held to while it measures
    networks: str | None = None  # what the namespaces of its nodes begin with, where each has its own
    link_mbit_per_s: float | None = None
    prefix: tuple[str, ...] = ()  # of the whole command


@dataclass(frozen=True)
class Outcome:
    """How a launch ended, as seen from outside. Times in seconds."""

    started_at: float  # epoch
    job_s: float
    exit_code: int
    ended_by: str | None = None  # "timeout", "SIGINT", "SIGTERM", or None where it ended by itself
    output: str = field(default="", repr=False)  # of the launcher, not of the ranks
    node_quotas: tuple[NodeQuota, ...] = ()


def _controller(settings: Distribution) -> str:
    if settings.backend == "none":
        return "none"
    return "elastic" if settings.elastic else settings.controller


def make_job(
    point: Point,
    folder: Path,
    image_digest: str | None = None,
    *,
    mpirun: str = OPEN_MPI,
    networks: str = "kit",
    prefix: tuple[str, ...] = (),
    hosts: Sequence[str] = (),
) -> Job:
    """The job that measures a point once and leaves its parts in `folder`, in the image of that digest, if any.

    Args:
        mpirun: whose is there (train.launch.mpi).
        networks: what the namespaces of its nodes begin with, if it has any.
        prefix: what this machine's quotas need.
        hosts: those to run on where the nodes are hosts of their own; a point takes as many as it needs, from the
            first on.
    """
    config = point.config
    contained = config.container.name != "none"
    own_hosts = tuple(hosts[: config.nodes])
    env: dict[str, str] = {PEERS: ",".join(own_hosts)} if own_hosts else {}
    if contained:
        # An image has no git: what its ranks cannot find out of image and code, they are told.
        commit, dirty = environment.git_state()
        env |= {"KIT_IMAGE": str(config.container.image), "KIT_IMAGE_DIGEST": image_digest or ""}
        env |= {"KIT_GIT_COMMIT": commit or "", "KIT_GIT_DIRTY": "" if dirty is None else str(int(dirty))}
    file_of_weights = config.weights if config.weights not in ("none", "imagenet") else None
    python = containers.PYTHON if contained else sys.executable
    return Job(
        ranks=config.ranks,
        ranks_per_node=config.ranks_per_node,
        controller=_controller(config.distribution),
        argv=(python, "-m", "train", "--run-dir", str(folder), *point.overrides),
        env=env,
        folder=folder,
        hosts=own_hosts or ("localhost",) * config.nodes,
        launcher=config.launcher.name,
        interface=config.launcher.interface,
        cores_per_rank=config.threads_per_rank or 1,
        gpus_per_node=config.ranks_per_node if config.device == "gpu" else 0,
        mpi=config.system.mpi,
        mpirun=mpirun,
        container=config.container,
        shared=containers.Shared(
            kit=ROOT,
            reads=tuple(Path(path).resolve() for path in (config.dataset.data_dir, file_of_weights) if path),
            writes=(folder,),
            variables=(*environment.variables(), *env, *OF_EVERY_PROCESS),
            cores=() if own_hosts else tuple(placement.usable_cores()),
            gpu=config.device == "gpu",
            uid=os.getuid(),
            gid=os.getgid(),
        ),
        cpus_per_node=config.system.cpus_per_node,
        networks=networks if config.launcher.separate_networks else None,
        link_mbit_per_s=config.system.link_mbit_per_s,
        prefix=prefix if config.system.cpus_per_node else (),
    )


def planned_cores(config: Config, available: list[int]) -> list[list[int]]:
    """The cores of each rank where all nodes share this machine, in the order of ranks."""
    per_node = config.system.cores_per_node or 1
    threads = config.threads_per_rank or 1
    return [
        placement.cores_of_rank(available, rank, config.ranks_per_node, per_node, threads)
        for rank in range(config.ranks)
    ]


def host_of(job: Job, rank: int) -> str:
    """The host that runs a rank: nodes are filled one after the other."""
    host = job.hosts[rank // job.ranks_per_node]
    return socket.gethostname() if host == "localhost" else host
