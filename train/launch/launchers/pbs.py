"""A PBS cluster (OpenPBS, PBS Professional): qsub submits, and in the allocation the ranks are started over ssh.

Tested on a stand-in for qsub, not on a real PBS.
"""

import json
import os
from pathlib import Path

from train.config.schema import System
from train.launch.job import Job
from train.launch.launchers import hosts
from train.launch.launchers.base import RUNNING, BatchJob, BatchLauncher, clock


class Pbs(BatchLauncher):
    """Each node is a node of the allocation."""

    name = "pbs"
    job_variable = "PBS_JOBID"

    def directives(self, job: BatchJob) -> list[str]:
        """Return the #PBS lines."""
        cores = job.ranks_per_node * job.cores_per_rank
        node = f"ncpus={cores}:mpiprocs={job.ranks_per_node}"
        node += f":ngpus={job.gpus_per_node}" if job.gpus_per_node else ""
        options = [
            f"-N {job.name}",
            f"-l select={job.nodes}:{node}",
            "-l place=scatter:excl",
            f"-l walltime={clock(job.limit_s)}",
            "-r y",
            "-j oe",
            f"-o {job.folder / job.name}.log",
            *([f"-q {job.system.partition}"] if job.system.partition else []),
            *([f"-A {job.system.account}"] if job.system.account else []),
        ]
        return [f"#PBS {option}" for option in options]

    def submit(self, script: Path) -> str:
        """Submit with qsub, which prints the id of the job."""
        return self.ask("qsub", str(script)).strip()

    def queue(self) -> dict[str, str]:
        """Return the jobs that PBS still has, by qstat."""
        jobs = json.loads(self.ask("qstat", "-f", "-F", "json")).get("Jobs", {})
        states = {"R": RUNNING, "E": RUNNING}
        return {job_id: states.get(job["job_state"], "QUEUED") for job_id, job in jobs.items()}

    def allocated_hosts(self) -> list[str]:
        """Return the hosts of this allocation: PBS lists each once per rank."""
        return list(dict.fromkeys(Path(os.environ["PBS_NODEFILE"]).read_text().split()))

    def cores_of_a_node(self, system: System) -> int:
        """Return the fewest cores of a node, by pbsnodes."""
        nodes = json.loads(self.ask("pbsnodes", "-a", "-F", "json"))["nodes"]
        return min(node["resources_available"]["ncpus"] for node in nodes.values())

    def end_remote(self, job: Job, job_id: str) -> list[str]:
        """Return a command that kills what a failed job has left: PBS would do so only at the end of the allocation."""
        return hosts.kill_on(job.nodes.hosts, job_id)


LAUNCHER = Pbs()
