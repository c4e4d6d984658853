"""How this kit calls ssh."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from train.record.source import ROOT

# A host that no longer answers is given up after 10 s: without this, ssh would wait for TCP, which takes minutes.
SSH_OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=2")


def ssh_prefix() -> str:
    """The ssh command that Horovod's launchers use."""
    return " ".join(["ssh", *(f"-o {option}" for option in SSH_OPTIONS)])


def ssh_command(host: str, command: Sequence[str]) -> list[str]:
    """The argv that runs a command on a host, in the folder of the kit."""
    options = [word for option in SSH_OPTIONS for word in ("-o", option)]
    return ["ssh", *options, host, f"cd {shlex.quote(str(ROOT))} && {shlex.join(command)}"]
