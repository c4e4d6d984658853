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
from statistics import fmean, median

from record import clock, intervals, rounds
from record import run_files as files
from record.disturbance import run_selection, selection_text
from record.intervals import Interval, Spread
from record.schema import RECORD_NAME, RunRecord, load
from train.config.schema import Measure
from train.launch.plan.runs import Point, Run

Speedups = Mapping[str, Interval | None]


def curve_records(results: Path, experiment: str) -> dict[Path, list[RunRecord]]:
    """Return the complete records in rounds of an experiment, of every generation, by the folder of their curve."""
    by_curve: dict[Path, list[RunRecord]] = {}
    for home in sorted((results / experiment).glob("*rounds/*")):
        folders = [folder for repeats in files.completed(home).values() for folder in repeats]
        if folders:
            by_curve[home] = [load(folder / RECORD_NAME) for folder in folders]
    return by_curve


def pooled_spread(curves: Sequence[Sequence[RunRecord]], like: RunRecord) -> Spread:
    """Return the spread between launches, pooled over curves with the machine and the versions of the record `like`.

    curves: the launches of each. Only the largest point of a curve counts: speedups of one launch are not independent.
    """
    alike = [[record for record in records if _setup(record) == _setup(like)] for records in curves]
    return intervals.launch_spread([_ratios(records, _largest(records[0])) for records in alike if records])


def _setup(record: RunRecord) -> tuple[object, ...]:
    env = record.environment
    return (sorted((host.cpu_model, host.cores) for host in env.hosts), env.versions) if env else ()


def _largest(record: RunRecord) -> int:
    """Return the index of the arm of the largest point."""
    arms = record.config["rounds"]
    base = rounds.base_of(rounds.arms(record.config))
    others = [index for index in range(len(arms)) if index != base]
    return max(others, key=lambda index: (arms[index]["role"] == "point", arms[index]["ranks"]))


def _ratios(records: Sequence[RunRecord], arm: int) -> list[list[float]]:
    """Return the speedups of an arm over the base in the rounds of each launch."""
    base = rounds.base_of(rounds.arms(records[0].config))
    return [rounds.ratios(rounds.counting_rates(record), arm, base) for record in records]


def _arms(records: Sequence[RunRecord]) -> dict[str, list[list[float]]]:
    """Return the speedups over the base in the rounds of each launch, by the name of the arm.

    Without those that the last launch left out.
    """
    base = rounds.base_of(rounds.arms(records[0].config))
    return {
        arm["name"]: _ratios(records, index)
        for index, arm in enumerate(records[0].config["rounds"])
        if index != base and arm["name"] not in records[-1].arms_left_out
    }


def speedups(records: Sequence[RunRecord], spread: Spread | None = None) -> Speedups:
    """Return the speedup of each arm of a curve over its base, by the name of the arm; None without an interval.

    spread: as from `pooled_spread`.
    """
    return {name: intervals.launches_interval(launches, spread=spread) for name, launches in _arms(records).items()}


def is_precise(records: Sequence[RunRecord], fraction: float, spread: Spread | None = None) -> bool:
    """Return whether every speedup of a curve is as precise as this fraction of it, by `intervals.is_precise`."""
    return all(intervals.is_precise(launches, fraction, spread) for launches in _arms(records).values())


def result(run: Run, records: Sequence[RunRecord], spread: Spread | None) -> str:
    """Return the result of a curve as text: each speedup, from three launches like these on with its interval.

    run: the last launch. records: one or more.
    """
    measured, labels = speedups(records, spread), rounds.labels(records[-1].config)
    texts = [f"{labels[name]} {_text(ratios, measured[name])}" for name, ratios in _arms(records).items()]
    disturbed = filter(None, [selection_text(run_selection(record) for record in records)])
    left_out = [f"left out: {labels[name]}, {why}" for name, why in records[-1].arms_left_out.items()]
    launches = f"{len(records)} launch{'es' * (len(records) != 1)}"
    return f"{run.point.name}, {launches}: {'; '.join([', '.join(texts), *disturbed, *left_out])}"


def _text(launches: Sequence[Sequence[float]], interval: Interval | None) -> str:
    """Return a speedup as text, with its interval if three launches or more show how far launches differ.

    launches: its ratios in the rounds of each launch.
    """
    if interval and interval.degrees >= MIN_LAUNCHES - 1:
        return interval.text()
    ratios = [ratio for launch in launches for ratio in launch]
    return f"{interval.value if interval else median(ratios):.3g}x" if ratios else "no complete round"


@dataclass(frozen=True)
class Shortfall:
    """A result that is less precise than asked for: what it is, why, and how much longer to measure it, in s."""

    text: str
    reasons: list[str]
    more_s: float

    def lines(self) -> list[str]:
        """Return it as lines of text."""
        return [self.text, *(f"  why: {reason}" for reason in self.reasons)]


def _shortfall(
    name: str, goal: float, measured: Speedups, times_s: Sequence[float], reasons: Sequence[str]
) -> Shortfall:
    """Return the shortfall of a result, with the width of each ratio if they differ. times_s: of its launches."""
    worst = max((i.half_width_fraction if i else math.inf for i in measured.values()), default=math.inf)
    texts = {key: f"± {100 * i.half_width_fraction:.2g} %" if i else "no interval" for key, i in measured.items()}
    same = len(set(texts.values())) == 1
    width = next(iter(texts.values())) if same else ", ".join(f"{key} {text}" for key, text in texts.items())
    more = len(times_s) * ((worst / goal) ** 2 - 1) if math.isfinite(worst) else MIN_LAUNCHES - len(times_s)
    more_s = max(1, math.ceil(more)) * fmean(times_s)
    return Shortfall(f"{name}: {width}, asked for ± {100 * goal:g} %", [*reasons], more_s)


def _reached(goal: float, measured: Speedups) -> bool:
    """Return whether every speedup has an interval as narrow as this fraction of it."""
    return all(interval and interval.half_width_fraction <= goal for interval in measured.values())


def shortfall(run: Run, records: Sequence[RunRecord], spread: Spread | None) -> Shortfall | None:
    """Return how a curve is less precise than asked for; None if it is not. run: its last launch."""
    measured, goal = speedups(records, spread), run.point.config.measure.precision_fraction
    if _reached(goal, measured):
        return None
    n = min(sum(map(len, ratios)) for ratios in _arms(records).values())
    few = [f"an interval needs {intervals.MIN_VALUES} rounds; measured: {n}"] if n < intervals.MIN_VALUES else []
    if len(records) < MIN_LAUNCHES:
        few.append(f"{MIN_LAUNCHES} launches show how launches differ; measured: {len(records)}")
    disturbed = filter(None, [selection_text(run_selection(record) for record in records)])
    labels = rounds.labels(records[-1].config)
    by_label = {labels[name]: interval for name, interval in measured.items()}
    return _shortfall(run.point.name, goal, by_label, [record.job_s for record in records], [*few, *disturbed])


def program_shortfall(planned: Sequence[Run]) -> Shortfall | None:
    """Return how the speedups of a program are less precise than asked for; None if they are not, or not measured."""
    points, times_s = _program_points(planned), [launch.job_s for launch in program_launches(planned)]
    measured, goal = program_speedups(points), planned[0].point.config.measure.precision_fraction
    if not times_s or _reached(goal, measured):
        return None
    n = min(len(point.rates) for point in points)
    few = [f"an interval needs {intervals.MIN_VALUES} launches of each size; measured: {n}"]
    return _shortfall(", ".join(measured), goal, measured, times_s, few if n < intervals.MIN_VALUES else [])


def program_budget_s(measure: Measure) -> float:
    """Return the time for all launches of a program, in s: the budget of the command, else that of a curve."""
    return measure.budget_s or measure.curve_budget_s


@dataclass(frozen=True)
class _ProgramPoint:
    """A point of a program, with the newest complete launch of each repeat, in order."""

    point: Point
    launches: list[RunRecord]

    @property
    def rates(self) -> list[float]:
        """Return the rate that the program printed in each launch."""
        return [launch.printed.value for launch in self.launches if launch.printed]

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
    precise = _reached(config.measure.precision_fraction, program_speedups(points))
    if precise or with_another_s > program_budget_s(config.measure):
        return []
    random.Random(f"{config.seed}-{repeat}").shuffle(points)
    return [Run(point.point, repeat) for point in points]


def program_speedups(points: Sequence[_ProgramPoint]) -> dict[str, Interval | None]:
    """Return the speedup of each point of a program over the smallest of its series, launch by launch."""
    series: dict[str, list[_ProgramPoint]] = {}
    for measured in points:
        swept = measured.point.swept.items()
        others = {key: value for key, value in swept if key not in ("nodes", "ranks_per_node")}
        series.setdefault(repr(others), []).append(measured)
    intervals_by_point = {}
    for members in series.values():
        base, *rest = sorted(members, key=lambda member: member.point.config.ranks)
        for member in rest:
            ratios = [rate / first for rate, first in zip(member.rates, base.rates, strict=False)]
            intervals_by_point[member.point.name] = intervals.median_interval(ratios)
    return intervals_by_point


def program_result(planned: Sequence[Run]) -> str:
    """Return the result of the launches of a program as text."""
    points = _program_points(planned)
    ranks = {measured.point.name: measured.point.config.ranks for measured in points}
    speedups_by_point = program_speedups(points)
    texts = [
        f"{name} {i.value:.3g}x ({i.low:.3g} to {i.high:.3g})" if i else f"{name} too few launches for an interval"
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
