"""From a job to the command that starts its ranks: pure functions.

`on_this_machine` and `across_hosts` choose by the job's controller. The ranks bind themselves to cores, so that a
node has the same cores under every launcher.
"""

import shlex
import sys
from collections.abc import Iterable, Sequence

from record.this_kit import ROOT
from train.config.program import host_slots
from train.launch.job import MPICH, Job
from train.launch.start import containers, init, rank_groups

# ssh gives up a host that does not answer for 10 s: without this it would wait for TCP, which takes minutes.
SSH_OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=2")


def ssh_prefix() -> str:
    """Return the ssh command that Horovod's launchers use."""
    return " ".join(["ssh", *(f"-o {option}" for option in SSH_OPTIONS)])


def ssh_command(host: str, command: Sequence[str]) -> list[str]:
    """Return the argv that runs a command on a host, in the folder of the kit."""
    options = [word for option in SSH_OPTIONS for word in ("-o", option)]
    return ["ssh", *options, host, f"cd {shlex.quote(str(ROOT))} && {shlex.join(command)}"]


def on_this_machine(job: Job) -> list[str]:
    """Return the command of a job whose nodes share this machine: launcher and ranks run in one container, if any.

    The process that starts a user's program runs outside the container; its arguments hold the container's command.
    """
    if job.program:
        first = containers.FIRST_PROCESS if job.container.name in ("docker", "podman") else ()
        return [*job.argv, *containers.wrap(first, job.container, job.shared)]
    argv = [*_starter(job), *job.argv]
    if job.groups:
        commands = [(group.first_rank, [*_starter(group), *job.argv]) for group in job.groups]
        argv = rank_groups.argv(job.argv[0], commands)
    if job.container.name in ("docker", "podman"):  # which goes on without its client
        argv = init.command(job.argv[0], argv)
    return containers.wrap(argv, job.container, job.shared)


def _starter(job: Job) -> list[str]:
    """Return the command that starts the ranks of a job on this machine; empty for a single rank."""
    if job.exchange.controller == "gloo":
        return gloo(job, job.argv[0], job.exchange.interface)
    if job.exchange.controller == "mpi":
        return mpich(job) if job.exchange.mpirun == MPICH else open_mpi(job, job.env)
    return []


def across_hosts(job: Job) -> list[str]:
    """Return the command of a job that starts its ranks on other hosts, over ssh: each in its own container, if any."""
    if job.exchange.controller == "mpi":
        starter = open_mpi(job, [*job.shared.variables, *job.env], SSH_OPTIONS)
    else:
        starter = gloo(job, sys.executable, job.exchange.interface)
    return [*starter, *rank(job)]


def rank(job: Job) -> list[str]:
    """Return the command of each rank if the nodes are separate hosts: in its own container, if any."""
    return containers.wrap(job.argv, job.container, job.shared)


def _slots(job: Job) -> str:
    return host_slots(job.nodes.hosts, job.nodes.ranks_per_node)


def gloo(job: Job, python: str, interface: str | None) -> list[str]:
    """Return Horovod's Gloo launcher, which reaches other hosts by ssh; the command of a rank follows.

    python: the one that runs the launcher.
    interface: of the network that carries the allreduce; None: each rank finds the one towards the others.
    """
    command = [python, "-m", "train.launch.start.gloo"]
    command += ["--ranks", str(job.nodes.ranks), "--hosts", _slots(job)]
    return [*command, *(["--interface", interface] if interface else []), "--"]


def mpich(job: Job) -> list[str]:
    """Return MPICH's mpirun, Hydra, which MVAPICH2 and Intel MPI have too; it passes the whole environment on."""
    hosts = _slots(job)
    return ["mpirun", "-np", str(job.nodes.ranks), "-hosts", hosts, "-bind-to", "none", "-prepend-rank"]


def open_mpi(job: Job, variables: Iterable[str], ssh_options: Sequence[str] = ()) -> list[str]:
    """Return Open MPI's mpirun; the command of a rank follows.

    variables: names of variables that it passes to the ranks. ssh_options: for the ssh by which it reaches other hosts.
    """
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--tag-output"]
    command += ["-np", str(job.nodes.ranks), "-H", _slots(job)]
    # A rank that waits for a message must not take the core from one that computes.
    command += ["--mca", "mpi_yield_when_idle", "1"]
    if job.container.name in ("docker", "podman"):  # their seccomp profile forbids it: each message would try first
        command += ["--mca", "btl_vader_single_copy_mechanism", "none"]
    if ssh_options:
        command += ["--mca", "plm_rsh_args", " ".join(f"-o {option}" for option in ssh_options)]
    if interface := job.exchange.interface:
        command += ["--mca", "oob_tcp_if_include", interface, "--mca", "btl_tcp_if_include", interface]
    return [*command, *(word for name in sorted(set(variables)) for word in ("-x", name))]
