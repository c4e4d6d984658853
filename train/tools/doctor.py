"""Is this machine ready? A table of checks, each OK, a warning or a failure with the command that mends it.

`python3 train/tools/doctor.py --before-setup cpu` needs nothing but the standard library: it says what is missing
before anything is downloaded. `python -m train.tools.doctor` looks at the finished environment as well.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]

OK, WARNING, FAILURE = "OK", "warning", "FAILURE"

# Of the environment when it is set up, in GiB, measured; with what the build needs on the way.
_DISK_GIB = {"analysis": 0.6, "launch": 0.8, "cpu": 4.0, "cuda": 10.0}
_SETUP_MEMORY_GIB = {"analysis": 0.5, "launch": 0.5, "cpu": 3.0, "cuda": 4.0}
_HOROVOD_CHECK = """
import os
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf, horovod.tensorflow as hvd
built = {"MPI": hvd.mpi_built(), "Gloo": hvd.gloo_built(), "NCCL": bool(hvd.nccl_built()), "CUDA": hvd.cuda_built()}
print(tf.__version__)
print(", ".join(name for name, there in built.items() if there))
print(len(tf.config.list_physical_devices("GPU")))
"""

if TYPE_CHECKING:
    Check = tuple[str, str, str, str]  # name, state, what was found, mend


def check_python() -> Check:
    """Python 3.11; others up to 3.12 where the locks have wheels, untried."""
    found = platform.python_version()
    mend = "sudo apt-get install python3.11 python3.11-venv; then make PYTHON=python3.11"
    if sys.version_info[:2] == (3, 11):
        return "Python", OK, found, ""
    if sys.version_info[:2] == (3, 12):
        return "Python", WARNING, f"{found}: the locks were made for 3.11; this version is untried", mend
    return "Python", FAILURE, f"{found}: needed is 3.11 (TensorFlow 2.18.1 has no wheels beyond 3.12)", mend


def check_platform() -> Check:
    """64-bit Intel or AMD under Linux: what the locked wheels are for."""
    found = f"{platform.system()} {platform.machine()}"
    fits = found == "Linux x86_64"
    return "platform", OK if fits else FAILURE, found, "" if fits else "run it on 64-bit x86 Linux, or in a container"


def check_venv() -> Check:
    """Python can make virtual environments: Debian keeps that in a package of its own."""
    done = subprocess.run([sys.executable, "-c", "import venv, ensurepip"], capture_output=True)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if done.returncode == 0:
        return "venv", OK, "there", ""
    return "venv", FAILURE, "no module ensurepip", f"sudo apt-get install python{version}-venv"


def check_compiler() -> Check:
    """A C++ compiler and make, which build Horovod."""
    missing = [name for name in ("g++", "make") if not shutil.which(name)]
    if missing:
        return "compiler", FAILURE, f"no {' and no '.join(missing)}", "sudo apt-get install g++ make"
    return "compiler", OK, _first_line("g++", "--version"), ""


def check_cuda_compiler() -> Check:
    """nvcc, which a Horovod with NCCL is built with."""
    if shutil.which("nvcc"):
        return "CUDA compiler", OK, _first_line("nvcc", "--version"), ""
    mend = "install the CUDA toolkit 12.5 and put its bin/ on PATH"
    return "CUDA compiler", FAILURE, "no nvcc", mend


def check_mpi() -> Check:
    """MPI is optional: Gloo needs nothing."""
    if shutil.which("mpicc"):
        return "MPI", OK, _first_line("mpirun", "--version") or "mpicc", ""
    mend = "sudo apt-get install libopenmpi-dev openmpi-bin; then make clean-env and set up again"
    return "MPI", WARNING, "no mpicc: Horovod is built with Gloo alone", mend


def check_own_name() -> Check:
    """The host resolves its own name: Horovod's Gloo looks it up, and ends by a segmentation fault where it cannot."""
    name = socket.gethostname()
    try:
        addresses = sorted({str(address[0]) for *_, address in socket.getaddrinfo(name, None)})
    except OSError as error:
        mend = f'echo "127.0.1.1 {name}" | sudo tee -a /etc/hosts'
        return "own name", WARNING, f"{name} cannot be resolved ({error.strerror}): Gloo crashes there", mend
    return "own name", OK, f"{name} is {', '.join(addresses)}", ""


def check_container(engine: str, device: str, image: str | None) -> Check:
    """The engine is there, and has the image."""
    from train.config.schema import ConfigError, Container, default_image
    from train.launch.start import images

    name = image or default_image(engine, device, None)
    try:
        digest = images.digest(Container(engine, name))
    except ConfigError as error:
        found, _, mend = str(error).partition("; ")
        return "container", FAILURE, found, mend
    return "container", OK, f"{engine} has {name}, {str(digest)[:19]}", ""


def check_disk(needed_gib: float) -> Check:
    """Room for the environment."""
    free = shutil.disk_usage(ROOT).free / 2**30
    text = f"{free:.1f} GiB free, {needed_gib:.1f} GiB needed"
    return "disk", OK if free >= needed_gib else FAILURE, text, "" if free >= needed_gib else f"free space in {ROOT}"


def check_memory(needed_gib: float) -> Check:
    """Memory that is free now."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) / 2**20
    text = f"{free:.1f} GiB free, {needed_gib:.1f} GiB needed"
    return "memory", OK if free >= needed_gib else FAILURE, text, "" if free >= needed_gib else "end other programs"


def check_rank_memory(ranks: int) -> Check:
    """Memory for the ranks of the configuration's default model; the launcher estimates every point for itself."""
    import psutil

    from train.config.compose import load
    from train.launch.plan import preflight

    default = load([f"nodes={ranks}"])
    short = preflight.memory_shortage(default, psutil.virtual_memory().available)
    each = preflight.memory_per_rank_bytes(default) / 2**30
    text = f"{each:.1f} GiB a rank of {default.model.name}, {default.batch_per_rank} image(s) a rank"
    return "memory", WARNING if short else OK, text, short or ""


def check_horovod() -> list[Check]:
    """TensorFlow loads, Horovod loads, and with what it was built; as many GPUs as TensorFlow sees."""
    done = subprocess.run([sys.executable, "-c", _HOROVOD_CHECK], capture_output=True, text=True)
    mend = "make clean-env, then set up again"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return [("TensorFlow and Horovod", FAILURE, last, mend)]
    tensorflow, built, gpus = done.stdout.strip().splitlines()[-3:]
    keras = importlib.metadata.version("tf_keras")
    return [
        ("TensorFlow", OK, f"{tensorflow}, tf_keras {keras}", ""),
        ("Horovod", OK, f"{importlib.metadata.version('horovod')}, built with {built}", ""),
        _check_gpus(int(gpus)),
    ]


def _check_gpus(seen: int) -> Check:
    listed = _first_line("nvidia-smi", "-L")
    if seen:
        return "GPUs", OK, f"{seen} seen by TensorFlow", ""
    if listed:
        mend = "make DEVICE=gpu ... sets up TensorFlow with CUDA"
        return "GPUs", WARNING, f"{listed}, but TensorFlow sees none", mend
    return "GPUs", WARNING, "none: DEVICE=cpu only", "an NVIDIA GPU and its driver"


def check_cores(ranks: int) -> Check:
    """Every rank wants cores of its own."""
    cores = len(os.sched_getaffinity(0))
    text = f"{cores} usable, {ranks} ranks asked for"
    if cores >= ranks:
        return "cores", OK, text, ""
    from train.launch.emulate import cgroups

    quotas = cgroups.find()
    if isinstance(quotas, cgroups.Means):
        return "cores", OK, f"{text}: nodes are emulated by {quotas.words}", ""
    return "cores", WARNING, f"{text}: they would share; no quotas: {quotas}", f"NODES={cores}, or a larger machine"


def check_wandb() -> Check:
    """W&B runs offline; a key is needed only to upload."""
    version = importlib.metadata.version("wandb")
    netrc = Path.home() / ".netrc"
    known = "WANDB_API_KEY" in os.environ or (netrc.exists() and "wandb" in netrc.read_text(errors="replace"))
    if known:
        return "W&B", OK, f"{version}, offline; a key for uploads is there", ""
    return "W&B", OK, f"{version}, offline; make wandb-sync would need a key", ""


def _first_line(*command: str) -> str:
    if not shutil.which(command[0]):
        return ""
    done = subprocess.run(command, capture_output=True, text=True)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines and done.returncode == 0 else ""


def before_setup(packages: str) -> list[Check]:
    """What setting up the set `packages` (analysis, launch, cpu, cuda) needs."""
    checks = [check_platform(), check_python(), check_venv()]
    checks += [check_disk(_DISK_GIB[packages]), check_memory(_SETUP_MEMORY_GIB[packages])]
    if packages in ("cpu", "cuda"):  # they have Horovod, which is compiled
        checks += [check_compiler(), check_mpi()]
    if packages == "cuda":
        checks.append(check_cuda_compiler())
    return checks


def everything(ranks: int, within: list[Check]) -> list[Check]:
    """All that a measurement of `ranks` ranks needs; `within`: what was found of that which the ranks run in."""
    checks = [check_platform(), check_python(), *within, check_own_name()]
    return [*checks, check_cores(ranks), check_rank_memory(ranks), check_disk(1.0), check_wandb()]


def show(checks: list[Check]) -> None:
    """Print the checks, one a line, with the mend below where there is one."""
    width = max(len(name) for name, *_ in checks)
    for name, state, found, mend in checks:
        print(f"{name:<{width}}  {state:<7}  {found}")
        if mend:
            print(f"{'':<{width}}  {'':<7}  mend: {mend}")


def main() -> int:
    """Check and tell; the exit status is 1 where something fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before-setup", choices=sorted(_DISK_GIB), help="only what setting up this set needs")
    parser.add_argument("--ranks", type=int, default=2, help="how many ranks are to run here")
    parser.add_argument("--container", choices=("none", "docker", "podman", "singularity"), default="none")
    parser.add_argument("--image", help="its image; else what make image or make sif builds for the device")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="whose image, where none is given")
    arguments = parser.parse_args()
    if arguments.ranks < 1:
        parser.error(f"--ranks {arguments.ranks}: must be 1 or more")
    if arguments.before_setup:
        checks = before_setup(arguments.before_setup)
    elif arguments.container != "none":
        within = [check_container(arguments.container, arguments.device, arguments.image)]
        checks = everything(arguments.ranks, within)
    else:
        checks = everything(arguments.ranks, [check_compiler(), check_mpi(), *check_horovod()])
    failed = [name for name, state, *_ in checks if state == FAILURE]
    if arguments.before_setup and not failed:
        return 0  # good news is not worth a table before each set-up
    show(checks)
    if failed:
        print(f"\n{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
