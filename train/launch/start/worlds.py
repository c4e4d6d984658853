"""Start the worlds of a job side by side, each by a command of its own, and end all when one fails.

Each line of their output has its world in front; where one fails, the last line says which was the first.
"""

from __future__ import annotations

import argparse
import json
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
_FIRST = "world {world} ended first, with exit status {code}"
_FIRST_PATTERN = re.compile(r"^world (?P<world>\d+) ended first, with exit status (?P<code>\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """What starts the ranks of one world."""

    first_rank: int  # among all ranks of the job
    argv: Sequence[str]


def argv(python: str, commands: Sequence[Command]) -> list[str]:
    """The command that starts these worlds, in order."""
    return [python, "-m", "train.launch.start.worlds", json.dumps([asdict(command) for command in commands])]


def first_to_end(output: str) -> tuple[int, int, str] | None:
    """The world that failed first, the exit status of its command, and what that printed; None where none failed."""
    found = _FIRST_PATTERN.search(output)
    if not found:
        return None
    prefix = _prefix(int(found["world"]))
    lines = (line.removeprefix(prefix) for line in output.splitlines() if line.startswith(prefix))
    return int(found["world"]), int(found["code"]), "\n".join(lines)


def _prefix(world: int) -> str:
    return f"[world {world}] "


def _start(world: int, command: Command) -> subprocess.Popen[str]:
    of_world = {protocol.WORLD: str(world), protocol.FIRST_RANK: str(command.first_rank)}
    child = subprocess.Popen(
        command.argv,
        env={**os.environ, **of_world},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    threading.Thread(target=_forward, args=(world, child), daemon=True).start()
    return child


def _forward(world: int, child: subprocess.Popen[str]) -> None:
    assert child.stdout
    for line in child.stdout:
        print(_prefix(world) + line.rstrip("\n"), flush=True)


def _wait(children: Sequence[subprocess.Popen[str]]) -> int:
    """Wait until all have ended, or one has failed; returns its exit status as a shell gives it, else 0."""
    while True:
        codes = [child.poll() for child in children]
        failed = [(world, code) for world, code in enumerate(codes) if code]
        if failed:
            world, code = failed[0]
            status = code if code > 0 else 128 - code
            time.sleep(_POLL_S)  # what it printed last is on its way
            print(_FIRST.format(world=world, code=status), flush=True)
            return status
        if all(code == 0 for code in codes):
            return 0
        time.sleep(_POLL_S)


def main() -> int:
    """Start the worlds, wait for them, end the others when one fails."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.start.worlds", description=__doc__.splitlines()[0])
    parser.add_argument("commands", help="as JSON: [{first_rank, argv}, ...]")
    commands = [Command(**one) for one in json.loads(parser.parse_args().commands)]
    children = [_start(world, command) for world, command in enumerate(commands)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return _wait(children)
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait()


if __name__ == "__main__":
    sys.exit(main())
