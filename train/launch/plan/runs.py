"""The runs of an experiment: which launches are made, in which order, and how long they will take."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from train.config.identity import config_hash
from train.launch.launchers.base import Launcher
from train.launch.plan.point import Point
from train.record import paths
from train.record.record import Order


@dataclass(frozen=True)
class Run:
    """One launch of a point."""

    point: Point
    repeat: int
    order: Order | None = None

    @property
    def home(self) -> Path:
        """Return the folder of this point in this configuration."""
        config = self.point.config
        return paths.point_folder(Path(config.results), config.experiment, self.point.name, config_hash(config))

    @property
    def label(self) -> str:
        """Its name on the screen."""
        return f"{self.point.name} r{self.repeat}"


@dataclass(frozen=True)
class Durations:
    """How long runs took, in seconds."""

    by_point: dict[str, list[float]] = field(default_factory=dict)  # by the names of points
    single_points: list[float] = field(default_factory=list)  # all but those in rounds

    def add(self, run: Run, seconds: float) -> None:
        """Remember one run."""
        self.by_point.setdefault(run.point.name, []).append(seconds)
        if not run.point.config.launch.rounds:
            self.single_points.append(seconds)

    @property
    def count(self) -> int:
        """Return the number of runs."""
        return sum(map(len, self.by_point.values()))


def runs_of(points: Sequence[Point], launcher: Launcher) -> list[Run]:
    """Return all runs of the points, in the order to make them: the same order at each call.

    Repeats are the outer loop, and within each the points come in a random order, so that a slow drift of the machine
    affects all points alike; curves in rounds come before single points. Where the launcher wants a fixed order,
    launcher.order says which sizes are first.
    """
    repeats = max((point.config.measure.repeats for point in points), default=0)
    seed = points[0].config.seed if points and launcher.random_order else None
    ordered: list[tuple[Point, int]] = []
    for repeat in range(repeats):
        due = [point for point in points if repeat < point.config.measure.repeats]
        ordered += [(point, repeat) for point in _ordered(due, seed, repeat)]
    return [Run(point, repeat, Order(seed, i, len(ordered))) for i, (point, repeat) in enumerate(ordered)]


def _ordered(points: list[Point], seed: int | None, repeat: int) -> list[Point]:
    if seed is not None:
        random.Random(f"{seed}-{repeat}").shuffle(points)
        return sorted(points, key=lambda point: not point.config.launch.rounds)
    sign = -1 if points[0].config.launcher.order == "large_first" else 1
    return sorted(points, key=lambda point: sign * point.config.nodes)


def remaining(runs: Sequence[Run], force: bool) -> tuple[list[Run], Durations]:
    """Return the runs that are still to be made, all with `force`, and how long those that were made took."""
    to_do: list[Run] = []
    durations = Durations()
    for run in runs:
        done = paths.completed(run.home, run.repeat)
        if done:
            durations.add(run, done.job_s)
        if force or not done:
            to_do.append(run)
    return to_do, durations


def expected_s(run: Run, durations: Durations) -> float | None:
    """Return the seconds that a run will take: the mean of its point's runs, else of all single points'; None without.

    Launches in rounds share the budget of their curve.
    """
    config = run.point.config
    if config.launch.rounds and run.point.name not in durations.by_point:
        return config.measure.curve_budget_s / config.measure.repeats
    times = durations.by_point.get(run.point.name) or durations.single_points
    return sum(times) / len(times) if times else None


def left_s(runs: Sequence[Run], durations: Durations) -> float | None:
    """Return how long the runs will take, in s; None if that is not known of one of them."""
    expected = [expected_s(run, durations) for run in runs]
    return None if None in expected else sum(s for s in expected if s is not None)


def time_left(runs: Sequence[Run], durations: Durations) -> str:
    """Return how long the runs will take, as text."""
    seconds = left_s(runs, durations)
    if seconds is None:
        return "time left: not known before the first launch of a single point"
    return f"about {int(seconds // 60)} min {int(seconds % 60):02d} s left"
