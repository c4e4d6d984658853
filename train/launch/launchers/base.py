"""The interface of launchers. Each has a module beside this one; docs/adding.md shows how to add one.

A launcher states its abilities, the cores of its nodes, what it refuses, and the command of a job. All other code
(points, checks, watching, records) asks the launcher object and never compares names.
"""

import functools
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

import msgspec
import psutil
from omegaconf import DictConfig

from common import bounded_files as bounded
from common.printable import escaped
from common.programs import finished
from record.protocol import IN_ALLOCATION
from record.schema import NodeQuota
from record.this_kit import ROOT
from train.config import program
from train.config.checks import ConfigError, LeftOut, Rule, check, check_rules
from train.config.compose import Experiment
from train.config.machine_config import SystemConfig
from train.config.run_config import RunConfig
from train.launch.job import OPEN_MPI, Job
from train.launch.launchers import hosts
from train.launch.start import gloo_output, mpi_output, site_setup, start_commands
from train.rank import gpus, host, placement

_SSH_FAILED = 255  # the exit status if ssh itself fails; else it is that of the command


@dataclass(frozen=True)
class Machine:
    """The cores and quotas that nodes which share this machine can have."""

    cores: int
    no_quotas: str | None = None  # why nodes cannot be limited to CPU quotas here; None if they can
    threads: int = 0  # hardware threads, all of which count as cores with system.smt


@dataclass(frozen=True)
class Hardware:
    """The hardware of a host that will run ranks, as far as it is known before anything starts."""

    host: str  # its name
    gpus: int
    free_bytes: int | None = None
    cpu_flags: Collection[str] | None = None  # the instruction sets of its processor


@functools.cache  # each time its driver takes a second to answer
def _gpus_here() -> int:
    return len(gpus.names())


class Limiter(Protocol):
    """Limits the nodes of a job while they measure."""

    quotas: list[NodeQuota]  # filled when all ranks have measured

    def update(self, processes: Callable[[], Iterable[psutil.Process]]) -> None:
        """Set and lift limits when the ranks request it; called several times a second.

        processes: lists the processes of the job. That takes time from the nodes, so it is called once.
        Raises OSError.
        """


class Launcher:
    """One way to start the ranks of an experiment; by default on this machine. Only `name` is needed."""

    name: ClassVar[str]  # as launcher.name in conf/launcher/*.yaml
    hosts_apart: ClassVar[bool] = False  # each node is a separate host; else all nodes share this machine
    over_ssh: ClassVar[bool] = False  # Horovod's launcher or mpirun, on this machine, starts the ranks over ssh
    gives_size: ClassVar[bool] = False  # a program that it starts can know the size of its job from the launcher
    takes_hosts: ClassVar[bool] = False  # launcher.hosts names the nodes
    quotas: ClassVar[bool] = False  # nodes are limited to CPU quotas while they measure
    # Variables that its command needs although their names look like secrets; the ranks get no other such variable.
    secrets: ClassVar[tuple[str, ...]] = ()
    random_order: ClassVar[bool] = True  # runs are made in a random order; else by number of nodes

    def submits(self, variables: Mapping[str, str]) -> bool:
        """Return whether a launch with these environment variables ends before its runs: they wait in a queue."""
        return False

    # ---- plan: allowed configurations, and the cores of nodes ----

    def check(self, config: RunConfig) -> None:
        """Raise ConfigError if this launcher cannot do what the configuration of a run requires, by its `rules`."""
        check_rules(self.rules(config), config)

    def rules(self, config: RunConfig) -> Iterator[Rule]:
        """Yield what must hold, the key to name if it does not, what is allowed, and LeftOut if others are possible."""
        hosts, nodes, system, exchange = config.launcher.hosts, config.all_nodes, config.system, config.distribution
        starts = "here" if not self.hosts_apart else "over_ssh" if self.over_ssh else "by_scheduler"
        yield config.launcher.starts == starts, "launcher.starts", f"launcher={self.name} needs {starts}, in its file"
        if self.takes_hosts:
            needed = "1 node needs a host" if nodes == 1 else f"{nodes} nodes need as many hosts"
            yield len(hosts) >= nodes, "launcher.hosts", f"{needed}: make ... LAUNCHER={self.name} HOSTS=a,b,c"
        else:
            yield not hosts, "launcher.hosts", f"launcher={self.name} takes none; choose launcher=ssh"
        emulated = "needs launcher=emulated"
        yield self.quotas or not config.launcher.separate_networks, "launcher.separate_networks", emulated
        yield self.quotas or system.cpu_quota_per_node is None, "system.cpu_quota_per_node", emulated
        why = f"one process cannot be on {config.nodes} hosts; with launcher={self.name} give nodes=1, ranks_per_node=N"
        over_hosts = self.hosts_apart and exchange.in_one_process and config.nodes > 1
        yield not over_hosts, "distribution.backend", why, LeftOut
        why = f"works on one machine; with launcher={self.name} allowed are none, singularity"
        yield not (self.hosts_apart and config.container.name in ("docker", "podman")), "container", why
        if config.program:
            why = (
                f"it is the same on 1 node and on {config.nodes}; give {{ranks}} to what starts its processes, or "
                "write env OMP_NUM_THREADS={cores} before a program of one process"
            )
            sized = config.nodes == 1 or self.gives_size or program.has_size(config.program.command)
            yield sized, "program.command", why

    def replacement(self, experiment: Experiment, machine: Machine) -> str:
        """Return the name of the launcher that runs this experiment here: this one, unless another suits it better.

        The configuration is not checked yet. Raises ConfigError.
        """
        return self.name

    def cores_per_node(self, experiment: DictConfig, machine: Machine, max_nodes: int) -> int:
        """Return the cores of each node if the system's file has none: the same at every point. Raises ConfigError.

        max_nodes: of the largest point.
        """
        return placement.share(machine.cores, max_nodes)

    def gpus_per_node(self, experiment: DictConfig) -> int:
        """Return the GPUs of each host if the system's file has none; 0 on this machine. Raises ConfigError."""
        return 0

    def cpu_quota_per_node(self, experiment: DictConfig, machine: Machine, max_nodes: int) -> float | None:
        """Return the CPU quota of each node, in cores, if system.cpu_quota_per_node is null; None: no quota."""
        return None

    # ---- checks before anything starts ----

    def hardware(self, config: RunConfig) -> list[Hardware]:
        """Return the hardware of this machine, or of each host that will run ranks. Raises ConfigError."""
        count = _gpus_here() if config.device == "gpu" else 0
        return [Hardware("this machine", count, psutil.virtual_memory().available, host.cpu_flags())]

    def check_machine(self, config: RunConfig) -> None:
        """Raise ConfigError if this machine lacks something that this launcher needs for the point."""
        return

    def notes(self, config: RunConfig) -> list[str]:
        """Return notes on this launcher for the user, before anything starts."""
        return []

    def warnings(self, config: RunConfig) -> list[str]:
        """Return warnings of what may disturb the measurement."""
        return []

    # ---- start ----

    def mpirun(self, config: RunConfig) -> str:
        """Return the mpirun that starts the ranks: OPEN_MPI or MPICH; OPEN_MPI if none is used. Raises ConfigError."""
        return OPEN_MPI

    def hosts(self, config: RunConfig) -> tuple[str, ...]:
        """Return the hosts to run on; a point takes the first of them. Empty: this machine."""
        return ()

    def command(self, job: Job) -> list[str]:
        """Return the command that starts all ranks of the job and ends when they have ended.

        By default it is Horovod's Gloo launcher or mpirun, over ssh if the nodes are separate hosts.
        """
        return start_commands.across_hosts(job) if self.hosts_apart else start_commands.on_this_machine(job)

    def launch_command(self, job: Job) -> list[str]:
        """Return the command that is started here: that of all ranks, or the one that starts a user's program once."""
        return start_commands.on_this_machine(job) if job.program else self.command(job)

    # ---- supervise ----

    @contextmanager
    def watching(self, job: Job) -> Iterator[Limiter | None]:
        """Return a context for a running job: it sets up what the launcher needs, and removes it after the job's end.

        Yields the limiter of the job's nodes, if they have quotas.
        """
        yield None

    def end_remote(self, job: Job, job_id: str) -> list[str]:
        """End the processes that a failed job left on other hosts; returns the hosts that did not answer."""
        return hosts.kill_on(job.nodes.hosts, job_id) if self.over_ssh else []

    def explain_exit(self, code: int) -> str | None:
        """Return the meaning of an exit status of this launcher; None if it is the exit status of the rank."""
        if not self.over_ssh or code != _SSH_FAILED:
            return None
        return f"killed by a signal, or its host or the link to it is gone: ssh ended with exit status {code}"

    def first_to_end(self, output: str) -> tuple[int, int] | None:
        """Return the rank that ended first by the output of `command`, and its exit status as in a shell.

        None if the output does not name it.
        """
        return gloo_output.first_to_end(output) or mpi_output.first_to_end(output)

    def failed_host(self, output: str) -> str | None:
        """Return the host that the batch system lost, by the output of `command`; None without one."""
        return None

    def cancellation(self, output: str) -> str | None:
        """Return what the output of `command` says of a job that the batch system ended; None if it says nothing."""
        return None


RUNNING = "RUNNING"  # the state of a job that runs, under every batch system
_ANSWER_WITHIN_S = 300.0  # longer than the system waits for its server: after a timeout the job may be in the queue


@dataclass(frozen=True)
class BatchJob:
    """A job to submit: the resources that it needs, and its command."""

    name: str
    nodes: int
    ranks_per_node: int
    cores_per_rank: int
    gpus_per_node: int
    limit_s: int
    folder: Path  # of its script and its log
    system: SystemConfig
    command: tuple[str, ...]  # the launcher, with the overrides of the user


@dataclass(frozen=True)
class QueuedJob:
    """A job that the batch system still has."""

    state: str  # RUNNING if it runs
    reason: str = ""  # why it waits, as the batch system says it; "" if it does not


@dataclass(frozen=True)
class AvailableNodes:
    """The nodes that a job can get."""

    cores: int  # of the smallest
    gpus: int  # of the one that has fewest
    count: int  # the most that one job can get
    where: str  # the set of nodes and the program that shows it, as "partition main (sinfo)"


Answer = TypeVar("Answer")


def clock(seconds: int) -> str:
    """Return a time as batch systems take it: 5400 -> 01:30:00."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


class BatchLauncher(Launcher, ABC):
    """A batch system. Outside an allocation it submits jobs; inside one it starts the ranks on the allocated hosts."""

    hosts_apart = True
    gives_size = True
    random_order = False  # from small to large, so that an allocation that ends early has the smallest points
    job_variable: ClassVar[str]  # the environment variable that tells a job its id
    directive: ClassVar[str]  # the first word of the lines at the top of a batch script, as #SBATCH
    partition_option: ClassVar[str]  # to which the name of a partition or queue is added, as --partition=
    account_option: ClassVar[str]
    warns_before_s: ClassVar[int] = 0  # how long before the time limit the system sends SIGTERM

    @abstractmethod
    def options(self, job: BatchJob) -> list[str]:
        """Return the options of a job, as --nodes=2, without those of the site's file."""

    @abstractmethod
    def submit(self, script: Path) -> str:
        """Submit a batch script; returns the id of the job. Raises ConfigError if the system refuses it."""

    @abstractmethod
    def queue(self) -> dict[str, QueuedJob]:
        """Return the user's jobs that the system still has, by their ids. Raises ConfigError."""

    @abstractmethod
    def allocated_hosts(self) -> list[str]:
        """Return the hosts of the allocation that this launcher runs in; they may be repeated."""

    @abstractmethod
    def find_nodes(self, partition: str | None, smt: bool) -> AvailableNodes:
        """Return the nodes of a partition or queue, by default those of the site's default one. Raises ConfigError.

        smt: hardware threads count as cores.
        """

    @functools.cache  # noqa: B019 - a launcher lives as long as its process
    def available_nodes(self, partition: str | None, smt: bool) -> AvailableNodes:
        """Return the `find_nodes` of the first call."""
        return self.find_nodes(partition, smt)

    def script(self, job: BatchJob) -> str:
        """Return the whole batch script. Raises ConfigError if a directive has several lines: the shell runs them."""
        system = job.system
        named = ((self.partition_option, system.partition), (self.account_option, system.account))
        site = [f"{option}{shlex.quote(name)}" for option, name in named if name]
        directives = [f"{self.directive} {option}" for option in (*self.options(job), *site, *system.sbatch)]
        if wrong := next((line for line in directives if "\n" in line), None):
            raise ConfigError(f"launcher={self.name}: {wrong!r}: an end of a line in a name; rename the folder")
        lines = ["#!/bin/bash", *directives, "", f"cd {shlex.quote(str(ROOT))} || exit"]
        lines += site_setup.script(system.setup)
        lines += [f"export {IN_ALLOCATION}=1", *self.before_launch(), f"exec {shlex.join(job.command)}"]
        return "\n".join([*lines, ""])

    def before_launch(self) -> list[str]:
        """Return further lines of the batch script, before the one that starts the launcher."""
        return []

    def submits(self, variables: Mapping[str, str]) -> bool:
        """Return whether these environment variables show a launcher outside the allocation of its job."""
        return IN_ALLOCATION not in variables or self.job_variable not in variables

    def ask(self, *command: str, content: bytes = b"") -> str:
        """Return the output of a command of the batch system. Raises ConfigError if it is missing, or fails.

        content: its standard input.
        """
        try:
            done = finished(command, _ANSWER_WITHIN_S, content)
        except FileNotFoundError as error:
            raise ConfigError(f"launcher={self.name}: there is no command {command[0]} on this machine") from error
        if done.returncode:
            why = done.stderr.strip() or f"exit status {done.returncode}"
            raise ConfigError(f"launcher={self.name}: {shlex.join(command)}: {why}")
        return done.stdout

    def ask_json(self, kind: type[Answer], *command: str) -> Answer:
        """Return the answer of a command that prints JSON of this type. Raises ConfigError for any other answer."""
        output = self.ask(*command)
        try:
            return msgspec.json.decode(bounded.check_json(output.encode()), type=kind)
        except ValueError as error:
            raise self.not_understood(command, output, error) from error

    def not_understood(self, command: Sequence[str], output: str, why: object) -> ConfigError:
        """Return the error of an answer that is not as expected."""
        first = escaped(output.strip().partition("\n")[0][:100]) or "nothing"
        return ConfigError(f"launcher={self.name}: {shlex.join(command)} answered {first}: not as expected: {why}")

    def cores_per_node(self, experiment: DictConfig, machine: Machine, max_nodes: int) -> int:
        """Return the cores of the smallest node that jobs can get."""
        return self.available_nodes(experiment.system.partition, experiment.system.smt).cores

    def gpus_per_node(self, experiment: DictConfig) -> int:
        """Return the GPUs of the node with the fewest that jobs can get."""
        return self.available_nodes(experiment.system.partition, experiment.system.smt).gpus

    def check_machine(self, config: RunConfig) -> None:
        """Raise ConfigError if a job of so many nodes would wait for ever."""
        if nodes := self._nodes_outside(config):
            why = f"a job gets at most {nodes.count}, of {nodes.where}; take fewer, or another system.partition"
            check(config.all_nodes <= nodes.count, "nodes", config.all_nodes, why)

    def notes(self, config: RunConfig) -> list[str]:
        """Return which nodes were looked at."""
        if not (nodes := self._nodes_outside(config)):
            return []
        counted = f"{nodes.cores} cores{f' and {nodes.gpus} GPUs' if config.device == 'gpu' else ''} or more each"
        return [f"Jobs get nodes of {nodes.where}: {nodes.count}, with {counted}."]

    def _nodes_outside(self, config: RunConfig) -> AvailableNodes | None:
        """Return the nodes that jobs can get; None in an allocation, or if they are not known here."""
        if self.submits(os.environ):
            with suppress(ConfigError):  # a dry run shows the script also where the system's programs are missing
                return self.available_nodes(config.system.partition, config.system.smt)
        return None

    def hardware(self, config: RunConfig) -> list[Hardware]:
        """Return how many GPUs a node has, as far as that is known here: the hosts are not allocated yet."""
        nodes = self._nodes_outside(config)
        return [Hardware("a node", config.system.gpus_per_node or (nodes.gpus if nodes else config.ranks_per_node))]

    def hosts(self, config: RunConfig) -> tuple[str, ...]:
        """Return the hosts of the allocation."""
        return tuple(dict.fromkeys(self.allocated_hosts()))


def smallest(nodes: Collection[tuple[int, int]], partition: str, program: str) -> AvailableNodes:
    """Return the nodes of a queue that are up, from cores and GPUs of each. Raises ConfigError if there are none.

    program: the one that shows them.
    """
    if not nodes:
        raise ConfigError(f"system.partition={partition}: {program} shows no node of this queue that is up")
    cores, gpus = map(min, zip(*nodes, strict=True))
    return AvailableNodes(cores, gpus, len(nodes), f"queue {partition} ({program})")
