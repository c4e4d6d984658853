"""The queue of the runs of a command: which is next, what is left of its time, and which more are worth making."""

from collections.abc import Iterator, Sequence

from train.launch.plan.budget import Budget
from train.launch.plan.launches import CurveLaunches, more_program_launches, program_result, slower_by
from train.launch.plan.runs import Run, left_s, remaining, time_left
from train.record import paths
from train.record.progress import duration
from train.record.record import RunRecord


class Queue:
    """The runs that are still to be made, all planned ones with `force`; curves in rounds add more while there is time.

    Attributes:
        runs: all of them, in order.
        number: the index of the one that is made now.
        failed: the labels of those that failed.
    """

    def __init__(self, planned: Sequence[Run], force: bool) -> None:
        """Look what is measured already."""
        self.runs, self._durations = remaining(planned, force)
        self.number = 0
        self.failed: list[str] = []
        self._planned, self._skipped = planned, len(planned) - len(self.runs)
        self._curves = CurveLaunches(planned, force)
        self._budget = self._initial_budget(force)
        if self._budget and not self.runs:
            self.runs += self._curves.further(self._budget)
        if not self.runs:
            self.runs += more_program_launches(planned)

    def _initial_budget(self, force: bool) -> Budget | None:
        """Return the time for the curves in rounds of a command and all that is beside them; None without any.

        Launches that count already have used their share.
        """
        by_curve = {run.home: run for run in self._planned if _in_rounds(run)}
        if not by_curve:
            return None
        counting = [record for run in by_curve.values() for record in self._curves.records(run)]
        budget = Budget(sum(run.point.config.measure.curve_budget_s for run in by_curve.values()))
        for run in self._planned:
            if record := paths.completed(run.home, run.repeat):
                budget.add(run, record)
                counting += [] if force or run.home in by_curve else [record]
        budget.total_s -= sum(record.job_s for record in counting)
        return budget

    def __iter__(self) -> Iterator[Run]:
        """Yield the runs in order, and those that are added meanwhile."""
        for number, run in enumerate(self.runs):
            self.number = number
            yield run

    @property
    def later(self) -> list[Run]:
        """Return the runs after the one that is made now."""
        return self.runs[self.number + 1 :]

    def remarks(self) -> list[str]:
        """Return what is known before the first run: what is measured already, and how long the rest takes."""
        skipped = f"{self._skipped} of {len(self._planned)} runs are measured already; FORCE=1 measures again"
        expected = f"about {duration(self._budget.expected_s(self.runs))} for all launches" if self._budget else ""
        return [*([skipped] if self._skipped else []), *([expected] if expected and self.runs else [])]

    def expected_s(self) -> float | None:
        """Return how long this run and all later ones will take, in s; None if that is not known."""
        runs = self.runs[self.number :]
        return self._budget.expected_s(runs) if self._budget else left_s(runs, self._durations)

    def time_left(self) -> str:
        """Return how long all later runs will take, as text."""
        if self._budget:
            return f"about {duration(self._budget.expected_s(self.later))} left"
        return time_left(self.later, self._durations)

    def why_not(self, run: Run) -> str:
        """Return why a run is not worth making: its arm is slower, or no time is left; "" if it is."""
        if slower := slower_by(run, self._planned):
            return f"{run.point.name} is significantly slower, by about {100 * slower:.0f} %"
        if self._budget is None or run.repeat == 0 or self._budget.is_enough_for(run):
            return ""
        return "the time is over; with a larger measure.budget_s the same command makes it"

    def rounds_end_s(self, run: Run) -> float | None:
        """Return when the rounds of a launch are to end, in s after its start; None for a single point."""
        return self._budget.rounds_end_s(run, self.later) if self._budget and _in_rounds(run) else None

    def add(self, run: Run, record: RunRecord | None, problem: str | None) -> None:
        """Take what came of a run; behind the last one add launches of curves that are not precise yet."""
        if record:
            self._durations.add(run, record.job_s)
        if problem:
            self.failed.append(run.label)
        elif record and self._budget:
            self._budget.add(run, record)
            if _in_rounds(run):
                self._curves.add(run, record)
            if not self.later and not self.failed:
                self.runs += self._curves.further(self._budget)
        if not self.later and not self.failed:
            self.runs += more_program_launches(self._planned)

    def curve_result(self, run: Run) -> str:
        """Return what the curve of a launch in rounds came to so far, as text; "" for a single point.

        Of a user's program: after its last launch.
        """
        if run.point.config.program:
            return "" if self.later else program_result(self._planned)
        is_last = run.home not in {one.home for one in self.later}
        return self._curves.result(run, is_last) if _in_rounds(run) else ""


def _in_rounds(run: Run) -> bool:
    return bool(run.point.config.launch.rounds)
