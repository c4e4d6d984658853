"""Skips tests that need a program or right which a bare machine lacks. The reason names what is missing."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_PACKAGES = {  # program -> Debian package
    "chromium": "chromium",
    "hpcc": "hpcc",
    "ip": "iproute2",
    "lmp": "lammps",
    "losetup": "mount",
    "mkfs.exfat": "exfatprogs",
    "mount.exfat-fuse": "exfat-fuse",
    "mpirun": "openmpi-bin",
    "pdflatex": "texlive-latex-recommended",
    "pgrep": "procps",
    "podman": "podman",
    "runc": "runc",
    "sbatch": "slurm-client",
    "setpriv": "util-linux",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "unshare": "util-linux",
}


def missing(*programs: str, root: bool = False, path: str | None = None) -> str | None:
    """Return which programs are not on the PATH (path: another one), or that root is needed; None if all is there."""
    if root and os.geteuid() != 0:
        return "needs root"
    absent = [program for program in programs if not shutil.which(program, path=path)]
    packages = " ".join(sorted({_PACKAGES[program] for program in absent}))
    return f"no {', no '.join(absent)} on the PATH (Debian: apt-get install {packages})" if absent else None


def needs(*programs: str, root: bool = False) -> pytest.MarkDecorator:
    """Return the mark of a test that needs programs on the PATH, or root."""
    import pytest  # not installed where `make test-images` and `make test-cluster` run

    reason = missing(*programs, root=root)
    return pytest.mark.skipif(reason is not None, reason=str(reason))
