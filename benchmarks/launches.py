"""What benchmarks that launch curves and points share: the command, and the names of both."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from train.launch.execute import this_machine
from train.launch.launchers import LAUNCHERS
from train.launch.plan.make import make
from train.launch.plan.runs import Point


def overrides(results: Path, given: Sequence[str], **measure: object) -> list[str]:
    """These overrides, with these settings of `measure`, into a folder of results."""
    settings = [f"measure.{name}={value}" for name, value in measure.items()]
    return [*given, f"results={results}", "tracking=none", *settings]


def command(asked: Sequence[str], only: str) -> list[str]:
    """The command that launches one point or curve of these overrides."""
    return [sys.executable, "-m", "train.launch", *asked, f"--only={only}"]


def curve_of(asked: Sequence[str]) -> str:
    """The name of the one curve that the overrides give. Raises SystemExit where they give none, or several."""
    names = [point.name for point in _planned(asked) if point.config.launch.rounds]
    if len(names) != 1:
        sys.exit(f"the overrides must give one curve in rounds; they give {', '.join(names) or 'none'}")
    return names[0]


def points_of(asked: Sequence[str]) -> list[str]:
    """The names of the points with allreduce that the overrides measure in launches of their own."""
    return [p.name for p in _planned(asked) if not p.config.launch.rounds and p.config.distribution.allreduce]


def _planned(asked: Sequence[str]) -> Sequence[Point]:
    return make(asked, this_machine(), LAUNCHERS).points
