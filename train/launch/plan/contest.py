"""Arms that compete, launch by launch: which of them are significantly slower, so that they are not launched again.

It saves time and decides nothing else: the analysis ranks by intervals, and says of how many launches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from train.launch.plan.runs import Run
from train.record import intervals, paths
from train.record.record import RunRecord
from train.record.summary import throughput

MIN_LAUNCHES = 3  # of every arm that is still in
_MIN_DEGREES = 4
_RISK = 0.05  # that an arm as fast as the leading one is dropped, in the whole contest
_LOOKS = 10  # at which that may happen, about

Rates = Mapping[str, Mapping[int, float]]  # arm -> repeat -> images/s


def slower_arms(rates: Rates) -> dict[str, float]:
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
    rates = {
        name: by_repeat for name, other in rivals.items() if (by_repeat := _rates(other))
    }  # one that only fails is none
    lost: dict[str, float] = {}
    for launches in range(MIN_LAUNCHES, 1 + max(map(len, rates.values()), default=0)):
        early = {
            name: _first(by_repeat, launches)
            for name, by_repeat in rates.items()
            if name not in lost and len(by_repeat) >= launches
        }
        if len(early) == len(rates) - len(lost):
            lost |= slower_arms(early)
    return lost.get(run.point.name)


def _first(by_repeat: Mapping[int, float], launches: int) -> dict[int, float]:
    return {repeat: by_repeat[repeat] for repeat in sorted(by_repeat)[:launches]}


def _rates(run: Run) -> dict[int, float]:
    """Return the images/s of each complete launch of the point of a run, by repeat."""
    by_repeat = {}
    for repeat in range(run.point.config.measure.repeats):
        if record := paths.completed(run.home, repeat):
            by_repeat[repeat] = _rate(record)
    return by_repeat


def _rate(record: RunRecord) -> float:
    timed_s = max(rank.phases_s["timed"] for rank in record.ranks)
    return throughput(record.config["global_batch"], len(record.ranks[0].step_times_s), timed_s)
