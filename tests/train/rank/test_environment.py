import os
import platform
import socket
import subprocess

import pytest

from train.config.checks import ConfigError
from train.rank import environment, gpus
from train.record import protocol
from train.record.record import GpuState


def test_the_host_is_this_machine(monkeypatch):
    p100 = GpuState("Tesla P100", "550.54", 1189.0, 1480.0, True, 250.0)
    monkeypatch.setattr(gpus, "query", lambda: gpus.Gpus([p100, p100], "GPU0 X NV1"))
    host = environment.host([0, 1, 2])
    assert (host.host, host.cores, host.kernel) == (socket.gethostname(), 3, platform.release())
    assert host.gpus == ["Tesla P100", "Tesla P100"]
    assert (host.state.gpus, host.state.gpu_topology) == ([p100, p100], "GPU0 X NV1")
    assert host.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert host.cpu_model
    assert host.state.load >= 0


def test_versions_are_those_of_installed_packages(monkeypatch):
    monkeypatch.setattr(environment, "PACKAGES", ("numpy", "no-such-package"))
    import numpy

    assert environment.versions() == {"python": platform.python_version(), "numpy": numpy.__version__}


def git(folder, *arguments):
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """The folder of the kit's code, outside a launcher; no checkout."""
    monkeypatch.delenv(protocol.GIT_COMMIT, raising=False)
    monkeypatch.delenv(protocol.GIT_DIRTY, raising=False)
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "environment.py"))
    return tmp_path


@pytest.mark.slow
def test_the_commit_of_a_checkout_and_whether_it_was_changed(folder):
    git(folder, "init")
    (folder / "environment.py").write_text("")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    commit = git(folder, "rev-parse", "HEAD")
    assert environment.git_state() == (commit, False)
    (folder / "environment.py").write_text("changed")
    assert environment.git_state() == (commit, True)


@pytest.mark.usefixtures("folder")
def test_whether_a_tree_was_changed_is_unknown_where_git_fails(monkeypatch):
    monkeypatch.setattr(environment, "output", lambda *command: "abc" if "rev-parse" in command else None)
    assert environment.git_state() == ("abc", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "expected"), [("abc\n", ("abc", False)), ("abc changed\n", ("abc", True)), (None, (None, None))]
)
def test_without_git_the_file_of_the_image_is_read(folder, monkeypatch, written, expected):
    monkeypatch.setattr(environment, "BUILT_FROM", folder / "commit")
    if written:
        (folder / "commit").write_text(written)
    assert environment.git_state() == expected


@pytest.mark.parametrize(("dirty", "expected"), [("0", False), ("1", True), ("", None)])
def test_the_commit_that_the_launcher_names_comes_first(monkeypatch, dirty, expected):
    monkeypatch.setenv(protocol.GIT_COMMIT, "abc")
    monkeypatch.setenv(protocol.GIT_DIRTY, dirty)
    assert environment.git_state() == ("abc", expected)


def test_a_host_s_mpi_that_is_not_loaded_is_refused(tmp_path):
    environment.check_mpi(None)
    with pytest.raises(ConfigError, match=rf"container.mpi_home={tmp_path}: the MPI library that was loaded is"):
        environment.check_mpi(str(tmp_path))
