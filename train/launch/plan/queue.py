"""The queue of a command's runs: the next one, further launches that are worth making, and the remaining time.

All launches of curves in rounds share one budget. Before each launch the fixed costs of all later launches are set
aside. The remaining time is divided among the curves, for rounds, in proportion to the root of the time of a round
times the variance of its ratios. That makes the sum of the variances of the results smallest (Neyman 1934).
"""

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from record import intervals, rounds
from record.disturbance import run_selection
from record.progress import duration
from record.protocol import EarlierLaunch, RoundsTask
from record.schema import PHASES, RunRecord
from train.launch.plan import competing_arms, launch_results, program_launches
from train.launch.plan.launch_results import CurveState, Shortfall
from train.launch.plan.planned_runs import Run, estimate, other_code, remaining

_ASSUMED_S = 30.0  # the fixed cost of a launch, before any is measured
_ENOUGH_ROUNDS = 17  # of a launch: more would narrow the interval less than another launch
_MIN_SCATTER = 0.01  # of ratios, so that a few rounds that agree by chance do not end a curve


@dataclass(frozen=True)
class RoundsBudget:
    """When the rounds of a launch end, after its start, unless its task says otherwise."""

    end_s: float
    task: RoundsTask = field(default_factory=RoundsTask)


@dataclass(frozen=True)
class Cost:
    """The times of a launch in rounds, in s, and its scatter: the largest standard deviation of log ratios."""

    before_s: float  # from its start to its rounds
    after_s: float  # from its rounds to its end
    round_s: float  # for each round that counts
    scatter: float

    @property
    def fixed_s(self) -> float:
        """Return its time without its rounds."""
        return self.before_s + self.after_s

    @property
    def weight(self) -> float:
        """Return the weight of its share of the time for rounds."""
        return self.scatter * math.sqrt(self.round_s)


def launch_cost(record: RunRecord) -> Cost:
    """Return the cost of a complete launch in rounds."""
    slowest = max(record.ranks, key=lambda rank: rank.phases_s["timed"])
    before_s = sum(slowest.phases_s.get(name, 0.0) for name in PHASES[: PHASES.index("timed")])
    timed_s = slowest.phases_s["timed"]
    scatter = max([_MIN_SCATTER, *(speedup.scatter for speedup in rounds.point_speedups([record]).values() if speedup)])
    counting = max(1, len(run_selection(record).counting))
    return Cost(before_s, max(0.0, record.job_s - before_s - timed_s), timed_s / counting, scatter)


def earlier_launch(record: RunRecord) -> EarlierLaunch | None:
    """Return what a complete launch in rounds measured; None if it left out an arm, or has no hosts."""
    step_times_s = rounds.step_times_s(record)
    if record.environment is None or len(step_times_s) < len(record.config["rounds"]):
        return None
    hosts = [(host.host, host.cpu_model, host.cores) for host in record.environment.hosts]
    return EarlierLaunch(hosts, [step_times_s[index] for index in sorted(step_times_s)])


@dataclass
class Budget:
    """The remaining time of a command, and the costs of its launches."""

    given_s: float
    costs: dict[str, Cost] = field(default_factory=dict)  # of the last launch of each curve, by its name
    singles_s: list[float] = field(default_factory=list)  # of launches of single points
    spent_s: float = 0.0  # by launches that were made before
    began: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        """Return the remaining time in s; negative when it is over."""
        return self.given_s - self.spent_s - (time.monotonic() - self.began)

    def add(self, run: Run, record: RunRecord) -> None:
        """Note the cost of a complete launch."""
        if run.point.config.launch.rounds:
            self.costs[run.point.name] = launch_cost(record)
        else:
            self.singles_s.append(record.job_s)

    def rounds(self, run: Run, later: Sequence[Run]) -> RoundsBudget:
        """Return the time for the rounds of a launch, so that later launches have time, and how many are enough.

        As long as its fixed costs are not known, the rounds have their share even if they begin late.
        """
        curves = [launch for launch in (run, *later) if launch.point.config.launch.rounds]
        for_rounds_s = self.left_s - sum(map(self._fixed_s, (run, *later)))
        mean = statistics.fmean([cost.weight for cost in self.costs.values()] or [1.0])
        costs = [self.costs.get(curve.point.name) for curve in curves]
        weights = [cost.weight if cost else mean for cost in costs]
        share_s = max(0.0, for_rounds_s) * weights[0] / sum(weights)
        cost = self.costs.get(run.point.name)
        if cost is None:
            return RoundsBudget(self._fixed_s(run) + share_s, RoundsTask(rounds_s=share_s))
        is_single = run.point.config.measure.repeats == 1
        enough = None if is_single else max(_ENOUGH_ROUNDS, math.ceil(cost.fixed_s / cost.round_s))
        end_s = cost.before_s + max(share_s, _least_rounds(run) * cost.round_s)
        return RoundsBudget(end_s, RoundsTask(enough_rounds=enough))

    def is_enough_for(self, *runs: Run) -> bool:
        """Return whether the remaining time is enough for these launches with few rounds."""
        return self.left_s >= sum(self._shortest_s(run) for run in runs)

    def expected_s(self, runs: Sequence[Run]) -> float:
        """Return how long these launches will take, in s: all the remaining time, or less if they are few.

        It is more if the first launch of each, which is always made, takes longer.
        """
        return max(self.least_s(runs), min(self.left_s, sum(self._longest_s(run) for run in runs)))

    def least_s(self, runs: Sequence[Run]) -> float:
        """Return the time of those of these launches that are made however small the budget is, in s."""
        return sum(self._shortest_s(run) for run in runs if run.repeat == 0)

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
        """Return the time of a launch without its rounds; for a single point the whole time."""
        cost = self.costs.get(run.point.name)
        if cost:
            return cost.fixed_s
        others = [] if run.point.config.launch.rounds else self.singles_s
        return statistics.fmean(others or [curve.fixed_s for curve in self.costs.values()] or [_ASSUMED_S])


def _least_rounds(run: Run) -> int:
    """Return the fewest rounds of a launch with which all launches of its curve together have an interval."""
    return math.ceil(intervals.MIN_VALUES / run.point.config.measure.repeats)


class Queue:
    """The runs that are still to be made, all planned ones with `force`; curves in rounds add more while there is time.

    Attributes:
        runs: all of them, in order.
        number: the index of the one that is made now.
        failed: the labels of those that failed.
    """

    def __init__(self, planned: Sequence[Run], force: bool) -> None:
        """Load the existing records."""
        self.runs, self._durations = remaining(planned, force)
        self.number = 0
        self.failed: list[str] = []
        self._planned, self._skipped, self._force = planned, len(planned) - len(self.runs), force
        self._curves = {run.home: CurveState(run.point, [], run.repeat + 1) for run in planned if _in_rounds(run)}
        earlier = {home: launch_results.curve_records(home) for home in self._curves}
        for home, curve in {} if force else self._curves.items():
            newest = {record.repeat: record for record in sorted(earlier[home], key=lambda record: record.generation)}
            curve.launches += newest.values()
            curve.planned = max([curve.planned, *(repeat + 1 for repeat in newest)])
        self._budget = self._initial_budget(earlier)
        if not self.runs:
            self.runs += self._more_launches()

    def _initial_budget(self, earlier: Mapping[Path, Sequence[RunRecord]]) -> Budget | None:
        """Return the time for the curves in rounds of a command and its other launches; None without a curve.

        Launches that are already measured have used their share.

        earlier: all complete launches of the curves, whether they count or not.
        """
        if not self._curves:
            return None
        singles_s = [*self._durations.single_points]
        curves_s = [record.job_s for curve in self._curves.values() for record in curve.launches]
        return Budget(
            given_s=sum(curve.point.config.measure.curve_budget_s for curve in self._curves.values()),
            costs={
                self._curves[home].point.name: launch_cost(max(records, key=lambda record: record.started_at))
                for home, records in earlier.items()
                if records
            },
            singles_s=singles_s,
            spent_s=sum(curves_s) + (0.0 if self._force else sum(singles_s)),
        )

    def _more_launches(self) -> list[Run]:
        """Return another launch of each curve or program that is not precise yet, as far as there is time."""
        runs: list[Run] = []
        for curve in self._curves.values():
            settings, more = curve.point.config.measure, Run(curve.point, curve.planned)
            if len(curve.launches) < settings.repeats:
                continue
            speedups = rounds.point_speedups(curve.launches)  # none if launches left out all points for lack of time
            precise = speedups and launch_results.is_precise(
                speedups, settings.precision_fraction, launch_results.STOP_LEVEL
            )
            if not precise and self._budget and self._budget.is_enough_for(*runs, more):
                runs.append(more)
                curve.planned += 1
        return runs or program_launches.next_launches(self._planned)

    def __iter__(self) -> Iterator[Run]:
        """Yield the runs in order, also those that are added meanwhile, until what a program prints is in doubt."""
        for number, run in enumerate(self.runs):
            if self.doubts and (number >= len({planned.home for planned in self._planned}) or not self._force):
                return
            self.number = number
            yield run

    @property
    def doubts(self) -> list[str]:
        """Return what the running times do not confirm of the number of a user's program, as lines."""
        return program_launches.doubts(self._planned)

    @property
    def later(self) -> list[Run]:
        """Return the runs after the one that is made now."""
        return self.runs[self.number + 1 :]

    def remarks(self) -> list[str]:
        """Return remarks before the first run: how many are measured, whether with other code; how long others take."""
        lines = other_code(self._planned) if self.runs and not self._force else []
        if self._skipped:
            lines.append(f"{self._skipped} of {len(self._planned)} runs are measured already; FORCE=1 measures again")
        if self.runs:
            is_assumed = not self._budget and estimate(self.runs, self._durations).assumed_s
            why = "; assumed, as none like them was measured yet" if is_assumed else ""
            lines.append(f"about {duration(self._time_s(self.runs))} for all launches{why}")
        if self._budget and self._budget.left_s < (least_s := self._budget.least_s(self.runs)):
            lines.append(
                f"one launch of each takes about {duration(least_s)}, which is the least: more than the "
                f"{duration(max(0.0, self._budget.given_s - self._budget.spent_s))} of measure.budget_s"
            )
        return lines

    def expected_s(self) -> float:
        """Return how long this run and all later ones will take, in s."""
        return self._time_s(self.runs[self.number :])

    def time_left(self) -> str:
        """Return how long all later runs will take, as text."""
        return f"about {duration(self._time_s(self.later))} left"

    def _time_s(self, runs: Sequence[Run]) -> float:
        return self._budget.expected_s(runs) if self._budget else estimate(runs, self._durations).all_s

    def skip_reason(self, run: Run) -> str:
        """Return why a run is skipped: its arm is slower, or no time is left; "" if it is not."""
        if run.point.config.program and any(failed.startswith(f"{run.point.name} r") for failed in self.failed):
            return "an earlier launch of it failed, and another would fail alike"
        if slower := competing_arms.slower_by(run, self._planned):
            return f"{run.point.name} is significantly slower, by about {100 * slower:.0f} %"
        if self._budget is None or run.repeat == 0 or self._budget.is_enough_for(run):
            return ""
        return "the time is over; with a larger measure.budget_s the same command makes it"

    def rounds(self, run: Run) -> RoundsBudget | None:
        """Return the time for the rounds of a launch, and what is known of them; None for a single point."""
        if not (self._budget and _in_rounds(run)):
            return None
        budget, records = self._budget.rounds(run, self.later), self._curves[run.home].launches
        earlier = earlier_launch(records[-1]) if records else None
        return replace(budget, task=replace(budget.task, earlier=earlier))

    def add(self, run: Run, record: RunRecord | None, problem: str | None) -> None:
        """Take the outcome of a run; after the last one add launches of what is not precise yet."""
        if record:
            self._durations.add(run, record.job_s)
        if problem:
            self.failed.append(run.label)
        elif record and self._budget:
            self._budget.add(run, record)
            if _in_rounds(run):
                self._curves[run.home].launches.append(record)
        if not self.later and not self.failed:
            self.runs += self._more_launches()

    def curves(self) -> list[CurveState]:
        """Return the curves in rounds, each with its launches so far."""
        return list(self._curves.values())

    def curve_result(self, run: Run) -> str:
        """Return the result so far of the curve of a launch in rounds, as text; "" for a single point.

        A user's program has a result after its last launch.
        """
        if run.point.config.program:
            return "" if self.later or self.doubts else program_launches.result(self._planned)
        return launch_results.result(self._curves[run.home]) if _in_rounds(run) else ""

    def shortfalls(self) -> list[Shortfall]:
        """Return the results that are less precise than asked for."""
        if self._planned[0].point.config.program:
            return [short] if not self.doubts and (short := program_launches.shortfall(self._planned)) else []
        measured = [curve for curve in self._curves.values() if curve.launches]
        return [short for curve in measured if (short := launch_results.shortfall(curve))]

    @property
    def precision_fraction(self) -> float:
        """Return how precise the speedups shall be."""
        return self._planned[0].point.config.measure.precision_fraction

    def sufficient_s(self, shortfalls: Sequence[Shortfall]) -> int:
        """Return the budget with which the command would remove these shortfalls, in s: whole minutes."""
        spent_s = sum(launch.job_s for launch in program_launches.complete_launches(self._planned))
        if self._budget:
            spent_s = self._budget.given_s - self._budget.left_s
        return 60 * math.ceil((spent_s + sum(short.more_s for short in shortfalls)) / 60)


def _in_rounds(run: Run) -> bool:
    return bool(run.point.config.launch.rounds)
