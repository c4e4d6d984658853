"""Which mpirun is there. Those of Open MPI and MPICH take different options, so it is asked before a job is made."""

from __future__ import annotations

import functools
import subprocess

from train.config.checks import ConfigError
from train.config.schema import Container, RunConfig
from train.launch.plan.job import MPICH, OPEN_MPI, Shared
from train.launch.start import containers
from train.record.source import ROOT

_WORDS = {"(Open MPI)": OPEN_MPI, "HYDRA": MPICH}  # what `mpirun --version` says
NO_CONTAINER = Container("none")


def is_used(config: RunConfig) -> bool:
    """Whether the ranks of a run meet by MPI."""
    return config.distribution.backend == "horovod" and config.distribution.controller == "mpi"


def implementation(container: Container) -> str:
    """Whose mpirun the container has, or this machine without one: OPEN_MPI or MPICH.

    Raises ConfigError where there is no mpirun, or one that this kit does not know.
    """
    return _ask(container.name, container.image)


@functools.cache  # an experiment asks for each of its runs
def _ask(engine: str, image: str | None) -> str:
    command = containers.wrap(["mpirun", "--version"], Container(engine, image), Shared(ROOT))
    where = image or "this machine"
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError as error:
        text, why = "", f"there is no command {error.filename}"
    else:
        text, why = done.stdout, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    for words, name in _WORDS.items():
        if words in text:
            return name
    answer = f"it says: {text.splitlines()[0]}" if text.strip() else why
    raise ConfigError(
        f"distribution.controller=mpi: {where} has no mpirun of Open MPI or of MPICH ({answer}); "
        "install one, or use distribution.controller=gloo"
    )
