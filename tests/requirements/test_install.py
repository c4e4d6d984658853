"""requirements/install.py: the set-up itself is what every test runs in; here is what it decides."""

import importlib.util
from pathlib import Path

import pytest

from train.tools import doctor

PATH = Path(__file__).parents[2] / "requirements/install.py"
spec = importlib.util.spec_from_file_location("install", PATH)
install = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install)


@pytest.mark.parametrize(("mpicc", "key"), [("/usr/bin/mpicc", "HOROVOD_WITH_MPI"), (None, "HOROVOD_WITHOUT_MPI")])
def test_horovod_is_built_with_mpi_where_its_compiler_is(monkeypatch, tmp_path, mpicc, key):
    monkeypatch.setattr(install.shutil, "which", lambda name, path: mpicc)
    settings = install.horovod_environment("cpu", tmp_path)
    assert settings[key] == settings["HOROVOD_WITH_GLOO"] == settings["HOROVOD_WITH_TENSORFLOW"] == "1"
    assert settings["PATH"].startswith(f"{tmp_path}/bin:")
    assert not any("NCCL" in name for name in settings)


def test_horovod_for_gpus_links_the_nccl_of_the_lock(tmp_path):
    library = tmp_path / "lib/python3.11/site-packages/nvidia/nccl/lib"
    library.mkdir(parents=True)
    (library / "libnccl.so.2").write_text("a library")
    settings = install.horovod_environment("cuda", tmp_path)
    assert (settings["HOROVOD_GPU_OPERATIONS"], settings["HOROVOD_NCCL_HOME"]) == ("NCCL", str(library.parent))
    assert (library / "libnccl.so").read_text() == "a library"  # the linker looks for this name
    install.horovod_environment("cuda", tmp_path)  # a second time changes nothing


def _mark(environment, *names):
    for name in names:
        (environment / f".installed-{name}").write_text((PATH.parent / f"{name}.txt").read_text())


def _locked(name):
    return {line.split()[0] for line in (PATH.parent / f"{name}.txt").read_text().splitlines() if "==" in line}


def test_a_larger_set_holds_all_of_a_smaller_one():
    for smaller, larger in install._LARGER.items():
        for name in larger:
            assert _locked(smaller) < _locked(name)
    heavy = ("tensorflow", "tf_keras", "horovod")
    assert not any(package.startswith(heavy) for package in _locked("launch"))


@pytest.mark.parametrize(("there", "left_alone"), [("cpu", True), ("launch", True), ("analysis", False)])
def test_what_a_larger_set_holds_is_not_installed_again(monkeypatch, tmp_path, there, left_alone):
    _mark(tmp_path, "build", there)
    asked = []
    monkeypatch.setattr(doctor, "before_setup", lambda packages: asked.append(packages) or [])
    monkeypatch.setattr(install.Steps, "run", lambda self, name, *rest: asked.append(name))
    monkeypatch.setattr(install.sys, "argv", ["install.py", "launch", str(tmp_path)])
    install.main()
    assert asked == ([] if left_alone else ["launch", "venv", "launch"])


def test_nothing_is_made_where_something_is_missing(monkeypatch, tmp_path, capsys):
    environment = tmp_path / "environment"
    failing = doctor.Check("compiler", doctor.FAILURE, "no g++", "sudo apt-get install g++ make")
    monkeypatch.setattr(doctor, "before_setup", lambda packages: [failing])
    monkeypatch.setattr(install.sys, "argv", ["install.py", "cpu", str(environment)])
    with pytest.raises(SystemExit, match="nothing was downloaded"):
        install.main()
    assert "fix: sudo apt-get install g++ make" in capsys.readouterr().out
    assert not environment.exists()


def test_an_environment_that_has_the_locks_is_left_alone(monkeypatch, tmp_path, capsys):
    _mark(tmp_path, "build", "analysis")
    monkeypatch.setattr(install.sys, "argv", ["install.py", "analysis", str(tmp_path)])
    install.main()
    assert capsys.readouterr().out == ""
