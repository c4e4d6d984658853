"""Is this machine ready? A table of checks: each is OK, a warning or a failure, with the command that fixes it.

`python3 train/tools/doctor.py --before-setup cpu` needs only the standard library: it shows what is missing before
anything is downloaded. `python -m train.tools.doctor` also checks the finished environment.
"""

from __future__ import annotations  # train/tools/doctor.py also runs under an older Python, and says so

import argparse
import ctypes
import importlib.metadata
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # as a script it begins in its own folder

from common.printable import printable_output  # noqa: E402
from common.programs import finished  # noqa: E402
from common.terminal import show  # noqa: E402

_BELOW = " " * 23  # where results begin
OK, WARNING, FAILURE = "OK", "warning", "FAILURE"

# GiB that the set-up of each environment needs, with the build of Horovod: measured.
_DISK_GIB = {"analysis": 0.6, "launch": 0.8, "cpu": 4.0, "cuda": 10.0}
_SETUP_MEMORY_GIB = {"analysis": 0.5, "launch": 0.5, "cpu": 3.0, "cuda": 4.0}
_RUN_DISK_GIB = 1.0  # for the records of a measurement
# The includes of Horovod's kernels, and a call that needs the runtime library.
_CUDA_PROGRAM = """\
#include <cuda_runtime.h>
#include <cuda_fp16.h>
__global__ void kernel() {}
int main() { kernel<<<1, 1>>>(); return cudaDeviceSynchronize(); }
"""
# An mpicxx may be there without the header or the library, as of Debian's openmpi-bin alone.
_MPI_PROGRAM = """\
#include <mpi.h>
int main(int argc, char** argv) { return MPI_Init(&argc, &argv); }
"""
_CUDA_TOOLKIT = """\
install all of the CUDA toolkit 12.5 (NVIDIA's package cuda-toolkit-12-5), and put its bin/ on PATH
or run the ranks in an image: make image CONTAINER=docker VARIANT=cuda; then make ... CONTAINER=docker DEVICE=gpu"""
_DRIVER_OF_CUDA_13 = 580  # docs.nvidia.com/cuda/cuda-toolkit-release-notes; what nvcc has code for: nvcc --help
_HOROVOD_CHECK = """
import os
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf, horovod.tensorflow as hvd
built = {"MPI": hvd.mpi_built(), "Gloo": hvd.gloo_built(), "NCCL": bool(hvd.nccl_built()), "CUDA": hvd.cuda_built()}
print(tf.__version__)
print(", ".join(name for name, is_built in built.items() if is_built))
print(len(tf.config.list_physical_devices("GPU")))
"""


class Check(NamedTuple):
    """The result of one check."""

    name: str
    state: str  # OK, WARNING or FAILURE
    result: str
    fix: str = ""  # a command, or advice; empty if there is nothing to do


def _check(name: str, holds: bool, result: str, fix: str, otherwise: str = FAILURE) -> Check:
    """Return a check that is OK if this holds, and otherwise has this state and fix."""
    return Check(name, OK, result) if holds else Check(name, otherwise, result, fix)


def check_platform() -> Check:
    """Check whether this is 64-bit x86 Linux, which the locked wheels are for."""
    system = f"{platform.system()} {platform.machine()}"
    return _check("platform", system == "Linux x86_64", system, "run it on 64-bit x86 Linux, or in a container")


def check_python() -> Check:
    """Check whether this is a Python that uv.lock is for, and which."""
    environment = f"of {sys.prefix}, made with {sys.base_prefix}" if sys.prefix != sys.base_prefix else sys.executable
    locked = sys.version_info[:2] in ((3, 11), (3, 12), (3, 13))
    why = "" if locked else ": uv.lock and TensorFlow 2.21 are for 3.11, 3.12 and 3.13"
    fix = "make clean-env, then set up again; PYTHON= names the Python to use"
    return _check("Python", locked, f"{platform.python_version()}, {environment}{why}", fix)


def check_compiler() -> Check:
    """Check whether there are a C++ compiler and make, which build Horovod; returns which compiler, and why."""
    compiler, why = os.environ.get("CXX", "").split()[:1], "CXX= names it"
    if not compiler:
        compiler, why = ["c++" if shutil.which("c++") else "g++"], "the first on PATH; CXX= names another"
    missing = [name for name in (*compiler, "make") if not shutil.which(name)]
    if missing:
        return Check("compiler", FAILURE, f"no {' and no '.join(missing)}", "sudo apt-get install g++ make")
    return Check("compiler", OK, f"{_first_line(*compiler, '--version')}: {shutil.which(compiler[0])}, {why}")


def check_cuda_toolkit() -> Check:
    """Check that the CUDA toolkit can build Horovod with NCCL: nvcc, and the headers and libraries that it needs."""
    links = {f"link a program with the {runtime} runtime": ["-cudart", runtime] for runtime in ("static", "shared")}
    if not shutil.which("nvcc"):
        return Check("CUDA toolkit", FAILURE, "no nvcc", _CUDA_TOOLKIT)
    banner = finished(["nvcc", "--version"]).stdout
    release = re.search(r"\brelease (\d+)\.(\d+)", banner)  # below a line of its name, and one of its copyright
    problem = _compile_problem("nvcc", _CUDA_PROGRAM, ".cu", links)
    name = f"nvcc {release[1]}.{release[2]}" if release else "nvcc that names no release"
    if release and release[1] not in ("12", "13"):
        problem = f"{name}: Horovod takes CUDA 12 or 13"
    if problem or not release or release[1] != "13":
        return _check("CUDA toolkit", not problem, problem or f"{name}: {shutil.which('nvcc')}", _CUDA_TOOLKIT)
    result = f"{name}: with it Horovod needs a driver of {_DRIVER_OF_CUDA_13} or newer, and GPUs from Turing on (7.5)"
    return Check("CUDA toolkit", WARNING, result, f"for others {_CUDA_TOOLKIT}")


def _compile_problem(compiler: str, program: str, suffix: str, links: Mapping[str, Sequence[str]]) -> str:
    """Return how a compiler fails with a program, and its message; empty if it does not.

    links: the options of each way to link it, by what that is called.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, compiled, linked = (f"{folder}/program{end}" for end in (suffix, ".o", ""))
        Path(source).write_text(program)
        steps = {"compile a program": ["-c", source, "-o", compiled]}
        steps |= {action: [compiled, "-o", linked, *options] for action, options in links.items()}
        for action, options in steps.items():
            done = finished([compiler, *options], within_s=300.0)
            if done.returncode:
                lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
                errors = [line for line in lines if "error" in line or "cannot find" in line]
                return f"{compiler} does not {action}: {next(iter([*errors, *reversed(lines)]), 'it says nothing')}"
    return ""


def check_driver() -> Check:
    """Check whether NVIDIA's driver is here. With a launcher that starts ranks on other hosts, these may have it."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        # Before the set-up its file can be read.
        launcher = ROOT / f"conf/launcher/{os.environ.get('LAUNCHER')}.yaml"
        elsewhere = launcher.is_file() and "\nstarts: " in launcher.read_text()
        fix = "install NVIDIA's driver; if the GPUs are on other hosts: LAUNCHER=slurm or LAUNCHER=ssh"
        return Check("driver", WARNING if elsewhere else FAILURE, "no driver of NVIDIA here (libcuda.so.1)", fix)
    return Check("driver", OK, "NVIDIA's driver is here")


def check_mpi() -> Check:
    """Check whether Horovod can be built with MPI; without it, with Gloo, which needs nothing else."""
    if shutil.which("mpicc") and os.environ.get("HOROVOD_WITHOUT_MPI") != "1":
        compiler = "mpicxx" if shutil.which("mpicxx") else "mpicc"
        problem = _compile_problem(compiler, _MPI_PROGRAM, ".cc", {"link a program": []})
        fix = "sudo apt-get install libopenmpi-dev (MPICH: libmpich-dev); without MPI: HOROVOD_WITHOUT_MPI=1"
        return _check("MPI", not problem, problem or _first_line("mpirun", "--version") or "mpicc", fix)
    fix = "sudo apt-get install libopenmpi-dev openmpi-bin; then make clean-env and set up again"
    return Check("MPI", WARNING, "no mpicc: Horovod is built with Gloo only", fix)


def check_own_name() -> Check:
    """Check whether the host resolves its own name: Horovod's Gloo looks it up, and crashes if it cannot."""
    name = socket.gethostname()
    try:
        addresses = sorted({str(address[0]) for *_, address in socket.getaddrinfo(name, None)})
    except OSError as error:
        fix = f'echo "127.0.1.1 {name}" | sudo tee -a /etc/hosts'
        return Check("own name", WARNING, f"{name} cannot be resolved ({error.strerror}): Gloo crashes there", fix)
    return Check("own name", OK, f"{name} is {', '.join(addresses)}")


def check_loopback() -> Check:
    """Check whether processes of this machine can reach each other at 127.0.0.1."""
    from train.rank.host import loopback_problem

    problem = loopback_problem()
    return _check("loopback", not problem, problem or "127.0.0.1 answers", "sudo ip link set lo up")


def check_disk(needed_gib: float) -> Check:
    """Check whether the kit's file system has this much free space."""
    free_gib = shutil.disk_usage(ROOT).free / 2**30
    return _check("disk", free_gib >= needed_gib, _room(free_gib, needed_gib), f"free space in {ROOT}")


def check_memory(needed_gib: float) -> Check:
    """Check whether this much memory is free now."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free_gib = int(fields["MemAvailable"].split()[0]) / 2**20
    return _check("memory", free_gib >= needed_gib, _room(free_gib, needed_gib), "end other programs")


def _room(free_gib: float, needed_gib: float) -> str:
    return f"{free_gib:.1f} GiB free, {needed_gib:.1f} GiB needed"


def check_container(engine: str, device: str, image: str | None) -> Check:
    """Check whether the container engine is installed and has the image."""
    from train.config.checks import ConfigError
    from train.config.machine_config import ContainerConfig, default_image
    from train.launch.start import containers

    name = image or default_image(engine, device, None)
    try:
        digest = containers.image_digest(ContainerConfig(engine, name))
    except ConfigError as error:
        problem, _, fix = str(error).partition("; ")
        return Check("container", FAILURE, problem, fix)
    return Check("container", OK, f"{engine} has {name}, {str(digest)[:19]}")


def check_horovod() -> list[Check]:
    """Check whether TensorFlow and Horovod load, what Horovod was built with, and how many GPUs TensorFlow sees."""
    done = finished([sys.executable, "-c", _HOROVOD_CHECK], within_s=300.0)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return [Check("TensorFlow and Horovod", FAILURE, last, "make clean-env, then set up again")]
    tensorflow, built, gpus = done.stdout.strip().splitlines()[-3:]
    return [
        Check("TensorFlow", OK, f"{tensorflow}, tf_keras {importlib.metadata.version('tf_keras')}, as in uv.lock"),
        Check("Horovod", OK, f"{importlib.metadata.version('horovod')}, built with {built}"),
        check_gpus(int(gpus)),
    ]


def check_gpus(visible: int) -> Check:
    """Check whether there are GPUs; visible: how many TensorFlow sees."""
    from train.rank import gpus

    states = gpus.query().states
    for state in states:
        if problems := gpus.problems(state):
            return Check("GPUs", FAILURE, f"{state.name}: {'; '.join(problems)}", "a newer driver or GPU; DEVICE=cpu")
    names = ", ".join(
        sorted({f"{state.name} ({state.compute_capability or 'capability not known'})" for state in states})
    )
    if visible:
        driver = f"; driver {states[0].driver}" if states else ""
        return Check("GPUs", OK, f"{visible} seen by TensorFlow{names and ': '}{names}{driver}")
    if names:
        fix = "make DEVICE=gpu ... sets up TensorFlow with CUDA"
        return Check("GPUs", WARNING, f"{names}, but TensorFlow sees none", fix)
    return Check("GPUs", WARNING, "none: DEVICE=cpu only", "an NVIDIA GPU and its driver")


def check_cores(ranks: int) -> Check:
    """Check whether every rank has its own core, or quotas can emulate nodes."""
    from common import affinity

    cpus = affinity.usable_cores()
    try:
        affinity.bind(os.sched_getaffinity(0))
    except OSError as error:
        return Check("cores", FAILURE, str(error.strerror), "run it where processes may choose their cores")
    cores = len(affinity.whole_cores(cpus))
    threads = f" ({len(cpus)} hardware threads; system.smt=true uses all)" if len(cpus) > cores else ""
    quota = affinity.cpu_quota()
    limit = f" (a CPU quota of {quota.cores:g}: {quota.group})" if quota else ""
    text, fix = f"{cores} usable{threads}{limit}, {ranks} ranks asked for", f"NODES={cores}, or a larger machine"
    if cores >= ranks:
        return Check("cores", OK, text)
    from train.launch import cgroups

    quotas = cgroups.quota_method()
    if isinstance(quotas, cgroups.QuotaMethod):
        return Check("cores", OK, f"{text}: nodes are emulated by {quotas.text}")
    return Check("cores", WARNING, f"{text}: they would share; no quotas: {quotas}", fix)


def check_energy() -> Check:
    """Check whether the energy of the processors can be read: then records have the joules of an image."""
    from train.rank import counters

    if why := counters.why_no_energy():
        # The counters reveal computations of other users (CVE-2020-8694), so the administrator has to decide.
        readable = "sudo chmod a+r /sys/class/powercap/*/energy_uj, until the next boot (mind CVE-2020-8694)"
        return Check("energy", OK, f"not known: {why}", readable if "only root" in why else "")
    return Check("energy", OK, f"RAPL of {len(counters.energy_counters())} package(s)")


def check_rank_memory(ranks: int) -> Check:
    """Check whether this many ranks of the default model fit into memory; the launcher estimates each point itself."""
    import psutil

    from train.config.compose import load
    from train.launch.plan import point_checks

    default = load([f"nodes={ranks}"])
    shortage = point_checks.memory_shortage(default, psutil.virtual_memory().available)
    each = point_checks.memory_per_rank_bytes(default) / 2**30
    text = f"{each:.1f} GiB a rank of {default.model.name}, {default.batch_per_rank} image(s) a rank"
    return _check("memory", shortage is None, text, str(shortage), WARNING)


def _first_line(*command: str) -> str:
    """Return the first line that a command prints; empty if it is not installed or fails."""
    if not shutil.which(command[0]):
        return ""
    done = finished(command)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines and done.returncode == 0 else ""


def before_setup(packages: str) -> list[Check]:
    """Check the needs of setting up the packages `packages` (analysis, launch, cpu, cuda)."""
    compiled = packages in ("cpu", "cuda")  # they have TensorFlow, and Horovod, which is compiled
    checks = [check_platform(), check_python()]
    if packages == "cuda":
        checks.append(check_driver())
    checks += [check_disk(_DISK_GIB[packages]), check_memory(_SETUP_MEMORY_GIB[packages])]
    if compiled:
        checks += [check_compiler(), check_mpi()]
    if packages == "cuda":
        checks.append(check_cuda_toolkit())
    return checks


def before_run(ranks: int, container: str, device: str, image: str | None) -> Iterator[Check]:
    """Check the needs of a measurement with this many ranks, bare or in a container."""
    yield check_platform()
    yield check_python()
    if container == "none":
        yield check_compiler()
        yield check_mpi()
        yield from check_horovod()
    else:
        yield check_container(container, device, image)
    yield check_own_name()
    yield check_loopback()
    yield check_cores(ranks)
    yield check_energy()
    yield check_rank_memory(ranks)
    yield check_disk(_RUN_DISK_GIB)


def show_check(check: Check) -> None:
    """Print a check, with its fix below. At once: some checks take a minute."""
    show(f"{check.name:<12}  {check.state:<7}  {check.result}", hanging=_BELOW)
    if check.fix:
        show(f"{_BELOW}fix: " + check.fix.replace("\n", f"\n{_BELOW}     "), hanging="     ")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before-setup", choices=sorted(_DISK_GIB), help="only what setting up this set needs")
    parser.add_argument("--ranks", type=int, default=2, help="how many ranks are to run here")
    parser.add_argument("--container", choices=("none", "docker", "podman", "singularity"), default="none")
    parser.add_argument("--image", help="its image; default: what make image or make sif builds for the device")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="selects the default image")
    arguments = parser.parse_args()
    if arguments.ranks < 1:
        parser.error(f"--ranks {arguments.ranks}: must be 1 or more")
    return arguments


def main() -> int:
    """Check, and print each check as it is made; returns the exit status: 1 if a check fails."""
    arguments = _arguments()
    if arguments.before_setup:
        checks = before_setup(arguments.before_setup)
        if all(check.state != FAILURE for check in checks):
            return 0  # no table before every set-up if all is well
        for check in checks:
            show_check(check)
    else:
        checks = []
        for check in before_run(arguments.ranks, arguments.container, arguments.device, arguments.image):
            show_check(check)
            checks.append(check)
    if failed := [check.name for check in checks if check.state == FAILURE]:
        show(f"\n{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    with printable_output():
        try:
            sys.exit(main())
        except KeyboardInterrupt:
            sys.exit(130)
