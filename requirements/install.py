"""Set up a virtual environment from the locks in this folder; needs only Python's standard library.

    python3.11 requirements/install.py cpu .venv

A set is analysis, launch (starts experiments whose ranks run in an image), cpu or cuda; `--dev` adds the packages of
the tests and linters, `--mpich` an MPI to compile Horovod with, in place of the system's. Packages are installed with
--require-hashes and --no-deps: only what is in a lock is installed. Horovod, only in cpu and cuda, is compiled against
the TensorFlow of the environment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Seconds that a step takes on 2 cores (AMD EPYC, 2.6 GHz) with a fast mirror: only for the estimate of the time left.
_EXPECTED_S = {"venv": 5, "build": 6, "analysis": 25, "launch": 35, "cpu": 95, "cuda": 300}
_EXPECTED_S |= {"mpich": 2, "horovod": 200, "dev": 25}
_LARGER = {"analysis": ("launch", "cpu", "cuda"), "launch": ("cpu", "cuda")}  # the sets that include a set

_WHAT = {
    "venv": "virtual environment",
    "build": "build tools",
    "analysis": "packages for the analysis",
    "launch": "packages to start experiments with, and for the analysis",
    "cpu": "TensorFlow and the other packages",
    "cuda": "TensorFlow with CUDA and the other packages",
    "mpich": "MPICH",
    "horovod": "Horovod, compiled for this TensorFlow",
    "dev": "packages for tests",
}


class Steps:
    """Runs commands one after the other, and shows the current one, its time, and an estimate of the time left."""

    def __init__(self, log: Path, planned: list[str]) -> None:
        """Set up for the planned steps, by name; nothing runs yet."""
        self._log, self._planned, self._done = log, planned, 0
        self._terminal = sys.stdout.isatty()

    def run(self, name: str, command: list[str], env: dict[str, str] | None = None) -> None:
        """Run a command to its end. Exits, with the last lines of the log, if it fails."""
        self._done += 1
        after = sum(_EXPECTED_S[later] for later in self._planned[self._done :])
        label = f"[{self._done}/{len(self._planned)}] {_WHAT[name]}"
        begin = time.monotonic()
        if not self._terminal:
            print(f"{label} ... about {_minutes(after + _EXPECTED_S[name])} left", flush=True)
        with self._log.open("ab") as log:
            child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})})
            try:
                while child.poll() is None:
                    time.sleep(0.2)
                    spent = time.monotonic() - begin
                    left = after + max(_EXPECTED_S[name] - spent, 5)
                    if self._terminal:
                        print(f"\r{label} ... {spent:3.0f} s, about {_minutes(left)} left   ", end="", flush=True)
            except KeyboardInterrupt:
                child.terminate()
                child.wait()
                sys.exit("\ninterrupted: nothing is lost, the same command resumes")
        if child.returncode:
            tail = self._log.read_text(errors="replace").splitlines()[-25:]
            print("\n" + "\n".join(f"  | {line}" for line in tail))
            sys.exit(f"error: {_WHAT[name]} failed; the whole log is in {self._log}")
        erase = "\r\033[K" if self._terminal else ""
        print(f"{erase}{label}: {time.monotonic() - begin:.0f} s", flush=True)


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


def _lock(name: str) -> str:
    return (HERE / f"{name}.txt").read_text()


def _mark(name: str, environment: Path) -> Path:
    return environment / f".installed-{name}"


def installed(name: str, environment: Path) -> bool:
    """Whether the environment has this set as it is locked now."""
    mark = _mark(name, environment)
    return mark.exists() and mark.read_text() == _lock(name)


def horovod_environment(packages: str, environment: Path) -> dict[str, str]:
    """The variables for Horovod's build: TensorFlow only, Gloo always, MPI if there is mpicc, NCCL in the cuda set."""
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    settings = {
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_PYTORCH": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITH_MPI" if shutil.which("mpicc", path=path) else "HOROVOD_WITHOUT_MPI": "1",
        "MAKEFLAGS": f"-j{len(os.sched_getaffinity(0))}",
        "PATH": path,
    }
    if packages == "cuda":
        nccl = next(environment.glob("lib/python3*/site-packages/nvidia/nccl"))
        linked = nccl / "lib/libnccl.so"  # the wheel has only libnccl.so.2, which linkers do not search for
        if not linked.exists():
            linked.symlink_to("libnccl.so.2")
        settings |= {"HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_NCCL_HOME": str(nccl), "HOROVOD_NCCL_LINK": "SHARED"}
    return settings


def check(packages: str) -> None:
    """Exit, with what is missing and how to fix it, if this machine cannot be set up."""
    sys.path.insert(0, str(HERE.parent))
    from train.tools import doctor

    checks = doctor.before_setup(packages)
    if any(check.state == doctor.FAILURE for check in checks):
        doctor.show(checks)
        sys.exit("error: nothing was downloaded; fix what failed above, then run the same command again")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", choices=("analysis", "launch", "cpu", "cuda"))
    parser.add_argument("environment", type=Path)
    parser.add_argument("--dev", action="store_true", help="also what the tests and the linters need")
    parser.add_argument("--mpich", action="store_true", help="Horovod for MPICH, whose ABI MVAPICH2 shares")
    parser.add_argument("--unchecked", action="store_true", help="do not check this machine first: in an image")
    return parser.parse_args()


def _missing(arguments: argparse.Namespace, environment: Path) -> list[str]:
    """The sets that are asked for and not installed as they are locked now, in the order to install them."""
    packages = arguments.packages
    wanted = ["build", packages, *(["mpich"] if arguments.mpich else [])]
    wanted += [*(["horovod"] if packages in ("cpu", "cuda") else []), *(["dev"] if arguments.dev else [])]
    missing = [
        name for name in wanted if not any(installed(one, environment) for one in (name, *_LARGER.get(name, ())))
    ]
    if "horovod" in wanted and {packages, "mpich"} & {*missing}:  # it was compiled against another TensorFlow or MPI
        return [name for name in wanted if name in missing or name == "horovod"]
    return missing


def _install(name: str, packages: str, environment: Path, steps: Steps) -> None:
    """Install one set, and mark it as installed."""
    command = [str(environment / "bin/python"), "-m", "pip", "install", "--no-deps", "--require-hashes"]
    command += ["--disable-pip-version-check", *(["--no-build-isolation"] if name != "build" else [])]
    command += ["-r", str(HERE / f"{name}.txt")]
    _mark(name, environment).unlink(missing_ok=True)
    if name == "horovod":
        # Without --no-cache-dir pip would use a wheel that was compiled with other settings.
        command += ["--no-cache-dir", "--force-reinstall"]
        steps.run(name, command, horovod_environment(packages, environment))
    else:
        steps.run(name, command)
    _mark(name, environment).write_text(_lock(name))


def main() -> None:
    """Check the machine, then install what is not installed yet."""
    arguments = _arguments()
    environment = arguments.environment.absolute()
    missing = _missing(arguments, environment)
    if not missing:
        return
    if not arguments.unchecked:
        check(arguments.packages)
    print(f"Setting up {environment} ({', '.join(missing)}); log: {environment / 'install.log'}", flush=True)
    environment.mkdir(exist_ok=True)
    new = not (environment / "bin/python").exists()
    steps = Steps(environment / "install.log", [*(["venv"] if new else []), *missing])
    if new:
        steps.run("venv", [sys.executable, "-m", "venv", str(environment)])
    for name in missing:
        _install(name, arguments.packages, environment, steps)


if __name__ == "__main__":
    main()
