"""Nodes emulated on this machine: each gets a fixed share of the cores, and on request a separate network."""

import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from omegaconf import DictConfig

from common import affinity
from record import protocol
from record.recorded_config import ASYNCHRONOUS, TOWERS
from record.schema import NodeQuota
from train.config.checks import ConfigError, LeftOut, Rule, check
from train.config.compose import Experiment
from train.config.distribution_config import BACKENDS
from train.config.run_config import RunConfig
from train.launch import cgroups, networks
from train.launch.cgroups import Groups, QuotaMethod
from train.launch.job import Job, Nodes
from train.launch.launchers.base import Machine
from train.launch.launchers.local import Local
from train.launch.start import start_commands
from train.rank import placement


def pids_of_nodes(nodes: Nodes, processes: Iterable[psutil.Process]) -> list[list[int]]:
    """Return the process ids of each node, by the rank in their environment; of a job of one rank all processes."""
    by_node: list[list[int]] = [[] for _ in nodes.hosts]
    for process in processes:
        try:
            rank = placement.rank_of(process.environ(), 0 if nodes.ranks == 1 else -1)
        except psutil.Error:
            continue
        if rank >= 0:
            by_node[rank // nodes.ranks_per_node].append(process.pid)
    return by_node


class QuotaEnforcer:
    """The quotas of one job, from the moment when all its ranks are ready until all have measured, and its link rates.

    The other side of this protocol is train/rank/quota_gate.py.
    """

    def __init__(self, job: Job, method: QuotaMethod, name: str) -> None:
        """Limit nothing before `update`. name: of the job's networks if it has any."""
        assert job.cpu_quota_per_node is not None
        self._job, self._cpus, self._name = job, job.cpu_quota_per_node, name
        self._method, self._groups = method, Groups(method, job.folder.name, len(job.nodes.hosts))
        self._awake: list[subprocess.Popen[bytes]] = []
        self.quotas: list[NodeQuota] = []

    def update(self, processes: Callable[[], Iterable[psutil.Process]]) -> None:
        """Set the limits if all ranks wait for them, and the rates of links; lift the limits if all have measured."""
        folder, ranks = self._job.folder, range(self._job.nodes.ranks)
        if not protocol.limited_path(folder).exists():
            if all(protocol.ready_path(folder, rank).exists() for rank in ranks):
                self._groups.limit(pids_of_nodes(self._job.nodes, processes()), self._cpus)
                if self._method.keeps_awake:
                    self._awake = cgroups.start_spinning(affinity.usable_cores())
                    self._groups.put_behind([process.pid for process in self._awake])
                if self._job.separate_networks:
                    networks.limit(self._name, len(self._job.nodes.hosts), self._job.link_mbit_per_s)
                protocol.limited_path(folder).touch()
        elif self._job.separate_networks and (rate := _next_rate(folder)):
            networks.limit(self._name, len(self._job.nodes.hosts), rate.mbit_per_s)
            protocol.write_link_rate(protocol.link_set_path(folder), rate)
        elif not self.quotas and all(protocol.measured_path(folder, rank).exists() for rank in ranks):
            cgroups.stop_spinning(self._awake)
            self.quotas = self._groups.lift()

    def remove(self) -> None:
        """Remove the control groups, once the processes of the job have ended."""
        cgroups.stop_spinning(self._awake)
        self._groups.remove()


def _next_rate(folder: Path) -> protocol.LinkRate | None:
    """Return the rate that the links need next; None if they have it."""
    rate = protocol.read_link_rate(protocol.link_wanted_path(folder))
    return rate if rate != protocol.read_link_rate(protocol.link_set_path(folder)) else None


class Emulated(Local):
    """Nodes share this machine, each limited to a CPU quota that is the same at every point."""

    name = "emulated"
    quotas = True

    def rules(self, config: RunConfig) -> Iterator[Rule]:
        """Yield that quotas mean something and can hold, and that separate networks can be used."""
        yield from super().rules(config)
        yield config.device == "cpu", "device", "launcher=emulated divides CPU time; use device=cpu"
        why = "its quotas hold for timed training steps; for epochs and allreduces alone take launcher=local"
        yield config.measure.epochs == 0 and config.allreduce_sweep is None, "launcher", why
        exchange = config.distribution
        possible = ", ".join(name for name in BACKENDS if name not in TOWERS | ASYNCHRONOUS)
        instead = f"with launcher=emulated allowed are {possible}, or take launcher=local"
        why = f"its one process cannot be held to the quotas of several nodes; {instead}"
        yield not exchange.in_one_process, "distribution.backend", why, LeftOut
        why = f"it has no run without allreduce, the control that shows whether the quotas held; {instead}"
        yield not exchange.asynchronous, "distribution.backend", why, LeftOut
        joined = exchange.controller == "gloo" and config.container.name == "none"
        why = "works with distribution.controller=gloo and container=none"
        yield joined or not config.launcher.separate_networks, "launcher.separate_networks", why

    def replacement(self, experiment: Experiment, machine: Machine) -> str:
        """Return local if quotas are not available. Raises ConfigError if separate networks need them."""
        if machine.no_quotas is None:
            return self.name
        if experiment.composed.launcher.separate_networks:
            raise ConfigError(f"launcher=emulated: nodes with separate networks need CPU quotas: {machine.no_quotas}")
        return Local.name

    def cpu_quota_per_node(self, experiment: DictConfig, machine: Machine, max_nodes: int) -> float | None:
        """Return the quota of a node: its share of launcher.cores_fraction of the machine, at the largest point."""
        return cgroups.per_node(machine.cores, max_nodes, experiment.launcher.cores_fraction)

    def check_machine(self, config: RunConfig) -> None:
        """Raise ConfigError if separate networks cannot be made."""
        missing = networks.missing() if config.launcher.separate_networks else None
        check(missing is None, "launcher.separate_networks", True, str(missing))

    def notes(self, config: RunConfig) -> list[str]:
        """Return how the nodes are emulated."""
        percent = 100 * (config.system.cpu_quota_per_node or 0)
        return [
            f"Nodes are emulated: each is limited to {percent:.4g} % of a core from its warm-up on. They are also "
            "measured without allreduce: nodes that do not disturb each other are then as fast as one alone."
        ]

    def command(self, job: Job) -> list[str]:
        """Return the local command, in a scope of systemd if quotas need one, or in the networks of the nodes."""
        if job.separate_networks:
            return in_networks(job, networks.own_name())
        method = cgroups.quota_method()
        return [*(method.prefix if isinstance(method, QuotaMethod) else ()), *start_commands.on_this_machine(job)]

    @contextmanager
    def watching(self, job: Job) -> Iterator[QuotaEnforcer]:
        """Return a context with the networks and quotas of the nodes; at its end they are removed. Raises OSError."""
        method = cgroups.quota_method()
        assert isinstance(method, QuotaMethod), method  # else `replacement` has chosen another launcher
        enforcer = QuotaEnforcer(job, method, networks.own_name())
        try:
            if job.separate_networks:
                networks.make(networks.own_name(), len(job.nodes.hosts))
            yield enforcer
        finally:
            enforcer.remove()
            if job.separate_networks:
                networks.remove(networks.own_name())


def in_networks(job: Job, name: str) -> list[str]:
    """Return the command of a job whose nodes have separate networks. name: the prefix of their namespaces.

    Horovod's launcher runs on the switch. A rank enters the network of its node before anything else: only its
    environment says which rank it is.
    """
    starter = start_commands.gloo(job, job.argv[0], networks.INTERFACE)
    enter = f'exec ip netns exec "$0$((HOROVOD_RANK / {job.nodes.ranks_per_node}))" "$@"'
    on_switch = ["ip", "netns", "exec", networks.switch(name)]
    return [*on_switch, *starter, "sh", "-c", enter, networks.node(name, ""), *job.argv]


LAUNCHER = Emulated()
