"""From an argv to the argv that runs it in a container: pure functions.

On one machine the command of the whole job runs in one container, launcher and ranks together. Across hosts each rank
runs in one of its own, inside the command that Slurm or ssh starts: only Singularity can do that, because a rank in it
stays a process of the user, with the environment that its launcher gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from train.config.schema import Container

PYTHON = "python"  # the image's, by its PATH


@dataclass(frozen=True)
class Shared:
    """What a container shares with its host; every path is the same inside and outside."""

    kit: Path  # this code, to read: it is also the working folder
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()  # the folders that the ranks leave their results in
    variables: tuple[str, ...] = ()  # names of environment variables to hand on; Singularity hands all on
    cores: tuple[int, ...] = ()  # those that the command may run on; none: all
    gpu: bool = False
    uid: int = 0  # who the files that it writes belong to
    gid: int = 0


def _mounts(container: Container, shared: Shared) -> list[str]:
    reads = [shared.kit, *shared.reads, *([Path(container.mpi_home)] if container.mpi_home else [])]
    # Folders to write come last: they may lie within one that is only read.
    return [*(f"{path}:{path}:ro" for path in reads), *(f"{path}:{path}" for path in shared.writes)]


def _oci(engine: str, argv: Sequence[str], container: Container, shared: Shared) -> list[str]:
    """Docker or Podman: network, names and shared memory are the host's, files belong to the calling user."""
    assert container.image is not None
    command = [engine, "run", "--rm", "--pull", "never", "--network", "host", "--uts", "host", "--ipc", "host"]
    command += ["--user", f"{shared.uid}:{shared.gid}"]
    # SELinux would refuse folders that were not labelled for containers; labelling a user's own is no launcher's work.
    command += ["--security-opt", "label=disable"]
    for mount in _mounts(container, shared):
        command += ["--volume", mount]
    command += ["--workdir", str(shared.kit), "--env", "HOME=/tmp"]
    if container.mpi_home:
        command += ["--env", f"LD_LIBRARY_PATH={container.mpi_home}/lib"]
    for name in sorted(shared.variables):
        command += ["--env", name]
    if shared.gpu:
        command += ["--device", "nvidia.com/gpu=all"] if engine == "podman" else ["--gpus", "all"]
    if engine == "podman" and shared.uid != 0:
        command += ["--userns", "keep-id"]  # without root, Podman would give the files to a subordinate user
    # A daemon that starts the container knows nothing of the cores that the caller is bound to.
    bound = ["taskset", "--cpu-list", ",".join(map(str, shared.cores))] if shared.cores else []
    return [*command, container.image, *bound, *argv]


def docker(argv: Sequence[str], container: Container, shared: Shared) -> list[str]:
    """`docker run`."""
    return _oci("docker", argv, container, shared)


def podman(argv: Sequence[str], container: Container, shared: Shared) -> list[str]:
    """`podman run`, as root or without."""
    return _oci("podman", argv, container, shared)


def singularity(argv: Sequence[str], container: Container, shared: Shared) -> list[str]:
    """`singularity exec`, Apptainer's or SingularityCE's: user, environment, cores and network are the caller's."""
    assert container.image is not None
    command = ["singularity", "exec", "--pwd", str(shared.kit)]
    for mount in _mounts(container, shared):
        command += ["--bind", mount]
    if container.mpi_home:
        # .singularity.d/libs is where --nv puts the host's GPU libraries.
        command += ["--env", f"LD_LIBRARY_PATH={container.mpi_home}/lib:/.singularity.d/libs"]
    if shared.gpu:
        command += ["--nv"]
    return [*command, container.image, *argv]


def _none(argv: Sequence[str], container: Container, shared: Shared) -> list[str]:
    return list(argv)


_WRAPPERS: dict[str, Callable[[Sequence[str], Container, Shared], list[str]]] = {
    "none": _none,
    "docker": docker,
    "podman": podman,
    "singularity": singularity,
}


def wrap(argv: Sequence[str], container: Container, shared: Shared) -> list[str]:
    """The argv that runs `argv` as conf/container says: unchanged where that is `none`."""
    return _WRAPPERS[container.name](argv, container, shared)
