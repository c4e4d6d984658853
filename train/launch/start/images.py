"""The digest of the image that a container will run: from the engine, or from the file."""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
from pathlib import Path

from train.config.checks import ConfigError
from train.config.schema import Container


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
        why = (asked.stderr.strip().splitlines() or ["no message"])[-1]
        raise ConfigError(f"container.image={image}: {engine} does not have it ({why}); make image builds it")
    return f"sha256:{asked.stdout.strip().removeprefix('sha256:')}"
