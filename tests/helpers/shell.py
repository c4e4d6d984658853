"""The environment and the signal handling that a user's shell gives to a command, for commands that tests start.

Test modules and imported libraries set variables in this process (scikit-learn sets KMP_DUPLICATE_LIB_OK). A user does
not have those. So tests/conftest.py, which pytest reads before any test module, imports this module first.
"""

import os
import signal
from collections.abc import Mapping
from types import FrameType, MappingProxyType

MARK = "STARTED_BY_TESTS_OF"
UNBROKEN = "1000"  # columns, in which commands break no sentence

# Variables of `make test JUNIT=file` must not reach the calls of make in tests, nor the width of a terminal any test.
for _name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "JUNIT", "UNIT", "ALL", "PYTEST_ARGS", "COLUMNS"):
    os.environ.pop(_name, None)

# Marks what tests of this process start, in processes of others too: `time_limit` ends it.
os.environ[MARK] = str(os.getpid())

ENVIRONMENT: Mapping[str, str] = MappingProxyType({**os.environ, "COLUMNS": UNBROKEN})


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: a signal with a handler has its default action in the commands that this process starts."""


# In the background of a script SIGINT and SIGQUIT are ignored, under nohup SIGHUP. Children would inherit this, and no
# shell can trap them then. Nothing is changed in a child before its command starts: with the threads of TensorFlow here
# Python's code in it could wait for ever.
for _signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_signal) == signal.SIG_IGN:
        signal.signal(_signal, _ignore)
