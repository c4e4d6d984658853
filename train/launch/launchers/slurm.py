"""A Slurm cluster: sbatch submits, and inside the allocation srun starts the ranks of each run."""

import os
import re
import shlex
from pathlib import Path

from train.config.checks import ConfigError
from train.config.schema import System
from train.launch.job import Job
from train.launch.launchers.base import BatchJob, BatchLauncher, clock
from train.launch.start import commands


class Slurm(BatchLauncher):
    """Each node is a node of the allocation."""

    name = "slurm"
    job_variable = "SLURM_JOB_ID"
    secrets = ("SLURM_JWT",)  # srun may need it to authenticate itself
    warns_before_s = 60

    def directives(self, job: BatchJob) -> list[str]:
        """Return the #SBATCH lines."""
        options = [
            f"--job-name={job.name}",
            f"--nodes={job.nodes}",
            f"--ntasks-per-node={job.ranks_per_node}",
            f"--cpus-per-task={job.cores_per_rank}",
            *([] if job.system.smt else ["--threads-per-core=1"]),
            *([f"--gpus-per-node={job.gpus_per_node}"] if job.gpus_per_node else []),
            f"--time={clock(job.limit_s)}",
            f"--signal=B:TERM@{self.warns_before_s}",
            "--requeue",
            "--exclusive",
            "--mem=0",
            "--open-mode=append",
            f"--output={shlex.quote(str(job.folder / job.name).replace('%', '%%'))}.%j.log",
            *([f"--partition={shlex.quote(job.system.partition)}"] if job.system.partition else []),
            *([f"--account={job.system.account}"] if job.system.account else []),
            *job.system.sbatch,
        ]
        return [f"#SBATCH {option}" for option in options]

    def before_launch(self) -> list[str]:
        """Return the line that keeps steps from inheriting these; since Slurm 22.05 each needs --cpus-per-task."""
        return ["unset SLURM_CPUS_PER_TASK SLURM_NTASKS_PER_NODE SLURM_NTASKS SLURM_NPROCS"]

    def submit(self, script: Path) -> str:
        """Submit by sbatch."""
        return self.ask("sbatch", "--parsable", str(script)).strip().partition(";")[0]

    def queue(self) -> dict[str, str]:
        """Return the user's jobs by squeue, with their states in Slurm's words: PENDING, RUNNING ..."""
        lines = self.ask("squeue", "--noheader", "--me", "--format=%i %T").splitlines()
        return dict(line.split(maxsplit=1) for line in lines)

    def allocated_hosts(self) -> list[str]:
        """Return the hosts of this allocation, in Slurm's order."""
        return self.ask("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]).split()

    def cores_of_a_node(self, system: System) -> int:
        """Return the fewest cores of a node of the partition, by sinfo; with system.smt its hardware threads."""
        partition = [f"--partition={system.partition}"] if system.partition else []
        output = self.ask("sinfo", "--noheader", *partition, "--format=%c %X %Y")  # CPUs, sockets, cores of a socket
        nodes = [tuple(map(int, numbers)) for numbers in re.findall(r"^\*?(\d+)\+? +(\d+)\+? +(\d+)", output, re.M)]
        if not nodes:
            raise ConfigError(f"system.partition={system.partition}: sinfo shows no node in it; see `sinfo`")
        return min(cpus if system.smt else min(cpus, sockets * cores) for cpus, sockets, cores in nodes)

    def command(self, job: Job) -> list[str]:
        """Return an srun with one task a rank.

        With Gloo the ranks find each other (train/transport/rendezvous.py), so that no MPI plugin has to fit.
        """
        nodes = job.nodes
        command = ["srun", f"--nodes={len(nodes.hosts)}", f"--nodelist={','.join(nodes.hosts)}"]
        command += [f"--ntasks={nodes.ranks}", f"--ntasks-per-node={nodes.ranks_per_node}"]
        command += [f"--cpus-per-task={nodes.cores_per_rank}"]
        if nodes.gpus_per_node:
            command += [f"--gpus-per-node={nodes.gpus_per_node}"]
        command += [f"--mpi={job.exchange.srun_mpi if job.exchange.controller == 'mpi' else 'none'}"]
        # Without --kill-on-bad-exit the others would wait for a rank that died; the ranks bind themselves to cores.
        return [*command, "--kill-on-bad-exit=1", "--cpu-bind=none", "--label", *commands.rank(job)]


LAUNCHER = Slurm()
