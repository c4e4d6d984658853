"""The environment and the signal handling that a user's shell gives to a command, for commands that tests start.

Test modules and imported libraries set variables in this process (scikit-learn sets KMP_DUPLICATE_LIB_OK). A user does
not have those. So tests/conftest.py, which pytest reads before any test module, imports this module first.
"""

import os
import signal
from collections.abc import Mapping
from types import MappingProxyType

MARK = "STARTED_BY_TESTS_OF"

# Variables of `make test JUNIT=file` must not reach the calls of make in tests, nor the width of a terminal any test.
for _name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "JUNIT", "UNIT", "PYTEST_ARGS", "COLUMNS"):
    os.environ.pop(_name, None)

# Marks what tests of this process start, in processes of others too: `time_limit` ends it.
os.environ[MARK] = str(os.getpid())

ENVIRONMENT: Mapping[str, str] = MappingProxyType(dict(os.environ))


def heed_ctrl_c() -> None:
    """Restore the default action of SIGINT, SIGQUIT and SIGHUP in a child, before its command starts.

    In the background of a script SIGINT and SIGQUIT are ignored. All children inherit this, and no shell can trap them.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
