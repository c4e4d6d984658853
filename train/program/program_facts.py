"""What ran: the files and libraries of a program, its version, and its use of cores and GPUs."""

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from common import affinity
from common.periodic import repeating
from record import run_files as files
from record.schema import CoreUse, GpuUsage
from train.config.program import search_path
from train.rank import gpus as nvidia
from train.rank import placement
from train.rank.counters import STAT, core_times
from train.rank.process import job_processes

_VERSION_S = 60.0
_BLOCK = 512  # bytes of the blocks that the kernel counts
# Libraries that decide how fast a parallel program is: of messages, GPUs, threads, languages, linear algebra.
_LIBRARIES = re.compile(
    r"lib(?:mpi|mpich|mpi_cxx|pmix|ucp|ucx|fabric|ibverbs|psm2|hcoll|cuda|cudart|cudnn|cublas|cufft|nccl|rccl|amdhip64"
    r"|gomp|iomp5|omp|gfortran|ifcore|stdc\+\+|c|blas|openblas|mkl|blis|flexiblas|fftw3|tensorflow_framework|torch"
    r"|horovod|xccl|ze_loader)[\w-]*\.so(?:\.[\d.]+)?"
)


def first_line(argv: list[str], cwd: Path, stdin: int) -> str:
    """Return the first line that a command prints; "" if it cannot run or prints nothing."""
    try:
        done = subprocess.run(argv, cwd=cwd, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=_VERSION_S, env=placement.without_rank() | {"PATH": search_path()})  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return next((line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.strip()), "")


def digests(argv: list[str], cwd: Path, began_at: float) -> dict[str, str]:
    """Return the SHA-256 of every file that the command names and did not write: its programs, scripts and inputs.

    began_at: seconds since the epoch; a file that was changed since is left out.
    """
    digests = {}
    for word in argv:
        for path in filter(None, (cwd / word, Path(shutil.which(word, path=search_path()) or ""))):
            with contextlib.suppress(OSError):
                if path.is_file() and path.stat().st_mtime < began_at:
                    digests[str(path)] = files.digest(path)
    return digests


class Counters:
    """The kernel's counts from now on: of the cores of this process, and of its ended children, as of the program."""

    def __init__(self) -> None:
        """Read them."""
        self._begin = self._read()

    def _read(self) -> tuple[float, ...]:
        cores, children = core_times(STAT.read_text(), affinity.usable_cores()), getrusage(RUSAGE_CHILDREN)
        times_s = (time.perf_counter(), children.ru_utime + children.ru_stime, *cores)
        return (*times_s, children.ru_inblock * _BLOCK, children.ru_oublock * _BLOCK)

    def since(self) -> tuple[CoreUse, int, int]:
        """Return the use of the cores, and the bytes read from file systems and written to them, not from caches."""
        counts = (end - begin for end, begin in zip(self._read(), self._begin, strict=True))
        wall_s, own_s, busy_s, steal_s, read_bytes, written_bytes = counts
        return CoreUse(wall_s, own_s, busy_s, steal_s), int(read_bytes), int(written_bytes)


@contextlib.contextmanager
def sampled_gpus(gpus: Sequence[str], period_s: float | None) -> Iterator[list[GpuUsage]]:
    """Return a context in which the use, the clock and the energy of GPUs are sampled, and the samples so far.

    gpus: as in CUDA_VISIBLE_DEVICES. The first and the last samples are of its begin and end; without a period there
    are none.
    """
    usages = [GpuUsage(gpu) for gpu in (gpus if period_s else ())]
    readers = [nvidia.reader(usage.gpu) for usage in usages]
    began_s = time.perf_counter()

    def take() -> None:
        for usage, read in zip(usages, readers, strict=True):
            reading = read()
            usage.at_s.append(round(time.perf_counter() - began_s, 3))
            usage.fraction.append(reading.fraction)
            usage.memory_bytes.append(reading.memory_bytes)
            usage.clock_mhz.append(reading.clock_mhz)
            usage.energy_j.append(reading.energy_j)

    take()
    with repeating(take, period_s) if usages and period_s else contextlib.nullcontext():
        yield usages
    take()


def mapped_libraries(job_id: str) -> set[str]:
    """Return the files of well-known libraries that the processes of a job on this host have loaded."""
    libraries = set()
    for child in job_processes(job_id):
        with contextlib.suppress(OSError):  # it has ended
            for line in Path(f"/proc/{child.pid}/maps").read_text().splitlines():
                path = line.partition("/")[2]
                if _LIBRARIES.fullmatch(os.path.basename(path)):
                    libraries.add(os.path.realpath(f"/{path}"))
    return libraries
