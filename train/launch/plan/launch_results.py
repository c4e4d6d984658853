"""Which launches are worth making: curves in rounds and programs until they are precise, arms unless they are slower.

A curve or a user's program is launched again until its speedups are precise, or the time is over. Competing arms that
are significantly slower are not launched again. That only saves time: the analysis ranks arms by intervals, and states
how many launches each has.
"""

import functools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from common.number import Number
from record import clock, intervals, rounds
from record import run_files as files
from record.disturbance import run_selection, selection_text
from record.intervals import Turn
from record.progress import duration
from record.schema import RECORD_NAME, RunRecord, load
from train.config.measure_config import MeasureConfig
from train.launch.plan.planned_runs import Point, Run

Speedups = Mapping[str, Number | None]


@dataclass(frozen=True)
class CurveState:
    """A curve in rounds, its complete launches that count, and how many are planned."""

    point: Point
    launches: Sequence[RunRecord]
    planned: int


def curve_records(home: Path) -> list[RunRecord]:
    """Return the complete records in the folder of a curve, of every generation."""
    return [load(folder / RECORD_NAME) for folders in files.completed(home).values() for folder in folders]


def result(run: Run, records: Sequence[RunRecord]) -> str:
    """Return the result of a curve as text: each speedup, from two launches on with its interval.

    run: the last launch. records: one or more.
    """
    labels = rounds.labels(records[-1].config)
    texts = [f"{labels[name]} {_text(speedup)}" for name, speedup in rounds.speedups(records).items()]
    disturbed = filter(None, [selection_text(run_selection(record) for record in records)])
    left_out = [f"left out: {labels[name]}, {why}" for name, why in records[-1].arms_left_out.items()]
    launches = f"{len(records)} launch{'es' * (len(records) != 1)}"
    return f"{run.point.name}, {launches}: {'; '.join([', '.join(texts), *disturbed, *left_out])}"


def _text(speedup: Number | None) -> str:
    if speedup is None:
        return "no complete round"
    if speedup.variation != "between launches":
        return f"{speedup.value:.3g}x"
    return f"{speedup.value:.3g}x ({speedup.low:.3g} to {speedup.high:.3g} between launches)"


@dataclass(frozen=True)
class Shortfall:
    """A result that is less precise than asked for: what it is, why, and how much longer to measure it, in s."""

    text: str
    reasons: list[str]
    more_s: float

    def lines(self) -> list[str]:
        """Return it as lines of text."""
        more = f"; about {duration(self.more_s)} more would be enough"
        return [self.text + more, *(f"  why: {reason}" for reason in self.reasons)]


def _shortfall(
    name: str, goal: float, measured: Speedups, times_s: Sequence[float], reasons: Sequence[str]
) -> Shortfall:
    """Return the shortfall of a result, with the width of each ratio if they differ. times_s: of its launches."""
    halves = {key: number.half_width_fraction() if number else math.inf for key, number in measured.items()}
    worst = max(halves.values(), default=math.inf)
    texts = {key: f"± {100 * half:.2g} %" if math.isfinite(half) else "no interval" for key, half in halves.items()}
    same = len(set(texts.values())) == 1
    width = next(iter(texts.values())) if same else ", ".join(f"{key} {text}" for key, text in texts.items())
    more = len(times_s) * ((worst / goal) ** 2 - 1) if math.isfinite(worst) else MIN_LAUNCHES - len(times_s)
    more_s = max(1, math.ceil(more)) * fmean(times_s)
    return Shortfall(f"{name}: {width}, asked for ± {100 * goal:g} %", [*reasons], more_s)


def is_precise(measured: Speedups, fraction: float, level: float = intervals.LEVEL) -> bool:
    """Return whether every speedup has an interval that allows for other launches, as narrow as this fraction of it.

    Measuring goes on until that holds at STOP_LEVEL: who stops as soon as an interval looks good claims more than was
    measured.
    """
    known = [speedup for speedup in measured.values() if speedup and speedup.variation == "between launches"]
    return len(known) == len(measured) and all(speedup.half_width_fraction(level) <= fraction for speedup in known)


def shortfall(run: Run, records: Sequence[RunRecord]) -> Shortfall | None:
    """Return how a curve is less precise than asked for; None if it is not. run: its last launch."""
    measured, goal = rounds.point_speedups(records), run.point.config.measure.precision_fraction
    if is_precise(measured, goal):
        return None
    labels = rounds.labels(records[-1].config)
    by_label = {labels[name]: speedup for name, speedup in measured.items()}
    return _shortfall(run.point.name, goal, by_label, [record.job_s for record in records], _reasons(measured, records))


def _reasons(measured: Speedups, records: Sequence[RunRecord]) -> list[str]:
    """Return why the speedups of a curve are not more precise: too little was measured, or what scatters most."""
    n = min((speedup.n if speedup else 0 for speedup in measured.values()), default=0)
    reasons = [f"an interval needs {intervals.MIN_VALUES} rounds; measured: {n}"] if n < intervals.MIN_VALUES else []
    if len(records) < MIN_LAUNCHES:
        reasons.append(f"{MIN_LAUNCHES} launches show how launches differ; measured: {len(records)}")
    selections = [run_selection(record) for record in records]
    if sum(len(selection.left_out) for selection in selections) > sum(len(s.counting) for s in selections) / 2:
        reasons.append(selection_text(selections))
    worst = max(filter(None, measured.values()), key=lambda speedup: speedup.half_width_fraction(), default=None)
    if worst and not reasons:
        scatter = f"the ratios of single rounds scatter by {100 * worst.scatter:.2g} %"
        reasons.append(scatter if worst.rounds_share >= 0.5 else "launches differ by more than their rounds explain")
    return reasons


def program_shortfall(planned: Sequence[Run]) -> Shortfall | None:
    """Return how the speedups of a program are less precise than asked for; None if they are not, or not measured."""
    points, times_s = _program_points(planned), [launch.job_s for launch in program_launches(planned)]
    measured, goal = program_speedups(points), planned[0].point.config.measure.precision_fraction
    if not times_s or is_precise(measured, goal):
        return None
    n = min(len(point.launches) for point in points)
    few = [f"an interval needs {intervals.MIN_VALUES} launches of each size; measured: {n}"]
    return _shortfall(", ".join(measured), goal, measured, times_s, few if n < intervals.MIN_VALUES else [])


def program_budget_s(measure: MeasureConfig) -> float:
    """Return the time for all launches of a program, in s: the budget of the command, else that of a curve."""
    return measure.budget_s or measure.curve_budget_s


@dataclass(frozen=True)
class _ProgramPoint:
    """A point of a program, with the newest complete launch of each repeat."""

    point: Point
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


def program_launches(planned: Sequence[Run]) -> list[RunRecord]:
    """Return the record of each complete launch of a program; empty for other runs."""
    return [launch for point in _program_points(planned) for launch in point.launches]


def program_doubts(planned: Sequence[Run]) -> list[str]:
    """Return what the running times do not confirm of a program's number, as lines; empty without a doubt.

    It is judged when each size was launched.
    """
    points = _program_points(planned)
    if not all(point.launches for point in points):
        return []
    launches = filter(None, map(clock.program_launch, program_launches(planned)))
    return [line for lines in clock.doubts(launches).values() for line in lines]


def more_program_launches(planned: Sequence[Run]) -> list[Run]:
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
    precise = is_precise(program_speedups(points), config.measure.precision_fraction, STOP_LEVEL)
    if precise or with_another_s > program_budget_s(config.measure):
        return []
    random.Random(f"{config.seed}-{repeat}").shuffle(points)
    return [Run(point.point, repeat) for point in points]


def program_speedups(points: Sequence[_ProgramPoint]) -> dict[str, Number | None]:
    """Return the speedup of each point of a program over the smallest of its series."""
    series: dict[str, list[_ProgramPoint]] = {}
    for measured in points:
        swept = measured.point.swept.items()
        others = {key: value for key, value in swept if key not in ("nodes", "ranks_per_node")}
        series.setdefault(repr(others), []).append(measured)
    speedups = {}
    for members in series.values():
        base, *rest = sorted(members, key=lambda member: member.point.config.ranks)
        for member in rest:
            speedups[member.point.name] = intervals.speedup(member.rates, base.rates)
    return speedups


def program_result(planned: Sequence[Run]) -> str:
    """Return the result of the launches of a program as text."""
    points = _program_points(planned)
    ranks = {measured.point.name: measured.point.config.ranks for measured in points}
    speedups_by_point = program_speedups(points)
    texts = [
        f"{name} {i.value:.3g}x ({i.low:.3g} to {i.high:.3g})"
        if i and i.n >= intervals.MIN_VALUES
        else f"{name} too few launches for an interval"
        for name, i in speedups_by_point.items()
    ]
    smallest = min(ranks.values())
    above = [name for name, i in speedups_by_point.items() if i and i.low > ranks[name] / smallest]
    if above:
        texts.append(
            f"warning: the efficiency of {', '.join(above)} is above 1 in its whole interval; check that each size "
            "does the work that program.scaling says, and that the number is a rate (RATE=) or a time (TIME=)"
        )
    return "; ".join(filter(None, [*texts, _cores_text(points), _others_text(program_launches(planned))]))


def _cores_text(points: Sequence[_ProgramPoint]) -> str:
    """Return how many of its cores a program used at each size, in its last launch; "" if that is not known."""
    last = [clock.program_launch(point.launches[-1]) for point in points if point.launches]
    texts = [f"{launch.size}{text}" for launch in last if launch and (text := launch.cores_text())]
    return "; ".join(texts).replace(", used", " used")


def _others_text(launches: Sequence[RunRecord]) -> str:
    """Return how much of a program's cores other processes took; "" if that is little, or not known."""
    used = [facts.cores for launch in launches if (facts := launch.program) and facts.cores]
    shares = [max(0.0, cores.busy_s - cores.own_s + cores.steal_s) / cores.wall_s for cores in used]
    if not shares or max(shares) < _LITTLE:
        return ""
    least, most = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"others took {most if least == most else f'{least} to {most}'} % of a core meanwhile"


_LITTLE = 0.03  # of a core: below it, the kernel's count is that of an idle machine
STOP_LEVEL = 0.99
MIN_LAUNCHES = 3  # of every arm that is not dropped
_MIN_DEGREES = 4
_RISK = 0.05  # that an arm as fast as the leading one is dropped, over all launches
_LOOKS = 10  # interim looks at which that may happen, about

ArmRates = Mapping[str, Mapping[int, float]]  # arm -> repeat -> images/s


def slower_arms(rates: ArmRates) -> dict[str, float]:
    """Return the arms that are significantly slower than the leading one, and by what fraction.

    From the logarithms of the rates the mean of each repeat, which all arms share, is subtracted: so a drift of the
    machine does not count. The residuals scatter alike around the mean of each arm. An arm is slower if its mean is
    below the leading one's by more than chance would explain between equal arms: by Student's t of the pooled scatter,
    at a risk that is divided among pairs of arms and looks.
    """
    repeats = sorted(set.intersection(*({*values} for values in rates.values()))) if rates else []
    degrees = (len(rates) - 1) * (len(repeats) - 1)
    if len(repeats) < MIN_LAUNCHES or degrees < _MIN_DEGREES:
        return {}
    logs = {arm: [math.log(values[repeat]) for repeat in repeats] for arm, values in rates.items()}
    drift = [fmean(values[nth] for values in logs.values()) for nth in range(len(repeats))]
    residuals = {
        arm: [value - common for value, common in zip(values, drift, strict=True)] for arm, values in logs.items()
    }
    means = {arm: fmean(values) for arm, values in residuals.items()}
    squares = sum((value - means[arm]) ** 2 for arm, values in residuals.items() for value in values)
    error = math.sqrt(2 * squares / degrees / len(repeats))
    leading = max(means.values())
    pairs = len(rates) * (len(rates) - 1) / 2  # any arm may lead, and any other may be last
    threshold = intervals.student_quantile(1 - 2 * _RISK / _LOOKS / pairs, degrees) * error
    return {arm: 1 - math.exp(mean - leading) for arm, mean in means.items() if leading - mean > threshold}


def slower_by(run: Run, planned: Sequence[Run]) -> float | None:
    """Return by what fraction the arm of a run is significantly slower than the leading one; None if it is not.

    planned: all runs of the experiment. The arms that compete are its points with the same swept values. A dropped arm
    stays dropped, and the others are compared with each other alone. The base, by which arms are ranked, never is.
    """
    config = run.point.config
    if not config.measure.compete or run.point.role == "base":
        return None
    rates: dict[str, dict[int, float]] = {}  # without arms that always failed
    for rival in {rival.home: rival for rival in planned if rival.point.swept == run.point.swept}.values():
        for repeat, launch in files.outcomes(rival.home).items():
            if repeat < config.measure.repeats and "images_per_s" in launch.summary:
                rates.setdefault(rival.point.name, {})[repeat] = launch.summary["images_per_s"]
    dropped: dict[str, float] = {}
    for launches in range(MIN_LAUNCHES, 1 + max(map(len, rates.values()), default=0)):
        early = {
            name: dict(list(by_repeat.items())[:launches])
            for name, by_repeat in rates.items()
            if name not in dropped and len(by_repeat) >= launches
        }
        if len(early) == len(rates) - len(dropped):
            dropped |= slower_arms(early)
    return dropped.get(run.point.name)
