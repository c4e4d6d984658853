"""Which launches are worth making: of curves in rounds and of programs until they are precise, of arms not the slower.

A curve or a user's program is launched again until its speedups are precise, or the time is over. Of arms that compete
those that are significantly slower are not launched again: that saves time and decides nothing else, as the analysis
ranks by intervals and says of how many launches.
"""

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from train.config.schema import Measure
from train.launch.plan.runs import Point, Run
from train.record import files, intervals, rounds
from train.record.intervals import Interval, Spread
from train.record.progress import duration
from train.record.record import RunRecord
from train.record.summary import timed_summary

Speedups = Mapping[str, Interval | None]


def curve_records(results: Path, experiment: str) -> dict[Path, list[RunRecord]]:
    """Return the complete records in rounds of an experiment, of every generation, by the folder of their curve."""
    by_curve: dict[Path, list[RunRecord]] = {}
    for home in sorted((results / experiment).glob("*rounds/*")):
        if records := [record for repeat in files.repeats(home) for record in files.all_completed(home, repeat)]:
            by_curve[home] = records
    return by_curve


def pooled_spread(curves: Sequence[Sequence[RunRecord]], like: RunRecord) -> Spread:
    """Return how much launches differ, pooled over curves, from launches on the machine of a record with its versions.

    curves: the launches of each. Of a curve its largest point counts: speedups of one launch are not independent.
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
    arms = rounds.arms(records[0].config)
    base = rounds.base_of(arms)
    return [rounds.ratios(rounds.rates(arms, (rank.windows for rank in record.ranks)), arm, base) for record in records]


def _arms(records: Sequence[RunRecord]) -> dict[str, list[list[float]]]:
    """Return the speedups over the base in the rounds of each launch, by the name of the arm.

    Without those that the last launch left out.
    """
    if not records:
        return {}
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
    return bool(records) and all(
        intervals.is_precise(launches, fraction, spread) for launches in _arms(records).values()
    )


def result(run: Run, records: Sequence[RunRecord], spread: Spread | None, is_last: bool) -> str:
    """Return what a curve came to, in words: each speedup with its interval, and if it is too wide what would help.

    run: the last launch. is_last: no other follows.
    """
    asked, measured = run.point.config.measure, speedups(records, spread)
    labels = rounds.labels(records[-1].config) if records else {}
    texts = [f"{labels[name]} {i.text() if i else 'too few rounds for an interval'}" for name, i in measured.items()]
    reasons = records[-1].arms_left_out if records else {}
    left_out = [f"left out: {labels[name]}, {why}" for name, why in reasons.items()]
    more = filter(None, [_more(asked, records, measured)]) if is_last else ()
    launches = f"{len(records)} launch{'es' * (len(records) != 1)}"
    return f"{run.point.name}, {launches}: {'; '.join([', '.join(texts), *more, *left_out])}"


def _more(asked: Measure, records: Sequence[RunRecord], measured: Speedups) -> str:
    """Return how many launches more would reach the precision that is asked for, and how to have them.

    "" where it is reached.
    """
    goal = f"± {100 * asked.precision_fraction:g} %"
    widths = [i.half_width_fraction if i else math.inf for i in measured.values()]
    worst = max(widths, default=0.0 if records else math.inf)  # without any, where all arms were left out
    if math.isinf(worst):
        return f"the time ended before {goal}: with a larger measure.budget_s the same command goes on"
    if worst <= asked.precision_fraction:
        return ""
    needed = max(1, math.ceil(len(records) * (worst / asked.precision_fraction) ** 2) - len(records))
    longer_s = needed * sum(record.job_s for record in records) / len(records)
    return (
        f"± {100 * worst:.2g} %; for {goal} about {needed} launch{'es' * (needed > 1)} more ({duration(longer_s)}): "
        "with a larger measure.budget_s the same command goes on"
    )


def program_budget_s(measure: Measure) -> float:
    """Return the time for all launches of a program, in s: that of the command, or else that of one curve."""
    return measure.budget_s or measure.curve_budget_s


def _rates(point: Point) -> dict[int, float]:
    """Return the images/s, or what its program printed, of each complete launch of a point that has one, by repeat."""
    numbers = {repeat: timed_summary(record) for repeat, record in _launches(point).items()}
    return {repeat: values["images_per_s"] for repeat, values in numbers.items() if "images_per_s" in values}


def _launches(point: Point) -> dict[int, RunRecord]:
    """Return the newest complete record of each repeat of a point."""
    home = Run(point, 0).home
    return {repeat: record for repeat in files.repeats(home) if (record := files.completed(home, repeat))}


def _program_points(planned: Sequence[Run]) -> list[Point]:
    return list({run.home: run.point for run in planned if run.point.config.program}.values())


def more_program_launches(planned: Sequence[Run]) -> list[Run]:
    """Return one more launch of each point of a user's program, in a random order; none where they are precise enough.

    That is where the interval of each speedup, over the launches of its point and of the smallest one in turn, is as
    narrow as asked for, or another launch of each point would exceed the budget.
    """
    points = _program_points(planned)
    if not points:
        return []
    times_s = [[record.job_s for record in _launches(point).values()] for point in points]
    asked, counts = points[0].config.measure, {len(launch_times) for launch_times in times_s}
    if min(counts) < asked.repeats or max(counts) > min(counts):  # one failed, or is still to be made
        return []
    measured = program_speedups(points).values()
    precise = all(i is not None and i.half_width_fraction <= asked.precision_fraction for i in measured)
    with_another_s = sum(sum(launch_times) + fmean(launch_times) for launch_times in times_s)
    if precise or with_another_s > program_budget_s(asked):
        return []
    repeat = min(counts)
    random.Random(f"{points[0].config.seed}-{repeat}").shuffle(points)
    return [Run(point, repeat) for point in points]


def program_speedups(points: Sequence[Point]) -> dict[str, Interval | None]:
    """Return the speedup of each point of a program over the smallest of its series, launch by launch."""
    series: dict[str, list[Point]] = {}
    for point in points:
        others = {key: value for key, value in point.swept.items() if key not in ("nodes", "ranks_per_node")}
        series.setdefault(repr(others), []).append(point)
    intervals_by_point = {}
    for members in series.values():
        base, *rest = sorted(members, key=lambda point: point.config.ranks)
        for point in rest:
            pairs = zip(_rates(point).values(), _rates(base).values(), strict=False)
            intervals_by_point[point.name] = intervals.median_interval([rate / first for rate, first in pairs])
    return intervals_by_point


def program_result(planned: Sequence[Run]) -> str:
    """Return what the launches of a program came to, in words; "" of other runs."""
    texts = [
        f"{name} {i.value:.3g}x ({i.low:.3g} to {i.high:.3g})" if i else f"{name} too few launches for an interval"
        for name, i in program_speedups(_program_points(planned)).items()
    ]
    return "; ".join(texts)


MIN_LAUNCHES = 3  # of every arm that is still in
_MIN_DEGREES = 4
_RISK = 0.05  # that an arm as fast as the leading one is dropped, in the whole contest
_LOOKS = 10  # at which that may happen, about

ArmRates = Mapping[str, Mapping[int, float]]  # arm -> repeat -> images/s


def slower_arms(rates: ArmRates) -> dict[str, float]:
    """Return the arms that are significantly slower than the leading one, and by what fraction.

    Of the logarithms of the rates the mean of each repeat is taken away, which all arms share, so a drift of the
    machine does not count; what is left scatters around the mean of each arm alike. An arm is slower where its mean is
    below the leading one's by more than chance brings about between equal arms: Student's t of the pooled scatter, at a
    risk that is shared out among pairs of arms and looks.
    """
    repeats = sorted(set.intersection(*({*values} for values in rates.values()))) if rates else []
    degrees = (len(rates) - 1) * (len(repeats) - 1)
    if len(repeats) < MIN_LAUNCHES or degrees < _MIN_DEGREES:
        return {}
    logs = {arm: [math.log(values[repeat]) for repeat in repeats] for arm, values in rates.items()}
    drift = [fmean(values[nth] for values in logs.values()) for nth in range(len(repeats))]
    left = {arm: [value - common for value, common in zip(values, drift, strict=True)] for arm, values in logs.items()}
    means = {arm: fmean(values) for arm, values in left.items()}
    squares = sum((value - means[arm]) ** 2 for arm, values in left.items() for value in values)
    error = math.sqrt(2 * squares / degrees / len(repeats))
    leading = max(means.values())
    pairs = len(rates) * (len(rates) - 1) / 2  # any arm may lead, and any other be the last
    beyond = intervals.student_quantile(1 - 2 * _RISK / _LOOKS / pairs, degrees) * error
    return {arm: 1 - math.exp(mean - leading) for arm, mean in means.items() if leading - mean > beyond}


def slower_by(run: Run, planned: Sequence[Run]) -> float | None:
    """Return by what fraction the arm of a run is significantly slower than the leading one; None where it is not.

    planned: all runs of the experiment. The arms of a contest are its points that share all swept values. An arm that
    is dropped stays so: those that are still in are then compared with each other alone. The base never is, which
    the others are ranked by.
    """
    config = run.point.config
    if not config.measure.compete or run.point.role == "base":
        return None
    rivals = {other.point.name: other for other in planned if other.point.swept == run.point.swept}
    planned_rates = {
        name: {repeat: rate for repeat, rate in _rates(other.point).items() if repeat < config.measure.repeats}
        for name, other in rivals.items()
    }
    rates = {name: by_repeat for name, by_repeat in planned_rates.items() if by_repeat}  # one that only fails is none
    lost: dict[str, float] = {}
    for launches in range(MIN_LAUNCHES, 1 + max(map(len, rates.values()), default=0)):
        early = {
            name: dict(list(by_repeat.items())[:launches])
            for name, by_repeat in rates.items()
            if name not in lost and len(by_repeat) >= launches
        }
        if len(early) == len(rates) - len(lost):
            lost |= slower_arms(early)
    return lost.get(run.point.name)
