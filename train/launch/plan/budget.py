"""The time of a command that measures curves in rounds: how it is divided over the launches.

All launches together have one budget. Before each launch what is left of it is divided: the fixed costs of all that are
still to come are set aside, and the rest is for rounds, for each curve in proportion to the root of the time of a round
times the variance of its ratios. That makes the sum of the variances of the results smallest (Neyman 1934).
"""

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from train.launch.plan.runs import Run
from train.record import intervals, rounds
from train.record.record import PHASES, RunRecord

_ASSUMED_S = 30.0  # of fixed cost, before any launch tells
_ENOUGH_ROUNDS = 17  # of a launch: more say less than another launch
_MIN_SCATTER = 0.01  # of ratios, so that a few rounds that agree by chance do not end a curve


@dataclass(frozen=True)
class Cost:
    """What a launch in rounds took, in s, and the standard deviation of the logarithms of its most scattered ratios."""

    before_s: float  # from its start to its rounds
    after_s: float  # from its rounds to its end
    round_s: float
    scatter: float

    @property
    def fixed_s(self) -> float:
        """Return what it took beside its rounds."""
        return self.before_s + self.after_s

    @property
    def weight(self) -> float:
        """Return its share of the time for rounds, beside that of others."""
        return self.scatter * math.sqrt(self.round_s)


def launch_cost(record: RunRecord) -> Cost:
    """Return what a complete launch in rounds took."""
    slowest = max(record.ranks, key=lambda rank: rank.phases_s["timed"])
    before_s = sum(slowest.phases_s.get(name, 0.0) for name in PHASES[: PHASES.index("timed")])
    timed_s = slowest.phases_s["timed"]
    arms = rounds.arms(record.config)
    rates = rounds.rates(arms, (rank.windows for rank in record.ranks))
    base = rounds.base_of(arms)
    ratios = [rounds.ratios(rates, arm, base) for arm in range(len(arms)) if arm != base]
    logs = [[math.log(ratio) for ratio in of_arm] for of_arm in ratios if len(of_arm) > 1]
    scatter = max([_MIN_SCATTER, *map(statistics.stdev, logs)])
    return Cost(before_s, max(0.0, record.job_s - before_s - timed_s), timed_s / max(1, len(rates)), scatter)


@dataclass
class Budget:
    """What is left of the time of a command, and what its launches cost."""

    total_s: float
    costs: dict[str, Cost] = field(default_factory=dict)  # of the last launch of each curve, by its name
    singles_s: list[float] = field(default_factory=list)  # of launches of single points
    began: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        """Return the time that is left, in s; negative when it is over."""
        return self.total_s - (time.monotonic() - self.began)

    def add(self, run: Run, record: RunRecord) -> None:
        """Note what a complete launch took."""
        if run.point.config.launch.rounds:
            self.costs[run.point.name] = launch_cost(record)
        else:
            self.singles_s.append(record.job_s)

    def rounds_end_s(self, run: Run, later: Sequence[Run]) -> float:
        """Return when the rounds of a launch are to end, in s after its start, so that later ones have theirs."""
        curves = [one for one in (run, *later) if one.point.config.launch.rounds]
        for_rounds_s = self.left_s - sum(map(self._fixed_s, (run, *later)))
        weights = [self._weight(one) for one in curves]
        share_s = max(0.0, for_rounds_s) * weights[0] / sum(weights)
        cost = self.costs.get(run.point.name)
        if cost is None:
            return self._fixed_s(run) + share_s
        if run.point.config.measure.repeats > 1:
            share_s = min(share_s, max(cost.fixed_s, _ENOUGH_ROUNDS * cost.round_s))
        return cost.before_s + max(share_s, _least_rounds(run) * cost.round_s)

    def is_enough_for(self, *runs: Run) -> bool:
        """Return whether what is left is enough for these launches with few rounds."""
        return self.left_s >= sum(self._shortest_s(run) for run in runs)

    def expected_s(self, runs: Sequence[Run]) -> float:
        """Return how long these launches will take, in s: all that is left, or less if they are few."""
        return max(0.0, min(self.left_s, sum(self._longest_s(run) for run in runs)))

    def _shortest_s(self, run: Run) -> float:
        cost = self.costs.get(run.point.name)
        return self._fixed_s(run) + (_least_rounds(run) * cost.round_s if cost else 0.0)

    def _longest_s(self, run: Run) -> float:
        cost = self.costs.get(run.point.name)
        if not run.point.config.launch.rounds:
            return self._fixed_s(run)
        if cost is None or run.point.config.measure.repeats == 1:
            return math.inf
        return cost.fixed_s + max(cost.fixed_s, _ENOUGH_ROUNDS * cost.round_s)

    def _fixed_s(self, run: Run) -> float:
        """Return what a launch takes beside its rounds; of a single point all that it takes."""
        cost = self.costs.get(run.point.name)
        if cost:
            return cost.fixed_s
        others = [] if run.point.config.launch.rounds else self.singles_s
        return statistics.fmean(others or [one.fixed_s for one in self.costs.values()] or [_ASSUMED_S])

    def _weight(self, run: Run) -> float:
        cost = self.costs.get(run.point.name)
        return cost.weight if cost else statistics.fmean([one.weight for one in self.costs.values()] or [1.0])


def _least_rounds(run: Run) -> int:
    """Return the fewest rounds of a launch: all launches of its curve together have an interval."""
    return math.ceil(intervals.MIN_VALUES / run.point.config.measure.repeats)
