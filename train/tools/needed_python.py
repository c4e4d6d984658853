"""What to do where Python is not 3.11. Written so that Python 3.6 can read it: it tells its user that it is too old."""

import sys

READS_THE_REST = (3, 9)  # the oldest version that can run the other modules of the set-up, and show all their checks
LOCKED = "there are locks for 3.11 to 3.13"
# Each line is a way of its own, where a distribution has no Python 3.11, as Debian 13 has not.
WAYS = """\
sudo apt-get install python3.11 python3.11-venv; then make PYTHON=python3.11 ... (Debian 12, Ubuntu 22.04)
or with uv (docs.astral.sh/uv): uv python install 3.11; then make PYTHON="$(uv python find 3.11)" ...
or with pyenv (github.com/pyenv/pyenv): pyenv install 3.11; then make PYTHON="$(pyenv prefix 3.11)/bin/python" ...
PYTHON= is needed once: after that, the environment's own Python is used"""
NOTHING_DONE = "error: nothing was downloaded; fix what failed above, then run the same command again"


def check() -> None:
    """Exit, with the ways to get a newer one, if this Python is too old to run the other modules of the set-up."""
    if sys.version_info >= READS_THE_REST:
        return
    print(f"Python  FAILURE  {'.'.join(map(str, sys.version_info[:3]))}: 3.11 is required ({LOCKED})")
    for number, line in enumerate(WAYS.splitlines()):
        print(f"{'':17}{'     ' if number else 'fix: '}{line}")
    sys.stdout.flush()
    sys.exit(NOTHING_DONE)
