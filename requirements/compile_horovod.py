"""Install Horovod, compiled for this environment's TensorFlow: now, or taken from uv's cache if it was before.

    .venv/bin/python requirements/compile_horovod.py uv horovod.txt

horovod.txt has its version and hash. Its sources stay as they are: requirements/include/ has what they include and
TensorFlow no longer has there. What the build prints is in install.log of the environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import step

HERE = Path(__file__).resolve().parent
_TOOLS = {"tensorflow-cpu", "tensorflow", "nvidia-nccl-cu12", "mpich", "cmake", "packaging", "setuptools", "wheel"}
# Variables that change what is compiled, of the user and of build_settings().
_OPTIONS = re.compile(
    r"(HOROVOD|CMAKE|NVCC)_\w+|CUDA_HOME|CUDA_PATH|CUDAToolkit_ROOT|CC|CXX|CPATH|LIBRARY_PATH|C(XX|PP)?FLAGS|LDFLAGS|OMPI_C\w+"
)
_FAILED_TO_COMPILE = re.compile(r":\d+:\d+: (fatal )?error: |CMake Error|undefined reference|\bnvcc fatal\b")
_CHECK = """
import os, sys
os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
import tf_keras, horovod.tensorflow as hvd
built = {"Gloo": hvd.gloo_built(), "MPI": hvd.mpi_built(), "NCCL": hvd.nccl_built()}
print("Horovod loads; it was compiled with", ", ".join(part for part in built if built[part]))
sys.exit(not all(built[part] for part in sys.argv[1:]))
"""


def build_settings(site: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the build: Gloo always, MPI if there is mpicc, NCCL if `site` has it.

    HOROVOD_WITHOUT_MPI=1 in the environment leaves MPI out.
    """
    has_mpi = environment.get("HOROVOD_WITHOUT_MPI") != "1" and shutil.which("mpicc", path=environment["PATH"])
    headers = site / "tensorflow/include/external"
    folders = [HERE / "include", headers / "highwayhash", headers / "farmhash_archive/src"]
    include = " ".join(shlex.quote(f"-I{folder}") for folder in folders)
    settings = {
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_PYTORCH": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITH_MPI" if has_mpi else "HOROVOD_WITHOUT_MPI": "1",
        "HOROVOD_CMAKE": str(HERE / "horovod-cmake.sh"),
        "MAKEFLAGS": f"-j{len(os.sched_getaffinity(0))}",  # not what make says to the commands it runs
        "CXXFLAGS": f"{include} -include newer_gcc.h {environment.get('CXXFLAGS', '')}",
    }
    if (nccl := site / "nvidia/nccl").exists():
        if not (library := nccl / "lib/libnccl.so").exists():  # linkers search for this name, which the wheel lacks
            library.symlink_to("libnccl.so.2")
        settings |= {"HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_NCCL_HOME": str(nccl), "HOROVOD_NCCL_LINK": "SHARED"}
    return settings


def mpi_problem(environment: Mapping[str, str]) -> str:
    """Return what the compiler of MPI says of a program of two lines; "" if it compiles it."""
    if not (compiler := shutil.which("mpicxx", path=environment["PATH"])):
        return "there is no mpicxx"
    command = [compiler, "-fsyntax-only", "-x", "c++", "-"]
    program = "#include <mpi.h>\nint main() { return MPI_Init(nullptr, nullptr); }\n"
    done = subprocess.run(command, input=program, capture_output=True, text=True, env=environment)
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0] if done.returncode else ""


def build_key(settings: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return a digest of all that the compiled library depends on.

    A path below the environment, as of its MPICH or NCCL, is part of it: a library looks for these at that path.
    """
    here = {"HOROVOD_CMAKE", "CXXFLAGS"}  # their paths differ from clone to clone: what is in the files counts
    options = {**environment, **{name: value for name, value in settings.items() if name not in here}}
    cuda = "HOROVOD_NCCL_HOME" in settings
    parts = {
        "files": [
            file.read_text() for file in (*sorted(HERE.rglob("*.h")), *sorted(HERE.glob("*cmake*")), Path(__file__))
        ],
        "packages": sorted(
            (name, one.version) for one in metadata.distributions() if (name := one.name.replace("_", "-")) in _TOOLS
        ),
        "python": [sys.version, sysconfig.get_config_var("EXT_SUFFIX"), platform.machine(), *platform.libc_ver()],
        "compiler": _output(environment, *shlex.split(environment.get("CXX", "c++")), "--version"),
        "nvcc": _output(environment, "nvcc", "--version") if cuda else "",
        "mpi": [_output(environment, "mpicxx", "-show"), _output(environment, "mpirun", "--version")],
        "options": {name: options[name] for name in sorted(options) if _OPTIONS.fullmatch(name)},
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _output(environment: Mapping[str, str], *command: str) -> str:
    """Return what a command prints; "" if it is not there or fails."""
    if not (program := shutil.which(command[0], path=environment["PATH"])):
        return ""
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, env=environment)
    return done.stdout if done.returncode == 0 else ""


def without_unwanted(environment: Mapping[str, str], has_nccl: bool) -> dict[str, str]:
    """Return the environment without the variables that ask for what this Horovod has not; names them."""
    unwanted = re.compile(
        r"HOROVOD_(WITH_\w+|WITHOUT_(?!MPI$)\w+" + ("" if has_nccl else r"|(GPU|CUDA|NCCL|ROCM)\w*") + ")"
    )
    if leaked := sorted(name for name in environment if unwanted.fullmatch(name)):
        what = "TensorFlow, Gloo, NCCL" if has_nccl else "TensorFlow and Gloo, for CPUs"
        settings = " ".join(f"{name}={environment[name]}" for name in leaked)
        print(f"warning: not heeded, as Horovod is compiled for {what}: {settings}", file=sys.stderr)
    return {name: value for name, value in environment.items() if name not in leaked}


def main() -> None:
    """Install Horovod and check it; if it does not compile or load, show why and exit with 1."""
    uv, requirements = sys.argv[1:]
    log = Path(sys.prefix) / "install.log"
    site = Path(sysconfig.get_path("purelib"))
    environment = without_unwanted(os.environ, (site / "nvidia/nccl").exists())
    environment["PATH"] = f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}"
    settings = build_settings(site, environment)
    if "HOROVOD_WITH_MPI" in settings and (problem := mpi_problem(environment)):
        why = f"error: mpicc is on PATH, but compiles no MPI program: {problem}\ninstall the headers of that MPI "
        sys.exit(f"{why}(Debian: apt-get install libopenmpi-dev), or leave MPI out: HOROVOD_WITHOUT_MPI=1 make setup")
    key = f"key={build_key(settings, environment)}"
    remove = [uv, "pip", "uninstall", "--quiet", "--python", sys.prefix, "horovod"]
    install = [uv, "pip", "install", "--verbose", "--python", sys.prefix, "--no-deps", "--no-build-isolation"]
    install += ["--require-hashes", "--config-setting", key, "-r", requirements]
    parts = [part for part, name in (("MPI", "HOROVOD_WITH_MPI"), ("NCCL", "HOROVOD_NCCL_HOME")) if name in settings]
    check = [sys.executable, "-c", _CHECK, "Gloo", *parts]
    for _ in range(2):
        subprocess.run(remove, stderr=subprocess.DEVNULL)  # --reinstall would compile it again
        if failed := step.run(log, "Compiling Horovod for this TensorFlow", install, {**environment, **settings}):
            step.show(failed)
            what = "does not compile" if any(map(_FAILED_TO_COMPILE.search, failed)) else "could not be installed"
            sys.exit(f"error: Horovod {what}: why is above; all that was said is in {log}")
        checked = subprocess.run(check, env=environment, stderr=subprocess.PIPE, text=True)
        if checked.returncode == 0:
            return
        print(checked.stderr)
        # It may be one from the cache, compiled with something that the key does not know of.
        subprocess.run([uv, "cache", "clean", "horovod"], check=True)
    sys.exit("error: Horovod was compiled, but does not load with all its parts; why is above")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # setup.sh says that it was interrupted
