"""The commands of make's targets: the first alone, or all in this process.

A new process imports pandas and Matplotlib each time.
"""

import os
import runpy
import sys
from collections.abc import Mapping, Sequence

import pytest

from tests.helpers.kit import run
from train.make import Variables, steps


def launch_command(target: str, variables: Sequence[str]) -> list[str]:
    """Return the command of the launch of a target alone, without the summary and the figures that make adds."""
    first, *_ = steps(target, Variables(dict(variable.split("=", 1) for variable in variables)))
    return [sys.executable, "-m", *first.command]


def run_target(
    target: str, variables: Mapping[str, str], patch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> tuple[int, str]:
    """Run the commands of a target with these variables in the current folder; return exit status and output."""
    status = 0
    for step in steps(target, Variables(variables)):
        if step.command[0].startswith("train.tools"):  # ends its process
            return run(sys.executable, "-m", *step.command, variables={"PATH": os.environ["PATH"]})
        patch.setattr(sys, "argv", ["", *step.command[1:]])
        try:
            runpy.run_module(step.command[0], run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            status = ended.code or 0
    return status, "".join(capfd.readouterr())
