import os
import subprocess
import sys
from collections import namedtuple

import pytest

from train import doctor
from train.launch import quota

Version = namedtuple("Version", "major minor micro")


@pytest.mark.parametrize(
    ("version", "state"),
    [((3, 11, 2), doctor.OK), ((3, 12, 1), doctor.WARNING), ((3, 13, 0), doctor.FAILURE), ((3, 10, 9), doctor.FAILURE)],
)
def test_which_python_will_do(monkeypatch, version, state):
    monkeypatch.setattr(doctor.sys, "version_info", Version(*version))
    _, found, _, mend = doctor.check_python()
    assert found == state
    assert bool(mend) == (state != doctor.OK)


def test_what_is_short_fails_with_its_mend():
    for check in (doctor.check_disk, doctor.check_memory):
        assert check(0.0)[1::2] == (doctor.OK, "")
        name, state, found, mend = check(1e9)
        assert (state, bool(mend)) == (doctor.FAILURE, True), name
        assert "1000000000.0 GiB needed" in found


def test_a_missing_compiler_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None if name == "g++" else f"/usr/bin/{name}")
    assert doctor.check_compiler() == ("compiler", doctor.FAILURE, "no g++", "sudo apt-get install g++ make")


def test_more_ranks_than_cores_is_a_warning():
    cores = len(os.sched_getaffinity(0))
    assert doctor.check_cores(cores)[1] == doctor.OK
    found, quotas = doctor.check_cores(cores + 1), quota.find()
    assert found[1] == (doctor.WARNING if isinstance(quotas, str) else doctor.OK)
    assert (quotas if isinstance(quotas, str) else "nodes are emulated by cgroup") in found[2]


def test_ranks_that_do_not_fit_are_a_warning_with_the_estimate():
    # A thousand ranks of ResNet50 need more than a terabyte.
    name, state, found, mend = doctor.check_rank_memory(1000)
    assert (name, state) == ("memory", doctor.WARNING)
    assert "GiB a rank of resnet50" in found
    assert mend.startswith("1000 ranks of about ")


def test_the_checks_before_set_up_need_nothing_but_the_standard_library():
    # -I -S: no site-packages, no path of this project.
    command = [sys.executable, "-I", "-S", doctor.__file__, "--before-setup", "analysis"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_number_of_ranks_that_cannot_be_is_refused():
    done = subprocess.run([sys.executable, doctor.__file__, "--ranks", "-1"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "--ranks -1: must be 1 or more" in done.stderr
