"""Shared by benchmarks that launch curves and points: the command, and the names of both."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from train.launch.execute import this_machine
from train.launch.launchers import LAUNCHERS
from train.launch.plan.make import make
from train.launch.plan.runs import Point


def overrides(results: Path, user_overrides: Sequence[str], **measure: object) -> list[str]:
    """Return overrides with settings of `measure`, into a folder of results."""
    settings = [f"measure.{name}={value}" for name, value in measure.items()]
    return [*user_overrides, f"results={results}", "tracking=none", *settings]


def command(overrides: Sequence[str], only: str) -> list[str]:
    """Return the command that launches one point or curve of these overrides."""
    return [sys.executable, "-m", "train.launch", *overrides, f"--only={only}"]


def curve_of(overrides: Sequence[str]) -> str:
    """Return the name of the curve of the overrides. Raises SystemExit unless they have exactly one."""
    names = [point.name for point in _planned(overrides) if point.config.launch.rounds]
    if len(names) != 1:
        sys.exit(f"the overrides must give one curve in rounds; they give {', '.join(names) or 'none'}")
    return names[0]


def points_of(overrides: Sequence[str]) -> list[str]:
    """Return the names of the points with allreduce that the overrides measure in separate launches."""
    return [p.name for p in _planned(overrides) if not p.config.launch.rounds and p.config.distribution.allreduce]


def _planned(overrides: Sequence[str]) -> Sequence[Point]:
    return make(overrides, this_machine(), LAUNCHERS).points
