"""requirements/install.py: a Python that is too old to read the set-up is told so, and not with a traceback."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "requirements"))
import needed_python

ROOT = Path(__file__).parents[2]


def _imported(tree: ast.Module) -> list[str]:
    """What a module imports at its top, as dotted names."""
    plain = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    return plain + [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]


@pytest.mark.parametrize("path", ["requirements/install.py", "requirements/needed_python.py"])
def test_python_3_6_can_read_what_comes_before_the_check(path):
    tree = ast.parse((ROOT / path).read_text(), feature_version=(3, 6))
    imported = _imported(tree)
    before_the_check = imported[: imported.index("installation")] if "installation" in imported else imported
    assert {*before_the_check} <= {"os", "sys", "needed_python"}  # not __future__.annotations, not dataclasses


# Runs the script as Python would, but for the version that it gives.
AS_PYTHON = """
import collections, runpy, sys
sys.version_info = collections.namedtuple("Version", "major minor micro")({version})
sys.argv = ["requirements/install.py", "cpu", "environment"]
sys.path.insert(0, "requirements")
runpy.run_path("requirements/install.py", run_name="__main__")
"""


@pytest.mark.parametrize("version", ["3, 6, 8", "3, 8, 20"])
def test_a_python_that_is_too_old_ends_in_an_error_with_the_ways_to_a_newer_one(version):
    command = [sys.executable, "-S", "-c", AS_PYTHON.format(version=version)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"{needed_python.NOTHING_DONE}\n")
    found, *ways = done.stdout.splitlines()
    assert found == f"Python  FAILURE  {version.replace(', ', '.')}: 3.11 is required"
    assert [way.strip() for way in ways] == f"fix: {Path(needed_python.WAYS).read_text()}".splitlines()


def test_a_python_that_can_read_the_set_up_goes_on_to_it():
    done = subprocess.run(
        [sys.executable, "requirements/install.py", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "Set up a virtual environment" in done.stdout
