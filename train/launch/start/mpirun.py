"""Which mpirun there is. Open MPI's and MPICH's take different options, so it is asked before a job is made."""

from __future__ import annotations

import functools
import subprocess

from train.config.schema import Config, ConfigError, Container
from train.launch.plan.job import MPICH, OPEN_MPI, ROOT
from train.launch.start import containers

_WORDS = {"(Open MPI)": OPEN_MPI, "HYDRA": MPICH}  # what `mpirun --version` says


def implementation(config: Config) -> str:
    """Whose mpirun starts the ranks: OPEN_MPI or MPICH. Asks none, and says OPEN_MPI, where none is to start them.

    Raises ConfigError where there is no mpirun, or one that this kit cannot tell what to do.
    """
    used = config.distribution.backend == "horovod" and config.distribution.controller == "mpi"
    if not used or config.launcher.name == "slurm":
        return OPEN_MPI
    remote = config.launcher.name == "ssh"  # there mpirun runs on this machine, and each rank in a container
    found = _asked("none", None) if remote else _asked(config.container.name, config.container.image)
    if remote and found != OPEN_MPI:
        raise ConfigError(
            "distribution.controller=mpi: over ssh only Open MPI's mpirun can be used, and this machine's is MPICH's; "
            "take distribution.controller=gloo, or launcher=slurm"
        )
    return found


@functools.cache  # an experiment asks for each of its runs
def _asked(engine: str, image: str | None) -> str:
    command = containers.wrap(["mpirun", "--version"], Container(engine, image), containers.Shared(ROOT))
    where = image or "this machine"
    try:
        asked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError as error:
        text, why = "", f"there is no command {error.filename}"
    else:
        text, why = asked.stdout, (asked.stderr.strip().splitlines() or [f"exit status {asked.returncode}"])[-1]
    for words, name in _WORDS.items():
        if words in text:
            return name
    said = f"it says: {text.splitlines()[0]}" if text.strip() else why
    raise ConfigError(
        f"distribution.controller=mpi: {where} has no mpirun of Open MPI or of MPICH ({said}); "
        "install one, or take distribution.controller=gloo"
    )
