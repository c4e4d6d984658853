"""requirements/installation.py: the set-up itself is what every test runs in; here is what it decides."""

import sys
from pathlib import Path

import pytest

from train.tools import doctor

sys.path.insert(0, str(Path(__file__).parents[2] / "requirements"))
import installation

FOLDER = Path(__file__).parents[2] / "requirements"
SETTINGS = {"HOROVOD_WITH_GLOO": "1", "HOROVOD_WITHOUT_MPI": "1", "PATH": "/nowhere"}


@pytest.mark.parametrize(("mpicc", "key"), [("/usr/bin/mpicc", "HOROVOD_WITH_MPI"), (None, "HOROVOD_WITHOUT_MPI")])
def test_horovod_is_built_with_mpi_where_its_compiler_is(monkeypatch, tmp_path, mpicc, key):
    monkeypatch.setattr(installation.shutil, "which", lambda name, path: mpicc)
    settings = installation.horovod_environment("cpu", tmp_path)
    assert settings[key] == settings["HOROVOD_WITH_GLOO"] == settings["HOROVOD_WITH_TENSORFLOW"] == "1"
    assert settings["PATH"].startswith(f"{tmp_path}/bin:")
    assert not any("NCCL" in name for name in settings)


def test_horovod_for_gpus_links_the_nccl_of_the_lock(tmp_path):
    library = tmp_path / "lib/python3.11/site-packages/nvidia/nccl/lib"
    library.mkdir(parents=True)
    (library / "libnccl.so.2").write_text("a library")
    settings = installation.horovod_environment("cuda", tmp_path)
    assert (settings["HOROVOD_GPU_OPERATIONS"], settings["HOROVOD_NCCL_HOME"]) == ("NCCL", str(library.parent))
    assert (library / "libnccl.so").read_text() == "a library"  # the linker looks for this name
    installation.horovod_environment("cuda", tmp_path)  # a second time changes nothing


def _mark(environment, *names):
    for name in names:
        (environment / f".installed-{name}").write_text((FOLDER / f"{name}.txt").read_text())


def _locked(name):
    return {line.split()[0] for line in (FOLDER / f"{name}.txt").read_text().splitlines() if "==" in line}


def test_a_larger_set_holds_all_of_a_smaller_one():
    for smaller, larger in installation._LARGER.items():
        for name in larger:
            assert _locked(smaller) < _locked(name)
    heavy = ("tensorflow", "tf_keras", "horovod")
    assert not any(package.startswith(heavy) for package in _locked("launch"))


@pytest.fixture
def asked(monkeypatch):
    """What the steps were asked to run, in place of running it."""
    ran = []

    def run(self, *lanes, env=None):
        self._waiting.pop(0)
        ran.append(lanes)

    monkeypatch.setattr(installation.Steps, "run", run)
    return ran


@pytest.mark.parametrize(("there", "left_alone"), [("cpu", True), ("launch", True), ("analysis", False)])
def test_what_a_larger_set_holds_is_not_installed_again(monkeypatch, tmp_path, asked, there, left_alone):
    _mark(tmp_path, there)
    (tmp_path / "lib/python3.11/site-packages").mkdir(parents=True)
    monkeypatch.setattr(doctor, "before_setup", lambda packages: [])
    monkeypatch.setattr(installation.sys, "argv", ["install.py", "launch", str(tmp_path)])
    installation.main()
    assert bool(asked) is not left_alone
    assert (tmp_path / ".installed-launch").exists() is (there == "launch" or not left_alone)


def test_nothing_is_made_where_something_is_missing(monkeypatch, tmp_path, capsys):
    environment = tmp_path / "environment"
    failing = doctor.Check("compiler", doctor.FAILURE, "no g++", "sudo apt-get install g++ make")
    monkeypatch.setattr(doctor, "before_setup", lambda packages: [failing])
    monkeypatch.setattr(installation.sys, "argv", ["install.py", "cpu", str(environment)])
    with pytest.raises(SystemExit, match="nothing was downloaded"):
        installation.main()
    assert "fix: sudo apt-get install g++ make" in capsys.readouterr().out
    assert not environment.exists()


def test_an_environment_that_has_the_locks_is_left_alone(monkeypatch, tmp_path, capsys):
    _mark(tmp_path, "analysis")
    monkeypatch.setattr(installation.sys, "argv", ["install.py", "analysis", str(tmp_path)])
    installation.main()
    assert capsys.readouterr().out == ""


def _python(environment, says):
    """A Python in an environment that says this of its version."""
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").write_text(f"#!/bin/sh\necho {says}\n")
    (environment / "bin/python").chmod(0o755)


def test_an_environment_of_another_python_is_refused_with_two_ways_out(tmp_path):
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    _python(tmp_path / "same", ours)
    installation.check_version(tmp_path / "same")
    installation.check_version(tmp_path / "not there yet")
    installation.check_version(Path(sys.prefix))
    _python(tmp_path / "other", "3.9")
    message = rf"other: it has Python 3\.9, and .* is {ours}; leave out PYTHON= .* make clean-env"
    with pytest.raises(SystemExit, match=message):
        installation.check_version(tmp_path / "other")


def test_an_environment_whose_python_is_gone_is_refused(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(tmp_path / "python3.9")  # as after an upgrade of the distribution
    with pytest.raises(SystemExit, match="its Python is gone or does not start; remove it with make clean-env"):
        installation.check_version(tmp_path)


def test_an_environment_without_pip_is_given_it(tmp_path):
    place = installation.Place("cpu", tmp_path, mpich=False)
    assert place.creation_command() == [sys.executable, "-m", "venv", str(tmp_path)]
    _python(tmp_path, "3.11")
    assert place.creation_command() == [str(tmp_path / "bin/python"), "-m", "ensurepip", "--default-pip"]
    (tmp_path / "lib/python3.11/site-packages/pip").mkdir(parents=True)
    assert place.creation_command() is None


def test_a_lock_is_dealt_into_two_parts_that_hold_all_of_it():
    lock = installation._lock("cpu")
    heavy, light = installation.parts_of(lock)
    names = [line.split("==")[0] for line in heavy.splitlines() if "==" in line]
    assert names == ["tensorflow-cpu", "tensorflow-io-gcs-filesystem"]
    assert sorted((heavy + light).splitlines()) == sorted(lock.splitlines())
    assert installation.parts_of(installation._lock("mpich")) == [installation._lock("mpich")]


class _Steps:
    """In place of running: installing a wheel fails as often as asked; compiling leaves one."""

    def __init__(self, failures=0):
        self.failures, self.ran, self.planned = failures, [], []

    def replace(self, count, steps):
        self.planned.append((count, [step.what for step in steps]))

    def run(self, lane, env=None):
        [words] = lane
        if "wheel" in words:
            folder = Path(words[words.index("--wheel-dir") + 1])
            (folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl").write_text("a wheel")
            self.ran.append("compile")
        else:
            assert Path(words[1]).name == "install_horovod.py"
            self.ran.append("install")
            self.parts = words[3:]
            if self.failures:
                self.failures -= 1
                raise installation.StepFailed("Horovod: failed")


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(installation, "horovod_environment", lambda *_: SETTINGS)
    monkeypatch.setattr(installation.wheel_cache, "depends_on", lambda *_: {"all": "alike"})
    return installation.Place("cpu", tmp_path, mpich=False)


def test_horovod_is_compiled_once_and_then_taken_from_the_cache(place):
    first, second = _Steps(), _Steps()
    installation._install_horovod(place, 2, first)
    assert first.ran == ["compile", "install"]
    assert first.parts == ["Gloo"]
    installation._install_horovod(place, 2, second)
    assert second.ran == ["install"]
    assert second.planned == [(2, ["Horovod, installed and checked"])]


def test_a_wheel_that_fails_its_check_is_thrown_away_and_compiled_anew(place, capsys):
    installation._install_horovod(place, 2, _Steps())
    steps = _Steps(failures=1)
    installation._install_horovod(place, 1, steps)
    assert steps.ran == ["install", "compile", "install"]
    assert "thrown away" in capsys.readouterr().out
    assert installation._kept(place, SETTINGS).wheel()


def test_a_wheel_that_does_not_work_is_not_kept(place):
    with pytest.raises(installation.StepFailed):
        installation._install_horovod(place, 2, _Steps(failures=1))
    assert installation._kept(place, SETTINGS).wheel() is None


def test_without_a_cache_that_can_be_written_horovod_is_installed_all_the_same(place, tmp_path, capsys):
    (tmp_path / "cache").write_text("a file where a folder is wanted")
    steps = _Steps()
    installation._install_horovod(place, 2, steps)
    assert steps.ran == ["compile", "install"]
    assert "warning: Horovod is not kept for other clones" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["analysis", "launch"])
def test_a_newer_python_has_the_same_packages_but_for_numpy(monkeypatch, name):
    ours = set(installation._lock(name).splitlines()) if sys.version_info[:2] == (3, 11) else None
    monkeypatch.setattr(installation.sys, "version_info", (3, 13, 5))
    theirs = installation._lock(name)
    assert theirs == (FOLDER / f"{name}-py313.txt").read_text()
    if ours:
        packages = [{line.split()[0] for line in lock if "==" in line} for lock in (ours, theirs.splitlines())]
        assert {package.split("==")[0] for package in packages[0] ^ packages[1]} == {"numpy"}
    assert installation._lock("cpu") == (FOLDER / "cpu.txt").read_text()  # TensorFlow has no wheels for it
