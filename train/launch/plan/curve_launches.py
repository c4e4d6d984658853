"""The launches in rounds of a command: how precise the speedups of its curves are, and which launches should follow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from train.config.schema import Measure
from train.launch.plan.budget import Budget
from train.launch.plan.runs import Run
from train.record import intervals, paths, rounds
from train.record.intervals import Interval, Spread
from train.record.progress import duration
from train.record.record import RunRecord

Speedups = Mapping[str, Interval | None]


def curve_records(results: Path, experiment: str) -> dict[Path, list[RunRecord]]:
    """Return the complete records in rounds of an experiment, of every generation, by the folder of their curve."""
    by_curve: dict[Path, list[RunRecord]] = {}
    for home in sorted((results / experiment).glob("*rounds/*")):
        repeats = sorted({int(path.name[1:].partition(".")[0]) for path in home.glob("r*") if path.is_dir()})
        if records := [record for repeat in repeats for record in paths.all_completed(home, repeat)]:
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


class CurveLaunches:
    """The records of the curves of a command, and of earlier launches of the same experiment."""

    def __init__(self, planned: Sequence[Run], force: bool) -> None:
        """Load what was measured before; with `force` it only tells how much launches differ."""
        self._last = {run.home: run for run in planned if run.point.config.launch.rounds}
        experiments = {(Path(run.point.config.results), run.point.config.experiment) for run in self._last.values()}
        self._all = {
            home: records for experiment in experiments for home, records in curve_records(*experiment).items()
        }
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

    def spread(self, run: Run) -> Spread | None:
        """Return how much launches like those of a curve differ; None before the first."""
        records = self._counting[run.home]
        return pooled_spread(list(self._all.values()), records[-1]) if records else None

    def result(self, run: Run, is_last: bool) -> str:
        """Return what the curve of a run came to, in words."""
        return result(run, self.records(run), self.spread(run), is_last)

    def further(self, budget: Budget) -> list[Run]:
        """Return one launch more of each curve that is not precise yet, as far as there is time."""
        runs: list[Run] = []
        for home, last in self._last.items():
            asked, records = last.point.config.measure, self._counting[home]
            more = Run(last.point, last.repeat + 1)
            precise = is_precise(records, asked.precision_fraction, self.spread(last))
            if len(records) >= asked.repeats and not precise and budget.is_enough_for(*runs, more):
                runs.append(more)
        self._last |= {run.home: run for run in runs}
        return runs
