"""The points of an experiment and their runs: which launches are made, in which order, and how long they will take."""

import itertools
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from common.grouping import grouped
from record import parts, protocol
from record import run_files as files
from record.progress import duration
from record.schema import PlanPosition, Role
from train.config.checks import check, listed
from train.config.identity import config_hash
from train.config.run_config import RunConfig
from train.launch.launchers.base import Launcher

LINK = "system.link_mbit_per_s"  # can change between rounds: points that differ in it can share a launch


@dataclass(frozen=True)
class PlannedPoint:
    """One configuration to measure, and how it differs from the others of its experiment."""

    name: str
    overrides: tuple[str, ...]  # those that compose it by hand
    config: RunConfig
    swept: dict[str, Any]  # key that the experiment sweeps -> this point's value
    arm: str | None  # the name of its arm, or of a control on emulated nodes
    role: Role | None  # None: a curve in rounds, whose arms have one each
    arm_keys: tuple[str, ...]  # dotted keys in which the arms of the experiment differ

    @cached_property
    def config_hash(self) -> str:
        """Return the hash of its configuration, by which repeats are found."""
        return config_hash(self.config)

    @cached_property
    def home(self) -> Path:
        """Return the folder of this point in this configuration."""
        return files.point_folder(Path(self.config.results), self.config.experiment, self.name, self.config_hash)


def differing_keys(arms: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the keys that the arms do not all give the same value, in the order in which they are named.

    A key below another one that differs is left out: `distribution` covers `distribution.allreduce`.
    """
    values = [dict(line.split("=", 1) for line in extra) for extra in arms.values()]
    keys = dict.fromkeys(key for arm in values for key in arm)
    differ = [key for key in keys if len({arm.get(key) for arm in values}) > 1]
    return tuple(key for key in differ if not any(key.startswith(f"{section}.") for section in differ))


def compared(point: PlannedPoint) -> tuple[str, ...]:
    """Return a key that is equal for arms that are compared: on as many ranks; with limited links, on any number."""
    swept = [f"{key}={value}" for key, value in point.swept.items() if key != LINK]
    return ("" if point.config.launcher.separate_networks else str(point.config.ranks), *swept)


def work(point: PlannedPoint) -> tuple[bool, bool, int]:
    """Return a key that orders arms from the least work: without Horovod, without allreduce; on all nodes."""
    config = point.config
    return config.distribution.backend != "none", config.distribution.allreduce, -config.nodes


def with_bases(points: Sequence[PlannedPoint]) -> list[PlannedPoint]:
    """Return the points of arms with a base in each compared set: the stated one, else the arm with the least work.

    Arms that are compared with a control need none. Raises ConfigError if a set has two stated bases.
    """
    chosen = []
    for group in grouped(points, compared).values():
        bases = list(dict.fromkeys(point.arm for point in group if point.role == "base"))
        check(len(bases) < 2, "roles", ", ".join(map(str, bases)), "one base is needed of the arms on as many ranks")
        if not bases and len(group) > 1 and not any(point.role == "control" for point in group):
            chosen.append(min(group, key=work))
    return [replace(point, role="base") if any(point is base for base in chosen) else point for point in points]


@dataclass(frozen=True)
class Run:
    """One launch of a point."""

    point: PlannedPoint
    repeat: int
    order: PlanPosition | None = None

    @property
    def home(self) -> Path:
        """Return the folder of its point."""
        return self.point.home

    @property
    def name(self) -> str:
        """Return its name in a plan: point, hash of the configuration, repeat."""
        return f"{self.point.name}/{self.home.name}/r{self.repeat}"

    @property
    def label(self) -> str:
        """Return its name on the screen."""
        return f"{self.point.name} r{self.repeat}"


@dataclass(frozen=True)
class Durations:
    """How long runs took, in seconds."""

    by_point: dict[str, list[float]] = field(default_factory=dict)  # by the names of points
    single_points: list[float] = field(default_factory=list)  # all but those in rounds

    def add(self, run: Run, seconds: float) -> None:
        """Add a run."""
        self.by_point.setdefault(run.point.name, []).append(seconds)
        if not run.point.config.launch.rounds:
            self.single_points.append(seconds)

    @property
    def count(self) -> int:
        """Return the number of runs."""
        return sum(map(len, self.by_point.values()))


def runs_of(points: Sequence[PlannedPoint], launcher: Launcher) -> list[Run]:
    """Return all runs of the points, in the order to make them: the same order at each call.

    Repeats are the outer loop. Within each the points have a random order, so that a slow drift of the machine affects
    all points alike; curves in rounds come before single points. If the launcher needs a fixed order, launcher.order
    says which sizes are first.
    """
    repeats = max(point.config.measure.repeats for point in points)
    seed = points[0].config.seed if launcher.random_order else None
    ordered: list[tuple[PlannedPoint, int]] = []
    for repeat in range(repeats):
        due = [point for point in points if repeat < point.config.measure.repeats]
        if seed is None:
            sign = -1 if points[0].config.launcher.order == "large_first" else 1
            due.sort(key=lambda point: sign * point.config.nodes)
        else:
            random.Random(f"{seed}-{repeat}").shuffle(due)
            due.sort(key=lambda point: not point.config.launch.rounds)
        ordered += [(point, repeat) for point in due]
    return [Run(point, repeat, PlanPosition(seed, i, len(ordered))) for i, (point, repeat) in enumerate(ordered)]


def remaining(runs: Sequence[Run], force: bool) -> tuple[list[Run], Durations]:
    """Return the runs that are still to be made, all with `force`, and the durations of the completed ones."""
    to_do: list[Run] = []
    durations = Durations()
    outcomes = {home: files.outcomes(home) for home in dict.fromkeys(run.home for run in runs)}
    for run in runs:
        done = outcomes[run.home].get(run.repeat)
        if done:
            durations.add(run, done.job_s)
        if force or not done:
            to_do.append(run)
    return to_do, durations


def other_code(runs: Sequence[Run]) -> list[str]:
    """Return a warning if earlier launches whose measurements count ran with other code; empty if none did.

    Code is that of the ranks, without files that were added since, and the files that the command of a user's program
    names.
    """
    here, launches, changed = files.source_files(), [], set[str]()
    for home in dict.fromkeys(run.home for run in runs):
        for folder in _counting(home):
            with suppress(OSError, ValueError):  # a folder without its files, or with damaged ones: the audit names it
                then = protocol.read_assignment(folder).source
                differ = {name for name in here.keys() & then.keys() if here[name] != then[name]} | _other_files(folder)
                launches += [f"{home.parent.name} {folder.name}"] if differ else []
                changed |= differ
    if not launches:
        return []
    return [
        f"warning: {listed(launches)} ran with other code; changed since: {listed(sorted(changed))}. "
        "All count together; RESULTS=folder keeps the two apart"
    ]


def _counting(home: Path) -> list[Path]:
    """Return the launches of a point that count: the newest complete one of each repeat, and failed ones' rounds."""
    newest = [folders[0] for folders in files.completed(home).values()]
    return [
        folder
        for folder in itertools.chain(*files.runs(home).values())
        if folder in newest
        or (not files.outcome(folder) and any(p.windows or p.epochs for p in parts.read_parts(folder).values()))
    ]


def _other_files(run: Path) -> set[str]:
    """Return the files that the command of a program named in this run and that are not the same now."""
    outcome, changed = files.outcome(run), set[str]()
    for path, digest in outcome.program.files.items() if outcome and outcome.program else ():
        with suppress(OSError):  # it is gone: the check of the program says so
            changed |= {path} if files.digest(Path(path)) != digest else set()
    return changed


@dataclass(frozen=True)
class Estimate:
    """How long launches will take, in s."""

    known_s: float = 0.0  # from earlier runs, and from budgets
    assumed_s: float = 0.0  # of launches unlike any earlier one: launcher.assumed_run_s each

    @property
    def all_s(self) -> float:
        """Return the sum of both."""
        return self.known_s + self.assumed_s

    def text(self) -> str:
        """Return the time as text, as "about 12 min"; "14 min, assumed" if part of it was not measured yet."""
        if not self.all_s:
            return "nothing left"
        return f"about {duration(self.all_s)}" if not self.assumed_s else f"{duration(self.all_s)}, assumed"


def estimate(runs: Sequence[Run], durations: Durations) -> Estimate:
    """Return how long the runs will take: each as the mean of its point's runs, else of those of all single points.

    Launches in rounds share the budget of their curve, and launches of single points beside them are within it.
    """
    known_s = assumed_s = 0.0
    within = any(run.point.config.launch.rounds for run in runs)
    for run in runs:
        config = run.point.config
        if times := durations.by_point.get(run.point.name):
            known_s += fmean(times)
        elif config.launch.rounds:
            known_s += config.measure.curve_budget_s / config.measure.repeats
        elif within:
            continue
        elif durations.single_points:
            known_s += fmean(durations.single_points)
        else:
            assumed_s += config.launcher.assumed_run_s
    return Estimate(known_s, assumed_s)
