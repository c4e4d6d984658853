"""A job: what is to be started, and what came of it. Data only."""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from train import placement
from train.launch.points import Point
from train.schema import Config


@dataclass(frozen=True)
class Job:
    """One launch of one point: what every launcher needs to know, and nothing of how it does it."""

    ranks: int
    ranks_per_node: int
    controller: str  # gloo | mpi | none
    argv: tuple[str, ...]  # of every rank
    env: dict[str, str]
    folder: Path
    hosts: tuple[str, ...]  # one per node


@dataclass(frozen=True)
class Outcome:
    """How a launch ended, as seen from outside. Times in seconds."""

    started_at: float  # epoch
    job_s: float
    exit_code: int
    ended_by: str | None = None  # "timeout", "SIGINT", "SIGTERM", or None where it ended by itself
    output: str = field(default="", repr=False)  # of the launcher, not of the ranks


def make_job(point: Point, folder: Path) -> Job:
    """The job that measures a point once and leaves its parts in `folder`."""
    config = point.config
    return Job(
        ranks=config.ranks,
        ranks_per_node=config.ranks_per_node,
        controller=config.distribution.controller if config.distribution.backend == "horovod" else "none",
        argv=(sys.executable, "-m", "train", "--run-dir", str(folder), *point.overrides),
        env={},
        folder=folder,
        hosts=("localhost",) * config.nodes,
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
