import os
import platform
import socket

import pytest

from record import protocol
from record.schema import GpuState
from train.config.checks import ConfigError
from train.rank import environment, gpus


def test_the_host_is_this_machine(monkeypatch):
    p100 = GpuState("Tesla P100", "550.54", 1189.0, 1480.0, True, 250.0)
    monkeypatch.setattr(gpus, "query", lambda: gpus.InstalledGpus([p100, p100], "GPU0 X NV1"))
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


@pytest.mark.parametrize(("dirty", "expected"), [("0", False), ("1", True), ("", None)])
def test_the_commit_that_the_launcher_names_comes_first(monkeypatch, dirty, expected):
    monkeypatch.setenv(protocol.GIT_COMMIT, "abc")
    monkeypatch.setenv(protocol.GIT_DIRTY, dirty)
    assert environment.git_state() == ("abc", expected)


def test_a_host_s_mpi_that_is_not_loaded_is_refused(tmp_path):
    environment.check_mpi(None)
    with pytest.raises(ConfigError, match=rf"container.mpi_home={tmp_path}: the MPI library that was loaded is"):
        environment.check_mpi(str(tmp_path))


def test_the_compilers_of_a_program_are_those_that_it_names(tmp_path):
    program, script = tmp_path / "solver", tmp_path / "run.sh"
    program.write_bytes(b"\x7fELF\x02\0GCC: (Debian 12.2.0-14) 12.2.0\0.text\0GCC: (Debian 12.2.0-14) 12.2.0\0")
    script.write_text("GCC: (Debian 12.2.0-14) 12.2.0")
    assert environment.compilers(program) == "GCC: (Debian 12.2.0-14) 12.2.0"
    assert environment.compilers(script) == environment.compilers(tmp_path / "missing") == ""
