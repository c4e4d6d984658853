"""Limit the nodes of a job to their quotas, and their links to a rate, while they measure.

The other side of this protocol is train/rank/quota_gate.py.
"""

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from train.launch.emulate import cgroups, networks
from train.launch.emulate.cgroups import Groups, Means
from train.launch.job import Job, Nodes
from train.rank import placement
from train.record import protocol
from train.record.protocol import LinkRate
from train.record.record import NodeQuota


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
    """The quotas of one job, from the moment when all its ranks are ready until all have measured."""

    def __init__(self, job: Job, means: Means, name: str) -> None:
        """Nothing is limited before `look`. name: of the job's networks if it has any."""
        assert job.limits.cpus_per_node is not None
        self._job, self._cpus, self._name = job, job.limits.cpus_per_node, name
        self._means, self._groups = means, Groups(means, job.folder.name, len(job.nodes.hosts))
        self._awake: list[subprocess.Popen[bytes]] = []
        self.quotas: list[NodeQuota] = []

    def look(self, processes: Callable[[], Iterable[psutil.Process]], job_pid: int) -> None:
        """Set the limits if all ranks wait for them, and the rates that links need; lift limits if all have measured.

        It is called several times a second.

        processes: lists those of the job, which takes time that the nodes should not lose: called once.
        Raises OSError.
        """
        folder, ranks = self._job.folder, range(self._job.nodes.ranks)
        if not protocol.limited_path(folder).exists():
            if all(protocol.ready_path(folder, rank).exists() for rank in ranks):
                self._groups.limit(pids_of_nodes(self._job.nodes, processes()), job_pid, self._cpus)
                if self._means.keeps_awake:
                    self._awake = cgroups.start_spinning(placement.usable_cores())
                    self._groups.put_behind([process.pid for process in self._awake])
                if self._job.limits.separate_networks:
                    networks.limit(self._name, len(self._job.nodes.hosts), self._job.limits.link_mbit_per_s)
                protocol.limited_path(folder).touch()
        elif self._job.limits.separate_networks and (rate := self._wanted(folder)):
            networks.limit(self._name, len(self._job.nodes.hosts), rate.mbit_per_s)
            protocol.write_message(protocol.link_set_path(folder), rate)
        elif not self.quotas and all(protocol.measured_path(folder, rank).exists() for rank in ranks):
            cgroups.stop_spinning(self._awake)
            self.quotas = self._groups.lift()

    def _wanted(self, folder: Path) -> LinkRate | None:
        """Return the rate that the links need next; None where they have it."""
        wanted = protocol.read_message(protocol.link_wanted_path(folder), LinkRate)
        return wanted if wanted != protocol.read_message(protocol.link_set_path(folder), LinkRate) else None

    def remove(self) -> None:
        """Remove the control groups, once the processes of the job have ended."""
        cgroups.stop_spinning(self._awake)
        self._groups.remove()
