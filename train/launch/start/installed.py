"""What is installed for a job: the image that a container will run, and whose mpirun there is."""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from omegaconf import DictConfig

from train.config.checks import ConfigError
from train.config.schema import Container, RunConfig, default_image
from train.launch.job import MPICH, OPEN_MPI, Shared
from train.launch.start import containers
from train.record.source import ROOT

# What Docker and Podman say of an image that they do not have.
_NO_IMAGE = re.compile("no such (image|object)|not known|failed to find image", re.IGNORECASE)
_REPAIR = {
    "docker": "start its daemon (sudo systemctl start docker), and let your user reach it "
    "(sudo usermod -aG docker $USER, then log in again)",
    "podman": "podman info says more",
}


def digest(container: Container) -> str | None:
    """Return the SHA-256 of the image as `sha256:...`: the ID of an OCI image, the file of a SIF; None without one.

    Raises ConfigError where the engine, the image or the folder of another MPI is missing.
    """
    if container.mpi_home and not Path(container.mpi_home, "lib").is_dir():
        raise ConfigError(f"container.mpi_home={container.mpi_home}: it has no folder lib; give the folder of an MPI")
    return _digest(container.name, container.image) if container.image else None


def sif(config: RunConfig | DictConfig) -> str | None:
    """Return the SIF that the ranks of an experiment need on every host, as an absolute path; None without."""
    container = config.container
    if container.name != "singularity":
        return None
    return str(Path(container.image or default_image("singularity", config.device, container.mpi_home)).resolve())


@functools.cache  # a SIF is some hundred megabytes, and an experiment asks for each of its runs
def _digest(engine: str, image: str) -> str:
    if not shutil.which(engine):
        raise ConfigError(f"container={engine}: there is no command {engine} on this machine; install it")
    if engine == "singularity":
        if not Path(image).is_file():
            raise ConfigError(f"container.image={image}: no such file; make sif builds it")
        with open(image, "rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    inspect = [engine, "image", "inspect", "--format", "{{.Id}}", image]
    asked = subprocess.run(inspect, capture_output=True, text=True)
    if asked.returncode:
        raise ConfigError(f"container.image={image}: {_missing(engine, image, asked.stderr)}")
    return f"sha256:{asked.stdout.strip().removeprefix('sha256:')}"


def _missing(engine: str, image: str, stderr: str) -> str:
    """Return what is wrong, and what to do, where `docker image inspect` or `podman image inspect` failed."""
    if not _NO_IMAGE.search(stderr):  # the engine itself does not work, such as a daemon that may not be used
        why = (stderr.strip().splitlines() or ["no message"])[-1]
        return f"{engine} does not work here ({why}); {_REPAIR[engine]}"
    variant = re.fullmatch(r"kit:(\w+)", image)
    gets = f"make image VARIANT={variant[1]} CONTAINER={engine} builds it" if variant else f"{engine} pull {image}"
    return f"{engine} does not have it; {gets}"


_WORDS = {"(Open MPI)": OPEN_MPI, "HYDRA": MPICH}  # what `mpirun --version` says
NO_CONTAINER = Container("none")


def is_used(config: RunConfig) -> bool:
    """Return whether the ranks of a run meet by MPI."""
    return config.distribution.backend == "horovod" and config.distribution.controller == "mpi"


def implementation(container: Container) -> str:
    """Return whose mpirun the container has, or this machine without one: OPEN_MPI or MPICH.

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
    for sign, name in _WORDS.items():
        if sign in text:
            return name
    answer = f"it says: {text.splitlines()[0]}" if text.strip() else why
    raise ConfigError(
        f"distribution.controller=mpi: {where} has no mpirun of Open MPI or of MPICH ({answer}); "
        "install one, or use distribution.controller=gloo"
    )
