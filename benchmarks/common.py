"""Shared by the benchmarks: options, tables, the command of a launch and the name of a curve."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from tabulate import tabulate

from common import affinity
from train.launch.execute import this_machine
from train.launch.plan.make_plan import make

ROOT = Path(__file__).resolve().parent.parent
Rng = np.random.Generator
Row = dict[str, str]
T = TypeVar("T")


def options(module: str, doc: str | None, **numbers: tuple[float, str]) -> argparse.ArgumentParser:
    """Return a parser for the options of a benchmark. numbers: the default and the help of each option."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{module}", description=(doc or "").splitlines()[0])
    for name, (default, text) in numbers.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(default), default=default, help=f"{text} (default: %(default)s)")
    return parser


def in_parallel(function: Callable[..., T], *arguments: Iterable[Any]) -> Iterator[T]:
    """Yield what a function returns for each set of arguments, in their order, from a process on each core."""
    with ProcessPoolExecutor(len(affinity.usable_cores())) as pool:
        yield from pool.map(function, *arguments)


def show(rows: Iterable[Any], headers: str | Sequence[str] = "keys", end: str = "\n") -> None:
    """Print rows as a table in Markdown."""
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True), end=end)


def launch_overrides(results: Path, user_overrides: Sequence[str], **measure: object) -> list[str]:
    """Return overrides with settings of `measure`, into a folder of results."""
    settings = [f"measure.{name}={value}" for name, value in measure.items()]
    return [*user_overrides, f"results={results}", "tracking=none", *settings]


def launch_command(overrides: Sequence[str], only: str) -> list[str]:
    """Return the command that launches one point or curve of these overrides."""
    return [sys.executable, "-m", "train.launch", *overrides, f"--only={only}"]


def curve_of(overrides: Sequence[str]) -> str:
    """Return the name of the curve of the overrides. Raises SystemExit unless they have exactly one."""
    points = make(overrides, this_machine()).points
    names = [point.name for point in points if point.config.launch.rounds]
    if len(names) != 1:
        sys.exit(f"the overrides must give one curve in rounds; they give {', '.join(names) or 'none'}")
    return names[0]
