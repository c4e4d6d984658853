"""What a user's shell gives to the commands that tests start: the environment, and a Ctrl-C that is heeded.

Test modules, and libraries as they are imported, set variables of this process (scikit-learn KMP_DUPLICATE_LIB_OK, for
one). Those are not a user's. So tests/conftest.py, which pytest reads before any test module, imports this first.
"""

import os
import signal
from collections.abc import Mapping
from types import MappingProxyType

# What `make test JUNIT=file` hands down is not for the calls of make that tests make.
for _name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "JUNIT", "UNIT", "PYTEST_ARGS"):
    os.environ.pop(_name, None)

ENVIRONMENT: Mapping[str, str] = MappingProxyType(dict(os.environ))


def heed_ctrl_c() -> None:
    """In a child before its command starts: heed SIGINT, also where a script runs the tests in the background.

    There SIGINT and SIGQUIT are ignored from the start, as all children inherit, and a shell cannot trap them.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
