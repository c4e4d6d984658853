"""How long each command that prints text takes to start, here and in another checkout.

    python -m benchmarks.start_times /path/to/other/checkout [--pairs 12]

A start is a whole process, `python -m analysis COMMAND --help`: it loads all that the command needs before it reads
anything. The two checkouts take turns, and each pair gives a ratio of wall times and one of CPU times. In brackets is
the 95 % interval of the median ratio, by order statistics.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tabulate import tabulate

from analysis.__main__ import COMMANDS
from benchmarks.common import ROOT, Row, Times, in_words, options, timed

DRAW = ("draw", "report", "bundle")  # these print no tables
SEED = 1


def command_line(command: str) -> list[str]:
    return [sys.executable, "-m", "analysis", command, "--help"]


def has(checkout: Path, command: str) -> bool:
    """Return whether a checkout has a command: an older one may lack it."""
    argv = command_line(command)
    return subprocess.run(argv, cwd=checkout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def pairs(command: str, other: Path, count: int, rng: random.Random) -> Iterator[tuple[Times, Times]]:
    """Yield starts of a command here and in the other checkout, in random order within each pair."""
    for checkout in (ROOT, other):
        timed(command_line(command), checkout)  # compiles the bytecode
    for _ in range(count):
        turns = [ROOT, other]
        rng.shuffle(turns)
        starts = {checkout: timed(command_line(command), checkout) for checkout in turns}
        yield starts[ROOT], starts[other]


def row(command: str, starts: Sequence[tuple[Times, Times]]) -> Row:
    """Return the row of a command: medians, and ratios here / other."""
    here, other = zip(*starts, strict=True)
    return {
        "command": command,
        "here [s]": f"{statistics.median(start.wall_s for start in here):.2f}",
        "other [s]": f"{statistics.median(start.wall_s for start in other):.2f}",
        "ratio": in_words([a.wall_s / b.wall_s for a, b in starts], 2),
        "ratio of CPU time": in_words([a.cpu_s / b.cpu_s for a, b in starts], 2),
    }


def main() -> None:
    parser = options("start_times", __doc__, pairs=(12, "of each command"))
    parser.add_argument("other", type=Path, help="another checkout of the kit")
    parser.add_argument("--only", choices=[*COMMANDS], nargs="+", help="these commands alone")
    arguments = parser.parse_args()
    rng, other = random.Random(SEED), arguments.other.resolve()
    commands = arguments.only or [command for command in COMMANDS if command not in DRAW and has(other, command)]
    rows = [row(command, [*pairs(command, other, arguments.pairs, rng)]) for command in commands]
    print(tabulate(rows, headers="keys", disable_numparse=True))


if __name__ == "__main__":
    main()
