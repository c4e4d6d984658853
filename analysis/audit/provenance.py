"""Rules on the origin of records: order, folders, copies and gaps."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from analysis.audit.findings import EXPERIMENT_RULES, Finding, Severity, finding, rule
from analysis.audit.launches import Launch, grouped, plan_of
from train.record.record import RECORD_NAME

_RESOLUTION_S = 1.0  # of started_at
_RUNS_REMOVED = "It was removed, or its launcher was killed. Nobody knows how the runs that remain were chosen."
_ALL_LAUNCHES = "a record of each launch, also of one that failed"
_RUN = re.compile(r"r(\d{1,6})(?:\D(\d{1,6}))?")  # the folder of a run: repeat, generation


def _plans(runs: list[Launch]) -> list[dict[int, Launch]]:
    """Return the launches of each plan by their position in it, in order.

    Plans in which two launches have one position are left out (they are two plans), and so are arms that compete:
    those significantly slower are not launched.
    """
    planned = [run for run in runs if run.order and not run.compete and len(Path(run.path).parts) > 4]
    plans = grouped(planned, lambda run: (Path(run.path).parents[3], plan_of(run))).values()
    by_position = [{run.order.position: run for run in launches if run.order} for launches in plans]
    whole = [plan for plan, launches in zip(by_position, plans, strict=True) if len(plan) == len(launches)]
    return [dict(sorted(plan.items())) for plan in whole]


@rule(EXPERIMENT_RULES)
def missing_run(runs: list[Launch]) -> Iterator[Finding]:
    """Report launches that came before others in their plan and have no record; as a note, planned ones not made yet.

    The launcher makes the launches of a plan in their order, also writes a record of one that fails, and passes over
    those that have one. So each position in the order, up to the last one with a record, has one somewhere in the
    folder of the experiment. Later positions may be missing: the launcher may have been interrupted.

    `missing` reports the repeats of which a later one has a record.
    """
    for by_position in _plans(runs):
        launches = list(by_position.values())
        yield from _missing_in_plan(Path(launches[0].path).parents[3], launches, 1 + max(by_position) - len(launches))


def _missing_in_plan(experiment: Path, runs: list[Launch], gaps: int) -> Iterator[Finding]:
    """Yield the finding on one plan; `gaps`: positions before the last one that none of these launches has."""
    have = {(Path(run.path).parents[1], run.repeat) for run in runs}
    planned = {(Path(run.path).parents[1], repeat) for run in runs for repeat in range(run.planned)}
    if not gaps and planned <= have:
        return
    recorded = {point: set(_generations(point)) for point in experiment.glob("*/*")}
    elsewhere = {(point, repeat) for point, repeats in recorded.items() for repeat in repeats} - have
    within = sum(len(_before_the_last(repeats)) for repeats in recorded.values())
    lost = gaps - len(elsewhere) - within
    names = sorted(f"{point.parent.name} r{n}" for point, n in planned if n > max(recorded.get(point) or {n}))
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    if lost > 0:
        stated = f"no record of {lost} launch{'es' * (lost > 1)} that came before others in the plan"
        stated += f"; without one are {listed}" if names else ""
        yield finding(str(experiment), "warning", stated, _ALL_LAUNCHES, None, _RUNS_REMOVED)
    elif names:
        meaning = "Not made yet, interrupted, or removed: it cannot be determined."
        yield finding(str(experiment), "note", f"no record of {listed}", "launches that were planned", None, meaning)


def missing(folders: Collection[Path]) -> Iterator[Finding]:
    """Yield findings on repeats and generations without a record although later ones have one.

    `folders` are those of points. The launcher makes the runs in order, and writes a record of one that fails too.
    """
    for folder in folders:
        recorded = _generations(folder)
        repeats = _before_the_last(recorded)
        lost = [f"r{repeat}" for repeat in repeats] or [
            f"r{repeat}, generation {number}"
            for repeat, generations in sorted(recorded.items())
            for number in sorted(set(range(1, max(generations))) - generations)
        ]
        if lost:
            grade: Severity = "warning" if repeats else "note"
            meaning = _RUNS_REMOVED if repeats else "Its launcher was killed, or the record was removed."
            gap = finding(str(folder), grade, f"no record of {', '.join(lost)}", _ALL_LAUNCHES, None, meaning)
            yield replace(gap, rule="missing_run")


def _generations(point: Path) -> dict[int, set[int]]:
    """Return the generations of each repeat that have a record in the folder of a point."""
    generations: dict[int, set[int]] = defaultdict(set)
    for path in point.glob(f"*/{RECORD_NAME}"):
        if run := _RUN.fullmatch(path.parent.name):
            generations[int(run[1])].add(int(run[2] or 1))
    return generations


def _before_the_last(repeats: Collection[int]) -> list[int]:
    """Return the repeats that are missing although a later one exists."""
    return sorted(set(range(max(repeats, default=-1))) - set(repeats))
