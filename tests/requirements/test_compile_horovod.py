"""requirements/compile_horovod.py: its decisions. Every test runs in what it builds."""

import os
import shutil
import sys
from collections import namedtuple

import pytest

from tests.helpers import ROOT
from tests.helpers.path_programs import write_program

sys.path.insert(0, str(ROOT / "requirements"))
import compile_horovod

pytestmark = pytest.mark.slow  # starts processes


@pytest.fixture
def machine(tmp_path):
    """The environment variables of a machine with a compiler and no MPI."""
    write_program(tmp_path / "c++", "echo c++ 12.2")
    return {"PATH": str(tmp_path)}


def test_horovod_is_built_with_mpi_where_its_compiler_is(machine, tmp_path):
    without = compile_horovod.build_settings(tmp_path, machine)
    write_program(tmp_path / "mpicc", "")
    both = compile_horovod.build_settings(tmp_path, machine)
    assert [settings.get("HOROVOD_WITH_MPI") for settings in (without, both)] == [None, "1"]
    assert [settings.get("HOROVOD_WITHOUT_MPI") for settings in (without, both)] == ["1", None]
    left_out = compile_horovod.build_settings(tmp_path, machine | {"HOROVOD_WITHOUT_MPI": "1"})
    assert ("HOROVOD_WITH_MPI" in left_out, left_out["HOROVOD_WITHOUT_MPI"]) == (False, "1")
    assert both["HOROVOD_WITH_GLOO"] == both["HOROVOD_WITH_TENSORFLOW"] == "1"
    assert not any("NCCL" in name for name in both)


def test_headers_come_from_the_kit_first_then_from_tensorflow_then_as_the_user_says(machine, tmp_path):
    flags = compile_horovod.build_settings(tmp_path, machine | {"CXXFLAGS": "-O3"})["CXXFLAGS"].split()
    assert flags[0] == f"-I{ROOT / 'requirements/include'}"
    assert all(flag.startswith(f"-I{tmp_path}/tensorflow/include/external/") for flag in flags[1:3])
    assert flags[3:] == ["-include", "newer_gcc.h", "-O3"]
    assert (ROOT / "requirements/include/newer_gcc.h").exists()


def test_an_mpi_without_headers_is_named_before_anything_is_compiled(machine, tmp_path):
    assert compile_horovod.mpi_problem(machine) == "there is no mpicxx"
    write_program(tmp_path / "mpicxx", "echo '<stdin>:1:10: fatal error: mpi.h: No such file' >&2; exit 1")
    assert compile_horovod.mpi_problem(machine) == "<stdin>:1:10: fatal error: mpi.h: No such file"
    write_program(tmp_path / "mpicxx", "read line; [ \"$line\" = '#include <mpi.h>' ]")
    assert compile_horovod.mpi_problem(machine) == ""


def test_all_cores_compile_whatever_the_flags_of_make(machine, tmp_path):
    cores = len(os.sched_getaffinity(0))
    started_by_make = machine | {"MAKEFLAGS": " -- PYTHON=python3.12"}
    assert compile_horovod.build_settings(tmp_path, started_by_make)["MAKEFLAGS"] == f"-j{cores}"


def test_horovod_for_gpus_links_the_nccl_of_the_lock(machine, tmp_path):
    library = tmp_path / "nvidia/nccl/lib"
    library.mkdir(parents=True)
    (library / "libnccl.so.2").write_text("a library")
    settings = compile_horovod.build_settings(tmp_path, machine)
    assert (settings["HOROVOD_GPU_OPERATIONS"], settings["HOROVOD_NCCL_HOME"]) == ("NCCL", str(library.parent))
    assert (library / "libnccl.so").read_text() == "a library"  # the linker looks for this name
    compile_horovod.build_settings(tmp_path, machine)  # a second time changes nothing


def _key(machine, site):
    return compile_horovod.build_key(compile_horovod.build_settings(site, machine), machine)


def _in_another_clone(folder, patch, header=None):
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    if header:
        next((folder / "requirements").rglob("*.h")).write_text(header)
    patch.setattr(compile_horovod, "HERE", folder / "requirements")


def test_the_key_is_the_same_in_another_clone_and_environment(machine, tmp_path, monkeypatch):
    before = _key(machine, tmp_path)
    _in_another_clone(tmp_path, monkeypatch)
    assert _key(machine, tmp_path / "other") == before


TENSORFLOW = namedtuple("Distribution", "name version")("tensorflow_cpu", "2.22.0")
CHANGES = {
    "compiler": lambda machine, folder, patch: write_program(folder / "c++", "echo c++ 14.2"),
    "MPI": lambda machine, folder, patch: write_program(folder / "mpicxx", "echo g++ -lmpi"),
    "option": lambda machine, folder, patch: machine.update(HOROVOD_DEBUG="1"),
    "flags": lambda machine, folder, patch: machine.update(CXXFLAGS="-O3"),
    "TensorFlow": lambda machine, folder, patch: patch.setattr(
        compile_horovod.metadata, "distributions", lambda: [TENSORFLOW]
    ),
    "Python": lambda machine, folder, patch: patch.setattr(compile_horovod.sys, "version", "3.14.0"),
    "header": lambda machine, folder, patch: _in_another_clone(folder, patch, "// another"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_the_library_changes_the_key(machine, tmp_path, monkeypatch, change):
    before = _key(machine, tmp_path)
    CHANGES[change](machine, tmp_path, monkeypatch)
    assert _key(machine, tmp_path) != before


def test_what_a_user_left_set_for_another_horovod_is_named_and_not_heeded(capsys):
    leaked = {"HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_WITH_PYTORCH": "1", "HOROVOD_WITHOUT_GLOO": "1"}
    wanted = {"HOROVOD_WITHOUT_MPI": "1", "HOROVOD_DEBUG": "1", "PATH": "/bin"}
    assert compile_horovod.without_unwanted(leaked | wanted, has_nccl=False) == wanted
    assert capsys.readouterr().err == (
        "warning: not heeded, as Horovod is compiled for TensorFlow and Gloo, for CPUs: "
        "HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_WITHOUT_GLOO=1 HOROVOD_WITH_PYTORCH=1\n"
    )
    assert (
        compile_horovod.without_unwanted(wanted | {"HOROVOD_CUDA_HOME": "/cuda"}, True)["HOROVOD_CUDA_HOME"] == "/cuda"
    )
    assert capsys.readouterr().err == ""


# Stands in for uv: it writes a line of a build, and then runs the command {last}.
UV = """
case "$*" in
*"cache clean"*) echo cleaned >>{folder}/calls ;;
*install*horovod.txt*) echo "[ 50%] Building CXX object a.cc.o"; echo built >>{folder}/calls; {last} ;;
esac
"""


@pytest.fixture
def set_up(monkeypatch, tmp_path):
    """Run main() with a uv whose build ends with the command `last`, and a check; return what uv did."""

    def run(last, check):
        uv = write_program(tmp_path / "uv", UV.format(folder=tmp_path, last=last))
        monkeypatch.setattr(compile_horovod, "_CHECK", check)
        monkeypatch.setattr(compile_horovod.sys, "argv", ["compile_horovod.py", str(uv), str(tmp_path / "horovod.txt")])
        monkeypatch.setattr(compile_horovod.sys, "prefix", str(tmp_path))
        monkeypatch.setenv("PATH", os.environ["PATH"])
        monkeypatch.setenv("HOROVOD_WITHOUT_MPI", "1")  # an MPI of this machine may lack its headers
        compile_horovod.main()
        return (tmp_path / "calls").read_text().split()

    return run


def test_horovod_is_compiled_and_checked(set_up, tmp_path):
    assert set_up("true", "") == ["built"]
    assert "[ 50%] Building CXX object a.cc.o" in (tmp_path / "install.log").read_text()


def test_a_horovod_that_does_not_load_is_removed_from_the_cache_and_compiled_again(set_up, tmp_path):
    """As when it was compiled for another version of a library than is installed."""
    first_fails = f"import pathlib, sys; sys.exit('cleaned' not in pathlib.Path('{tmp_path}/calls').read_text())"
    assert set_up("true", first_fails) == ["built", "cleaned", "built"]


@pytest.mark.parametrize(
    ("said", "check", "error"),
    [
        ("", "raise SystemExit(1)", "does not load with all its parts"),
        ("a.cc:1:2: error: no such thing", "", r"does not compile: why is above; all .* is in .*install\.log"),
        ("error: Failed to fetch horovod", "", "Horovod could not be installed: why is above"),
    ],
)
def test_a_horovod_that_cannot_be_used_is_an_error_that_shows_why(set_up, capsys, said, check, error):
    with pytest.raises(SystemExit, match=error):
        set_up(f"echo '{said}'; exit 1" if said else "true", check)
    assert not said or f"  | {said}" in capsys.readouterr().out
