"""Sets up a virtual environment from the locks in this folder, for requirements/install.py.

A set is analysis, launch (starts experiments whose ranks run in an image), cpu or cuda; `--dev` adds the packages of
the tests and linters, `--mpich` an MPI to compile Horovod with, in place of the system's. Packages are installed with
--require-hashes and --no-deps: only what is in a lock is installed. Horovod, only in cpu and cuda, is compiled against
the TensorFlow of the environment, or taken from the user's cache if it was before (requirements/wheel_cache.py).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import needed_python
import wheel_cache
from steps import Step, StepFailed, Steps

HERE = Path(__file__).resolve().parent

# Seconds on 2 cores (AMD EPYC, 2.6 GHz) with a fast mirror: only for the estimate of the time left.
_STEPS = {
    "venv": Step("virtual environment", 5),
    "analysis": Step("packages for the analysis", 15),
    "launch": Step("packages to start experiments with, and for the analysis", 20),
    "cpu": Step("TensorFlow and the other packages", 60),
    "cuda": Step("TensorFlow with CUDA and the other packages", 300),
    "mpich": Step("MPICH", 2),
    "dev": Step("packages for tests", 15),
    "modules": Step("modules compiled", 20),
}
_FROM_CACHE = [Step("Horovod, installed and checked", 10)]
_FROM_SOURCE = [Step("Horovod, compiled for this TensorFlow", 150), *_FROM_CACHE]
_LARGER = {"analysis": ("launch", "cpu", "cuda"), "launch": ("cpu", "cuda")}  # the sets that include a set
_WITH_SOURCES = ("launch", "cpu", "cuda")  # one of their packages, antlr4, has no wheel; and Horovod is compiled later
_HEAVY = re.compile(r"tensorflow")  # begins the names of the packages that take as long as all others together


@dataclass(frozen=True)
class Place:
    """What is set up, and where."""

    packages: str  # the set
    environment: Path
    mpich: bool

    @property
    def python(self) -> str:
        """The environment's interpreter."""
        return str(self.environment / "bin/python")

    def creation_command(self) -> list[str] | None:
        """The command that makes the environment, or adds pip to one without it, as uv's; None if it is complete."""
        if not Path(self.python).exists():
            return [sys.executable, "-m", "venv", str(self.environment)]
        if not any(self.environment.glob("lib/python3*/site-packages/pip")):
            return [self.python, "-m", "ensurepip", "--default-pip"]
        return None

    def pip(self, *words: str) -> list[str]:
        """A command of pip that takes only what is named, with the hash that is named for it."""
        return [self.python, "-m", "pip", *words, "--no-deps", "--require-hashes", "--disable-pip-version-check"]


def _lock(name: str) -> str:
    """The lock of a set: that of this version of Python where it has one of its own."""
    own = HERE / f"{name}-py{sys.version_info[0]}{sys.version_info[1]}.txt"
    return (own if own.exists() else HERE / f"{name}.txt").read_text()


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
        "HOROVOD_CMAKE": str(HERE / "horovod-cmake.sh"),
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


def check_version(environment: Path) -> None:
    """Exit, with how to fix it, if the environment exists and its Python is gone or has another version than this one.

    Packages would be installed from the lock of the wrong version.
    """
    python = environment / "bin/python"
    if Path(sys.prefix) == environment or not os.path.lexists(python):
        return
    ours, theirs = f"{sys.version_info[0]}.{sys.version_info[1]}", _version(python)
    if theirs == ours:
        return
    wrong = (
        f"it has Python {theirs}, and {sys.executable} is {ours}" if theirs else "its Python is gone or does not start"
    )
    keep = "leave out PYTHON= to use it as it is, or " if theirs else ""
    sys.exit(
        f"error: {environment}: {wrong}; {keep}remove it with make clean-env (results are kept), "
        "then run the same command again"
    )


def _version(python: Path) -> str:
    """The version of an interpreter, such as 3.11; "" if it does not start."""
    try:
        asked = [str(python), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        return subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def check(packages: str) -> None:
    """Exit, with what is missing and how to fix it, if this machine cannot be set up."""
    sys.path.insert(0, str(HERE.parent))
    from train.tools import doctor

    checks = doctor.before_setup(packages)
    if any(check.state == doctor.FAILURE for check in checks):
        doctor.show(checks)
        sys.exit(needed_python.NOTHING_DONE)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Set up a virtual environment from the locks in this folder.")
    parser.add_argument("packages", choices=("analysis", "launch", "cpu", "cuda"))
    parser.add_argument("environment", type=Path)
    parser.add_argument("--dev", action="store_true", help="also what the tests and the linters need")
    parser.add_argument("--mpich", action="store_true", help="Horovod for MPICH, whose ABI MVAPICH2 shares")
    parser.add_argument("--unchecked", action="store_true", help="do not check this machine first: in an image")
    return parser.parse_args()


def _missing(arguments: argparse.Namespace, environment: Path) -> list[str]:
    """The sets that are asked for and not installed as they are locked now, in the order to install them."""
    packages = arguments.packages
    wanted = [packages, *(["mpich"] if arguments.mpich else [])]
    wanted += [*(["horovod"] if packages in ("cpu", "cuda") else []), *(["dev"] if arguments.dev else [])]
    missing = [
        name for name in wanted if not any(installed(one, environment) for one in (name, *_LARGER.get(name, ())))
    ]
    if "horovod" in wanted and {packages, "mpich"} & {*missing}:  # it was compiled against another TensorFlow or MPI
        return [name for name in wanted if name in missing or name == "horovod"]
    return missing


def parts_of(lock: str) -> list[str]:
    """A lock in two parts that take about as long to install; one where none of its packages is heavy."""
    requirements = re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)[1:]
    heavy = [one for one in requirements if _HEAVY.match(one)]
    light = [one for one in requirements if not _HEAVY.match(one)]
    return ["".join(part) for part in (heavy, light) if part]


def _steps_of_wheels(names: Sequence[str]) -> list[Step]:
    """The steps that sets of wheels take."""
    if not names:
        return []
    steps = [_STEPS[name] for name in names]
    return [Step(", ".join(step.what for step in steps), sum(step.expected_s for step in steps)), _STEPS["modules"]]


def _steps_of_horovod(place: Place) -> list[Step]:
    """The steps that Horovod takes, as far as it is known before the ones before it."""
    known = place.packages == "cpu" and not place.mpich  # else its wheel depends on what is installed first
    kept = _kept(place, horovod_environment(place.packages, place.environment)) if known else None
    return _FROM_CACHE if kept and kept.wheel() else _FROM_SOURCE


def _kept(place: Place, settings: dict[str, str]) -> wheel_cache.Kept:
    return wheel_cache.Kept.of(wheel_cache.depends_on(place.packages, settings, place.mpich))


def _install_wheels(names: Sequence[str], place: Place, steps: Steps) -> None:
    """Install sets of wheels, then compile their modules: both on more than one core, as pip alone would not."""
    pip = place.pip("install", "--no-build-isolation", "--no-compile")
    tools = [[*pip, "-r", str(HERE / "build.txt")]] if {*names} & {*_WITH_SOURCES} else []
    with tempfile.TemporaryDirectory() as folder:
        heavy, light = [], []
        for name in names:
            *larger, last = parts_of(_lock(name))
            heavy += [_write(Path(folder) / f"{name}-{number}.txt", part) for number, part in enumerate(larger)]
            light.append(_write(Path(folder) / f"{name}.txt", last))
        in_turn = [*tools, *([*pip, "-r", file] for file in light)]  # sets have packages in common
        steps.run(in_turn, *([[*pip, "-r", file]] for file in heavy))
    [site] = place.environment.glob("lib/python3*/site-packages")
    steps.run([[place.python, str(HERE / "compile_modules.py"), str(site)]])


def _write(path: Path, text: str) -> str:
    """The path of a file with this text."""
    path.write_text(text)
    return str(path)


def _install_horovod(place: Place, planned: int, steps: Steps) -> None:
    """Install Horovod: the wheel in the cache if it works, else one that is compiled now and kept there.

    planned: how many steps are planned for it.
    """
    settings = horovod_environment(place.packages, place.environment)
    kept = _kept(place, settings)
    if wheel := kept.wheel():
        steps.replace(planned, _FROM_CACHE)
        try:
            return _install_wheel(wheel, place, settings, steps)
        except StepFailed as error:
            print(f"the wheel in {kept.folder} does not work here, and is thrown away: {error}", flush=True)
            planned = 0
    kept.discard()
    steps.replace(planned, _FROM_SOURCE)
    with tempfile.TemporaryDirectory() as folder:
        wheel = _compile(place, settings, Path(folder), steps)
        _install_wheel(wheel, place, settings, steps)
        try:
            kept.put(wheel)
        except OSError as error:
            print(f"warning: Horovod is not kept for other clones: {error.filename}: {error.strerror}", flush=True)


def _compile(place: Place, settings: dict[str, str], folder: Path, steps: Steps) -> Path:
    """Compile Horovod; returns its wheel, in this folder."""
    # Without --no-cache-dir pip would use a wheel of its own cache, compiled with other settings.
    options = ["--no-cache-dir", "--no-build-isolation", "--verbose", "--wheel-dir", str(folder)]
    steps.run([[*place.pip("wheel", *options), "-r", str(HERE / "horovod.txt")]], env=settings)
    return next(folder.glob("*.whl"))


def _install_wheel(wheel: Path, place: Place, settings: dict[str, str], steps: Steps) -> None:
    """Install a compiled wheel, and check that it has what it was compiled with. Raises StepFailed."""
    parts = ["Gloo", *(["MPI"] if "HOROVOD_WITH_MPI" in settings else [])]
    parts += ["NCCL"] if place.packages == "cuda" else []
    steps.run([[place.python, str(HERE / "install_horovod.py"), str(wheel), *parts]])


@contextmanager
def _marked(names: Sequence[str], environment: Path) -> Iterator[None]:
    """Mark these sets as installed at the end of the block, if it ends well; while it runs, they are not."""
    for name in names:
        _mark(name, environment).unlink(missing_ok=True)
    yield
    for name in names:
        _mark(name, environment).write_text(_lock(name))


def main() -> None:
    """Check the machine, then install what is not installed yet."""
    arguments = _arguments()
    environment = arguments.environment.absolute()
    check_version(environment)
    missing = _missing(arguments, environment)
    if not missing:
        return
    if not arguments.unchecked:
        check(arguments.packages)
    place = Place(arguments.packages, environment, arguments.mpich)
    print(f"Setting up {environment} ({', '.join(missing)}); log: {environment / 'install.log'}", flush=True)
    environment.mkdir(exist_ok=True)
    new = [_STEPS["venv"]] if place.creation_command() else []
    wheels = [name for name in missing if name != "horovod"]
    horovod = _steps_of_horovod(place) if "horovod" in missing else []
    steps = Steps(environment / "install.log", [*new, *_steps_of_wheels(wheels), *horovod])
    try:
        if command := place.creation_command():
            steps.run([command])
        if wheels:
            with _marked(wheels, environment):
                _install_wheels(wheels, place, steps)
        if horovod:
            with _marked(["horovod"], environment):
                _install_horovod(place, len(horovod), steps)
    except StepFailed as error:
        sys.exit(f"error: {error}")
