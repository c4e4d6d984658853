"""Ranks on other hosts, started over ssh, without a queue."""

from pathlib import Path

from omegaconf import DictConfig

from train.config.checks import ConfigError
from train.config.machine_config import check_hosts
from train.config.run_config import RunConfig
from train.launch.job import OPEN_MPI
from train.launch.launchers import hosts
from train.launch.launchers.base import Hardware, Launcher, Machine
from train.launch.start import containers
from train.rank import host as machine


def _ask(config: RunConfig | DictConfig) -> tuple[hosts.SshHost, ...]:
    check_hosts(tuple(config.launcher.hosts))  # before any is asked: the configuration is not checked yet
    return hosts.ask(tuple(config.launcher.hosts), Path(config.results), containers.sif(config))


class Ssh(Launcher):
    """Each node is one of launcher.hosts."""

    name = "ssh"
    hosts_apart = True
    takes_hosts = True
    over_ssh = True
    secrets = ("SSH_AUTH_SOCK", "SSH_ASKPASS")

    def cores_per_node(self, experiment: DictConfig, machine: Machine, max_nodes: int) -> int:
        """Return the cores of the host that has fewest. Raises ConfigError if a host cannot run the job."""
        hosts = _ask(experiment) if experiment.launcher.hosts else ()
        return min((host.threads if experiment.system.smt else host.cores for host in hosts), default=1)

    def gpus_per_node(self, experiment: DictConfig) -> int:
        """Return the GPUs of the host that has fewest. Raises ConfigError if a host cannot run the job."""
        return min((len(host.gpus) for host in _ask(experiment) if experiment.launcher.hosts), default=0)

    def hardware(self, config: RunConfig) -> list[Hardware]:
        """Return the hardware of each host. Raises ConfigError if a host cannot run the job."""
        return [Hardware(host.name, len(host.gpus), host.free_bytes, host.cpu_flags) for host in _ask(config)]

    def warnings(self, config: RunConfig) -> list[str]:
        """Return a warning if hosts have different hardware."""
        hardware = {host.name: machine.hardware(host.cores, host.cpu_model, host.gpus) for host in _ask(config)}
        note = machine.hardware_note(hardware)
        return [note] if note else []

    def mpirun(self, config: RunConfig) -> str:
        """Return the mpirun of this machine, on which it always runs. It must be Open MPI's."""
        if not containers.uses_mpi(config):
            return OPEN_MPI
        if containers.mpi_implementation(containers.NO_CONTAINER) != OPEN_MPI:
            raise ConfigError(
                "distribution.controller=mpi: over ssh only Open MPI's mpirun can be used, and this machine's is "
                "MPICH's; use distribution.controller=gloo, or launcher=slurm"
            )
        return OPEN_MPI

    def hosts(self, config: RunConfig) -> tuple[str, ...]:
        """Return launcher.hosts."""
        return tuple(config.launcher.hosts)


LAUNCHER = Ssh()
