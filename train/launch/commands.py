"""From a job to the command that starts it: pure functions."""

from __future__ import annotations

from collections.abc import Callable

from train.launch import containers, links
from train.launch.job import Job


def alone(job: Job) -> list[str]:
    """One process, without any launcher."""
    return list(job.argv)


def _host_slots(job: Job) -> str:
    slots: dict[str, int] = {}
    for host in job.hosts:
        slots[host] = slots.get(host, 0) + job.ranks_per_node
    return ",".join(f"{host}:{count}" for host, count in slots.items())


def gloo(job: Job) -> list[str]:
    """Horovod's own Gloo launcher."""
    launcher = [job.argv[0], "-m", "train.launch.gloo", "--ranks", str(job.ranks), "--hosts", _host_slots(job)]
    if job.networks is None:
        return [*launcher, "--", *job.argv]
    # The launcher runs on the switch. A rank enters its node's network before anything else: only its environment
    # says which rank it is.
    enter = f'exec ip netns exec "$0$((HOROVOD_RANK / {job.ranks_per_node}))" "$@"'
    within = ["ip", "netns", "exec", links.switch(job.networks), *launcher, "--interface", links.INTERFACE]
    return [*within, "--", "sh", "-c", enter, links.node(job.networks, ""), *job.argv]


def mpirun(job: Job) -> list[str]:
    """Open MPI's mpirun. The ranks bind themselves, so that a node has the same cores under every launcher."""
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--tag-output"]
    command += ["-np", str(job.ranks), "-H", _host_slots(job)]
    # A rank that waits for a message must not take the core from one that computes.
    command += ["--mca", "mpi_yield_when_idle", "1"]
    for name in sorted(job.env):
        command += ["-x", name]
    return [*command, *job.argv]


COMMANDS: dict[str, Callable[[Job], list[str]]] = {"none": alone, "gloo": gloo, "mpi": mpirun}


def command(job: Job) -> list[str]:
    """The command that starts all ranks of the job on this machine: launcher and ranks share one container, if any."""
    return [*job.prefix, *containers.wrap(COMMANDS[job.controller](job), job.container, job.shared)]
