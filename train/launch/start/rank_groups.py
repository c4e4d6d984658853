"""Start the rank groups of a job at the same time, each by a separate command, and end all when one fails.

Each line of their output has its group in front. If groups fail, the last lines name them, with their exit status.
"""

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from train.record import protocol

_POLL_S = 0.2
GRACE_S = 30.0  # a group's command may notice later than the other groups that a rank of it has died
_FORWARD_WITHIN_S = 5.0  # the last output of a group whose command has ended: a remaining process may print on
_ended = threading.Event()  # one of the commands has
_printing = threading.Lock()  # a line and its end are two writes, between which another group's line may come
_FAILED = "group {group} failed with exit status {code}"
_FAILED_PATTERN = re.compile(r"^group (?P<group>\d+) failed with exit status (?P<code>\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """The command that starts the ranks of one group."""

    first_rank: int  # among all ranks of the job
    argv: Sequence[str]


def argv(python: str, commands: Sequence[Command]) -> list[str]:
    """Return the command that starts these groups, in order."""
    return [python, "-m", "train.launch.start.rank_groups", json.dumps([asdict(command) for command in commands])]


def failed(output: str) -> list[tuple[int, int, str]]:
    """Return the groups that failed, in the order of failure: number, exit status and output of its command."""
    return [
        (int(match["group"]), int(match["code"]), _group_output(output, int(match["group"])))
        for match in _FAILED_PATTERN.finditer(output)
    ]


def _group_output(output: str, group: int) -> str:
    prefix = _prefix(group)
    return "\n".join(line.removeprefix(prefix) for line in output.splitlines() if line.startswith(prefix))


def _prefix(group: int) -> str:
    return f"[group {group}] "


@dataclass(frozen=True)
class _GroupProcess:
    """The process of one group's command, and the thread that forwards its output."""

    child: subprocess.Popen[str]
    forwarder: threading.Thread


def _start(group: int, command: Command) -> _GroupProcess:
    env = {protocol.RANK_GROUP: str(group), protocol.FIRST_RANK: str(command.first_rank)}
    child = subprocess.Popen(
        command.argv,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    forwarder = threading.Thread(target=_forward, args=(group, child), daemon=True)
    forwarder.start()
    return _GroupProcess(child, forwarder)


def _forward(group: int, child: subprocess.Popen[str]) -> None:
    assert child.stdout
    for line in child.stdout:
        with _printing:
            print(_prefix(group) + line.rstrip("\n"), flush=True)
    child.wait()
    _ended.set()


def _wait(groups: Sequence[_GroupProcess]) -> int:
    """Wait until all have ended, or some time after one has failed; returns its exit status, else 0."""
    statuses: dict[int, int] = {}  # by group, in the order of failure, as a shell gives them
    end = math.inf
    while time.monotonic() < end and any(group.child.poll() is None for group in groups):
        _ended.wait(_POLL_S)
        _ended.clear()
        _note_failed(groups, statuses)
        if statuses and end == math.inf:
            end = time.monotonic() + GRACE_S
    _note_failed(groups, statuses)
    for group in groups:
        if group.child.poll() is not None:
            group.forwarder.join(_FORWARD_WITHIN_S)
    for number, status in statuses.items():
        print(_FAILED.format(group=number, code=status), flush=True)
    return next(iter(statuses.values()), 0)


def _note_failed(groups: Sequence[_GroupProcess], statuses: dict[int, int]) -> None:
    for number, group in enumerate(groups):
        if code := group.child.poll():
            statuses.setdefault(number, code if code > 0 else 128 - code)


def main() -> int:
    """Start the rank groups, wait for them, end the others when one fails."""
    parser = argparse.ArgumentParser(
        prog="python -m train.launch.start.rank_groups", description=__doc__.splitlines()[0]
    )
    parser.add_argument("commands", help="as JSON: [{first_rank, argv}, ...]")
    commands = [Command(**fields) for fields in json.loads(parser.parse_args().commands)]
    groups = [_start(group, command) for group, command in enumerate(commands)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return _wait(groups)
    finally:
        for group in groups:
            group.child.terminate()
        for group in groups:
            group.child.wait()
            group.forwarder.join(_FORWARD_WITHIN_S)  # Python aborts at its exit if a thread is writing then


if __name__ == "__main__":
    sys.exit(main())
