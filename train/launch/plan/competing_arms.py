"""Competing arms: those that are significantly slower than the leading one are not launched again.

That only saves time: the analysis ranks arms by intervals, and states how many launches each has.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from record import intervals
from record import run_files as files
from train.launch.plan.launch_results import MIN_LAUNCHES
from train.launch.plan.planned_runs import Run

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
