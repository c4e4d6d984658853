"""What benchmarks that launch curves and points share: the command, the name of the curve, and an interval in words."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from train.record import intervals


def command(results: Path, overrides: Sequence[str], **measure: object) -> list[str]:
    """The command that launches these overrides, with these settings of `measure`, into a folder of results."""
    given = [f"measure.{name}={value}" for name, value in measure.items()]
    return [sys.executable, "-m", "train.launch", *overrides, f"results={results}", "tracking=none", *given]


def curve_of(command: list[str]) -> str:
    """The name of the one curve of a command. Raises SystemExit where it has none, or several."""
    names = [words[0] for line in _plan(command) if "rounds of" in line and (words := line.split())]
    if len(names) != 1:
        sys.exit(f"the overrides must give one curve in rounds; they give {', '.join(names) or 'none'}")
    return names[0]


def points_of(command: list[str]) -> list[str]:
    """The names of the single points of a command."""
    rows = (line.split() for line in _plan(command) if "rounds of" not in line)
    return [words[0] for words in rows if len(words) > 2 and all(word.isdigit() for word in words[1:])]


def _plan(command: list[str]) -> list[str]:
    """What the launcher would do, by its own words."""
    return subprocess.run([*command, "--dry-run"], check=True, capture_output=True, text=True).stdout.splitlines()


def in_words(values: Sequence[float]) -> str:
    """The median with its 95 % interval; the values themselves where they are too few for one."""
    known = intervals.of_median(values)
    if known is None:
        return ", ".join(f"{value:.3f}" for value in values)
    return f"{known.value:.3f} ({known.low:.3f} to {known.high:.3f})"
