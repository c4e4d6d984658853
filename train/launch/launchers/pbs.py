"""A PBS cluster (OpenPBS, PBS Professional): qsub submits, and in the allocation the ranks are started over ssh.

Tested on stand-ins for its programs, not on a real PBS.
"""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from common import bounded_files as bounded
from train.config.checks import ConfigError
from train.launch.launchers.base import RUNNING, AvailableNodes, BatchJob, BatchLauncher, QueuedJob, clock, smallest

_STATES = {"R": RUNNING, "E": RUNNING}
_DOWN = ("down", "offline", "unknown")


class _Job(msgspec.Struct):
    job_state: str
    comment: str = ""


class _Jobs(msgspec.Struct):
    Jobs: dict[str, _Job] = {}


class _Node(msgspec.Struct):
    resources_available: dict[str, Any] = {}
    queue: str = ""  # the only one that it serves
    state: str = ""

    def number(self, resource: str) -> int:
        value = self.resources_available.get(resource, 0)
        return value if isinstance(value, int) else 0


class _Nodes(msgspec.Struct):
    nodes: dict[str, _Node]


class _Queue(msgspec.Struct):
    default_chunk: dict[str, Any] = {}
    resources_max: dict[str, Any] = {}


class _Queues(msgspec.Struct):
    Queue: dict[str, _Queue]


class _Server(msgspec.Struct):
    default_queue: str = ""


class _Servers(msgspec.Struct):
    Server: dict[str, _Server]


class Pbs(BatchLauncher):
    """Each node is a node of the allocation."""

    name = "pbs"
    over_ssh = True
    job_variable = "PBS_JOBID"
    directive, partition_option, account_option = "#PBS", "-q ", "-A "

    def options(self, job: BatchJob) -> list[str]:
        """Return the options of qsub."""
        cores = job.ranks_per_node * job.cores_per_rank
        node = f"ncpus={cores}:mpiprocs={job.ranks_per_node}"
        node += f":ngpus={job.gpus_per_node}" if job.gpus_per_node else ""
        return [
            f"-N {job.name}",
            f"-l select={job.nodes}:{node}",
            "-l place=scatter:excl",
            f"-l walltime={clock(job.limit_s)}",
            "-r y",
            "-j oe",
            f"-o {shlex.quote(f'{job.folder / job.name}.log')}",
        ]

    def submit(self, script: Path) -> str:
        """Submit with qsub, which prints the id of the job."""
        return self.ask("qsub", str(script)).strip()

    def queue(self) -> dict[str, QueuedJob]:
        """Return the jobs that PBS still has, by qstat."""
        jobs = self.ask_json(_Jobs, "qstat", "-f", "-F", "json").Jobs
        return {id: QueuedJob(_STATES.get(job.job_state, "QUEUED"), job.comment) for id, job in jobs.items()}

    def allocated_hosts(self) -> list[str]:
        """Return the hosts of this allocation, each once per rank."""
        path = Path(os.environ["PBS_NODEFILE"])
        with bounded.named(path):
            return bounded.read(path).decode().split()

    def find_nodes(self, partition: str | None, smt: bool) -> AvailableNodes:
        """Return the nodes of a queue that are up, by pbsnodes: its own, or those that its default chunk asks for."""
        if partition is None:
            servers = self.ask_json(_Servers, "qstat", "-B", "-f", "-F", "json").Server
            partition = next((server.default_queue for server in servers.values()), "")
            if not partition:
                raise ConfigError(f"launcher={self.name}: the server has no default queue; set system.partition")
        queues = self.ask_json(_Queues, "qstat", "-Q", "-f", "-F", "json", partition).Queue
        queue = queues.get(partition, _Queue())
        wanted = {key: value for key, value in queue.default_chunk.items() if isinstance(value, str)}
        up = [
            (node.number("ncpus"), node.number("ngpus"))
            for node in self.ask_json(_Nodes, "pbsnodes", "-a", "-F", "json").nodes.values()
            if node.queue in ("", partition)
            and all(value in str(node.resources_available.get(key, "")).split(",") for key, value in wanted.items())
            and node.number("ncpus")
            and not any(word in node.state for word in _DOWN)
        ]
        nodes, most = smallest(up, partition, "pbsnodes"), queue.resources_max.get("nodect")
        return replace(nodes, count=min(nodes.count, most)) if isinstance(most, int) else nodes


LAUNCHER = Pbs()
