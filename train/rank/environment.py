"""The environment of a run: machine, versions, variables. Read once per job, outside every timed phase."""

import contextlib
import ctypes
import importlib.metadata
import mmap
import os
import platform
import re
import socket
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import psutil

from common import affinity
from record import protocol, this_kit
from record.schema import Environment, Host
from train.config.checks import ConfigError
from train.rank import gpus as nvidia
from train.rank import host as machine
from train.rank import process

_LONGEST_NAME = 120  # of a compiler; what is longer is no name
PACKAGES = ("tensorflow", "tensorflow-cpu", "tf_keras", "horovod", "numpy", "hydra-core", "wandb", "nvidia-nccl-cu12")


def cpu_model() -> str:
    """Return the processor's name as Linux gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return model[1].strip() if model else platform.machine()


def host(usable_cores: Collection[int]) -> Host:
    """Return a description of this machine. usable_cores: those of its cores that the job may use."""
    gpus = nvidia.query()
    return Host(
        host=socket.gethostname(),
        cpu_model=cpu_model(),
        cores=len(usable_cores),
        threads_per_core=affinity.threads_per_core(usable_cores),
        memory_bytes=psutil.virtual_memory().total,
        kernel=platform.release(),
        gpus=[state.name for state in gpus.states],
        state=machine.state(usable_cores, gpus.states, gpus.topology),
    )


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that can change a measurement."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def horovod_built_with() -> list[str]:
    """Return the controllers and operations that Horovod was compiled with."""
    import horovod.tensorflow as hvd

    built = {"mpi": hvd.mpi_built(), "gloo": hvd.gloo_built(), "nccl": bool(hvd.nccl_built()), "cuda": hvd.cuda_built()}
    return sorted(name for name, is_built in built.items() if is_built)


# Each begins with plain text, by which a file of many MB is searched in milliseconds.
_COMPILERS = [
    re.compile(pattern + rb"[^\0]*") for pattern in (rb"GCC: \(", rb"clang version ", rb"Intel\(R\) oneAPI DPC")
]


def compilers(path: Path) -> str:
    """Return the compilers that an executable or a library names; "" if it names none, or is neither."""
    with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
        if file.read(4) == b"\x7fELF":
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            texts = [name for pattern in _COMPILERS for name in pattern.findall(content)]
            names = {name.decode(errors="replace").strip() for name in texts}
            return ", ".join(sorted(name for name in names if len(name) < _LONGEST_NAME))
    return ""


def horovod_compilers() -> str:
    """Return the compilers of Horovod's library for TensorFlow."""
    import horovod.tensorflow as hvd

    return ", ".join(filter(None, map(compilers, Path(hvd.__file__).parent.glob("mpi_lib*.so"))))


@dataclass(frozen=True)
class MpiLibrary:
    """An MPI library in this process."""

    path: Path  # with links followed
    version: str  # as the library reports it


def mpi_library() -> MpiLibrary | None:
    """Return the MPI library that this process has loaded, whichever Horovod was built with; None without one."""
    mapped = re.search(r"(/\S*/libmpi(?:ch)?\.so\S*)", Path("/proc/self/maps").read_text())
    if not mapped:
        return None
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()  # MPICH's limit; Open MPI's is 256
    ctypes.CDLL(mapped[1]).MPI_Get_library_version(text, ctypes.byref(length))  # may be called before MPI_Init
    first = text.value.decode(errors="replace").partition("\n")[0]
    return MpiLibrary(Path(mapped[1]).resolve(), " ".join(first.partition(",")[0].split()))


def check_mpi(mpi_home: str | None) -> None:
    """Raise ConfigError if the host's MPI in `mpi_home` was requested, and this process has loaded another."""
    library = mpi_library()
    if mpi_home and not (library and library.path.is_relative_to(Path(mpi_home).resolve())):
        loaded = f"{library.version} in {library.path}" if library else "none"
        raise ConfigError(
            f"container.mpi_home={mpi_home}: the MPI library that was loaded is {loaded}. Give the folder above the "
            "lib/ that holds a libmpi.so of the soname that Horovod in the image was built with (mvapich2: "
            "libmpi.so.12, cpu and cuda: libmpi.so.40); one of another soname is silently ignored"
        )


def git_state() -> tuple[str | None, bool | None]:
    """Return the commit of the kit's code, and whether its files differ from it; None if unknown.

    Ranks in a container get them from the launcher's environment variables, else from a file of the image's build.
    """
    if commit := os.environ.get(protocol.GIT_COMMIT):
        return commit, {"0": False, "1": True}.get(os.environ.get(protocol.GIT_DIRTY, ""))
    return this_kit.commit()


def collect(hosts: list[Host], with_horovod: bool = True) -> Environment:
    """Return the environment of the job on these hosts, for the record. with_horovod: this process has loaded it."""
    digest = os.environ.get(protocol.IMAGE_DIGEST)
    commit, dirty = git_state()
    library = mpi_library()
    installed = versions()
    return Environment(
        hosts=hosts,
        versions=installed,
        horovod_built_with=horovod_built_with() if with_horovod else [],
        mpi=library.version if library else None,
        mpi_library=str(library.path) if library else None,
        nccl=installed.get("nvidia-nccl-cu12"),
        image=os.environ.get(protocol.IMAGE) or os.environ.get("SINGULARITY_CONTAINER") or this_kit.image(),
        image_digest=f"sha256:{digest.removeprefix('sha256:')}" if digest else None,
        git_commit=commit,
        git_dirty=dirty,
        variables=process.recorded_variables(),
        compilers=horovod_compilers() if with_horovod else "",
    )
