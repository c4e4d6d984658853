"""The first lines of a batch script, run by bash. The silent `module` stands in for that of Tcl before version 4."""

import subprocess

import pytest

from train.launch.start import site_setup

pytestmark = pytest.mark.slow  # starts processes

# It loads what exists, and returns 0 for anything else: as a function that evaluates what modulecmd prints.
SILENT = """module() {
  shift
  for name; do case $name in gcc | mpi*) LOADEDMODULES=$LOADEDMODULES:$name/4.1 ;; *) echo "no $name" >&2 ;; esac; done
}"""
STATUS = (
    """module() { false; case $2 in gcc*) LOADEDMODULES=gcc-of-site/12 ;; *) return 1 ;; esac; }; LMOD_VERSION=8.6"""
)


def run(before: str, *lines: str) -> tuple[int, str]:
    """Return the exit status and output of a script that prints "measures" after these lines."""
    script = "\n".join([before, *site_setup.script(lines), "false", "echo measures $A"])
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("before", [SILENT, STATUS], ids=["silent", "with a status"])
def test_lines_that_work_go_on_and_what_follows_is_not_held_to_it(before):
    lines = ("module load gcc", "if true", "then", "  export A=1", "fi", "false || true", "[ -f /none ] && exit 3", "")
    assert run(before, *lines) == (0, "measures 1\n")
    assert run(SILENT, "module load gcc mpich")[0] == 0
    assert run("") == (0, "measures\n")


@pytest.mark.parametrize("before", [SILENT, STATUS], ids=["silent", "with a status"])
@pytest.mark.parametrize("line", ["module load no-such-mpi/9.9", "module add  no-such-mpi/9.9 "])
def test_the_script_ends_at_a_module_that_is_not_there_and_names_the_line(before, line):
    status, output = run(before, "module load gcc", line)
    assert status == 1
    assert f"system.setup: {line.strip()}" in output
    assert "the job ends here" in output
    assert "measures" not in output


def test_any_other_line_that_fails_ends_it_with_its_status():
    assert run("", "export A=1", "(exit 7)") == (7, "system.setup: (exit 7): exit status 7; the job ends here\n")
    status, output = run("", "no-such-program 'it'")
    assert status == 127
    assert "system.setup: no-such-program 'it': exit status 127" in output
