"""Whether this Python can read the other modules of the set-up. Written so that Python 3.6 can read it."""

import os
import sys

# The oldest version that runs the other modules: these then say all that is missing, a newer Python among it.
OLDEST = (3, 9)
# The ways to get Python 3.11, each in a line of its own; make doctor shows them too.
WAYS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "other-python.txt")
NOTHING_DONE = "error: nothing was downloaded; fix what failed above, then run the same command again"


def check() -> None:
    """Exit, with the ways to get a newer one, if this Python is too old to run the set-up."""
    if sys.version_info >= OLDEST:
        return
    print(f"Python  FAILURE  {'.'.join(map(str, sys.version_info[:3]))}: 3.11 is required")
    with open(WAYS) as file:
        for number, line in enumerate(file):
            print(f"{'':17}{'     ' if number else 'fix: '}{line}", end="")
    sys.stdout.flush()
    sys.exit(NOTHING_DONE)
