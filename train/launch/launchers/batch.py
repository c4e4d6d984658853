"""What a launcher is that submits jobs to a batch system.

The script of a job holds one command: this same launcher, which inside the allocation makes the runs and writes their
records. So a job that reaches its time limit, or that is started again, has lost nothing that was measured.
"""

from __future__ import annotations

import shlex
import subprocess
from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from omegaconf import DictConfig

from train.config.checks import ConfigError
from train.config.schema import RunConfig, System
from train.launch.launchers.base import Gpus, Launcher, Machine
from train.record.protocol import IN_ALLOCATION
from train.record.source import ROOT

RUNNING = "RUNNING"  # the state of a job that runs, under every batch system
_ANSWER_WITHIN_S = 300  # longer than the system itself waits for its server: a job that we gave up may be in its queue


@dataclass(frozen=True)
class BatchJob:
    """One job to submit: what it needs of the batch system, and what it runs."""

    name: str
    nodes: int
    ranks_per_node: int
    cores_per_rank: int
    gpus_per_node: int
    limit_s: int
    folder: Path  # of its script and its log
    system: System
    command: tuple[str, ...]  # the launcher, with the overrides of the user


def clock(seconds: int) -> str:
    """Return a time as batch systems take it: 5400 -> 01:30:00."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


class BatchLauncher(Launcher):
    """A batch system. Outside an allocation it submits jobs; inside one it starts the ranks on the allocated hosts."""

    hosts_apart = True
    random_order = False  # from small to large, so that an allocation that ends early has the smallest points
    job_variable: ClassVar[str]  # the environment variable that tells a job its id
    warns_before_s: ClassVar[int] = 0  # how long before the time limit the system sends SIGTERM

    @abstractmethod
    def directives(self, job: BatchJob) -> list[str]:
        """Return the lines at the top of the batch script, as #SBATCH --nodes=2."""

    @abstractmethod
    def submit(self, script: Path) -> str:
        """Submit a batch script; returns the id of the job. Raises ConfigError where the system refuses it."""

    @abstractmethod
    def queue(self) -> dict[str, str]:
        """Return the user's jobs that the system still has: id -> state, RUNNING if it runs. Raises ConfigError."""

    @abstractmethod
    def allocated_hosts(self) -> list[str]:
        """Return the hosts of the allocation that this launcher runs in."""

    @abstractmethod
    def cores_of_a_node(self, system: System) -> int:
        """Return the cores of the smallest node that jobs can get. Raises ConfigError."""

    def cpu_flags(self, config: RunConfig) -> Mapping[str, Collection[str]]:
        """Return none before the hosts are allocated: the ranks tell them in the roll call."""
        return {}

    def script(self, job: BatchJob) -> str:
        """Return the whole batch script. Raises ConfigError if a directive has several lines: the shell runs them."""
        directives = self.directives(job)
        if wrong := next((line for line in directives if "\n" in line), None):
            raise ConfigError(f"launcher={self.name}: {wrong!r}: an end of a line in a name; rename the folder")
        lines = ["#!/bin/bash", *directives, "", f"cd {shlex.quote(str(ROOT))} || exit", *job.system.setup]
        lines += [f"export {IN_ALLOCATION}=1", *self.before_launch(), f"exec {shlex.join(job.command)}"]
        return "\n".join([*lines, ""])

    def before_launch(self) -> list[str]:
        """Return further lines of the batch script, before the one that starts the launcher."""
        return []

    def inside(self, variables: Mapping[str, str]) -> bool:
        """Return whether these environment variables are of a launcher in an allocation that it was submitted to."""
        return IN_ALLOCATION in variables and self.job_variable in variables

    def ask(self, *command: str) -> str:
        """Return what a command of the batch system prints. Raises ConfigError where it is missing, or fails."""
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_ANSWER_WITHIN_S, stdin=subprocess.DEVNULL
            )
        except FileNotFoundError:
            raise ConfigError(f"launcher={self.name}: there is no command {command[0]} on this machine") from None
        except subprocess.TimeoutExpired:
            raise ConfigError(
                f"launcher={self.name}: {command[0]} did not answer within {_ANSWER_WITHIN_S} s"
            ) from None
        if done.returncode:
            raise ConfigError(f"launcher={self.name}: {shlex.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def cores_per_node(self, experiment: DictConfig, machine: Machine, max_nodes: int) -> int:
        """Return the cores of the smallest node that jobs can get."""
        return self.cores_of_a_node(experiment.system)

    def gpus(self, config: RunConfig) -> list[Gpus]:
        """Return the GPUs of a node, as its system's file has them."""
        return [Gpus(config.ranks_per_node, config.system.gpus_per_node, "system.gpus_per_node says")]

    def free_bytes(self, config: RunConfig) -> int | None:
        """Return None: it is not known before the job runs."""
        return None

    def hosts(self, config: RunConfig) -> tuple[str, ...]:
        """Return the hosts of the allocation."""
        return tuple(self.allocated_hosts())
