"""An LSF cluster (IBM Spectrum LSF): bsub submits, and in the allocation the ranks are started over ssh.

Tested on stand-ins for its programs, not on a real LSF.
"""

import os
import re
import shlex
from pathlib import Path

import msgspec

from train.config.checks import ConfigError
from train.launch.launchers.base import RUNNING, AvailableNodes, BatchJob, BatchLauncher, QueuedJob, clock, smallest


class _Job(msgspec.Struct, rename="upper"):
    jobid: str
    stat: str
    pend_reason: str = ""


class _Host(msgspec.Struct, rename="upper"):
    status: str
    max: str  # slots; "-": no limit is set
    ngpus: str = "-"


class _Jobs(msgspec.Struct, rename="upper"):
    records: list[_Job]


class _Hosts(msgspec.Struct, rename="upper"):
    records: list[_Host]


class Lsf(BatchLauncher):
    """Each node is a host of the allocation."""

    name = "lsf"
    over_ssh = True
    job_variable = "LSB_JOBID"
    directive, partition_option, account_option = "#BSUB", "-q ", "-P "
    warns_before_s = 60

    def options(self, job: BatchJob) -> list[str]:
        """Return the options of bsub. A slot is a core."""
        slots = job.ranks_per_node * job.cores_per_rank
        return [
            f"-J {job.name}",
            f"-n {job.nodes * slots}",
            f'-R "span[ptile={slots}]"',
            "-x",
            f"-W {clock(job.limit_s + 59)[:-3]}",  # in whole minutes
            f"-wt {self.warns_before_s // 60}",
            "-wa TERM",
            "-r",
            f"-o {shlex.quote(f'{job.folder / job.name}.%J.log')}",
            *([f'-gpu "num={job.gpus_per_node}"'] if job.gpus_per_node else []),
        ]

    def submit(self, script: Path) -> str:
        """Submit by bsub, which reads the script from its input."""
        output = self.ask("bsub", content=script.read_bytes())
        if match := re.search(r"Job <(\d+)> is submitted", output):
            return match[1]
        raise self.not_understood(["bsub"], output, "no id of a job; `bjobs` shows whether there is one")

    def queue(self) -> dict[str, QueuedJob]:
        """Return the jobs that LSF still has, by bjobs."""
        try:
            records = self.ask_json(_Jobs, "bjobs", "-o", "jobid stat pend_reason", "-json").records
        except ConfigError as error:
            if "No unfinished job found" in str(error):
                return {}
            raise
        return {job.jobid: QueuedJob(RUNNING if job.stat == "RUN" else job.stat, job.pend_reason) for job in records}

    def allocated_hosts(self) -> list[str]:
        """Return the hosts of this allocation, each once per slot."""
        return os.environ["LSB_HOSTS"].split()

    def find_nodes(self, partition: str | None, smt: bool) -> AvailableNodes:
        """Return the hosts of a queue that are up, by bqueues and bhosts. A slot is a core."""
        if partition is None:
            output = self.ask("bparams")
            if not (match := re.search(r"Default Queues:\s+(\S+)", output)):
                raise self.not_understood(["bparams"], output, "no default queue; set system.partition")
            partition = match[1]
        members = self.ask("bqueues", "-noheader", "-o", "hosts", partition).split()
        names = [] if members == ["all"] else [re.sub(r"[/+]\S*$", "", name) for name in members]
        hosts = self.ask_json(_Hosts, "bhosts", "-o", "host_name status max ngpus", "-json", *names).records
        up = [host for host in hosts if host.status in ("ok", "closed_Full", "closed_Excl") and host.max.isdigit()]
        nodes = [(int(host.max), int(host.ngpus) if host.ngpus.isdigit() else 0) for host in up]
        return smallest(nodes, partition, "bhosts")


LAUNCHER = Lsf()
