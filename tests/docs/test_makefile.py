"""What a user sets on the command line of make reaches the commands."""

import shutil
import subprocess

import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="no make on the PATH (Debian: apt-get install make)")


def printed(*words):
    """What make would run."""
    return subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("given", ["a,b", "a b", " a, b ", "a,,b"])
def test_a_list_is_separated_by_commas_or_spaces(given):
    commands = printed("weak-scaling", f"MODELS={given}", f"ONLY={given}", f"HOSTS={given}").stdout
    assert " model=a,b " in commands
    assert " --only a,b " in commands
    assert '"launcher.hosts=[a,b]"' in commands


def test_a_list_that_is_not_given_sets_nothing():
    commands = printed("weak-scaling").stdout
    assert "model=" not in commands
    assert "--only" not in commands
    assert "launcher.hosts" not in commands


def test_an_unknown_variable_is_named():
    done = printed("weak-scaling", "MODEL=resnet50")
    assert done.returncode == 2
    assert "MODEL: no such variable; allowed are" in done.stderr
