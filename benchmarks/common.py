"""Shared by the benchmarks: options, tables, intervals as text, the time of a command."""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tabulate import tabulate

from train.record import affinity, intervals

ROOT = Path(__file__).resolve().parent.parent
Rng = np.random.Generator
Row = dict[str, str]


def options(module: str, doc: str | None, **numbers: tuple[float, str]) -> argparse.ArgumentParser:
    """Return a parser for the options of a benchmark. numbers: the default and the help of each option."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{module}", description=(doc or "").splitlines()[0])
    for name, (default, text) in numbers.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(default), default=default, help=f"{text} (default: %(default)s)")
    return parser


def show(rows: Iterable[Any], headers: str | Sequence[str] = "keys", end: str = "\n") -> None:
    """Print rows as a table in Markdown."""
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True), end=end)


def merged(rows: Iterable[Row], by: Collection[str]) -> list[Row]:
    """Return consecutive rows that agree in the columns `by` as one row, with all values of the others."""

    def values(column: str, group: list[Row]) -> str:
        all_values = [row[column] for row in group]
        return all_values[0] if len(set(all_values)) == 1 else ", ".join(all_values)

    groups = [list(group) for _, group in itertools.groupby(rows, lambda row: [row[name] for name in by])]
    return [{column: values(column, group) for column in group[0]} for group in groups]


def in_words(values: Sequence[float], digits: int = 3) -> str:
    """Return the median with its 95 % interval; the values themselves where they are too few for one."""
    interval = intervals.median_interval(values)
    if interval is None:
        return ", ".join(f"{value:.{digits}f}" for value in values)
    return f"{interval.value:.{digits}f} ({interval.low:.{digits}f} to {interval.high:.{digits}f})"


class Times(NamedTuple):
    """Seconds that a command took: by the clock, and of CPU time, its processes included."""

    wall_s: float
    cpu_s: float


def timed(command: Sequence[str], folder: Path = ROOT) -> Times:
    """Run a command that must succeed, in a folder, and return its times."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    wall_s, after = time.perf_counter() - began, os.times()
    spent = (after.children_user + after.children_system) - (before.children_user + before.children_system)
    return Times(wall_s, spent)


def keep_cores(count: int) -> None:
    """Bind this process, and those that it starts, to so many of its cores."""
    os.sched_setaffinity(0, affinity.usable_cores()[:count])
