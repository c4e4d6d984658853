"""How long each command that prints text takes to start, here and in another checkout.

    python -m benchmarks.start_times /path/to/other/checkout [--pairs 12]

A start is a whole process, `python -m analysis COMMAND --help`: it loads all that the command needs before it reads
anything. The two checkouts take turns, and each pair gives a ratio of wall times and one of CPU times. In brackets is
the 95 % interval of the median ratio, by order statistics.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tabulate import tabulate

from analysis.__main__ import COMMANDS
from train.record import intervals

ROOT = Path(__file__).resolve().parent.parent
DRAW = ("draw", "report", "bundle")  # these print no text of their own
SEED = 1


class Start(NamedTuple):
    """Seconds that one process took."""

    wall_s: float
    cpu_s: float


def start(checkout: Path, command: str) -> Start:
    """Start a command in a checkout, with this interpreter."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "analysis", command, "--help"], cwd=checkout, stdout=subprocess.DEVNULL, check=True
    )
    wall_s, after = time.perf_counter() - began, os.times()
    spent = (after.children_user + after.children_system) - (before.children_user + before.children_system)
    return Start(wall_s, spent)


def has(checkout: Path, command: str) -> bool:
    """Return whether a checkout has a command: an older one may lack it."""
    argv = [sys.executable, "-m", "analysis", command, "--help"]
    return subprocess.run(argv, cwd=checkout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def pairs(command: str, other: Path, count: int, rng: random.Random) -> Iterator[tuple[Start, Start]]:
    """Starts of a command here and in the other checkout, in random order within each pair."""
    for checkout in (ROOT, other):
        start(checkout, command)  # compiles what is not compiled yet
    for _ in range(count):
        turns = [ROOT, other]
        rng.shuffle(turns)
        starts = {checkout: start(checkout, command) for checkout in turns}
        yield starts[ROOT], starts[other]


def ratio(values: Sequence[tuple[float, float]]) -> str:
    """The median of the ratios here / other, with its interval where there are enough pairs."""
    ratios = [here / there for here, there in values]
    interval = intervals.median_interval(ratios)
    if interval is None:
        return f"{statistics.median(ratios):.2f}"
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def row(command: str, starts: Sequence[tuple[Start, Start]]) -> dict[str, str]:
    """One command as a row of the table."""
    here, there = zip(*starts, strict=True)
    return {
        "command": command,
        "here [s]": f"{statistics.median(one.wall_s for one in here):.2f}",
        "other [s]": f"{statistics.median(one.wall_s for one in there):.2f}",
        "ratio": ratio([(a.wall_s, b.wall_s) for a, b in starts]),
        "ratio of CPU time": ratio([(a.cpu_s, b.cpu_s) for a, b in starts]),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="another checkout of the kit")
    parser.add_argument("--pairs", type=int, default=12, help="of each command (default: %(default)s)")
    parser.add_argument("--only", choices=[*COMMANDS], nargs="+", help="these commands alone")
    options = parser.parse_args()
    rng = random.Random(SEED)
    other = options.other.resolve()
    commands = options.only or [command for command in COMMANDS if command not in DRAW and has(other, command)]
    rows = [row(command, [*pairs(command, other, options.pairs, rng)]) for command in commands]
    print(tabulate(rows, headers="keys", disable_numparse=True))


if __name__ == "__main__":
    main()
