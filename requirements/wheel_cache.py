"""Horovod's compiled wheel, kept in the user's cache: another clone on this machine need not compile it again.

`$XDG_CACHE_HOME/horovod-scaling-kit/<key>/` (default: ~/.cache) holds one wheel, its SHA-256, and `key.json`, which
says what the key stands for: all that the compiled library depends on. Nothing needs to be removed by hand, and
everything may be.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_NAME = "horovod-scaling-kit"
# Variables of the user, and of requirements/installation.py, that change what is compiled.
_OPTIONS = re.compile(
    r"HOROVOD_\w+|CMAKE_\w+|CUDA_HOME|CUDA_PATH|CUDAToolkit_ROOT|NVCC_\w+|CC|CXX|CPATH|LIBRARY_PATH|C(XX|PP)?FLAGS|LDFLAGS|OMPI_C\w+"
)
_WITHOUT = ("HOROVOD_CMAKE",)  # a path in this clone: what the file says counts, not where it is


def folder() -> Path:
    """Where wheels are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or ""
    # As the specification has it, a relative path counts as none.
    return (Path(home) if home.startswith("/") else Path.home() / ".cache") / _NAME


def requirement(lock: str, name: str) -> str:
    """The lines of one package in a lock: its version and hashes. Raises LookupError where it is not in it."""
    found = re.search(rf"^{re.escape(name)}==[^\n]*(\n    --hash[^\n]*)*", lock, re.MULTILINE)
    if not found:
        raise LookupError(f"{name}: not in this lock")
    return found[0]


def depends_on(packages: str, settings: Mapping[str, str], mpich: bool) -> dict[str, object]:
    """All that Horovod's compiled library depends on.

    Args:
        packages: the set that holds its TensorFlow: cpu or cuda.
        settings: the variables that it is compiled with, PATH included.
        mpich: MPICH comes from its lock.

    Paths below an environment stand in the answers of MPICH's compiler and in NCCL's settings: such a library would
    not find its MPI or NCCL in another place, and has a key of its own there.
    """
    lock = (_HERE / f"{packages}.txt").read_text()
    path, given = settings["PATH"], {**os.environ, **settings}
    return {
        "horovod": (_HERE / "horovod.txt").read_text(),
        "tensorflow": requirement(lock, "tensorflow" if packages == "cuda" else "tensorflow-cpu"),
        "nccl": requirement(lock, "nvidia-nccl-cu12") if packages == "cuda" else None,
        "mpich": (_HERE / "mpich.txt").read_text() if mpich else None,
        "build tools": (_HERE / "build.txt").read_text(),
        "cmake as called": (_HERE / "horovod-cmake.sh").read_text(),
        "python": [sys.version, sysconfig.get_config_var("EXT_SUFFIX")],
        "platform": [platform.machine(), *platform.libc_ver()],
        "compiler": _answer(path, os.environ.get("CXX", "g++"), "--version"),
        "nvcc": _answer(path, "nvcc", "--version") if packages == "cuda" else None,
        "mpi": [_answer(path, "mpicxx", "-show"), _answer(path, "mpirun", "--version")],
        "options": {name: given[name] for name in sorted(given) if _OPTIONS.fullmatch(name) and name not in _WITHOUT},
    }


def _answer(path: str, *command: str) -> str | None:
    """What a command prints; None where it is not there or fails."""
    program = shutil.which(command[0].split(" ")[0], path=path)
    if not program:
        return None
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, env={**os.environ, "PATH": path})
    return done.stdout if done.returncode == 0 else None


@dataclass(frozen=True)
class Kept:
    """The place of one wheel in the cache."""

    folder: Path
    parts: Mapping[str, object]  # what the key stands for

    @classmethod
    def of(cls, parts: Mapping[str, object]) -> Kept:
        """The place of a wheel that depends on these."""
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]
        return cls(folder() / key, parts)

    def wheel(self) -> Path | None:
        """The wheel, if it is there and is what was put there."""
        found = sorted(self.folder.glob("*.whl"))
        try:
            whole = len(found) == 1 and _digest(found[0]) == (self.folder / "sha256").read_text().strip()
        except OSError:
            return None
        return found[0] if whole else None

    def put(self, wheel: Path) -> Path:
        """Keep a wheel, whole or not at all, in place of the one before; returns it in the cache. Raises OSError."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=".making-"))
        try:
            shutil.copyfile(wheel, making / wheel.name)
            (making / "sha256").write_text(f"{_digest(wheel)}\n")
            (making / "key.json").write_text(json.dumps(self.parts, indent=1))
            making.chmod(0o755)
            self.discard()
            making.rename(self.folder)
        except OSError:
            shutil.rmtree(making, ignore_errors=True)
            raise
        return self.folder / wheel.name

    def discard(self) -> None:
        """Throw the wheel away, if there is one."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
