"""From a job to the command that starts it: pure functions."""

from __future__ import annotations

import sys
from collections.abc import Callable

from train.config.schema import REMOTE
from train.launch.emulate import networks
from train.launch.plan.hosts import SSH_OPTIONS
from train.launch.plan.job import MPICH, Job
from train.launch.start import containers


def alone(job: Job) -> list[str]:
    """One process, without any launcher."""
    return list(job.argv)


def _host_slots(job: Job) -> str:
    slots: dict[str, int] = {}
    for host in job.hosts:
        slots[host] = slots.get(host, 0) + job.ranks_per_node
    return ",".join(f"{host}:{count}" for host, count in slots.items())


def gloo(job: Job) -> list[str]:
    """Horovod's own Gloo launcher, which reaches other hosts by ssh."""
    launcher = [sys.executable if job.launcher == "ssh" else job.argv[0], "-m", "train.launch.start.gloo"]
    interface = networks.INTERFACE if job.networks else job.interface
    launcher += ["--ranks", str(job.ranks), "--hosts", _host_slots(job)]
    launcher += ["--interface", interface] if interface else []
    if job.networks is None:
        return [*launcher, "--", *_rank(job)]
    # The launcher runs on the switch. A rank enters its node's network before anything else: only its environment
    # says which rank it is.
    enter = f'exec ip netns exec "$0$((HOROVOD_RANK / {job.ranks_per_node}))" "$@"'
    within = ["ip", "netns", "exec", networks.switch(job.networks), *launcher]
    return [*within, "--", "sh", "-c", enter, networks.node(job.networks, ""), *job.argv]


def elastic(job: Job) -> list[str]:
    """Horovod's elastic launcher: it begins with all ranks of the job and goes on with those that live."""
    launcher = [
        sys.executable,
        "-m",
        "train.launch.start.elastic",
        "--ranks",
        str(job.ranks),
        "--hosts",
        _host_slots(job),
    ]
    launcher += ["--interface", job.interface] if job.interface else []
    return [*launcher, "--", *_rank(job)]


def mpirun(job: Job) -> list[str]:
    """The mpirun that is there. The ranks bind themselves, so that a node has the same cores under every launcher."""
    return _mpich(job) if job.mpirun == MPICH else _open_mpi(job)


def _mpich(job: Job) -> list[str]:
    """Hydra, which MVAPICH2 and Intel MPI have too; it hands the whole environment on."""
    return ["mpirun", "-np", str(job.ranks), "-hosts", _host_slots(job), "-bind-to", "none", "-prepend-rank", *job.argv]


def _open_mpi(job: Job) -> list[str]:
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--tag-output"]
    command += ["-np", str(job.ranks), "-H", _host_slots(job)]
    # A rank that waits for a message must not take the core from one that computes.
    command += ["--mca", "mpi_yield_when_idle", "1"]
    if job.launcher == "ssh":
        command += ["--mca", "plm_rsh_args", " ".join(f"-o {option}" for option in SSH_OPTIONS)]
    if job.interface:
        command += ["--mca", "oob_tcp_if_include", job.interface, "--mca", "btl_tcp_if_include", job.interface]
    for name in sorted({*job.env, *(("PATH", *job.shared.variables) if job.launcher == "ssh" else ())}):
        command += ["-x", name]
    return [*command, *_rank(job)]


def srun(job: Job) -> list[str]:
    """Slurm's srun, inside an allocation: one task a rank.

    With Gloo the ranks find each other themselves (train/distribution/rendezvous.py), so that no MPI plugin has to fit.
    """
    command = ["srun", f"--nodes={len(job.hosts)}", f"--nodelist={','.join(job.hosts)}", f"--ntasks={job.ranks}"]
    command += [f"--ntasks-per-node={job.ranks_per_node}", f"--cpus-per-task={job.cores_per_rank}"]
    if job.gpus_per_node:
        command += [f"--gpus-per-node={job.gpus_per_node}"]
    # Without --kill-on-bad-exit the others would wait for a rank that died; the ranks bind themselves to cores.
    command += [f"--mpi={job.mpi if job.controller == 'mpi' else 'none'}", "--kill-on-bad-exit=1", "--cpu-bind=none"]
    return [*command, "--label", *_rank(job)]


def _rank(job: Job) -> list[str]:
    """What each rank runs: in a container of its own where the nodes are hosts of their own, and there is one."""
    return containers.wrap(job.argv, job.container, job.shared) if job.launcher in REMOTE else list(job.argv)


_ON_THIS_MACHINE: dict[str, Callable[[Job], list[str]]] = {
    "none": alone,
    "gloo": gloo,
    "elastic": elastic,
    "mpi": mpirun,
}


def command(job: Job) -> list[str]:
    """The command that starts all ranks of the job: on this machine launcher and ranks share one container, if any."""
    if job.launcher == "slurm":
        return srun(job)
    started = _ON_THIS_MACHINE[job.controller](job)
    return started if job.launcher == "ssh" else [*job.prefix, *containers.wrap(started, job.container, job.shared)]
