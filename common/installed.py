"""Whether this Python has what the set-up installs."""

import sys
from importlib.util import find_spec


def require(package: str) -> None:
    """End the process with an error if a package is missing that make setup installs."""
    if not find_spec(package):
        command = " ".join(sys.orig_argv[1:]) if hasattr(sys, "orig_argv") else ""  # from Python 3.10 on
        sys.exit(
            f"error: this Python has no package {package}: {sys.executable}\n"
            f"make setup makes an environment with all packages; then:\n.venv/bin/python {command}"
        )
