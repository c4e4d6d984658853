"""All ranks on this machine."""

from record.recorded_config import ASYNCHRONOUS, TOWERS
from train.config.compose import Experiment
from train.config.run_config import RunConfig
from train.launch.job import OPEN_MPI
from train.launch.launchers.base import Launcher, Machine
from train.launch.start import containers


class Local(Launcher):
    """Nodes share the cores of this machine. If there are too few cores, nodes are emulated instead, if possible."""

    name = "local"

    def replacement(self, experiment: Experiment, machine: Machine) -> str:
        """Return emulated if the system allows it, nodes need more cores than there are, and quotas are available.

        Only timed training steps can be emulated: a quota would change neither the accuracy after epochs nor the CPU
        cost of an allreduce. Nodes that share one process cannot be emulated, nor those with parameter servers: these
        have no run without allreduce, the control that shows whether the quotas held.
        """
        composed = experiment.composed
        crowded = experiment.max_nodes > 1 and experiment.max_nodes * composed.ranks_per_node > machine.cores
        untimed = composed.measure.epochs or composed.allreduce_sweep or experiment.config.arms or composed.program
        possible = composed.distribution.backend not in TOWERS | ASYNCHRONOUS and composed.device == "cpu"
        emulated = composed.system.emulate and crowded and possible and not untimed
        chosen = "launcher" in experiment.by_key
        return "emulated" if emulated and not chosen and machine.no_quotas is None else self.name

    def mpirun(self, config: RunConfig) -> str:
        """Return the mpirun of the container, or of this machine."""
        return containers.mpi_implementation(config.container) if containers.uses_mpi(config) else OPEN_MPI


LAUNCHER = Local()
