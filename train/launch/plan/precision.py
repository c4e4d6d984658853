"""Whether a curve that is measured in rounds is precise enough, and what is left of its budget, from its records."""

from __future__ import annotations

from pathlib import Path

from train.launch.plan.point import Point
from train.launch.plan.runs import Run
from train.record import intervals, paths, rounds
from train.record.intervals import Interval
from train.record.record import RunRecord

_MIN_S = 1.0  # of a launch: it makes one round at least


def launches(home: Path) -> list[RunRecord]:
    """The complete records of a curve, in the order of its launches."""
    numbers = sorted({int(path.name[1:].partition(".")[0]) for path in home.glob("r*") if path.is_dir()})
    return [record for number in numbers if (record := paths.completed(home, number))]


def speedups(made: list[RunRecord]) -> dict[str, Interval | None]:
    """The speedup of each arm of a curve over its base, by the arm's name; None where no interval is known.

    Arms that the last launch left out have none.
    """
    if not made:
        return {}
    config = made[0].config
    arms = rounds.arms(config)
    base = rounds.base_of(arms)
    rates = [rounds.rates(arms, (rank.windows for rank in record.ranks)) for record in made]
    return {
        name: intervals.over_launches([rounds.ratios(of, place, base) for of in rates])
        for place in range(len(arms))
        if place != base and (name := config["rounds"][place]["name"]) not in made[-1].arms_left_out
    }


def precise_enough(point: Point, made: list[RunRecord]) -> bool:
    """Whether every speedup of the curve has the precision that is asked for."""
    asked = point.config.measure.precision_fraction
    found = speedups(made).values()
    return bool(found) and all(interval is not None and interval.half_width_fraction <= asked for interval in found)


def result(last: Run) -> str:
    """What a curve came to, in words: each speedup with its interval, and whether that is as precise as asked for."""
    made, asked = launches(last.home), last.point.config.measure
    said = [
        f"{name} {i.value:.3g}x ({i.low:.3g} to {i.high:.3g})" if i else f"{name} too few rounds for an interval"
        for name, i in speedups(made).items()
    ]
    short = (
        f"; the budget of {asked.budget_s:g} s ended before ± {100 * asked.precision_fraction:g} %: with a larger "
        "measure.budget_s the same command goes on"
    )
    left_out = "".join(f"; left out: {name}, {why}" for name, why in made[-1].arms_left_out.items()) if made else ""
    return f"{last.point.name}: {', '.join(said)}{'' if precise_enough(last.point, made) else short}{left_out}"


def budget_left_s(point: Point, home: Path) -> float:
    """What the next launch of the curve may take: its share of what the complete ones have left of the budget."""
    made, asked = launches(home), point.config.measure
    left = asked.budget_s - sum(record.job_s for record in made)
    return max(_MIN_S, left / max(1, asked.launches - len(made)))


def next_launch(last: Run) -> Run | None:
    """The launch of a curve after its last one; None where it is precise enough, or its budget is spent.

    The budget is spent where what is left of it would not do for a launch with enough rounds for an interval.
    """
    made, asked = launches(last.home), last.point.config.measure
    left_s = asked.budget_s - sum(record.job_s for record in made)
    if precise_enough(last.point, made) or left_s < max(_MIN_S, *(shortest_s(record) for record in made), 0.0):
        return None
    return Run(last.point, repeat=last.repeat + 1)


def shortest_s(record: RunRecord) -> float:
    """How long a launch like this one takes with only as many rounds as an interval needs, in s."""
    timed_s = max(rank.phases_s.get("timed", 0.0) for rank in record.ranks)
    made = max((window.round + 1 for rank in record.ranks for window in rank.windows), default=1)
    return record.job_s - timed_s + min(made, intervals.MIN_VALUES) * timed_s / made
