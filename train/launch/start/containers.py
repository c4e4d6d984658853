"""Containers: the argv that runs another argv in one, the digest of its image, and the implementation of its mpirun.

On one machine the command of the whole job runs in one container, launcher and ranks together. Across hosts each rank
runs in its own container, inside the command that Slurm or ssh starts. Only Singularity can do that: a rank in it stays
a process of the user, with the environment from its launcher.
"""

import csv
import functools
import io
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig

from common.programs import finished
from record.run_files import digest
from record.this_kit import ROOT
from train.config.checks import ConfigError, check
from train.config.machine_config import ContainerConfig, default_image
from train.config.run_config import RunConfig
from train.launch.job import MPICH, OPEN_MPI, Shared

# What the first process of a container runs before the command of a user: it passes SIGTERM on, and when its input
# ends, because the engine's client is gone, it kills all others. `kill -1` spares the first process.
_FIRST = """exec 3<&0; "$@" </dev/null 3<&- & p=$!; trap 'kill $p' TERM
{ while read -r _; do :; done; [ $$ != 1 ] || kill -9 -1; } <&3 & exec 3<&-
while wait $p; s=$?; kill -0 $p 2>/dev/null; do :; done; exit $s"""
FIRST_PROCESS = ("sh", "-c", _FIRST, "program")
# The messages of Docker and Podman for a missing image.
_NO_IMAGE = re.compile("no such (image|object)|not known|failed to find image", re.IGNORECASE)
_REPAIR = {
    "docker": "start its daemon (sudo systemctl start docker), and let your user reach it "
    "(sudo usermod -aG docker $USER, then log in again)",
    "podman": "podman info says more",
}


def _reads(container: ContainerConfig, shared: Shared) -> list[Path]:
    return [shared.kit, *shared.reads, *([Path(container.mpi_home)] if container.mpi_home else [])]


def _mount(path: Path, *options: str) -> str:
    """Return a mount of Docker or Podman: a line of CSV, in which a path may have colons and commas."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["type=bind", f"source={path}", f"target={path}", *options])
    return line.getvalue()


def _oci(argv: Sequence[str], container: ContainerConfig, shared: Shared) -> list[str]:
    """Return the argv for Docker or Podman, with the host's network, name and shared memory, as this user."""
    assert container.image is not None
    engine = container.name
    command = [engine, "run", "--rm", "--interactive", "--pull", "never"]
    command += ["--network", "host", "--uts", "host", "--ipc", "host"]
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


def _singularity(argv: Sequence[str], container: ContainerConfig, shared: Shared) -> list[str]:
    """Return the argv of `singularity exec` (Apptainer or SingularityCE), with the caller's environment and cores.

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


def wrap(argv: Sequence[str], container: ContainerConfig, shared: Shared) -> list[str]:
    """Return the argv that runs `argv` in the container; unchanged without one."""
    if container.name == "none":
        return list(argv)
    return (_singularity if container.name == "singularity" else _oci)(argv, container, shared)


@functools.cache  # a SIF is some hundred megabytes, and an experiment asks for each of its runs
def image_digest(container: ContainerConfig) -> str | None:
    """Return the SHA-256 of the image as `sha256:...`: the ID of an OCI image, the file of a SIF; None without one.

    Raises ConfigError if the engine, the image or the folder of another MPI is missing.
    """
    engine, image = container.name, container.image
    if container.mpi_home and not Path(container.mpi_home, "lib").is_dir():
        raise ConfigError(f"container.mpi_home={container.mpi_home}: it has no folder lib; give the folder of an MPI")
    if image is None:
        return None
    if not shutil.which(engine):
        raise ConfigError(f"container={engine}: there is no command {engine} on this machine; install it")
    if engine == "singularity":
        if not Path(image).is_file():
            raise ConfigError(f"container.image={image}: no such file; make sif builds it")
        return f"sha256:{digest(Path(image))}"
    inspect = [engine, "image", "inspect", "--format", "{{.Id}}", image]
    done = finished(inspect)
    if done.returncode:
        raise ConfigError(f"container.image={image}: {_missing(engine, image, done.stderr)}")
    return f"sha256:{done.stdout.strip().removeprefix('sha256:')}"


def sif(config: RunConfig | DictConfig) -> str | None:
    """Return the SIF that the ranks of an experiment need on every host, as an absolute path; None without one."""
    container = config.container
    if container.name != "singularity":
        return None
    return str(Path(container.image or default_image("singularity", config.device, container.mpi_home)).resolve())


def _missing(engine: str, image: str, stderr: str) -> str:
    """Return the problem, and what to do, after `docker image inspect` or `podman image inspect` failed."""
    if not _NO_IMAGE.search(stderr):  # the engine itself does not work: for example, the user may not use the daemon
        why = (stderr.strip().splitlines() or ["no message"])[-1]
        return f"{engine} does not work here ({why}); {_REPAIR[engine]}"
    variant = re.fullmatch(r"kit:(\w+)", image)
    remedy = f"make image VARIANT={variant[1]} CONTAINER={engine} builds it" if variant else f"{engine} pull {image}"
    return f"{engine} does not have it; {remedy}"


_VERSION_SIGNS = {"(Open MPI)": OPEN_MPI, "HYDRA": MPICH}  # in the output of `mpirun --version`
NO_CONTAINER = ContainerConfig("none")


def uses_mpi(config: RunConfig) -> bool:
    """Return whether the ranks of a run are joined by MPI."""
    return config.distribution.backend == "horovod" and config.distribution.controller == "mpi"


@functools.cache  # an experiment asks for each of its runs
def mpi_implementation(container: ContainerConfig) -> str:
    """Return the mpirun of the container's image, or of this machine without one: OPEN_MPI or MPICH.

    Raises ConfigError if there is no mpirun, or an unknown one.
    """
    command = wrap(["mpirun", "--version"], replace(container, mpi_home=None), Shared(ROOT))
    where = container.image or "this machine"
    try:
        done = finished(command, within_s=300.0)
    except FileNotFoundError as error:
        text, why = "", f"there is no command {error.filename}"
    else:
        text, why = done.stdout, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    for sign, name in _VERSION_SIGNS.items():
        if sign in text:
            return name
    answer = f"it says: {text.splitlines()[0]}" if text.strip() else why
    raise ConfigError(
        f"distribution.controller=mpi: {where} has no mpirun of Open MPI or of MPICH ({answer}); "
        "install one, or use distribution.controller=gloo"
    )
