"""Whether runs with MPI can be tested on this machine."""

from tests.helpers import needs
from train.config.compose import compose_config

_FIX = "apt-get install openmpi-bin libopenmpi-dev, then make clean-env, make setup"


def missing() -> str | None:
    """Return why `distribution.controller=mpi` does not work here, and the fix; None if it does."""
    if reason := needs.missing("mpirun"):
        return reason
    # The experiment measures the controllers that Horovod was built with.
    controllers = compose_config(["experiment=allreduce_bench"]).sweep["distribution.controller"]
    return None if "mpi" in controllers.split(",") else f"Horovod was built without MPI ({_FIX})"
