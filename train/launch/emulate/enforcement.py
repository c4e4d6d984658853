"""Hold a job's nodes to their quotas, and their links to a rate, while they measure: see train/rank/quota_gate.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import psutil

from train.launch.emulate import networks
from train.launch.emulate.cgroups import Groups, Means
from train.launch.plan.job import Job
from train.rank import placement, quota_gate
from train.record.record import NodeQuota


def pids_of_nodes(job: Job, processes: Iterable[psutil.Process]) -> list[list[int]]:
    """The processes of each node, by the rank that their environment names; of a job of one rank every process."""
    found: list[list[int]] = [[] for _ in range(job.ranks // job.ranks_per_node)]
    for process in processes:
        try:
            rank = placement.rank_of(process.environ(), 0 if job.ranks == 1 else -1)
        except psutil.Error:
            continue
        if rank >= 0:
            found[rank // job.ranks_per_node].append(process.pid)
    return found


class Hold:
    """The quotas of one job, from the moment when all its ranks are ready until all have measured."""

    def __init__(self, job: Job, means: Means, name: str, cpus: float) -> None:
        """Nothing is held before `look`."""
        self._job, self._cpus = job, cpus
        self._groups = Groups(means, name, job.ranks // job.ranks_per_node)
        self.quotas: list[NodeQuota] = []

    def look(self, processes: Callable[[], Iterable[psutil.Process]], job_pid: int) -> None:
        """Limit the nodes if all ranks wait for it, end that if all have measured. Raises OSError.

        processes: asks for those of the job, which takes time that the nodes should not miss: only where needed.
        """
        folder, ranks = self._job.folder, range(self._job.ranks)
        if not quota_gate.granted(folder).exists():
            if all(quota_gate.asks(folder, rank).exists() for rank in ranks):
                self._groups.limit(pids_of_nodes(self._job, processes()), job_pid, self._cpus)
                if self._job.networks:
                    networks.limit(self._job.networks, len(self._job.hosts), self._job.link_mbit_per_s)
                quota_gate.granted(folder).touch()
        elif not self.quotas and all(quota_gate.done(folder, rank).exists() for rank in ranks):
            self.quotas = self._groups.lift()

    def remove(self) -> None:
        """Remove the groups; the processes must be gone."""
        self._groups.remove()
