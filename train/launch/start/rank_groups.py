"""Start the rank groups of a job at the same time, each by a separate command, and end all when one fails.

It prints their output as it comes, each line with its group in front. If groups fail, the last lines name them, with
their exit status.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import BinaryIO

from common.periodic import repeating
from record import protocol

_LOOK_EVERY_S = 1.0
GRACE_S = 30.0  # a group's command may notice later than the other groups that a rank of it has died
_FAILED = "group {group} failed with exit status {code}"
_FAILED_PATTERN = re.compile(r"^group (?P<group>\d+) failed with exit status (?P<code>\d+)$", re.MULTILINE)


Command = tuple[int, Sequence[str]]  # starts the ranks of a group: the first among all ranks of the job, and the argv


def argv(python: str, commands: Sequence[Command]) -> list[str]:
    """Return the command that starts these groups, in order."""
    return [python, "-m", "train.launch.start.rank_groups", json.dumps(commands)]


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


def _run(commands: Sequence[Command], outputs: Sequence[BinaryIO], statuses: dict[int, int]) -> None:
    """Run the commands to their end; when one fails, the others are ended some time after it.

    statuses: gets the exit status of each group that fails by itself, as a shell gives it, in the order of failure.
    """
    children = []
    for group, (first_rank, command) in enumerate(commands):
        env = {**os.environ, protocol.RANK_GROUP: str(group), protocol.FIRST_RANK: str(first_rank)}
        nothing, merged = subprocess.DEVNULL, subprocess.STDOUT
        children.append(subprocess.Popen(command, env=env, stdin=nothing, stdout=outputs[group], stderr=merged))
    ended_here = False

    def until_its_end(group: int) -> None:
        if (code := children[group].wait()) and not ended_here:
            statuses[group] = code if code > 0 else 128 - code
            raise ChildProcessError(group)

    with ThreadPoolExecutor(len(children)) as pool:
        ends = [pool.submit(until_its_end, group) for group in range(len(children))]
        try:
            wait(ends, return_when=FIRST_EXCEPTION)
            wait(ends, GRACE_S)
        finally:
            ended_here = True
            for child in children:
                child.terminate()


def main() -> int:
    """Start the rank groups, wait for them, end the others when one fails."""
    parser = argparse.ArgumentParser(
        prog="python -m train.launch.start.rank_groups", description=__doc__.splitlines()[0]
    )
    parser.add_argument("commands", help="as JSON: [[first_rank, argv], ...]")
    commands = json.loads(parser.parse_args().commands)
    statuses: dict[int, int] = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with ExitStack() as files:
        # No pipes: a process that remains of a group would hold its pipe open.
        outputs = [files.enter_context(tempfile.TemporaryFile()) for _ in commands]
        with _printed(outputs):
            _run(commands, outputs, statuses)
    for group, code in statuses.items():
        print(_FAILED.format(group=group, code=code))
    return next(iter(statuses.values()), 0)


@contextmanager
def _printed(outputs: Sequence[BinaryIO]) -> Iterator[None]:
    """Print the whole lines that come into these files while the context lasts, and at its end all the rest."""
    offsets = [0] * len(outputs)

    def print_new(end: bytes) -> None:
        for group, output in enumerate(outputs):
            # The groups write at the position of the same open file, which this reading leaves as it is.
            new = os.pread(output.fileno(), os.fstat(output.fileno()).st_size - offsets[group], offsets[group])
            lines = new[: new.rfind(end) + 1] if end else new
            offsets[group] += len(lines)
            for line in lines.decode(errors="replace").splitlines():
                print(_prefix(group) + line)
        sys.stdout.flush()

    try:
        with repeating(partial(print_new, b"\n"), _LOOK_EVERY_S):
            yield
    finally:
        print_new(b"")


if __name__ == "__main__":
    sys.exit(main())
