"""requirements/setup.sh: its decisions and errors. Every test runs in what it sets up."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.helpers.path_programs import write_program

pytestmark = pytest.mark.slow  # starts processes

# Stands in for uv: it logs its calls, finds the Python that $PYTHON_OF_UV names, and can download none.
UV = """
case "$*" in
export*) echo "exported $*" ;;
"python find"*) [ "$PYTHON_OF_UV" ] && echo "$PYTHON_OF_UV" ;;
"python install"*) echo "error: no route to the downloads" >&2; exit 1 ;;
venv*) for last; do :; done; mkdir -p "$last/bin"; ln -sf "$PYTHON_OF_UV" "$last/bin/python"; echo venv >>"$LOG" ;;
"pip install"*) for last; do :; done; echo "install $(sed 's/.*no-annotate //' "$last")" >>"$LOG"; exit ${FAILS:-0} ;;
*) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def kit(tmp_path, monkeypatch):
    """A kit with a stand-in for uv, whose Horovod is not compiled."""
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "requirements/compile_horovod.py").write_text(
        "import os; open(os.environ['LOG'], 'a').write('horovod\\n')"
    )
    shutil.copy(ROOT / "uv.lock", tmp_path)
    write_program(tmp_path / "bin/uv", UV)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("PYTHON_OF_UV", sys.executable)
    monkeypatch.delenv("PYTHON", raising=False)
    return tmp_path


def set_up(kit, *groups, **variables):
    """Set up these groups: return the exit status, the log of uv and of the compilation, and the output."""
    (kit / "log").write_text("")
    command, env = ["requirements/setup.sh", ".venv", *groups], {**os.environ, **variables}
    result = subprocess.run(command, cwd=kit, capture_output=True, text=True, env=env)
    return result.returncode, (kit / "log").read_text().splitlines(), result.stdout + result.stderr


def refused(kit, *groups, **variables):
    """The words of the output, in one line, when these groups are refused and nothing is done."""
    status, actions, output = set_up(kit, *groups, **variables)
    assert (status, actions) == (1, [])
    return " ".join(output.split())


def python(kit, version):
    """A program that answers as a Python of this version."""
    lines = f'case "$1" in -c) echo {version} ;; --version) echo "Python {version}.0" ;;'
    lines += f' *) exec {sys.executable} "$@" ;; esac'
    return str(write_program(kit / f"bin/python{version}", lines))


def test_groups_are_installed_once_and_no_compiler_is_needed_to_analyse_and_to_lint(kit):
    assert set_up(kit, "launch", "dev")[:2] == (0, ["venv", "install --only-group launch --only-group dev"])
    assert set_up(kit, "cpu", "dev")[:2] == (0, ["install --only-group cpu", "horovod"])
    assert set_up(kit, "cpu", "dev") == (0, [], "")


@pytest.mark.parametrize("larger", ["cpu", "dev"])
def test_what_a_larger_group_holds_is_not_installed_again(kit, larger):
    set_up(kit, larger)
    assert set_up(kit, "analysis") == (0, [], "")
    assert bool(set_up(kit, "launch")[1]) == (larger == "dev")


def test_a_group_that_a_larger_one_holds_is_in_it():
    """setup.sh repeats which group includes which from pyproject.toml."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]

    def included(name):
        inner = [part["include-group"] for part in groups[name] if isinstance(part, dict)]
        return {name, *(group for part in inner for group in included(part))}

    assert all("analysis" in included(name) for name in ("launch", "cpu", "cuda", "dev"))
    assert "launch" in included("cpu") & included("cuda")


def test_a_change_of_the_lock_or_of_what_compiles_horovod_installs_again(kit):
    set_up(kit, "cpu")
    for name in ("uv.lock", "requirements/horovod-cmake.sh"):
        (kit / name).write_text((kit / name).read_text() + "\n")
        assert set_up(kit, "cpu")[1] == ["install --only-group cpu", "horovod"]
        assert set_up(kit, "cpu")[1] == []


def test_an_interrupted_installation_begins_with_an_empty_environment(kit):
    set_up(kit, "analysis")
    part = kit / ".venv/lib/python3.11/site-packages/numpy/a_part.py"
    part.parent.mkdir(parents=True)
    part.touch()
    assert set_up(kit, "cpu", FAILS="1")[0] == 1
    assert set_up(kit, "cpu")[:2] == (0, ["venv", "install --only-group cpu", "horovod"])
    assert not part.exists()
    assert not (kit / ".venv/.installed-analysis").exists()


def test_of_two_set_ups_at_once_the_second_waits_and_says_so(kit):
    """The first holds until the second waits."""
    uv = (kit / "bin/uv").read_text()
    hold = '"pip install"*) touch "$LOG.installs"; while [ ! -e "$LOG.waits" ]; do sleep 0.1; done;'
    write_program(kit / "bin/uv", uv.replace('"pip install"*)', hold))
    (kit / "log").touch()
    command = ["requirements/setup.sh", ".venv", "cpu"]
    with (
        subprocess.Popen(command, cwd=kit, text=True, stdout=subprocess.PIPE) as first,
        subprocess.Popen([*command, "dev"], cwd=kit, text=True, stdout=subprocess.PIPE) as second,
    ):
        running = {child.stdout.readline(): child for child in (first, second)}
        waiting = running.pop("Another set-up of .venv is running: waiting for it\n")
        [(line, holding)] = running.items()
        assert line.startswith("Setting up .venv with Python")
        assert waiting.poll() is None
        (kit / "log.waits").touch()
        assert holding.wait(60) == 0
        assert waiting.wait(60) == 0
    log = (kit / "log").read_text().splitlines()
    assert log.count("venv") == 1  # one made the environment, the other added to it
    assert log.count("horovod") == 1
    groups = [line.split(" --only-group ")[1:] for line in log if line.startswith("install ")]
    assert groups == ([["cpu"], ["dev"]] if holding is first else [["cpu", "dev"]])


# Where a set-up can be held: what the stand-in for uv is asked, or another program that it runs.
HELD = ["export", "python find", "python install", "venv", "pip install --python", "pip install --verbose", "c++"]
HOLD = ': >"$LOG.holds"; exec sleep 600'
# It prints a traceback when it is interrupted, as pip does.
HOLD_IN_PYTHON = f"""#!{sys.executable}
import os, time
open(os.environ["LOG"] + ".holds", "w").close()
time.sleep(600)
"""


@pytest.mark.parametrize("held", HELD)
def test_ctrl_c_in_any_step_is_one_line_and_the_same_command_resumes(kit, monkeypatch, held):
    monkeypatch.setenv("HOROVOD_WITHOUT_MPI", "1")  # an MPI of this machine may lack its headers
    hold = write_program(kit / "hold", HOLD_IN_PYTHON if held.startswith("pip") else HOLD)
    whole = {path: path.read_text() for path in (kit / "bin/uv", kit / "requirements/compile_horovod.py")}
    if held == "c++":  # the doctor asks it for its version
        for name in ("common", "train/tools"):
            shutil.copytree(ROOT / name, kit / name)
        write_program(kit / "bin/c++", f"exec {hold}")
    else:
        write_program(kit / "bin/uv", f'case "$*" in "{held}"*) exec {hold} ;; esac\n{whole[kit / "bin/uv"]}')
    if held == "pip install --verbose":
        set_up(kit, "analysis")
        # The packages of these tests, but the prefix of this kit.
        shutil.copy(f"{sys.prefix}/pyvenv.cfg", kit / ".venv")
        shutil.copy(ROOT / "requirements/compile_horovod.py", kit / "requirements")
    env = {**os.environ, "PYTHON_OF_UV": "" if held == "python install" else sys.executable}
    pipes = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "env": env}
    command = ["requirements/setup.sh", ".venv", "cpu"]
    with subprocess.Popen(command, cwd=kit, start_new_session=True, **pipes) as child:
        while child.poll() is None and not (kit / "log.holds").exists():
            time.sleep(0.02)
        assert child.poll() is None, child.stdout.read()
        os.killpg(child.pid, signal.SIGINT)
        output, _ = child.communicate()
    assert (child.returncode, "Traceback" in output) == (130, False), output
    assert output.splitlines()[-1] == "interrupted: nothing is lost, the same command resumes"
    for path, text in whole.items():
        write_program(path, text)
    (kit / "bin/c++").unlink(missing_ok=True)
    status, _, output = set_up(kit, "cpu")
    assert status == 0, output


@pytest.mark.parametrize("version", ["3.10", "3.14"])
def test_a_python_that_the_lock_is_not_for_is_refused(kit, version):
    name = python(kit, version)
    output = refused(kit, "analysis", PYTHON=name)
    assert f"error: PYTHON={name}: Python {version}.0; TensorFlow 2.21 needs Python 3.11, 3.12 or 3.13." in output


@pytest.mark.parametrize("version", ["3.11", "3.13"])
def test_a_python_that_the_lock_is_for_is_taken_and_then_no_other(kit, version):
    status, actions, output = set_up(kit, "analysis", PYTHON=(first := python(kit, version)))
    assert (status, actions) == (0, ["venv", "install --only-group analysis"])
    assert f"Setting up .venv with Python {version}.0" in output
    (own := kit / ".venv/bin/python").unlink()
    own.symlink_to(first)
    output = refused(kit, "cpu", PYTHON=(other := python(kit, "3.12")))
    assert f"error: .venv has Python {version}, and PYTHON={other} is another; leave out PYTHON=" in output
    Path(first).unlink()  # as after an upgrade of the distribution
    gone = "its Python is gone or does not start; remove it with make clean-env"
    assert gone in refused(kit, "cpu")


def test_without_a_suitable_python_the_error_explains_how_to_get_one(kit):
    output = refused(kit, "analysis", PYTHON_OF_UV="")
    assert "no route to the downloads" in output
    for way in ("Debian 12 and 13, Ubuntu 24.04 sudo apt-get install python3", "sudo dnf install", "module load"):
        assert way in output
    assert refused(kit, "analysis", PYTHON="python3.9999") == "error: PYTHON=python3.9999: there is no such program"


def test_nothing_is_installed_where_a_check_fails(kit):
    doctor = "import sys; print('compiler  FAILURE  no g++:', *sys.argv[1:]); sys.exit(1)"
    write_program(kit / "train/tools/doctor.py", f"#!{sys.executable}\n{doctor}")
    output = refused(kit, "dev", "cpu")
    assert output.startswith("compiler FAILURE no g++: --before-setup cpu error: ")
    assert "nothing was installed" in output


def test_without_uv_what_the_python_that_installs_it_says_is_shown_and_it_is_requested_by_hash(kit):
    (kit / "bin/uv").unlink()
    path = f"{kit / 'bin'}{os.pathsep}/usr/bin:/bin"
    write_program(kit / "bin/python3", "echo \"ModuleNotFoundError: No module named 'ensurepip'\" >&2; exit 1")
    output = refused(kit, "analysis", PATH=path)
    assert "python3 cannot make an environment for one (ModuleNotFoundError: No module named 'ensurepip')" in output
    assert "uv (docs.astral.sh/uv), or sudo apt-get install python3-venv" in output
    assert re.fullmatch(r"uv==\S+ --hash=sha256:.*\n", (ROOT / "requirements/uv.txt").read_text())
    steps = 'case "$*" in "-m pip install"*) echo "ERROR: no route to the index" >&2; exit 1 ;;'
    steps += f' "-m venv"*) mkdir -p .venv/uv/bin; cp "$0" .venv/uv/bin/python ;; *) exec {sys.executable} "$@" ;; esac'
    write_program(kit / "bin/python3", steps)
    output = refused(kit, "analysis", PATH=path)
    assert "| ERROR: no route to the index" in output
    assert "error: uv could not be installed: why is above." in output
    assert "python3-venv" not in output


UV_OF_TESTS = Path(shutil.which("uv", path=f"{sys.prefix}/uv/bin{os.pathsep}{os.environ['PATH']}") or "")


def test_a_cache_that_cannot_be_written_is_the_cause_that_is_named(kit):
    """The real uv, with a home that is a file."""
    (kit / "bin/uv").unlink()
    (kit / "bin/uv").symlink_to(UV_OF_TESTS)
    for path in (kit / ".venv/uv/bin/uv", kit / "home"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(UV_OF_TESTS)
    shutil.copy(ROOT / "pyproject.toml", kit)
    folders = {name: "" for name in os.environ if name.startswith(("UV_CACHE", "XDG_"))}
    output = refused(kit, "analysis", HOME=str(kit / "home"), **folders)
    assert output.startswith("error: uv does not work here: error: Failed to initialize cache at")
    assert f"{kit}/home/.cache/uv" in output


def test_settings_of_uv_that_change_what_is_installed_do_not_reach_it(kit):
    uv = (kit / "bin/uv").read_text()
    write_program(kit / "bin/uv", f'env | grep "^UV_" | sort >"$LOG.variables"\n{uv}')
    set_up(kit, "analysis", UV_DEV="1", UV_RESOLUTION="lowest", UV_DEFAULT_INDEX="https://mirror", UV_CACHE_DIR="c")
    names = [line.partition("=")[0] for line in (kit / "log.variables").read_text().splitlines()]
    assert {"UV_DEFAULT_INDEX", "UV_CACHE_DIR", "UV_LOCK_TIMEOUT"} <= {*names}
    assert not {"UV_DEV", "UV_RESOLUTION"} & {*names}


def test_what_uv_said_is_shown_if_packages_cannot_be_installed(kit):
    uv = (kit / "bin/uv").read_text()
    write_program(kit / "bin/uv", uv.replace('"pip install"*)', '"pip install"*) echo "error: No space left" >&2;'))
    status, _, output = set_up(kit, "analysis", FAILS="2")
    assert status == 1
    assert "  | error: No space left\n" in output
    assert "error: the packages could not be installed: why is above" in output
