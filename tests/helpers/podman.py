"""Images for Podman with nothing but a kit: all programs are mounted from this machine.

The real engine runs them. Its settings and its storage are in the folder of a test.
"""

import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers import needs, shell

IMAGE = "localhost/kit-in-a-test:other"
KIT = "/opt/kit"  # in the image

_EMPTY = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var")
_MERGED = ("bin", "lib", "lib64", "sbin")  # links to folders in usr

_STORAGE = """\
[storage]
driver = "vfs"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""
# Limits that this process may set, and cgroups without systemd, so that no init system is needed.
_CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
volumes = [{volumes}]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def missing() -> str | None:
    """Return what this machine lacks to run such images; None if nothing is missing."""
    return needs.missing("podman", "runc", root=True)


def make_image(folder: Path, kit: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Make IMAGE, with the tree `kit` as KIT and these environment variables; skip the test if Podman cannot run it.

    Podman's settings and storage are in `folder`. Return the environment variables that name the settings.
    """
    settings = _write_settings(folder)
    _import_image(settings, folder, kit, variables)
    if error := _podman(settings, "run", "--rm", "--network=host", IMAGE, "true"):
        pytest.skip(f"Podman cannot run a container on this machine: {error}")
    return settings


def _write_settings(folder: Path) -> dict[str, str]:
    programs = {"/usr", *(str(Path(path).resolve()) for path in (sys.prefix, sys.base_prefix))}
    volumes = ", ".join(f'"{path}:{path}:ro"' for path in sorted(programs))
    (folder / "storage.conf").write_text(_STORAGE.format(folder=folder))
    (folder / "containers.conf").write_text(_CONTAINERS.format(volumes=volumes))
    return {"CONTAINERS_CONF": str(folder / "containers.conf"), "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf")}


def _import_image(settings: Mapping[str, str], folder: Path, kit: Path, variables: Mapping[str, str]) -> None:
    """Raises RuntimeError with Podman's message."""
    archive = folder / "image.tar"
    with tarfile.open(archive, "w") as tar:
        for name in _EMPTY:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name in _MERGED:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(entry)
        tar.add(kit, KIT)
    set_variables = [f"--change=ENV {name}={value}" for name, value in variables.items()]
    if error := _podman(settings, "import", *set_variables, str(archive), IMAGE):
        raise RuntimeError(error)


def _podman(settings: Mapping[str, str], *arguments: str) -> str | None:
    """Run a command of Podman; return its error message, None if it succeeds."""
    variables = {**shell.ENVIRONMENT, **settings}
    done = subprocess.run(["podman", *arguments], env=variables, capture_output=True, text=True, timeout=600)
    return f"podman {arguments[0]}: {done.stderr.strip()}" if done.returncode else None
