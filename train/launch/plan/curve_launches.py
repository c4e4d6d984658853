"""The launches in rounds of a command: what they gave so far, and which more are worth making."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from train.launch.plan import precision
from train.launch.plan.budget import Budget
from train.launch.plan.runs import Run
from train.record.intervals import Spread
from train.record.record import RunRecord


class CurveLaunches:
    """The records of the curves of a command, and of earlier launches of the same experiment."""

    def __init__(self, planned: Sequence[Run], force: bool) -> None:
        """Load what was measured before; with `force` it only tells how much launches differ."""
        self._last = {run.home: run for run in planned if run.point.config.launch.rounds}
        places = {(Path(run.point.config.results), run.point.config.experiment) for run in self._last.values()}
        self._all = {home: of for place in places for home, of in precision.curve_records(*place).items()}
        self._counting: dict[Path, list[RunRecord]] = {home: [] for home in self._last}
        for home in [] if force else self._last:
            newest = {record.repeat: record for record in sorted(self._all.get(home, []), key=lambda r: r.generation)}
            self._counting[home] = list(newest.values())
            self._last[home] = Run(self._last[home].point, max([self._last[home].repeat, *newest]))

    def records(self, run: Run) -> list[RunRecord]:
        """Return the launches of the curve of a run that count."""
        return self._counting[run.home]

    def add(self, run: Run, record: RunRecord) -> None:
        """Take a complete launch."""
        self._all.setdefault(run.home, []).append(record)
        self._counting[run.home].append(record)

    def known(self, run: Run) -> Spread | None:
        """Return how much launches like those of a curve differ; None before the first."""
        records = self._counting[run.home]
        return precision.spread(list(self._all.values()), records[-1]) if records else None

    def result(self, run: Run, is_last: bool) -> str:
        """Return what the curve of a run came to, in words."""
        return precision.result(run, self.records(run), self.known(run), is_last)

    def further(self, budget: Budget) -> list[Run]:
        """Return one launch more of each curve that is not precise yet, as far as there is time."""
        runs: list[Run] = []
        for home, last in self._last.items():
            asked, records = last.point.config.measure, self._counting[home]
            more = Run(last.point, last.repeat + 1)
            precise = precision.is_precise(records, asked.precision_fraction, self.known(last))
            if len(records) >= asked.repeats and not precise and budget.is_enough_for(*runs, more):
                runs.append(more)
        self._last |= {run.home: run for run in runs}
        return runs
