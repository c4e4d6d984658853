"""The digest of the image that a container will run: from the engine, or from the file."""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from train.config.checks import ConfigError
from train.config.schema import Container

# What Docker and Podman say of an image that they do not have.
_NO_IMAGE = re.compile("no such (image|object)|not known|failed to find image", re.IGNORECASE)
_REPAIR = {
    "docker": "start its daemon (sudo systemctl start docker), and let your user reach it "
    "(sudo usermod -aG docker $USER, then log in again)",
    "podman": "podman info says more",
}


def digest(container: Container) -> str | None:
    """The SHA-256 of the image as `sha256:...`: the ID of an OCI image, the file of a SIF; None without a container.

    Raises ConfigError where the engine, the image or the folder of another MPI is missing.
    """
    if container.mpi_home and not Path(container.mpi_home, "lib").is_dir():
        raise ConfigError(f"container.mpi_home={container.mpi_home}: it has no folder lib; give the folder of an MPI")
    return _digest(container.name, container.image) if container.image else None


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


def _missing(engine: str, image: str, said: str) -> str:
    """What is wrong, and what to do, where `docker image inspect` or `podman image inspect` failed and said this."""
    if not _NO_IMAGE.search(said):  # the engine itself does not work, such as a daemon that may not be used
        why = (said.strip().splitlines() or ["no message"])[-1]
        return f"{engine} does not work here ({why}); {_REPAIR[engine]}"
    variant = re.fullmatch(r"kit:(\w+)", image)
    gets = f"make image VARIANT={variant[1]} CONTAINER={engine} builds it" if variant else f"{engine} pull {image}"
    return f"{engine} does not have it; {gets}"
