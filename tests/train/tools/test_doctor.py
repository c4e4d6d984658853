import os
import re
import shutil
import subprocess
import sys
from collections import namedtuple

import pytest

from common import affinity
from record.schema import GpuState
from tests.helpers import ROOT
from tests.helpers.needs import needs
from tests.helpers.path_programs import write_program
from train.launch import cgroups
from train.rank import counters, gpus
from train.tools import doctor

Version = namedtuple("Version", "major minor micro")


@pytest.mark.parametrize("minor", [10, 11, 12, 13, 14])
def test_which_python_is_used_is_reported_and_one_without_a_lock_a_failure(monkeypatch, minor):
    monkeypatch.setattr(doctor.sys, "version_info", Version(3, minor, 0))
    check = doctor.check_python()
    assert sys.prefix in check.result
    assert check.state == (doctor.OK if 11 <= minor <= 13 else doctor.FAILURE)
    assert ("uv.lock and TensorFlow 2.21 are for 3.11, 3.12 and 3.13" in check.result) == (check.state != doctor.OK)
    assert ("make clean-env" in check.fix) == bool(check.fix) == (check.state != doctor.OK)


def test_too_little_disk_or_memory_fails_with_its_fix():
    for check in (doctor.check_disk, doctor.check_memory):
        assert check(0.0)[1::2] == (doctor.OK, "")
        name, state, result, fix = check(1e9)
        assert (state, bool(fix)) == (doctor.FAILURE, True), name
        assert "1000000000.0 GiB needed" in result


def test_a_missing_compiler_is_named_with_its_package(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/make" if name == "make" else None)
    assert doctor.check_compiler() == ("compiler", doctor.FAILURE, "no g++", "sudo apt-get install g++ make")


@pytest.mark.slow
@pytest.mark.parametrize(("cxx", "used", "why"), [("", "c++", "the first on PATH"), ("my-c++ -m64", "my-c++", "CXX=")])
def test_which_compiler_is_used_is_reported_and_why(monkeypatch, tmp_path, cxx, used, why):
    for name in ("c++", "my-c++", "make"):
        write_program(tmp_path / name, f"echo {name} 12.2")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", cxx)
    check = doctor.check_compiler()
    assert check.state == doctor.OK
    assert check.result.startswith(f"{used} 12.2: {tmp_path}/{used}, {why}")


@pytest.mark.parametrize(("packages", "compiled"), [("analysis", False), ("launch", False), ("cpu", True)])
def test_only_sets_with_horovod_ask_for_a_compiler(monkeypatch, packages, compiled):
    for name in ("compiler", "mpi"):  # each compiles a program
        monkeypatch.setattr(doctor, f"check_{name}", lambda name=name: doctor.Check(name, doctor.OK, ""))
    assert ("compiler" in [name for name, *_ in doctor.before_setup(packages)]) == compiled


# nvcc without the headers of CUDA, without the libraries to link, and a whole one.
ONLY_NVCC = 'exec g++ -x c++ "$@"'
NO_LIBRARIES = """
[ "$1" = --version ] && exit
case "$*" in *" -cudart "*) echo "/usr/bin/ld: cannot find -lcudart_static" >&2; exit 1;; esac
for last; do :; done
: > "$last"
"""
WHOLE = """
[ "$1" = --version ] || exit 0
printf '%s\\n' 'nvcc: NVIDIA (R) Cuda compiler driver' 'Copyright (c) 2005-2025 NVIDIA Corporation'
echo 'Cuda compilation tools, release RELEASE, V.1'
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nvcc", "state", "result"),
    [
        (None, doctor.FAILURE, "no nvcc"),
        (ONLY_NVCC, doctor.FAILURE, "nvcc does not compile a program: .* error: cuda_runtime.h: No such file .*"),
        (NO_LIBRARIES, doctor.FAILURE, "nvcc does not link a program with the static runtime: .*find -lcudart_static"),
        ("exit 1", doctor.FAILURE, "nvcc does not compile a program: it says nothing"),
        (WHOLE.replace("RELEASE", "12.5"), doctor.OK, r"nvcc 12\.5: .*/nvcc"),
        (WHOLE.replace("RELEASE", "13.0"), doctor.WARNING, r"nvcc 13\.0: with it .* driver of 580 .* GPUs .*7\.5.*"),
        (WHOLE.replace("RELEASE", "11.8"), doctor.FAILURE, r"nvcc 11\.8: Horovod takes CUDA 12 or 13"),
    ],
)
def test_half_a_cuda_toolkit_and_one_that_horovod_does_not_take_are_refused(monkeypatch, tmp_path, nvcc, state, result):
    for name in ("g++", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name))
    if nvcc:
        write_program(tmp_path / "nvcc", nvcc)
    monkeypatch.setenv("PATH", str(tmp_path))
    *others, check = doctor.before_setup("cuda")
    assert {"driver", "compiler", "MPI"} <= {other.name for other in others}
    assert (check.name, check.state) == ("CUDA toolkit", state)
    assert re.fullmatch(result, check.result)
    assert ("NVIDIA's package cuda-toolkit-12-5" in check.fix) == (state != doctor.OK)


@pytest.mark.slow
def test_an_mpi_without_its_header_is_refused_with_the_package_and_can_be_left_out(monkeypatch, tmp_path):
    """As with Debian's openmpi-bin alone."""
    for name in ("g++", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name))
    for name in ("mpicc", "mpicxx"):
        write_program(tmp_path / name, 'exec g++ "$@"')
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor.before_setup("cpu")[-1]
    assert (check.name, check.state) == ("MPI", doctor.FAILURE)
    assert re.fullmatch(
        "mpicxx does not compile a program: .*fatal error: mpi.h: No such file or directory", check.result
    )
    assert "sudo apt-get install libopenmpi-dev" in check.fix
    monkeypatch.setenv("HOROVOD_WITHOUT_MPI", "1")
    assert doctor.check_mpi().state == doctor.WARNING


@pytest.mark.parametrize(
    ("launcher", "state"), [(None, doctor.FAILURE), ("local", doctor.FAILURE), ("slurm", doctor.WARNING)]
)
def test_a_machine_without_the_driver_is_not_set_up_for_gpus_unless_they_are_elsewhere(monkeypatch, launcher, state):
    def no_library(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(doctor.ctypes, "CDLL", no_library)
    monkeypatch.delenv("LAUNCHER", raising=False)
    if launcher:
        monkeypatch.setenv("LAUNCHER", launcher)
    check = doctor.check_driver()
    assert (check.state, check.result) == (state, "no driver of NVIDIA here (libcuda.so.1)")
    assert "LAUNCHER=slurm" in check.fix


def test_a_host_that_cannot_resolve_its_own_name_is_a_warning(monkeypatch):
    monkeypatch.setattr(doctor.socket, "gethostname", lambda: "localhost")
    assert doctor.check_own_name()[1] == doctor.OK
    monkeypatch.setattr(doctor.socket, "gethostname", lambda: "no-such-host.invalid")
    check = doctor.check_own_name()
    assert check.state == doctor.WARNING
    assert check.result.startswith("no-such-host.invalid cannot be resolved")
    assert "127.0.1.1 no-such-host.invalid" in check.fix


def test_a_missing_image_fails_with_what_builds_it(monkeypatch, tmp_path):
    (tmp_path / "singularity").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = (doctor.FAILURE, "container.image=images/none.sif: no such file", "make sif builds it")
    assert doctor.check_container("singularity", "cpu", "images/none.sif")[1:] == missing
    image = tmp_path / "some.sif"
    image.touch()
    result = f"singularity has {image}, sha256:e3b0c44298fc"  # of an empty file
    assert doctor.check_container("singularity", "cpu", str(image))[1:] == (doctor.OK, result, "")


@pytest.mark.slow
def test_more_ranks_than_cores_is_a_warning():
    cores = len(os.sched_getaffinity(0))
    assert doctor.check_cores(cores).state == doctor.OK
    check, quotas = doctor.check_cores(cores + 1), cgroups.quota_method()
    assert check.state == (doctor.WARNING if isinstance(quotas, str) else doctor.OK)
    assert (quotas if isinstance(quotas, str) else "nodes are emulated by cgroup") in check.result


def test_loopback_answers_here():
    assert doctor.check_loopback().state == doctor.OK


@pytest.mark.slow
@needs("unshare", root=True)
@pytest.mark.parametrize("before", ["", "ip link set lo up; ip address flush dev lo; "])
def test_a_machine_without_loopback_is_named(before):
    lines = "from train.tools import doctor; print(doctor.check_loopback())"
    command = ["unshare", "--net", "sh", "-c", f'{before}exec "$0" -c "{lines}"', sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "FAILURE" in done.stdout
    assert "no connection from this machine to itself, at 127.0.0.1: " in done.stdout
    assert "ip link set lo up" in done.stdout


def test_hardware_threads_are_no_cores(monkeypatch):
    monkeypatch.setattr(affinity, "usable_cores", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(affinity, "whole_cores", lambda cpus: [0, 2])
    text = "2 usable (4 hardware threads; system.smt=true uses all), 2 ranks asked for"
    assert doctor.check_cores(2).result == text


def test_the_table_has_each_fix_below_its_check(capsys):
    checks = [("disk", doctor.OK, "9 GiB free"), ("compiler", doctor.FAILURE, "no g++", "this\nor that")]
    for check in checks:
        doctor.show_check(doctor.Check(*check))
    assert capsys.readouterr().out.splitlines() == [
        "disk          OK       9 GiB free",
        "compiler      FAILURE  no g++",
        "                       fix: this",
        "                            or that",
    ]


def test_ranks_that_do_not_fit_are_a_warning_with_the_estimate():
    check = doctor.check_rank_memory(1000)  # of ResNet50, which need more than a terabyte
    assert (check.name, check.state) == ("memory", doctor.WARNING)
    assert "GiB a rank of resnet50" in check.result
    assert check.fix.startswith("1000 ranks of about ")


@pytest.mark.slow
def test_the_command_before_the_setup_needs_nothing_but_the_standard_library():
    command = [sys.executable, "-I", "-S", doctor.__file__, "--before-setup", "analysis"]  # no path of this project
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_impossible_ranks_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["doctor", "--ranks", "-1"])
    with pytest.raises(SystemExit, match="2"):
        doctor.main()
    assert "--ranks -1: must be 1 or more" in capsys.readouterr().err


P100, K80 = (
    [GpuState(name, "550.54", None, None, None, None, capability)]
    for name, capability in (("P100", "6.0"), ("K80", "3.7"))
)


@pytest.mark.parametrize(
    ("installed", "seen", "state", "result", "fix"),
    [
        (P100 * 2, 2, doctor.OK, "2 seen by TensorFlow: P100 (6.0); driver 550.54", ""),
        (P100, 0, doctor.WARNING, "P100 (6.0), but TensorFlow sees none", "make DEVICE"),
        ([], 0, doctor.WARNING, "none: DEVICE=cpu only", "an NVIDIA"),
        (K80, 1, doctor.FAILURE, f"K80: {gpus.problems(K80[0])[0]}", "a newer driver"),
    ],
)
def test_gpus_are_reported_with_what_they_lack(monkeypatch, installed, seen, state, result, fix):
    monkeypatch.setattr(gpus, "query", lambda: gpus.InstalledGpus(installed))
    check = doctor.check_gpus(seen)
    assert (check.state, check.result, check.fix[: len(fix) or None]) == (state, result, fix)


@pytest.mark.parametrize(
    ("why", "result", "fix"),
    [
        (None, "RAPL of 0 package(s)", ""),
        ("no counter", "not known: no counter", ""),
        ("only root may", "not known: only root may", "sudo chmod a+r /sys"),
    ],
)
def test_energy_counters_are_reported_with_who_may_read_them(monkeypatch, why, result, fix):
    monkeypatch.setattr(counters, "why_no_energy", lambda: why)
    monkeypatch.setattr(counters, "energy_counters", list)
    check = doctor.check_energy()
    assert (check.state, check.result, check.fix[: len(fix) or None]) == (doctor.OK, result, fix)
