"""The launches of a user's program: its results, and whether more are worth making.

A program is launched again until its speedups are precise, or the time is over.
"""

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from common.grouping import grouped
from common.number import Number
from record import clock, intervals
from record import run_files as files
from record.intervals import Turn
from record.schema import RECORD_NAME, RunRecord, load
from train.config.measure_config import MeasureConfig
from train.launch.plan.launch_results import STOP_LEVEL, Shortfall, described_shortfall, is_precise
from train.launch.plan.planned_runs import PlannedPoint, Run


def shortfall(planned: Sequence[Run]) -> Shortfall | None:
    """Return how the speedups of a program are less precise than asked for; None if they are not, or not measured."""
    points, times_s = _program_points(planned), [launch.job_s for launch in complete_launches(planned)]
    measured, goal = speedups(points), planned[0].point.config.measure.precision_fraction
    if not times_s or is_precise(measured, goal):
        return None
    n = min(len(point.launches) for point in points)
    few = [f"only {n} of {intervals.MIN_VALUES} launches of each size that an interval needs"]
    return described_shortfall(", ".join(measured), goal, measured, times_s, few if n < intervals.MIN_VALUES else [])


def budget_s(measure: MeasureConfig) -> float:
    """Return the time for all launches of a program, in s: the budget of the command, else that of a curve."""
    return measure.budget_s or measure.curve_budget_s


@dataclass(frozen=True)
class _ProgramPoint:
    """A point of a program, with the newest complete launch of each repeat."""

    point: PlannedPoint
    launches: list[RunRecord]

    @property
    def rates(self) -> dict[Turn, float]:
        """Return the rate that the program printed in each launch."""
        launches = ((launch, launch.printed) for launch in self.launches)
        return {Turn("", record.config["seed"], record.repeat): rate.value for record, rate in launches if rate}

    @property
    def times_s(self) -> list[float]:
        """Return how long each launch took."""
        return [launch.job_s for launch in self.launches]


def _program_points(planned: Sequence[Run]) -> list[_ProgramPoint]:
    """Return the points of a program; none of other runs."""
    points = {run.home: run.point for run in planned if run.point.config.program}
    newest = {home: [folders[0] for folders in files.completed(home).values()] for home in points}
    return [_ProgramPoint(point, [*map(_record, newest[home])]) for home, point in points.items()]


@functools.cache  # a record is never replaced
def _record(folder: Path) -> RunRecord:
    return load(folder / RECORD_NAME)


def complete_launches(planned: Sequence[Run]) -> list[RunRecord]:
    """Return the record of each complete launch of a program; empty for other runs."""
    return [launch for point in _program_points(planned) for launch in point.launches]


def doubts(planned: Sequence[Run]) -> list[str]:
    """Return what the running times do not confirm of a program's number, as lines; empty without a doubt.

    It is judged when each size was launched.
    """
    points = _program_points(planned)
    if not all(point.launches for point in points):
        return []
    launches = filter(None, map(clock.program_launch, complete_launches(planned)))
    return [line for lines in clock.doubts(launches).values() for line in lines]


def next_launches(planned: Sequence[Run]) -> list[Run]:
    """Return one more launch of each point of a user's program, in a random order; none if they are precise enough.

    Also none if another launch of each point would exceed the budget. They are precise enough if the interval of each
    speedup, over the launches of its point and of the smallest one in turn, is as narrow as configured.
    """
    points = _program_points(planned)
    if not points:
        return []
    config, counts = points[0].point.config, {len(point.launches) for point in points}
    repeat = min(counts)
    if repeat < config.measure.repeats or max(counts) > repeat:  # one failed, or is still to be made
        return []
    with_another_s = sum(sum(point.times_s) + fmean(point.times_s) for point in points)
    precise = is_precise(speedups(points), config.measure.precision_fraction, STOP_LEVEL)
    if precise or with_another_s > budget_s(config.measure):
        return []
    random.Random(f"{config.seed}-{repeat}").shuffle(points)
    return [Run(point.point, repeat) for point in points]


def speedups(points: Sequence[_ProgramPoint]) -> dict[str, Number | None]:
    """Return the speedup of each point of a program over the smallest of its series."""

    def others(measured: _ProgramPoint) -> str:
        swept = measured.point.swept.items()
        return repr({key: value for key, value in swept if key not in ("nodes", "ranks_per_node")})

    speedups = {}
    for members in grouped(points, others).values():
        base, *rest = sorted(members, key=lambda member: member.point.config.ranks)
        for member in rest:
            speedups[member.point.name] = intervals.speedup(member.rates, base.rates)
    return speedups


def result(planned: Sequence[Run]) -> str:
    """Return the result of the launches of a program as text."""
    points = _program_points(planned)
    ranks = {measured.point.name: measured.point.config.ranks for measured in points}
    speedups_by_point, few = speedups(points), "too few launches for an interval"
    texts = [
        f"{name} {i.value:.3g}x ({i.low:.3g} to {i.high:.3g})" if i and i.n >= intervals.MIN_VALUES else f"{name} {few}"
        for name, i in speedups_by_point.items()
    ]
    smallest = min(ranks.values())
    above = [name for name, i in speedups_by_point.items() if i and i.low > ranks[name] / smallest]
    if above:
        texts.append(
            f"warning: the efficiency of {', '.join(above)} is above 1 in its whole interval; check that each size "
            "does the work that program.scaling says, and that the number is a rate (RATE=) or a time (TIME=)"
        )
    cores = clock.cores_used(point.launches[-1] for point in points if point.launches)
    return "; ".join(filter(None, [*texts, cores, _others_text(complete_launches(planned))]))


def _others_text(launches: Sequence[RunRecord]) -> str:
    """Return how much of a program's cores other processes took; "" if that is little, or not known."""
    used = [facts.cores for launch in launches if (facts := launch.program) and facts.cores]
    shares = [max(0.0, cores.busy_s - cores.own_s + cores.steal_s) / cores.wall_s for cores in used]
    if not shares or max(shares) < _LITTLE:
        return ""
    least, most = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"others took {most if least == most else f'{least} to {most}'} % of a core meanwhile"


_LITTLE = 0.03  # of a core: below it, the kernel's count is that of an idle machine
