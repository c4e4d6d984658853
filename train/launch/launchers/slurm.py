"""A Slurm cluster: sbatch submits, and inside the allocation srun starts the ranks of each run."""

import os
import re
import shlex
import signal
from pathlib import Path

from train.config.checks import ConfigError
from train.launch.job import Job
from train.launch.launchers.base import AvailableNodes, BatchJob, BatchLauncher, QueuedJob, clock
from train.launch.start import start_commands

# What srun prints of a rank that ended first, of a node that Slurm gives up, and of a job or step that it ends.
_ENDED = re.compile(r"srun: error: \S+: task (?P<rank>\d+): (?:Exited with exit code (?P<code>\d+)|(?P<text>[A-Z].*))")
_NODE_FAILED = re.compile(r"srun: error: Node failure on (\S+)")
_CANCELLED = re.compile(r"\*\*\* ((?:STEP|JOB) \S+ ON \S+ CANCELLED AT [^*]*?) \*\*\*")
_SIGNALS = {signal.strsignal(number): number for number in signal.valid_signals()}  # as srun names them: Killed
# A line of sinfo: partition, * the default; CPUs, sockets, cores of a socket; nodes, the most of a job; GPUs.
_NODES = re.compile(
    r"(?P<name>.+?)(?P<default>\*?)\|(\d+)\+?\|(\d+)\+?\|(\d+)\+?\|(\d+)\|(?:\d+-)?(\d+|infinite)\|(.*)"
)
_GPUS = re.compile(r"\bgpu(?::[^:,()]+)?:(\d+)")


class Slurm(BatchLauncher):
    """Each node is a node of the allocation."""

    name = "slurm"
    job_variable = "SLURM_JOB_ID"
    directive, partition_option, account_option = "#SBATCH", "--partition=", "--account="
    secrets = ("SLURM_JWT",)  # srun may need it to authenticate itself
    warns_before_s = 60

    def options(self, job: BatchJob) -> list[str]:
        """Return the options of sbatch."""
        return [
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
        ]

    def before_launch(self) -> list[str]:
        """Return the line that keeps steps from inheriting these; since Slurm 22.05 each needs --cpus-per-task."""
        return ["unset SLURM_CPUS_PER_TASK SLURM_NTASKS_PER_NODE SLURM_NTASKS SLURM_NPROCS"]

    def submit(self, script: Path) -> str:
        """Submit by sbatch."""
        return self.ask("sbatch", "--parsable", str(script)).strip().partition(";")[0]

    def queue(self) -> dict[str, QueuedJob]:
        """Return the user's jobs by squeue, with their states and reasons in Slurm's words: PENDING, Resources."""
        command = ("squeue", "--noheader", "--me", "--format=%i|%T|%r")
        output = self.ask(*command)
        lines = [line.strip().split("|") for line in output.splitlines()]
        if any(len(line) != 3 for line in lines):
            raise self.not_understood(command, output, "an id, a state and a reason each line")
        return {id: QueuedJob(state, "" if reason == "None" else reason) for id, state, reason in lines}

    def allocated_hosts(self) -> list[str]:
        """Return the hosts of this allocation, in Slurm's order."""
        return self.ask("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]).split()

    def find_nodes(self, partition: str | None, smt: bool) -> AvailableNodes:
        """Return the nodes of a partition by sinfo, down or not: those that are down may come back."""
        chosen = [f"--partition={partition}"] if partition else []
        command = ("sinfo", "--noheader", "--format=%P|%c|%X|%Y|%D|%s|%G", *chosen)
        output = self.ask(*command)
        rows = [_NODES.fullmatch(line.strip()) for line in output.splitlines() if line.strip()]
        matches = [row for row in rows if row]
        if len(matches) < len(rows):
            raise self.not_understood(command, output, "a line for each kind of node")
        groups = [match.groups() for match in matches if partition or match["default"]]
        if not groups:
            where = f"system.partition={partition}: sinfo shows no node in it; see `sinfo`"
            raise ConfigError(where if partition else "launcher=slurm: no default partition; set system.partition")
        numbers = [(int(cpus), int(sockets) * int(cores)) for _, _, cpus, sockets, cores, *_ in groups]
        limits = [int(most) for *_, most, _ in groups if most != "infinite"]
        return AvailableNodes(
            cores=min(cpus if smt else min(cpus, cores) for cpus, cores in numbers),
            gpus=min(sum(map(int, _GPUS.findall(gres))) for *_, gres in groups),
            count=min([sum(int(nodes) for *_, nodes, _, _ in groups), *limits]),
            where=f"partition {partition or groups[0][0]} (sinfo)",
        )

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
        return [*command, "--kill-on-bad-exit=1", "--cpu-bind=none", "--label", *start_commands.rank(job)]

    def first_to_end(self, output: str) -> tuple[int, int] | None:
        """Return the rank that srun names first, and its exit status; else as mpirun does, of a user's program."""
        if match := _ENDED.search(output):
            return int(match["rank"]), int(match["code"] or 128 + _SIGNALS.get(match["text"].strip(), 0))
        return super().first_to_end(output)

    def failed_host(self, output: str) -> str | None:
        """Return the node that Slurm lost."""
        match = _NODE_FAILED.search(output)
        return match[1] if match else None

    def cancellation(self, output: str) -> str | None:
        """Return Slurm's line on the step or job that it ended."""
        match = _CANCELLED.search(output)
        return match[1] if match else None


LAUNCHER = Slurm()
