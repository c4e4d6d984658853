"""Rank groups that fail or are ended. Those that measure: tests/end_to_end/test_rounds.py."""

import signal
import subprocess
import sys

import pytest

from train.launch.start import rank_groups
from train.launch.start.rank_groups import Command

pytestmark = pytest.mark.slow  # starts processes

SLEEP = "import time; time.sleep(600)"
WITHOUT_GRACE = (
    "import sys; from train.launch.start import rank_groups; rank_groups.GRACE_S = 0.1; sys.exit(rank_groups.main())"
)


def python(code: str) -> Command:
    return 0, [sys.executable, "-c", code]


def run(*commands: Command, hasty: bool = False) -> subprocess.CompletedProcess:
    """Run these groups to their end. hasty: when a group fails, the others get no time to end by themselves."""
    argv = rank_groups.argv(sys.executable, commands)
    if hasty:
        argv = [sys.executable, "-c", WITHOUT_GRACE, *argv[3:]]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300)  # shorter than they sleep


@pytest.mark.parametrize(
    ("failing", "status", "output"),
    [
        ("print('no memory'); raise SystemExit(7)", 7, "no memory"),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9, ""),  # as a shell returns it
    ],
)
def test_a_group_that_fails_ends_the_others_and_is_named_with_its_output(failing, status, output):
    done = run(python(SLEEP), python(failing), hasty=True)
    assert done.returncode == status
    assert rank_groups.failed(done.stdout) == [(1, status, output)]


def test_a_group_that_fails_after_another_is_named_too(tmp_path):
    failed = f"pathlib.Path({str(tmp_path / 'failed')!r})"
    first = f"import pathlib; {failed}.touch(); raise SystemExit(1)"
    late = f"import pathlib, time\nwhile not {failed}.exists(): time.sleep(.01)\ntime.sleep(.5); raise SystemExit(9)"
    done = run(python(first), python(late))
    assert [group[:2] for group in rank_groups.failed(done.stdout)] == [(0, 1), (1, 9)]


def test_output_is_printed_as_it_comes_and_sigterm_ends_all_groups():
    begun = "print('begun\\nthe rest, without an end of the line', end='', flush=True); import time; time.sleep(600)"
    argv = rank_groups.argv(sys.executable, [python(begun)])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "[group 0] begun\n"  # at once: a launch of hours is followed in its log
        child.send_signal(signal.SIGTERM)
        assert child.communicate(timeout=300)[0] == "[group 0] the rest, without an end of the line\n"
    assert child.returncode == 128 + signal.SIGTERM
