"""From an argv to the argv that runs it in a container: pure functions.

On one machine the command of the whole job runs in one container, launcher and ranks together. Across hosts each rank
runs in its own container, inside the command that Slurm or ssh starts. Only Singularity can do that: a rank in it stays
a process of the user, with the environment that its launcher gave it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from train.config.checks import check
from train.config.schema import Container
from train.launch.job import Shared


def _reads(container: Container, shared: Shared) -> list[Path]:
    return [shared.kit, *shared.reads, *([Path(container.mpi_home)] if container.mpi_home else [])]


def _mount(path: Path, *options: str) -> str:
    """Return a mount of Docker or Podman: a line of CSV, in which a path may have colons and commas."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["type=bind", f"source={path}", f"target={path}", *options])
    return line.getvalue()


def _oci(engine: str, argv: Sequence[str], container: Container, shared: Shared) -> list[str]:
    """Docker or Podman: the host's network, host name and shared memory; files belong to the calling user."""
    assert container.image is not None
    command = [engine, "run", "--rm", "--pull", "never", "--network", "host", "--uts", "host", "--ipc", "host"]
    command += ["--user", f"{shared.uid}:{shared.gid}"]
    # SELinux refuses folders that are not labelled for containers, and a launcher should not relabel a user's folders.
    command += ["--security-opt", "label=disable"]
    # Writable folders come last: they may be inside one that is read only.
    mounts = [*(_mount(path, "readonly") for path in _reads(container, shared)), *map(_mount, shared.writes)]
    command += [word for mount in mounts for word in ("--mount", mount)]
    command += ["--workdir", str(shared.kit), "--env", "HOME=/tmp"]
    if container.mpi_home:
        command += ["--env", f"LD_LIBRARY_PATH={container.mpi_home}/lib"]
    for name in sorted(shared.variables):
        command += ["--env", name]
    if shared.gpu:
        command += ["--device", "nvidia.com/gpu=all"] if engine == "podman" else ["--gpus", "all"]
    if engine == "podman" and shared.uid != 0:
        command += ["--userns", "keep-id"]  # without root, Podman would give the files to a subordinate user
    # The daemon that starts the container does not know the cores that the caller is bound to.
    bound = ["taskset", "--cpu-list", ",".join(map(str, shared.cores))] if shared.cores else []
    return [*command, container.image, *bound, *argv]


def docker(argv: Sequence[str], container: Container, shared: Shared) -> list[str]:
    """Return the argv of `docker run`."""
    return _oci("docker", argv, container, shared)


def podman(argv: Sequence[str], container: Container, shared: Shared) -> list[str]:
    """Return the argv of `podman run`, with or without root."""
    return _oci("podman", argv, container, shared)


def singularity(argv: Sequence[str], container: Container, shared: Shared) -> list[str]:
    """Return the argv of `singularity exec` (Apptainer or SingularityCE): user, environment and cores are the caller's.

    Raises ConfigError for a folder that it cannot take.
    """
    assert container.image is not None
    command = ["singularity", "exec", "--pwd", str(shared.kit)]
    reads = _reads(container, shared)
    for path in (*reads, *shared.writes):
        why = "singularity takes no folder with a colon or a comma in its name; give another one"
        check(not {":", ","} & {*str(path)}, "container=singularity: folder", path, why)
    binds = [*(f"{path}:{path}:ro" for path in reads), *(f"{path}:{path}" for path in shared.writes)]
    command += [word for bind in binds for word in ("--bind", bind)]
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
    """Return the argv that runs `argv` in the container; unchanged without one."""
    return _WRAPPERS[container.name](argv, container, shared)
