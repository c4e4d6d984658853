import subprocess
import sys

import pytest

from tests.helpers import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(("module", "package"), [("train.launch", "hydra"), ("analysis", "pandas")])
def test_without_the_packages_of_the_set_up_a_command_says_so_and_what_to_type(module, package):
    done = subprocess.run([sys.executable, "-S", "-m", module, "summary"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    problem, _, fix = done.stderr.partition("\n")
    assert problem == f"error: this Python has no package {package}: {sys.executable}"
    assert fix == f"make setup makes an environment with all packages; then:\n.venv/bin/python -S -m {module} summary\n"
